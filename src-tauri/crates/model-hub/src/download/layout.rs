//! One repository's folder in the layout that Hugging Face's own tools use, so that neither fetches what the other has:
//! `blobs/<etag>`, `snapshots/<commit>/<path>` linking there, `refs/<revision>` holding the commit. `blobs/<etag>.part`
//! and `downloads/` are this crate's own.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    disk::Disk,
    record::{DownloadId, Record},
};
use crate::hub::{HubError, RemoteFile};

/// Paths below `<cache>/models--owner--name`.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    root: PathBuf,
}

impl Layout {
    pub(super) fn new(cache_dir: &Path, repo: &str) -> Self {
        Self { root: cache_dir.join(format!("models--{}", repo.replace('/', "--"))) }
    }

    fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    fn records(&self) -> PathBuf {
        self.root.join("downloads")
    }

    pub(super) fn blob(&self, etag: &str) -> PathBuf {
        self.blobs().join(etag)
    }

    pub(super) fn part(&self, etag: &str) -> PathBuf {
        self.blobs().join(format!("{etag}.part"))
    }

    pub(super) fn record(&self, id: &DownloadId) -> PathBuf {
        self.records().join(format!("{id}.json"))
    }

    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.root.join("snapshots").join(commit)
    }

    fn snapshot_part(&self, commit: &str) -> PathBuf {
        self.root.join("snapshots").join(format!("{commit}.part"))
    }

    pub(super) fn create(&self) -> Result<(), HubError> {
        for folder in [self.blobs(), self.records()] {
            fs::create_dir_all(&folder).map_err(|error| HubError::disk(&folder, error))?;
        }
        Ok(())
    }

    /// Whether a file's content is here, by whichever tool: as a blob, or in a snapshot where links do not work.
    pub(super) fn has(&self, commit: &str, file: &RemoteFile) -> bool {
        let snapshots = [self.snapshot(commit), self.snapshot_part(commit)];
        let in_snapshots = snapshots.iter().map(|snapshot| snapshot.join(&file.path));
        in_snapshots.chain([self.blob(&file.etag)]).any(|path| has_size(&path, file.bytes))
    }

    /// Bytes of a file that was begun.
    pub(super) fn part_bytes(&self, file: &RemoteFile) -> u64 {
        fs::metadata(self.part(&file.etag)).map_or(0, |part| part.len()).min(file.bytes)
    }

    /// Gives a checked part its name as a blob.
    pub(super) fn accept(&self, etag: &str) -> Result<(), HubError> {
        let blob = self.blob(etag);
        let failed = |error| HubError::disk(&blob, error);
        fs::rename(self.part(etag), &blob).map_err(failed)?;
        sync_folder(&self.blobs()).map_err(failed)
    }

    /// Makes the snapshot and the ref appear, once every file of `record` is here.
    pub(super) fn publish(&self, record: &Record, disk: &dyn Disk) -> Result<PathBuf, HubError> {
        let snapshot = self.snapshot(&record.commit);
        let failed = |error| HubError::disk(&snapshot, error);
        if snapshot.is_dir() {
            // Another tool, or the choice of another file, made it: complete it.
            self.fill(&snapshot, record, disk).map_err(failed)?;
        } else {
            let part = self.snapshot_part(&record.commit);
            fs::create_dir_all(&part).map_err(failed)?;
            self.fill(&part, record, disk).map_err(failed)?;
            fs::rename(&part, &snapshot).map_err(failed)?;
        }
        sync_folder(&self.root.join("snapshots")).map_err(failed)?;
        if record.revision != record.commit {
            let path = self.root.join("refs").join(&record.revision);
            let written = path.parent().map_or(Ok(()), fs::create_dir_all);
            let written = written.and_then(|()| write_whole(&path, record.commit.as_bytes()));
            written.map_err(|error| HubError::disk(path, error))?;
        }
        Ok(snapshot)
    }

    fn fill(&self, folder: &Path, record: &Record, disk: &dyn Disk) -> io::Result<()> {
        for file in &record.files {
            let path = folder.join(&file.path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            if !has_size(&path, file.bytes) {
                self.place(&path, file, disk)?;
            }
        }
        sync_folder(folder)
    }

    /// Puts a link to a file's blob at `path`; where there are no links, the file itself.
    fn place(&self, path: &Path, file: &RemoteFile, disk: &dyn Disk) -> io::Result<()> {
        let blob = self.blob(&file.etag);
        let new = beside(path, ".part");
        remove_if_there(&new)?;
        let up = "../".repeat(2 + file.path.matches('/').count());
        let target = PathBuf::from(format!("{up}blobs/{}", file.etag));
        if disk.link(&target, &new).is_err() {
            return fs::rename(&blob, path);
        }
        fs::rename(&new, path)
    }

    /// Removes what a download brought and nobody else uses: parts, blobs, its record, and folders that are empty then.
    pub(super) fn discard(&self, record: &Record) -> Result<(), HubError> {
        let failed = |path: &Path, error| HubError::disk(path, error);
        let kept = self.used_blobs(record).map_err(|error| failed(&self.root, error))?;
        for file in &record.files {
            let part = self.part(&file.etag);
            let is_wanted = self.other_records(record).iter().any(|other| other.needs(&file.etag));
            if !is_wanted {
                remove_if_there(&part).map_err(|error| failed(&part, error))?;
            }
        }
        for etag in record.fetched.iter().filter(|etag| !kept.contains(*etag)) {
            let blob = self.blob(etag);
            remove_if_there(&blob).map_err(|error| failed(&blob, error))?;
        }
        let snapshot = self.snapshot_part(&record.commit);
        match fs::remove_dir_all(&snapshot) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&snapshot, error)),
            _ => {}
        }
        self.forget(&record.id())?;
        self.prune();
        Ok(())
    }

    /// Removes a record; its download is complete or cancelled.
    pub(super) fn forget(&self, id: &DownloadId) -> Result<(), HubError> {
        let path = self.record(id);
        remove_if_there(&path).map_err(|error| HubError::disk(&path, error))?;
        // Fails while other downloads have records there, which is right.
        let _ = fs::remove_dir(self.records());
        Ok(())
    }

    /// Removes folders that nothing is in; `remove_dir` refuses the others.
    fn prune(&self) {
        for folder in [self.blobs(), self.root.join("snapshots"), self.root.join("refs"), self.root.clone()] {
            let _ = fs::remove_dir(folder);
        }
    }

    /// Blobs that a snapshot links to or another download needs.
    fn used_blobs(&self, record: &Record) -> io::Result<BTreeSet<String>> {
        let mut used = BTreeSet::new();
        let own_part = self.snapshot_part(&record.commit);
        for snapshot in entries(&self.root.join("snapshots"))? {
            if snapshot != own_part && snapshot.is_dir() {
                collect_links(&snapshot, &mut used)?;
            }
        }
        for other in self.other_records(record) {
            used.extend(other.files.into_iter().map(|file| file.etag));
        }
        Ok(used)
    }

    fn other_records(&self, record: &Record) -> Vec<Record> {
        let mut others = self.load_records();
        others.retain(|other| other.id() != record.id());
        others
    }

    /// Downloads of this repository that have not ended; what cannot be read is left alone.
    pub(super) fn load_records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for path in entries(&self.records()).unwrap_or_default() {
            if path.extension() != Some(OsStr::new("json")) {
                continue;
            }
            match Record::load(&path) {
                Ok(Some(record)) => records.push(record),
                Ok(None) => tracing::warn!(path = %path.display(), "not the record of a download"),
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "unreadable record of a download")
                }
            }
        }
        records
    }
}

/// Unfinished downloads of every repository in a cache folder, oldest first.
pub(super) fn load_all(cache_dir: &Path) -> Result<Vec<Record>, HubError> {
    let folders = entries(cache_dir).map_err(|error| HubError::disk(cache_dir, error))?;
    let mut records: Vec<Record> = folders
        .into_iter()
        .flat_map(|root| {
            let records = Layout { root: root.clone() }.load_records();
            // A record must lie where its repository's folder is, or its download would write elsewhere.
            records.into_iter().filter(move |record| Layout::new(cache_dir, &record.repo).root == root)
        })
        .collect();
    records.sort_by_key(|record| record.started_ms);
    Ok(records)
}

/// Writes a file so that a crash leaves the old content or the new.
pub(super) fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = beside(path, ".tmp");
    let mut file = fs::File::create(&new)?;
    io::Write::write_all(&mut file, content)?;
    file.sync_all()?;
    fs::rename(&new, path)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(ending);
    path.with_file_name(name)
}

fn has_size(path: &Path, bytes: u64) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == bytes)
}

pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listing => listing?.map(|entry| entry.map(|entry| entry.path())).collect(),
    }
}

fn collect_links(folder: &Path, etags: &mut BTreeSet<String>) -> io::Result<()> {
    for path in entries(folder)? {
        let kind = fs::symlink_metadata(&path)?.file_type();
        if kind.is_dir() {
            collect_links(&path, etags)?;
        } else if kind.is_symlink() {
            let target = fs::read_link(&path)?;
            etags.extend(target.file_name().and_then(OsStr::to_str).map(str::to_string));
        }
    }
    Ok(())
}

/// Gets new names in a folder onto the disk; where folders cannot be opened, the system does so by itself.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { fs::File::open(folder)?.sync_all() } else { Ok(()) }
}
