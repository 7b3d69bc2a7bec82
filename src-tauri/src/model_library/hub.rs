//! The library's way to a hub: search, details, downloads, settings.

use history::History;
use model_hub::{CatalogEntry, DownloadId, DownloadPhase, DownloadStatus, Downloads, Hub, ModelSource};
use protocol::{HubSettings, HubSettingsChange, RemoteModelDetails, RemoteModelPage};

use super::{ModelLibrary, remote};
use crate::{convert::model, error::AppError};

impl ModelLibrary {
    async fn hub(&self) -> Result<Hub, AppError> {
        Ok(Hub::new(self.shared.hub.config().await?)?)
    }

    pub(super) async fn downloads(&self) -> Result<&Downloads, AppError> {
        let open = || async {
            let downloads = Downloads::open(&self.shared.folders.downloads, self.hub().await?).await?;
            self.note_completed_downloads(&downloads);
            Ok::<_, AppError>(downloads)
        };
        self.shared.downloads.get_or_try_init(open).await
    }

    /// Lets the list of models be read anew whenever a download is complete.
    fn note_completed_downloads(&self, downloads: &Downloads) {
        let (library, mut changes) = (self.clone(), downloads.watch());
        tokio::spawn(async move {
            let mut complete = 0;
            while changes.changed().await.is_ok() {
                let is_done = |status: &&DownloadStatus| matches!(status.phase, DownloadPhase::Done { .. });
                let now = changes.borrow_and_update().iter().filter(is_done).count();
                if now != complete {
                    library.note_list_change();
                }
                complete = now;
            }
        });
    }

    /// Searches the hub.
    ///
    /// # Errors
    /// [`AppError::Hub`].
    pub async fn search(&self, query: &str, next: Option<&str>) -> Result<RemoteModelPage, AppError> {
        Ok(model::remote_page(self.hub().await?.search(query, next).await?))
    }

    /// What a repository holds for Braid.
    ///
    /// # Errors
    /// [`AppError::Hub`].
    pub async fn remote(&self, repo: &str) -> Result<RemoteModelDetails, AppError> {
        let hub = self.hub().await?;
        let listing = hub.listing(repo, "main").await?;
        let free_disk_bytes = self.downloads().await?.free_bytes().ok();
        let installed = self.installed(repo).await?;
        let details = remote::read(&hub, &listing).await;
        Ok(model::remote_details(&listing, details, free_disk_bytes, installed))
    }

    async fn installed(&self, repo: &str) -> Result<Option<String>, AppError> {
        let library = self.clone();
        let entries = tokio::task::spawn_blocking(move || library.entries());
        let entries = entries.await.map_err(|_| AppError::TaskPanicked)??;
        let is_it = |entry: &&CatalogEntry| {
            matches!(entry, CatalogEntry::Usable(_))
                && matches!(entry.source(), ModelSource::HubCache { repo: own, .. } if own == repo)
        };
        Ok(entries.iter().find(is_it).map(|entry| entry.id().to_owned()))
    }

    /// Begins a download of what was shown. Returns its id.
    ///
    /// # Errors
    /// [`AppError::Hub`].
    pub async fn download(&self, repo: &str, commit: &str) -> Result<String, AppError> {
        let listing = self.hub().await?.listing(repo, commit).await?;
        let listing = model_hub::Listing { revision: "main".to_owned(), ..listing };
        Ok(self.downloads().await?.start(&listing).await?.to_string())
    }

    /// Holds a download.
    ///
    /// # Errors
    /// [`AppError::Hub`].
    pub async fn pause_download(&self, id: &str) -> Result<(), AppError> {
        Ok(self.downloads().await?.pause(&DownloadId::from(id.to_owned())).await?)
    }

    /// Goes on with a download.
    ///
    /// # Errors
    /// [`AppError::Hub`].
    pub async fn resume_download(&self, id: &str) -> Result<(), AppError> {
        Ok(self.downloads().await?.resume(&DownloadId::from(id.to_owned())).await?)
    }

    /// Gives up a download, or takes one that is complete off the list.
    ///
    /// # Errors
    /// [`AppError::Hub`].
    pub async fn cancel_download(&self, id: &str) -> Result<(), AppError> {
        Ok(self.downloads().await?.cancel(&DownloadId::from(id.to_owned())).await?)
    }

    /// Where models are downloaded from.
    ///
    /// # Errors
    /// [`AppError::HubToken`].
    pub async fn hub_settings(&self) -> Result<HubSettings, AppError> {
        self.shared.hub.shown(&self.shared.folders.downloads).await
    }

    /// Changes where models are downloaded from.
    ///
    /// # Errors
    /// As [`HubSettingsStore::change`].
    pub async fn change_hub(
        &self,
        history: &History,
        change: HubSettingsChange,
    ) -> Result<HubSettings, AppError> {
        self.shared.hub.change(history, change).await?;
        if let Some(downloads) = self.shared.downloads.get() {
            downloads.use_hub(self.hub().await?);
        }
        self.hub_settings().await
    }
}
