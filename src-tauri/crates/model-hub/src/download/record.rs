//! What a download has to remember over a restart.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::verify::hex;
use crate::hub::{HubError, Listing, RemoteFile};

const VERSION: u32 = 1;
/// A listing of a million files would be smaller.
const RECORD_BYTES_MAX: u64 = 64 << 20;

/// Names a download, over restarts as well: repository, commit and files make it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DownloadId(String);

impl DownloadId {
    /// The id as text, 16 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for DownloadId {
    /// Takes what [`DownloadId::as_str`] gave; anything else names no download.
    fn from(id: String) -> Self {
        Self(id)
    }
}

impl fmt::Display for DownloadId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A download on disk: what is to be fetched, and which blobs are there because of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    version: u32,
    /// Milliseconds since 1970: the order of the list.
    pub started_ms: u64,
    pub repo: String,
    pub revision: String,
    pub commit: String,
    pub files: Vec<RemoteFile>,
    /// Etags of blobs that this download brought, noted before the blob gets its name.
    pub fetched: BTreeSet<String>,
}

impl Record {
    pub(super) fn new(listing: &Listing) -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            version: VERSION,
            started_ms: u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX),
            repo: listing.repo.clone(),
            revision: listing.revision.clone(),
            commit: listing.commit.to_ascii_lowercase(),
            files: listing.files.clone(),
            fetched: BTreeSet::new(),
        }
    }

    pub(super) fn id(&self) -> DownloadId {
        let paths: BTreeSet<&str> = self.files.iter().map(|file| file.path.as_str()).collect();
        let names = [self.repo.as_str(), self.commit.as_str()].into_iter().chain(paths);
        let digest = Sha256::digest(names.collect::<Vec<_>>().join("\n"));
        DownloadId(hex(&digest[..8]))
    }

    /// The files to fetch, each content once.
    pub(super) fn blobs(&self) -> Vec<RemoteFile> {
        let blobs: BTreeMap<&str, &RemoteFile> =
            self.files.iter().rev().map(|file| (file.etag.as_str(), file)).collect();
        blobs.into_values().cloned().collect()
    }

    pub(super) fn needs(&self, etag: &str) -> bool {
        self.files.iter().any(|file| file.etag == etag)
    }

    /// Puts `new` in the place of every file that had the content of `old`.
    pub(super) fn replace(&mut self, old_etag: &str, new: &RemoteFile) {
        for file in self.files.iter_mut().filter(|file| file.etag == old_etag) {
            *file = RemoteFile { path: file.path.clone(), ..new.clone() };
        }
    }

    /// Reads a record; `None` if it is none of this version, or would write where it must not.
    pub(super) fn load(path: &Path) -> io::Result<Option<Self>> {
        if fs::metadata(path)?.len() > RECORD_BYTES_MAX {
            return Ok(None);
        }
        let Ok(record) = serde_json::from_slice::<Self>(&fs::read(path)?) else { return Ok(None) };
        let is_sound = record.version == VERSION && record.listing().check().is_ok();
        let is_its_own = path.file_stem().is_some_and(|stem| *stem == *record.id().as_str());
        Ok((is_sound && is_its_own).then_some(record))
    }

    /// Writes the record so that a crash leaves the old one or the new one.
    pub(super) fn save(&self, path: &Path) -> Result<(), HubError> {
        let failed = |error| HubError::disk(path, error);
        let bytes = serde_json::to_vec(self).map_err(|error| failed(error.into()))?;
        super::layout::write_whole(path, &bytes).map_err(failed)
    }

    fn listing(&self) -> Listing {
        Listing {
            repo: self.repo.clone(),
            revision: self.revision.clone(),
            commit: self.commit.clone(),
            files: self.files.clone(),
            gguf: Vec::new(),
            skipped: Vec::new(),
            licence: None,
            is_gated: false,
            pipeline: None,
        }
    }
}

/// A record that the fetches of a download change, on disk before anybody relies on it.
#[derive(Debug)]
pub(super) struct SharedRecord {
    path: PathBuf,
    record: Mutex<Record>,
}

impl SharedRecord {
    pub(super) fn new(path: PathBuf, record: Record) -> Self {
        Self { path, record: Mutex::new(record) }
    }

    pub(super) fn get(&self) -> Record {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the record in memory and on disk.
    pub(super) fn update(&self, change: impl FnOnce(&mut Record)) -> Result<(), HubError> {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut record);
        record.save(&self.path)
    }
}
