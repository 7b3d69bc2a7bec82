//! Downloads onto disks that are small, fill up, or know no links.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Write as _},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use model_hub::{Disk, DownloadOptions, DownloadPhase, HubError, SystemDisk};

use crate::{
    download_bench::{Bench, FILES, FIRST, options, settled, settled_after_pause, wait_for},
    hub_server::{Fault, noise},
};

/// A disk with as much space as a test says.
#[derive(Debug)]
struct SmallDisk {
    free_bytes: AtomicU64,
    /// Bytes that can be written before the system says that the disk is full.
    writable_bytes: AtomicU64,
    has_links: bool,
}

impl SmallDisk {
    fn new(free_bytes: u64, writable_bytes: u64) -> Arc<Self> {
        let (free_bytes, writable_bytes) = (AtomicU64::new(free_bytes), AtomicU64::new(writable_bytes));
        Arc::new(Self { free_bytes, writable_bytes, has_links: true })
    }
}

impl Disk for SmallDisk {
    fn free_bytes(&self, _folder: &Path) -> io::Result<u64> {
        Ok(self.free_bytes.load(Ordering::Relaxed))
    }

    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        let wanted = bytes.len() as u64;
        let less = |left: u64| Some(left.saturating_sub(wanted));
        let left = self.writable_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        let count = left.unwrap_or(0).min(wanted);
        file.write_all(&bytes[..count as usize])?;
        if count < wanted { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn link(&self, target: &Path, link: &Path) -> io::Result<()> {
        if self.has_links { SystemDisk.link(target, link) } else { Err(io::ErrorKind::Unsupported.into()) }
    }
}

#[tokio::test]
async fn a_disk_that_is_too_small_is_said_so_before_anything_is_fetched() {
    let disk = SmallDisk::new(1_500_000, u64::MAX);
    let bench =
        Bench::with(DownloadOptions { disk: disk.clone(), margin_bytes: 1_000_000, ..options() }).await;
    let error = bench.fail().await;
    let HubError::DiskFull { needed_bytes, free_bytes, .. } = error else { panic!("{error:?}") };
    assert_eq!(free_bytes, 1_500_000);
    assert!((1_503_000..1_504_000).contains(&needed_bytes), "the files and the margin: {needed_bytes}");
    assert!(bench.server.fetches("config.json").is_empty());
    disk.free_bytes.store(1_600_000, Ordering::Relaxed);
    let phase = bench.run().await;
    bench.assert_complete(&phase);
}

#[tokio::test]
async fn a_disk_that_fills_up_stops_the_download_and_keeps_its_parts() {
    for has_warning in [true, false] {
        let disk = SmallDisk::new(10_000_000, if has_warning { u64::MAX } else { 250_000 });
        let options = DownloadOptions { disk: disk.clone(), space_check_bytes: 100_000, ..options() };
        let bench = Bench::with(options).await;
        // Much more than a client reads at once, so that space is looked at in between.
        bench.server.replace(FIRST, &noise(8, 3_000_000));
        bench.server.fault(FIRST, Fault::Hold(150_000));
        let id = bench.start().await;
        if has_warning {
            wait_for(&bench.downloads, &id, |status| status.files_done == FILES - 1).await;
            // Somebody else filled it meanwhile.
            disk.free_bytes.store(1_000, Ordering::Relaxed);
        }
        bench.server.release();
        let phase = settled(&bench.downloads, &id).await;
        let DownloadPhase::Failed(HubError::DiskFull { needed_bytes, .. }) = phase else {
            panic!("{phase:?}")
        };
        let [status] = bench.downloads.list().try_into().unwrap();
        assert!(needed_bytes > 0 && status.done_bytes > 200_000, "{needed_bytes}, {}", status.done_bytes);
        assert!(!bench.has_snapshot());
        disk.free_bytes.store(10_000_000, Ordering::Relaxed);
        disk.writable_bytes.store(u64::MAX, Ordering::Relaxed);
        bench.server.heal();
        bench.downloads.resume(&id).await.unwrap();
        let phase = settled_after_pause(&bench.downloads, &id).await;
        bench.assert_complete(&phase);
    }
}

#[tokio::test]
async fn where_links_do_not_work_the_files_themselves_are_in_the_snapshot() {
    let mut disk = SmallDisk::new(u64::MAX, u64::MAX);
    Arc::get_mut(&mut disk).unwrap().has_links = false;
    let bench = Bench::with(DownloadOptions { disk, ..options() }).await;
    let phase = bench.run().await;
    bench.assert_complete(&phase);
    assert_eq!(bench.blobs(), BTreeSet::new(), "no content is there twice");
    let requests = bench.server.seen().len();
    let phase = bench.run().await;
    bench.assert_complete(&phase);
    assert_eq!(bench.server.seen().len(), requests + 1, "asked for the listing only");
}
