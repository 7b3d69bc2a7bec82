//! A file that is being fetched.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::Semaphore;

use super::{DownloadOptions, disk::Disk, progress::Progress};
use crate::hub::HubError;

/// Written bytes are forced onto the disk this often, so that the last force, and with it a stop, is short.
const SYNC_BYTES: u64 = 64 << 20;
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(50);
const SLOTS: u32 = 64;

/// Blocking work of one download: whoever stops the download can wait until none of it is left.
#[derive(Debug, Clone)]
pub(super) struct Work {
    slots: Arc<Semaphore>,
    is_stopped: Arc<AtomicBool>,
}

impl Work {
    pub(super) fn new() -> Self {
        Self { slots: Arc::new(Semaphore::new(SLOTS as usize)), is_stopped: Arc::default() }
    }

    /// Runs `work` where it may block, with the flag that tells it to give up.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
    ) -> Result<T, HubError> {
        let slot = self.slots.clone().acquire_owned().await.map_err(|_| HubError::Aborted)?;
        let is_stopped = self.is_stopped.clone();
        let task = tokio::task::spawn_blocking(move || {
            let result = work(&is_stopped);
            drop(slot);
            result
        });
        task.await.map_err(|_| HubError::Aborted)
    }

    /// Tells all work to give up.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Waits until no work is left.
    pub(super) async fn idle(&self) {
        // The semaphore is never closed, so this ends when the last slot is free.
        let _ = self.slots.acquire_many(SLOTS).await;
    }
}

/// What the writes of one download share: where they go, what they count, and how much space has to stay.
#[derive(Debug)]
pub(super) struct Sink {
    pub disk: Arc<dyn Disk>,
    pub folder: PathBuf,
    pub progress: Progress,
    pub work: Work,
    /// Bytes that stay free, whatever happens.
    reserve_bytes: u64,
    check_bytes: u64,
    checked_bytes: AtomicU64,
}

impl Sink {
    pub(super) fn new(options: &DownloadOptions, folder: PathBuf, progress: Progress) -> Self {
        Self {
            disk: options.disk.clone(),
            folder,
            progress,
            work: Work::new(),
            reserve_bytes: options.margin_bytes / 4,
            check_bytes: options.space_check_bytes,
            checked_bytes: AtomicU64::new(0),
        }
    }

    /// Refuses to go on if the rest and `margin_bytes` do not fit.
    pub(super) fn check_space(&self, margin_bytes: u64) -> Result<(), HubError> {
        let left = self.progress.total_bytes().saturating_sub(self.progress.done_bytes());
        let needed_bytes = left.saturating_add(margin_bytes);
        let free_bytes =
            self.disk.free_bytes(&self.folder).map_err(|error| HubError::disk(&self.folder, error))?;
        if left > 0 && free_bytes < needed_bytes {
            return Err(HubError::DiskFull { path: self.folder.clone(), needed_bytes, free_bytes });
        }
        Ok(())
    }

    fn received(&self, bytes: u64) -> Result<(), HubError> {
        let received = self.progress.receive(bytes);
        let checked = self.checked_bytes.load(Ordering::Relaxed);
        if received - checked < self.check_bytes {
            return Ok(());
        }
        self.checked_bytes.store(received, Ordering::Relaxed);
        self.check_space(self.reserve_bytes)
    }

    fn write_error(&self, path: &Path, error: io::Error) -> HubError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                let left = self.progress.total_bytes().saturating_sub(self.progress.done_bytes());
                HubError::DiskFull {
                    path: self.folder.clone(),
                    needed_bytes: left.saturating_add(self.reserve_bytes),
                    free_bytes: self.disk.free_bytes(&self.folder).unwrap_or(0),
                }
            }
            _ => HubError::disk(path, error),
        }
    }
}

/// `blobs/<etag>.part`, open and locked against other programs.
pub(super) struct PartFile {
    path: PathBuf,
    file: Option<File>,
    /// Bytes in the file, from its start.
    bytes: u64,
    unsynced_bytes: u64,
    /// Place in the progress.
    index: usize,
    sink: Arc<Sink>,
}

impl PartFile {
    /// Opens a part, or creates it, to be continued at its end.
    ///
    /// # Errors
    /// [`HubError::InUse`] if another program holds it for a second, [`HubError::Disk`].
    pub(super) async fn open(path: PathBuf, index: usize, sink: Arc<Sink>) -> Result<Self, HubError> {
        for _ in 0..LOCK_TRIES {
            let target = path.clone();
            let opened = sink.work.run(move |_| open_locked(&target)).await?;
            if let Some((file, bytes)) = opened.map_err(|error| sink.write_error(&path, error))? {
                sink.progress.set_done(index, bytes);
                return Ok(Self { path, file: Some(file), bytes, unsynced_bytes: 0, index, sink });
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
        Err(HubError::InUse { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends and empties `buffer`; now and then forces it all onto the disk and looks at the space.
    pub(super) async fn append(&mut self, buffer: &mut Vec<u8>) -> Result<(), HubError> {
        if buffer.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(buffer);
        let count = bytes.len() as u64;
        self.unsynced_bytes += count;
        let has_to_sync = self.unsynced_bytes >= SYNC_BYTES;
        let disk = self.sink.disk.clone();
        let written = self.blocking(move |file| {
            disk.write(file, &bytes)?;
            if has_to_sync { file.sync_data() } else { Ok(()) }
        });
        if let Err(error) = written.await {
            // How much of it was written is unknown: the file's length says.
            self.measure().await?;
            return Err(error);
        }
        if has_to_sync {
            self.unsynced_bytes = 0;
        }
        self.set_bytes(self.bytes + count);
        self.sink.received(count)
    }

    /// Throws away what is there.
    pub(super) async fn restart(&mut self) -> Result<(), HubError> {
        self.blocking(|file| {
            file.set_len(0)?;
            io::Seek::rewind(file)
        })
        .await?;
        self.set_bytes(0);
        Ok(())
    }

    /// Forces everything onto the disk.
    pub(super) async fn sync(&mut self) -> Result<(), HubError> {
        self.blocking(|file| file.sync_all()).await
    }

    async fn measure(&mut self) -> Result<(), HubError> {
        let index = self.index;
        let sink = self.sink.clone();
        let bytes = Arc::new(AtomicU64::new(0));
        let found = bytes.clone();
        self.blocking(move |file| {
            let length = io::Seek::seek(file, io::SeekFrom::End(0))?;
            found.store(length, Ordering::Relaxed);
            Ok(())
        })
        .await?;
        self.bytes = bytes.load(Ordering::Relaxed);
        sink.progress.set_done(index, self.bytes);
        Ok(())
    }

    fn set_bytes(&mut self, bytes: u64) {
        self.bytes = bytes;
        self.sink.progress.set_done(self.index, bytes);
    }

    async fn blocking(
        &mut self,
        work: impl FnOnce(&mut File) -> io::Result<()> + Send + 'static,
    ) -> Result<(), HubError> {
        let mut file = self.file.take().ok_or(HubError::Aborted)?;
        let run = self.sink.work.run(move |_| {
            let result = work(&mut file);
            (file, result)
        });
        let (file, result) = run.await?;
        self.file = Some(file);
        result.map_err(|error| self.sink.write_error(&self.path, error))
    }
}

/// `None` while somebody else holds the lock.
fn open_locked(path: &Path) -> io::Result<Option<(File, u64)>> {
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(None),
        // Some network file systems have no locks: then the hash finds what two writers made.
        Err(TryLockError::Error(_)) | Ok(()) => {}
    }
    let bytes = io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
    Ok(Some((file, bytes)))
}
