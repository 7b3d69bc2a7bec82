//! A hub, a cache folder and its downloads, for tests to disturb.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use model_hub::{
    DownloadId, DownloadOptions, DownloadPhase, DownloadStatus, Downloads, Hub, HubConfig, HubError,
};

use crate::hub_server::{COMMIT, HubServer, REPO};

pub const FIRST: &str = "model-00001-of-00002.safetensors";
pub const SECOND: &str = "model-00002-of-00002.safetensors";
pub const FILES: usize = 6;

pub fn options() -> DownloadOptions {
    DownloadOptions {
        first_backoff: Duration::from_millis(1),
        margin_bytes: 0,
        buffer_bytes: 16 << 10,
        ..DownloadOptions::default()
    }
}

pub fn root(cache: &Path) -> PathBuf {
    cache.join("models--braid-tests--tiny-4bit")
}

/// A server with the model, a cache folder and its downloads.
pub struct Bench {
    pub server: HubServer,
    pub cache: tempfile::TempDir,
    pub downloads: Downloads,
}

impl Bench {
    pub async fn new() -> Self {
        Self::with(options()).await
    }

    pub async fn with(options: DownloadOptions) -> Self {
        let server = HubServer::with_model().await;
        let hub = server.hub();
        Self::of(server, hub, options).await
    }

    /// One that waits for a byte for a second only.
    pub async fn impatient(options: DownloadOptions) -> Self {
        let server = HubServer::with_model().await;
        let config = HubConfig { stall_timeout: Duration::from_secs(1), ..server.config() };
        Self::of(server, Hub::new(config).unwrap(), options).await
    }

    async fn of(server: HubServer, hub: Hub, options: DownloadOptions) -> Self {
        let cache = tempfile::tempdir().unwrap();
        let downloads = Downloads::open_with(cache.path(), hub, options).await.unwrap();
        Self { server, cache, downloads }
    }

    pub async fn start(&self) -> DownloadId {
        let listing = self.server.hub().listing(REPO, "main").await.unwrap();
        self.downloads.start(&listing).await.unwrap()
    }

    /// Starts and waits until the download stands still.
    pub async fn run(&self) -> DownloadPhase {
        let id = self.start().await;
        settled(&self.downloads, &id).await
    }

    pub async fn fail(&self) -> HubError {
        match self.run().await {
            DownloadPhase::Failed(error) => error,
            other => panic!("{other:?}"),
        }
    }

    pub fn blobs(&self) -> BTreeSet<String> {
        names(&root(self.cache.path()).join("blobs"))
    }

    pub fn has_snapshot(&self) -> bool {
        root(self.cache.path()).join("snapshots").join(COMMIT).exists()
    }

    /// Every file is what the server has now, and nothing of the way there is left.
    pub fn assert_complete(&self, phase: &DownloadPhase) {
        let DownloadPhase::Done { folder } = phase else { panic!("{phase:?}") };
        assert_eq!(*folder, root(self.cache.path()).join("snapshots").join(COMMIT));
        assert_eq!(names(folder).len(), FILES);
        for name in names(folder) {
            assert_eq!(fs::read(folder.join(&name)).unwrap(), self.server.content(&name), "{name}");
        }
        assert_eq!(fs::read_to_string(root(self.cache.path()).join("refs/main")).unwrap(), COMMIT);
        assert!(!self.blobs().iter().any(|name| name.ends_with(".part")), "{:?}", self.blobs());
        assert!(!root(self.cache.path()).join("downloads").exists(), "no record of a complete download");
    }
}

pub fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

pub async fn wait_for(
    downloads: &Downloads,
    id: &DownloadId,
    is_met: impl Fn(&DownloadStatus) -> bool,
) -> DownloadStatus {
    let mut watch = downloads.watch();
    let met = |list: &Vec<DownloadStatus>| list.iter().any(|status| status.id == *id && is_met(status));
    let list = tokio::time::timeout(Duration::from_secs(120), watch.wait_for(met)).await;
    let list = list.expect("the download gets there").unwrap();
    list.iter().find(|status| status.id == *id).unwrap().clone()
}

/// The phase in which the download stands still.
pub async fn settled(downloads: &Downloads, id: &DownloadId) -> DownloadPhase {
    let stands = |status: &DownloadStatus| {
        matches!(status.phase, DownloadPhase::Done { .. } | DownloadPhase::Failed(_) | DownloadPhase::Paused)
    };
    wait_for(downloads, id, stands).await.phase
}

/// As [`settled`], not taken in by the pause before.
pub async fn settled_after_pause(downloads: &Downloads, id: &DownloadId) -> DownloadPhase {
    let ended = |status: &DownloadStatus| {
        matches!(status.phase, DownloadPhase::Done { .. } | DownloadPhase::Failed(_))
    };
    wait_for(downloads, id, ended).await.phase
}
