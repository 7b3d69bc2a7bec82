//! The models of this computer and what is going on with them: the list, loading, imports, downloads.
//!
//! Models are named by their catalogue id. Where two folders have the same, the person's own comes before what other
//! tools downloaded, and that before what came with the app.

mod hub;
mod imports;
mod remote;

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};

use history::History;
use model_hub::{
    CatalogEntry, DownloadStatus, Downloads, ModelFolder, ModelHubError, Progress, delete_model, list_models,
};
use protocol::{FitReport, ImportMode, ModelEntry, ModelProblem, ModelsStatus, Unloaded};
use tokio::sync::{OnceCell, watch};

use crate::{
    convert::model,
    error::{AppError, hub_code, in_full},
    hub_settings::HubSettingsStore,
    local_engine::{EngineLink, LoadRequest, LoadState, LocalEngine, MemoryPolicy, read_config},
    models::fit,
};
use imports::{ImportTicket, Imports};
pub use remote::RemoteDetails;

/// App setting that names the model of the next start.
const CHOSEN: &str = "model";

/// Folders that models lie in.
#[derive(Debug, Clone)]
pub struct ModelFolders {
    /// Braid's own: imports go there.
    pub own: PathBuf,
    /// Came with the app.
    pub bundled: Vec<PathBuf>,
    /// A single model's folder, named by the environment.
    pub starter: Option<PathBuf>,
    /// Downloads go there, in the layout that Hugging Face's tools share.
    pub downloads: PathBuf,
}

/// Everything that can be done with models; cloning shares it.
#[derive(Clone)]
pub struct ModelLibrary {
    shared: Arc<Shared>,
}

struct Shared {
    folders: ModelFolders,
    engine: Arc<LocalEngine>,
    hub: HubSettingsStore,
    downloads: OnceCell<Downloads>,
    imports: Imports,
    revision: watch::Sender<u32>,
}

impl ModelLibrary {
    /// A library over these folders. `data`: where the hub's token lies.
    pub fn new(folders: ModelFolders, data: &Path, engine: Arc<LocalEngine>) -> Self {
        let shared = Shared {
            folders,
            engine,
            hub: HubSettingsStore::new(data),
            downloads: OnceCell::new(),
            imports: Imports::default(),
            revision: watch::channel(0).0,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Takes over what is stored, and tells the engine which model to start with.
    ///
    /// # Errors
    /// [`AppError::History`].
    pub async fn read_from(&self, history: &History) -> Result<(), AppError> {
        self.shared.hub.read_from(history).await?;
        let chosen = history.app_setting(CHOSEN).await?;
        let chosen = chosen.and_then(|json| serde_json::from_str(&json).ok());
        self.shared.engine.prefer(chosen).await;
        Ok(())
    }

    /// Imports under way or failed.
    pub fn imports(&self) -> &Imports {
        &self.shared.imports
    }

    // The list.

    /// All models, by name.
    ///
    /// # Errors
    /// [`AppError::ModelList`], [`AppError::TaskPanicked`].
    pub async fn list(&self) -> Result<Vec<ModelEntry>, AppError> {
        let library = self.clone();
        let listed = tokio::task::spawn_blocking(move || {
            let entries = library.entries()?;
            let mut shown: Vec<ModelEntry> = entries.iter().map(|found| library.shown(found)).collect();
            shown.sort_by_key(|entry| entry.name.to_lowercase());
            Ok(shown)
        });
        listed.await.map_err(|_| AppError::TaskPanicked)?
    }

    fn entries(&self) -> Result<Vec<CatalogEntry>, AppError> {
        let folders = &self.shared.folders;
        let roots = [&folders.own, &folders.downloads].into_iter().chain(&folders.bundled);
        let mut found: Vec<CatalogEntry> = Vec::new();
        let starter_root = folders.starter.as_ref().and_then(|starter| starter.parent());
        for root in roots.map(PathBuf::as_path).chain(starter_root) {
            let listed =
                list_models(&[root.to_owned()]).map_err(|error| AppError::ModelList(Arc::new(error)))?;
            for entry in listed {
                let is_other = Some(root) == starter_root
                    && !folders.bundled.iter().any(|bundled| bundled == root)
                    && Some(entry.path()) != folders.starter.as_deref();
                if !is_other && found.iter().all(|known| known.id() != entry.id()) {
                    found.push(entry);
                }
            }
        }
        Ok(found)
    }

    fn shown(&self, entry: &CatalogEntry) -> ModelEntry {
        let is_bundled = self.is_bundled(entry);
        match entry {
            CatalogEntry::Usable(folder) => {
                let problem = read_config(folder).err().map(|error| model::problem(&error));
                model::usable(folder, is_bundled, problem)
            }
            CatalogEntry::Broken { id, path, source, reason, .. } => {
                let problem = ModelProblem { code: hub_code(reason), detail: in_full(reason) };
                model::broken(id, path, source, is_bundled, problem)
            }
        }
    }

    fn is_bundled(&self, entry: &CatalogEntry) -> bool {
        let folders = &self.shared.folders;
        folders.bundled.iter().any(|root| entry.origin().starts_with(root))
            || folders.starter.as_deref() == Some(entry.origin())
    }

    async fn find(&self, model_id: &str) -> Result<ModelFolder, AppError> {
        match self.find_entry(model_id).await? {
            CatalogEntry::Usable(folder) => Ok(folder),
            CatalogEntry::Broken { path, reason, .. } => {
                Err(AppError::BrokenModel { path, reason: Arc::new(reason) })
            }
        }
    }

    async fn find_entry(&self, model_id: &str) -> Result<CatalogEntry, AppError> {
        let library = self.clone();
        let entries = tokio::task::spawn_blocking(move || library.entries());
        let entries = entries.await.map_err(|_| AppError::TaskPanicked)??;
        let found = entries.into_iter().find(|entry| entry.id() == model_id);
        found.ok_or_else(|| AppError::UnknownModel { given: model_id.to_owned() })
    }

    /// Deletes a model; of a reference only the reference.
    ///
    /// # Errors
    /// [`AppError::UnknownModel`], [`AppError::ModelInUse`], [`AppError::ModelFiles`].
    pub async fn delete(&self, model_id: &str) -> Result<(), AppError> {
        let entry = self.find_entry(model_id).await?;
        let loading = self.shared.engine.loads().borrow().loading.as_ref().map(|load| load.model.id.clone());
        let loaded = self.shared.engine.loaded().map(|(folder, _)| folder.id.clone());
        if [loading, loaded].into_iter().flatten().any(|id| id == model_id) || self.is_bundled(&entry) {
            return Err(AppError::ModelInUse { model_id: model_id.to_owned() });
        }
        let folders = &self.shared.folders;
        let roots = [folders.own.clone(), folders.downloads.clone()];
        let deleted = tokio::task::spawn_blocking(move || delete_model(&entry, &roots));
        deleted.await.map_err(|_| AppError::TaskPanicked)?.map_err(AppError::model_files)?;
        self.note_list_change();
        Ok(())
    }

    fn note_list_change(&self) {
        self.shared.revision.send_modify(|revision| *revision = revision.wrapping_add(1));
    }

    // Loading.

    /// Reckons whether a model fits. `context_tokens`: its own if not given.
    ///
    /// # Errors
    /// As [`Self::load`], but for what does not fit.
    pub async fn fit(&self, model_id: &str, context_tokens: Option<u32>) -> Result<FitReport, AppError> {
        let folder = self.find(model_id).await?;
        let reckoned = tokio::task::spawn_blocking(move || fit::check(&folder, context_tokens));
        Ok(model::fit_report(&reckoned.await.map_err(|_| AppError::TaskPanicked)??))
    }

    /// Begins to load a model, and remembers it for the next start.
    ///
    /// # Errors
    /// [`AppError::UnknownModel`], or as [`LocalEngine::load`].
    pub async fn load(
        &self,
        history: &History,
        model_id: &str,
        context_tokens: Option<u32>,
        memory: MemoryPolicy,
    ) -> Result<(), AppError> {
        let folder = self.find(model_id).await?;
        self.shared.engine.load(folder, LoadRequest { context_tokens, memory }).await?;
        let stored = crate::settings_store::to_json("the model's name", &model_id)?;
        history.set_app_setting(CHOSEN, &stored).await?;
        self.shared.engine.prefer(Some(model_id.to_owned())).await;
        Ok(())
    }

    /// Takes the model out of memory.
    ///
    /// # Errors
    /// [`AppError::Engine`] if none is loaded.
    pub async fn unload(&self) -> Result<Unloaded, AppError> {
        let freed = self.shared.engine.unload().await.ok_or(engine::EngineError::ModelUnloaded)?;
        Ok(Unloaded { before_bytes: freed.before_bytes as f64, after_bytes: freed.after_bytes as f64 })
    }

    // Imports.

    /// Begins to import a folder. Returns the import's id.
    pub fn import_folder(&self, source: PathBuf, mode: ImportMode) -> String {
        let root = self.shared.folders.own.clone();
        let how = match mode {
            ImportMode::Copy => model_hub::How::Copy,
            ImportMode::Reference => model_hub::How::Reference,
        };
        self.import(&source.clone(), move |ticket| {
            model_hub::import_folder(&source, &root, how, &mut |at| watched(ticket, at)).map(|_| ())
        })
    }

    /// Begins to import a GGUF file under its own name. Returns the import's id.
    pub fn import_gguf(&self, source: PathBuf) -> String {
        let root = self.shared.folders.own.clone();
        self.import(&source.clone(), move |ticket| {
            std::fs::create_dir_all(&root)
                .map_err(|source| ModelHubError::Write { path: root.clone(), source })?;
            let name = source.file_stem().unwrap_or_default().to_string_lossy();
            let target = root.join(model_hub::free_name(&root, &name));
            model_hub::import_gguf_with(&source, &target, &mut |at| watched(ticket, at)).map(|_| ())
        })
    }

    fn import(
        &self,
        source: &Path,
        run: impl FnOnce(&ImportTicket) -> Result<(), ModelHubError> + Send + 'static,
    ) -> String {
        let ticket = self.shared.imports.begin(source.display().to_string());
        let id = ticket.id.clone();
        let library = self.clone();
        tokio::task::spawn_blocking(move || {
            let outcome = run(&ticket).map_err(AppError::model_files);
            if let Err(error) = &outcome {
                tracing::warn!(error = in_full(error), "an import failed");
            }
            ticket.end(outcome.map_err(|error| model::problem(&error)));
            library.note_list_change();
        });
        id
    }

    // What is going on.

    /// What is going on with models now.
    pub async fn status(&self) -> ModelsStatus {
        let downloads = match self.downloads().await {
            Ok(downloads) => downloads.list(),
            Err(error) => {
                tracing::warn!(error = in_full(&error), "downloads cannot be opened");
                Vec::new()
            }
        };
        let loads: LoadState = self.shared.engine.loads().borrow().clone();
        let loaded = self.shared.engine.loaded();
        ModelsStatus {
            list_revision: *self.shared.revision.borrow(),
            loaded_model_id: loaded.as_ref().map(|(folder, _)| folder.id.clone()),
            loaded_context_tokens: loaded.map(|(_, context_tokens)| context_tokens),
            load: loads.loading.as_ref().map(model::load),
            load_failure: loads.failure.as_ref().map(model::load_failure),
            downloads: downloads.iter().map(model::download).collect(),
            imports: self.shared.imports.list(),
        }
    }

    /// Tells of changes of [`Self::status`].
    pub async fn changes(&self) -> Changes {
        Changes {
            link: self.shared.engine.link(),
            loads: self.shared.engine.loads(),
            imports: self.shared.imports.changes(),
            revision: self.shared.revision.subscribe(),
            downloads: self.downloads().await.ok().map(Downloads::watch),
        }
    }
}

/// Waits for something to change.
pub struct Changes {
    link: watch::Receiver<EngineLink>,
    loads: watch::Receiver<LoadState>,
    imports: watch::Receiver<()>,
    revision: watch::Receiver<u32>,
    downloads: Option<watch::Receiver<Vec<DownloadStatus>>>,
}

impl Changes {
    /// Returns at the next change since the last call.
    pub async fn next(&mut self) {
        let Changes { link, loads, imports, revision, downloads } = self;
        let downloaded = async {
            match downloads {
                Some(downloads) => drop(downloads.changed().await),
                None => std::future::pending().await,
            }
        };
        // The senders live as long as the library.
        tokio::select! {
            _ = link.changed() => {}
            _ = loads.changed() => {}
            _ = imports.changed() => {}
            _ = revision.changed() => {}
            () = downloaded => {}
        }
    }
}

/// Notes how far an import is, and ends it if the person gave it up.
fn watched(ticket: &ImportTicket, progress: Progress) -> ControlFlow<()> {
    ticket.progress(progress.done_bytes, progress.total_bytes);
    if ticket.is_cancelled.load(Ordering::Relaxed) {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}
