//! The local engine's life: find a model, start the thread, restart it, end it.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::Duration,
};

use engine::{
    EngineConfig, EngineError, EngineHandle, EnginePhase, EngineThread, GateMode, OverlapMode, OwnerId,
};
use mlx_backend::{LoadOptions, MlxBackend};
use model_hub::ModelFolder;
use text::Tokenizer;
use tokio::sync::watch;

use crate::{error::AppError, models::ModelPlaces};

/// Rows that one batch holds at most; further requests wait for a slot.
const MAX_ROWS: usize = 8;

/// How long a thread that was asked to end may take; after that it is left behind and its answers are given up.
pub const SHUTDOWN_LIMIT: Duration = Duration::from_secs(2);

/// Where an engine comes from: models on disk run on MLX, or a scripted one in tests.
pub trait EngineSource: Send + Sync {
    /// Finds the model to run and reads its tokenizer.
    ///
    /// # Errors
    /// Why there is none.
    fn open_model(&self) -> Result<(ModelFolder, Tokenizer), AppError>;

    /// Starts the thread that loads and runs the model.
    ///
    /// # Errors
    /// The system's, if it gives no thread.
    fn spawn(&self, config: EngineConfig, model: &ModelFolder) -> io::Result<(EngineThread, EngineHandle)>;
}

/// Runs the first usable model of these places on MLX.
pub struct MlxSource(pub ModelPlaces);

impl EngineSource for MlxSource {
    fn open_model(&self) -> Result<(ModelFolder, Tokenizer), AppError> {
        let model = self.0.first_usable()?;
        let tokenizer = Tokenizer::from_dir(&model.path)
            .map_err(|source| AppError::Tokenizer { path: model.path.clone(), source: Arc::new(source) })?;
        Ok((model, tokenizer))
    }

    fn spawn(&self, config: EngineConfig, model: &ModelFolder) -> io::Result<(EngineThread, EngineHandle)> {
        let folder = model.path.clone();
        let tokenizer_tokens = u32::try_from(config.tokenizer.vocab_tokens()).unwrap_or(u32::MAX);
        let options = LoadOptions::new(MAX_ROWS, tokenizer_tokens);
        EngineThread::spawn(config, move || Ok(MlxBackend::start_load(&folder, options)))
    }
}

/// The engine as the rest of the app finds it.
#[derive(Clone)]
pub enum EngineLink {
    /// A model is being looked for.
    Starting,
    /// There is no engine, and why.
    Unavailable(AppError),
    /// A thread was started; its snapshots say how it is.
    Running(RunningEngine),
}

/// A started engine and the model it was started for.
#[derive(Clone)]
pub struct RunningEngine {
    /// Reaches the engine.
    pub handle: EngineHandle,
    /// Tokenizer and chat template of the model.
    pub tokenizer: Tokenizer,
    /// The model folder.
    pub model: Arc<ModelFolder>,
    abandoned: watch::Receiver<bool>,
}

impl RunningEngine {
    /// Waits until the engine was replaced although its thread did not end: it will never answer again.
    pub async fn abandoned(&self) {
        let mut abandoned = self.abandoned.clone();
        if abandoned.wait_for(|is_abandoned| *is_abandoned).await.is_err() {
            // The thread ended in good order: its requests have had their last event.
            std::future::pending::<()>().await;
        }
    }

    /// Device that the model runs on, in words; `None` until it is loaded.
    pub fn device(&self) -> Option<String> {
        self.handle.status().borrow().facts.as_ref().map(|facts| facts.device.clone())
    }

    /// Whether requests can be submitted now, later (`None`), or never again.
    fn readiness(&self) -> Option<Result<(), AppError>> {
        let status = self.handle.status();
        let phase = status.borrow().phase.clone();
        match phase {
            EnginePhase::Loading { .. } if status.has_changed().is_err() => {
                Some(Err(EngineError::Stopped.into()))
            }
            EnginePhase::Loading { .. } => None,
            EnginePhase::Ready if status.has_changed().is_err() => Some(Err(EngineError::Stopped.into())),
            EnginePhase::Ready => Some(Ok(())),
            EnginePhase::Failed(error) => Some(Err(error.into())),
            EnginePhase::Replaced => Some(Err(EngineError::ModelReplaced.into())),
            EnginePhase::Unloaded => Some(Err(EngineError::ModelUnloaded.into())),
            EnginePhase::Stopped => Some(Err(EngineError::Stopped.into())),
        }
    }
}

/// Owns the engine's thread and tells everybody how to reach it.
pub struct LocalEngine {
    source: Box<dyn EngineSource>,
    link: watch::Sender<EngineLink>,
    owned: Mutex<Option<OwnedThread>>,
    // One start at a time; the guarded value is how to start.
    modes: tokio::sync::Mutex<Modes>,
}

/// How the engine is to work; kept for later starts.
#[derive(Clone, Copy, Default)]
struct Modes {
    gate: GateMode,
    overlap: OverlapMode,
}

struct OwnedThread {
    thread: EngineThread,
    abandon: watch::Sender<bool>,
}

impl LocalEngine {
    /// An engine that is not started yet.
    pub fn new(source: impl EngineSource + 'static) -> Self {
        let (link, _) = watch::channel(EngineLink::Starting);
        Self { source: Box::new(source), link, owned: Mutex::default(), modes: Default::default() }
    }

    /// How the engine can be reached, now and after each change.
    pub fn link(&self) -> watch::Receiver<EngineLink> {
        self.link.subscribe()
    }

    /// Starts the engine, ending the one before. Failures are told through [`LocalEngine::link`].
    pub async fn restart(self: &Arc<Self>) {
        let modes = self.modes.lock().await;
        self.link.send_replace(EngineLink::Starting);
        let (engine, modes_now) = (self.clone(), *modes);
        let started = tokio::task::spawn_blocking(move || {
            engine.end_thread();
            engine.start(modes_now)
        });
        let link = match started.await {
            Ok(Ok(running)) => EngineLink::Running(running),
            Ok(Err(error)) => EngineLink::Unavailable(error),
            Err(_) => EngineLink::Unavailable(AppError::TaskPanicked),
        };
        if let EngineLink::Unavailable(error) = &link {
            tracing::error!(error = crate::error::in_full(error), "there is no engine");
        }
        self.link.send_replace(link);
    }

    fn start(&self, modes: Modes) -> Result<RunningEngine, AppError> {
        let (model, tokenizer) = self.source.open_model()?;
        let config = EngineConfig {
            gate_mode: modes.gate,
            overlap: modes.overlap,
            ..EngineConfig::new(tokenizer.clone())
        };
        let (thread, handle) =
            self.source.spawn(config, &model).map_err(|error| AppError::EngineThread(Arc::new(error)))?;
        tracing::info!(model = %model.path.display(), "engine started");
        let (abandon, abandoned) = watch::channel(false);
        *self.owned() = Some(OwnedThread { thread, abandon });
        Ok(RunningEngine { handle, tokenizer, model: Arc::new(model), abandoned })
    }

    /// Ends the thread, waiting [`SHUTDOWN_LIMIT`] at most. Returns whether it ended.
    pub fn end_thread(&self) -> bool {
        let Some(OwnedThread { thread, abandon }) = self.owned().take() else { return true };
        let (ended, wait) = mpsc::channel();
        std::thread::spawn(move || {
            thread.shutdown();
            // Nobody may be waiting any more.
            let _ = ended.send(());
        });
        let is_ended = wait.recv_timeout(SHUTDOWN_LIMIT).is_ok();
        if !is_ended {
            tracing::error!("the engine's thread does not end; it is left behind");
            abandon.send_replace(true);
        }
        is_ended
    }

    /// Sets the gate's mode, now and for later starts.
    pub async fn set_gate_mode(&self, mode: GateMode) {
        self.modes.lock().await.gate = mode;
        if let EngineLink::Running(running) = &*self.link.borrow() {
            running.handle.set_gate_mode(mode);
        }
    }

    /// Sets whether forward passes may overlap the reading of tokens, now and for later starts.
    pub async fn set_overlap(&self, mode: OverlapMode) {
        self.modes.lock().await.overlap = mode;
        if let EngineLink::Running(running) = &*self.link.borrow() {
            running.handle.set_overlap(mode);
        }
    }

    /// Frees what the engine keeps for the next requests of `owner`.
    pub fn forget(&self, owner: OwnerId) {
        if let EngineLink::Running(running) = &*self.link.borrow() {
            running.handle.forget(owner);
        }
    }

    /// Tokenizer of the model that was started, loaded or still loading.
    pub fn tokenizer(&self) -> Option<Tokenizer> {
        match &*self.link.borrow() {
            EngineLink::Running(running) => Some(running.tokenizer.clone()),
            EngineLink::Starting | EngineLink::Unavailable(_) => None,
        }
    }

    /// Checks that a request has a chance: the engine is ready or on its way.
    ///
    /// # Errors
    /// Why there is no engine.
    pub fn check(&self) -> Result<(), AppError> {
        match &*self.link.borrow() {
            EngineLink::Starting => Ok(()),
            EngineLink::Unavailable(error) => Err(error.clone()),
            EngineLink::Running(running) => running.readiness().unwrap_or(Ok(())),
        }
    }

    /// Waits until the engine takes requests.
    ///
    /// # Errors
    /// Why it never will.
    pub async fn ready(&self) -> Result<RunningEngine, AppError> {
        let mut link = self.link.subscribe();
        loop {
            let current = link.borrow_and_update().clone();
            match current {
                EngineLink::Unavailable(error) => return Err(error),
                EngineLink::Starting => {
                    link.changed().await.map_err(|_| EngineError::Stopped)?;
                }
                EngineLink::Running(running) => {
                    let mut status = running.handle.status();
                    status.mark_unchanged();
                    match running.readiness() {
                        Some(readiness) => return readiness.map(|()| running),
                        None => tokio::select! {
                            _ = status.changed() => {}
                            _ = link.changed() => {}
                        },
                    }
                }
            }
        }
    }

    fn owned(&self) -> std::sync::MutexGuard<'_, Option<OwnedThread>> {
        // Held for a single assignment or take.
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
