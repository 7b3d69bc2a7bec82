//! What every command reaches: handles, cheap to clone.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use history::{History, HistoryError};
use protocol::{FileDrop, LastEnd, MenuItem};
use tauri::ipc::Channel;
use tokio::{
    sync::{OnceCell, mpsc::UnboundedSender},
    time::sleep,
};

use crate::{
    attachments::Attachments,
    benchmark::Benchmark,
    convert::{to_engine_mode, to_engine_overlap},
    error::AppError,
    keychain::Keys,
    last_end,
    local_engine::LocalEngine,
    local_server::LocalServer,
    model_library::ModelLibrary,
    remote::RemoteServers,
    requests::Requests,
    settings_store::SettingsStore,
};

/// How long a deleted conversation can be brought back.
const KEEP_DELETED: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long a Braid that was killed may hold the history: its last writes can keep the system busy.
const LEAVING_LIMIT: Duration = Duration::from_secs(4);

/// The app's parts.
#[derive(Clone)]
pub struct AppState {
    /// The engine and its model.
    pub engine: Arc<LocalEngine>,
    /// The models of this computer.
    pub library: ModelLibrary,
    /// What attaching files needs.
    pub attachments: Arc<Attachments>,
    /// Answers that are running.
    pub requests: Requests,
    /// Keys that the app keeps.
    pub keys: Keys,
    /// Servers that answer instead of the engine.
    pub remotes: RemoteServers,
    /// Braid as a server.
    pub server: LocalServer,
    /// Settings of the app.
    pub settings: Arc<SettingsStore>,
    /// The benchmark's latest report.
    pub benchmark: Arc<Benchmark>,
    /// What is known of the window.
    pub window: Arc<WindowState>,
    last_end: Arc<Mutex<LastEnd>>,
    database: PathBuf,
    history: Arc<OnceCell<History>>,
}

impl AppState {
    /// Puts the parts together. `database`: the history's file, opened on first use; keys
    /// that no keychain keeps lie beside it.
    pub fn new(database: PathBuf, engine: Arc<LocalEngine>, library: ModelLibrary) -> Self {
        let keys = Keys::new(database.parent().map(Path::to_path_buf).unwrap_or_default());
        let requests = Requests::default();
        Self {
            server: LocalServer::new(engine.clone(), requests.clone(), keys.clone()),
            engine,
            library,
            attachments: Arc::default(),
            requests,
            remotes: RemoteServers::new(keys.clone()),
            keys,
            settings: Arc::default(),
            benchmark: Arc::default(),
            window: Arc::default(),
            last_end: Arc::new(Mutex::new(LastEnd::Clean)),
            database,
            history: Arc::default(),
        }
    }

    /// The history, opened if it is not. A failure is tried again with the next call, so that a person who freed
    /// space or closed another Braid can go on.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub async fn history(&self) -> Result<&History, AppError> {
        self.history.get_or_try_init(|| self.open_history()).await
    }

    async fn open_history(&self) -> Result<History, AppError> {
        let history = self.open_when_free().await.inspect_err(|error| {
            tracing::error!(error = crate::error::in_full(error), "the history cannot be opened");
        })?;
        let settings = self.settings.read_from(&history).await?;
        self.library.read_from(&history).await?;
        self.remotes.read_from(&history).await?;
        self.server.read_from(&history).await?;
        self.engine.set_gate_mode(to_engine_mode(settings.gate_mode)).await;
        self.engine.set_overlap(to_engine_overlap(settings.overlap)).await;
        if let Some(folder) = self.database.parent() {
            *lock(&self.last_end) = last_end::begin(folder);
        }
        match history.purge_deleted(KEEP_DELETED).await {
            Ok(0) => {}
            Ok(purged) => tracing::info!(purged, "conversations deleted a month ago were erased"),
            Err(error) => tracing::warn!(%error, "old deleted conversations could not be erased"),
        }
        Ok(history)
    }

    /// Opens the history, waiting for a Braid that is on its way out.
    async fn open_when_free(&self) -> Result<History, HistoryError> {
        let began = Instant::now();
        loop {
            match History::open(&self.database).await {
                Err(HistoryError::AlreadyOpen { .. }) if began.elapsed() < LEAVING_LIMIT => {
                    sleep(Duration::from_millis(100)).await;
                }
                opened => return opened,
            }
        }
    }

    /// How the app ended before, to the first who asks; to others, that it ended as it should.
    pub fn take_last_end(&self) -> LastEnd {
        std::mem::replace(&mut *lock(&self.last_end), LastEnd::Clean)
    }

    /// Closes the history, if it was opened.
    pub async fn close_history(&self) {
        if let Some(history) = self.history.get() {
            history.clone().close().await;
        }
    }
}

/// The window's side of things.
#[derive(Default)]
pub struct WindowState {
    is_started: AtomicBool,
    alive_at: Mutex<Option<Instant>>,
    page_deaths: Mutex<Option<UnboundedSender<()>>>,
    menu: Mutex<Option<Channel<MenuItem>>>,
    drops: Mutex<Option<Channel<Option<FileDrop>>>>,
    watch: AtomicU64,
    models_watch: AtomicU64,
}

impl WindowState {
    /// Notes that the UI runs.
    pub fn note_start(&self) {
        self.note_alive();
        self.is_started.store(true, Ordering::Relaxed);
    }

    /// Notes that a page begins to load: the UI has to start anew.
    pub fn note_page_load(&self) {
        self.is_started.store(false, Ordering::Relaxed);
    }

    /// Notes that the page does its work.
    pub fn note_alive(&self) {
        *lock(&self.alive_at) = Some(Instant::now());
    }

    /// When the page last did its work; now, if it never has.
    pub fn alive_at(&self) -> Instant {
        lock(&self.alive_at).unwrap_or_else(Instant::now)
    }

    /// Has `deaths` told when the page's process dies.
    pub fn tell_page_deaths(&self, deaths: UnboundedSender<()>) {
        *lock(&self.page_deaths) = Some(deaths);
    }

    /// Notes that the page's process died.
    pub fn note_page_death(&self) {
        if let Some(deaths) = &*lock(&self.page_deaths) {
            // The watchdog lives as long as the app.
            let _ = deaths.send(());
        }
    }

    /// Has `chosen` told what is chosen in the menu bar, in place of a page before.
    pub fn watch_menu(&self, chosen: Channel<MenuItem>) {
        *lock(&self.menu) = Some(chosen);
    }

    /// Tells the page what was chosen in the menu bar.
    pub fn tell_menu(&self, item: MenuItem) {
        if let Some(chosen) = &*lock(&self.menu) {
            // A page that is gone misses a click at most.
            let _ = chosen.send(item);
        }
    }

    /// Has `drops` told of files over the window, in place of a page before.
    pub fn watch_drops(&self, drops: Channel<Option<FileDrop>>) {
        *lock(&self.drops) = Some(drops);
    }

    /// Tells the page of files over the window; `None`: they are gone again.
    pub fn tell_drop(&self, drop: Option<FileDrop>) {
        if let Some(drops) = &*lock(&self.drops) {
            // A page that is gone misses nothing that stays.
            let _ = drops.send(drop);
        }
    }

    /// Whether the UI of the current page runs.
    pub fn is_started(&self) -> bool {
        self.is_started.load(Ordering::Relaxed)
    }

    /// Begins a watch of the engine and ends the one before: its page is gone, though its channel cannot tell.
    pub fn begin_watch(&self) -> u64 {
        self.watch.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether no later watch has begun.
    pub fn is_current_watch(&self, watch: u64) -> bool {
        self.watch.load(Ordering::Relaxed) == watch
    }
    /// As [`Self::begin_watch`], of the models.
    pub fn begin_models_watch(&self) -> u64 {
        self.models_watch.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// As [`Self::is_current_watch`], of the models.
    pub fn is_current_models_watch(&self, watch: u64) -> bool {
        self.models_watch.load(Ordering::Relaxed) == watch
    }
}

/// Every change under these locks is a single assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
