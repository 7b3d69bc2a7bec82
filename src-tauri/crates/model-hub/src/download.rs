//! Downloads into a cache folder that Hugging Face's own tools share.
//!
//! A model's folder appears only when every file is whole and checked. What breaks off can be continued, in this run of
//! the program or the next.

mod disk;
mod fetch;
mod job;
mod layout;
mod list;
mod part;
mod progress;
mod record;
mod verify;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::sync::watch;

pub use disk::{Disk, SystemDisk};
pub use record::DownloadId;
pub(crate) use verify::check_content;

use crate::hub::{Hub, HubError, Listing};
use list::Inner;
use record::Record;

/// How downloads go about it.
#[derive(Debug, Clone)]
pub struct DownloadOptions {
    /// Downloads at once; those beyond wait.
    pub running_max: usize,
    /// Files at once, of one download.
    pub files_at_once: usize,
    /// Tries that bring nothing before a download stands still, at least 1.
    pub tries: u32,
    /// Wait after the first of them; it doubles, up to half a minute.
    pub first_backoff: Duration,
    /// Bytes that have to stay free when a download begins; a quarter of them while it runs.
    pub margin_bytes: u64,
    /// Space is looked at again each time so many bytes have come.
    pub space_check_bytes: u64,
    /// Bytes gathered in memory before they are written; up to so many per file are fetched again after a stop.
    pub buffer_bytes: usize,
    /// The file system.
    pub disk: Arc<dyn Disk>,
}

impl Default for DownloadOptions {
    fn default() -> Self {
        Self {
            running_max: 2,
            files_at_once: 4,
            tries: 5,
            first_backoff: Duration::from_secs(1),
            margin_bytes: 1 << 30,
            space_check_bytes: 64 << 20,
            buffer_bytes: 256 << 10,
            disk: Arc::new(SystemDisk),
        }
    }
}

/// Where a download is in its life.
#[derive(Debug, Clone)]
pub enum DownloadPhase {
    /// Waits for others.
    Queued,
    /// Bytes arrive.
    Running,
    /// Stands still until resumed; so does one that a crash ended.
    Paused,
    /// All bytes are here and are being checked.
    Verifying,
    /// Stands still because of this. What is here stays and can be resumed.
    Failed(HubError),
    /// Complete.
    Done {
        /// `snapshots/<commit>`.
        folder: PathBuf,
    },
}

/// One download, as it is now.
#[derive(Debug, Clone)]
pub struct DownloadStatus {
    /// Names the download in every call.
    pub id: DownloadId,
    /// `owner/name`.
    pub repo: String,
    /// 40 hexadecimal digits.
    pub commit: String,
    /// Where it is in its life.
    pub phase: DownloadPhase,
    /// Bytes on disk, those that were there before included.
    pub done_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
    /// Speed of the last few seconds; 0 unless it runs.
    pub bytes_per_s: f64,
    /// Time for the rest at that speed; `None` unless bytes arrive.
    pub time_left: Option<Duration>,
    /// Files complete and checked. Files of the same content count once.
    pub files_done: usize,
    /// Files in all.
    pub files: usize,
}

/// All downloads into one cache folder. Clones are the same; downloads go on when all of them are dropped, until their
/// runtime ends.
#[derive(Clone)]
pub struct Downloads {
    inner: Arc<Inner>,
}

impl Downloads {
    /// Opens a cache folder, created if need be. Downloads that did not end are there, paused. They run on the tokio runtime
    /// of this call.
    ///
    /// # Errors
    /// [`HubError::Disk`] if the folder cannot be created or listed.
    pub async fn open(cache_dir: &Path, hub: Hub) -> Result<Self, HubError> {
        Self::open_with(cache_dir, hub, DownloadOptions::default()).await
    }

    /// [`Downloads::open`], with other limits.
    ///
    /// # Errors
    /// As [`Downloads::open`].
    pub async fn open_with(cache_dir: &Path, hub: Hub, options: DownloadOptions) -> Result<Self, HubError> {
        fs::create_dir_all(cache_dir).map_err(|error| HubError::disk(cache_dir, error))?;
        let records = layout::load_all(cache_dir)?;
        Ok(Self { inner: Inner::new(cache_dir.to_path_buf(), hub, options, records) })
    }

    /// The cache folder.
    pub fn cache_dir(&self) -> &Path {
        &self.inner.cache_dir
    }

    /// Bytes free where downloads go.
    ///
    /// # Errors
    /// [`HubError::Disk`].
    pub fn free_bytes(&self) -> Result<u64, HubError> {
        let folder = &self.inner.cache_dir;
        self.inner.options.disk.free_bytes(folder).map_err(|error| HubError::disk(folder, error))
    }

    /// Uses another hub, or the same one with another token, from the next start or resumption on.
    pub fn use_hub(&self, hub: Hub) {
        self.inner.state().hub = hub;
    }

    /// Begins to download what is listed, or goes on with it if it was begun before. Content that is here already is not
    /// fetched again.
    ///
    /// # Errors
    /// As [`Listing::check`]; [`HubError::Disk`] if the download cannot be noted on disk.
    pub async fn start(&self, listing: &Listing) -> Result<DownloadId, HubError> {
        listing.check()?;
        let record = Record::new(listing);
        let id = record.id();
        if self.inner.state().find(&id).is_none() {
            let layout = self.inner.layout(&record.repo);
            layout.create()?;
            record.save(&layout.record(&id))?;
            self.inner.add(record, DownloadPhase::Queued);
        }
        self.resume(&id).await?;
        Ok(id)
    }

    /// Stops a download; what it has stays.
    ///
    /// # Errors
    /// [`HubError::UnknownDownload`].
    pub async fn pause(&self, id: &DownloadId) -> Result<(), HubError> {
        self.find(id, |entry| {
            if matches!(entry.phase, DownloadPhase::Queued) {
                entry.phase = DownloadPhase::Paused;
            }
        })?;
        self.inner.stop(id).await;
        self.inner.publish();
        Ok(())
    }

    /// Goes on with a download that stands still. One that is complete is looked at again: files that somebody deleted are
    /// fetched.
    ///
    /// # Errors
    /// [`HubError::UnknownDownload`].
    pub async fn resume(&self, id: &DownloadId) -> Result<(), HubError> {
        self.find(id, |entry| {
            let stands_still = matches!(
                entry.phase,
                DownloadPhase::Paused | DownloadPhase::Failed(_) | DownloadPhase::Done { .. }
            );
            if stands_still {
                entry.phase = DownloadPhase::Queued;
            }
        })?;
        self.inner.pump();
        Ok(())
    }

    /// Ends a download and removes what it brought, except what a snapshot or another download uses. One that is complete
    /// only leaves the list; its model stays.
    ///
    /// # Errors
    /// [`HubError::UnknownDownload`]; [`HubError::Disk`] if something could not be removed: then it stays, failed.
    pub async fn cancel(&self, id: &DownloadId) -> Result<(), HubError> {
        self.find(id, |entry| entry.is_leaving = true)?;
        self.inner.stop(id).await;
        let found = self.find(id, |entry| {
            let is_done = matches!(entry.phase, DownloadPhase::Done { .. });
            (!is_done).then(|| entry.record.get())
        });
        // Somebody else cancelled it at the same time.
        let Ok(unfinished) = found else { return Ok(()) };
        let discarded = match unfinished {
            Some(record) => {
                let layout = self.inner.layout(&record.repo);
                let discarded = tokio::task::spawn_blocking(move || layout.discard(&record));
                discarded.await.map_err(|_| HubError::Aborted).flatten()
            }
            None => Ok(()),
        };
        if let Err(error) = &discarded {
            self.find(id, |entry| {
                entry.is_leaving = false;
                entry.phase = DownloadPhase::Failed(error.clone());
            })?;
        } else {
            self.inner.state().entries.retain(|entry| entry.id != *id);
        }
        self.inner.pump();
        discarded
    }

    /// All downloads, oldest first.
    pub fn list(&self) -> Vec<DownloadStatus> {
        self.watch().borrow().clone()
    }

    /// All downloads, oldest first, at each change; progress four times a second at most.
    pub fn watch(&self) -> watch::Receiver<Vec<DownloadStatus>> {
        self.inner.watch()
    }

    fn find<T>(&self, id: &DownloadId, act: impl FnOnce(&mut list::Entry) -> T) -> Result<T, HubError> {
        self.inner.state().find(id).map(act).ok_or(HubError::UnknownDownload)
    }
}
