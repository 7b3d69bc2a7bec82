//! The local engine's life: find a model, load it, put another one in its place, unload it, restart, end.

mod link;
mod loads;
mod source;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    time::Duration,
};

use engine::{
    EngineConfig, EngineError, EngineHandle, EnginePhase, EngineThread, FreedMemory, GateMode, OverlapMode,
    OwnerId, Pulse, Replace,
};
use model_hub::ModelFolder;
use text::Tokenizer;
use tokio::sync::watch;

use crate::error::AppError;
pub use link::{EngineLink, RunningEngine};
use loads::Chosen;
pub use loads::{LoadFailure, LoadProgress, LoadState};
pub use source::{EngineSource, LoadRequest, MemoryPolicy, MlxSource, ModelStart, Preflight, read_config};

/// How long a thread that was asked to end may take; after that it is left behind and its answers are given up.
pub const SHUTDOWN_LIMIT: Duration = Duration::from_secs(2);

/// How long unloading may take until its figures are no longer waited for.
const UNLOAD_LIMIT: Duration = Duration::from_secs(10);

/// Owns the engine's thread and tells everybody how to reach it.
///
/// At most one load is under way. It is given a number; what a load with a lower number than a later one comes to is
/// no longer of interest.
pub struct LocalEngine {
    source: Box<dyn EngineSource>,
    link: watch::Sender<EngineLink>,
    loads: watch::Sender<LoadState>,
    owned: Mutex<Owned>,
    // One start at a time; the guarded value is how to start.
    wishes: tokio::sync::Mutex<Wishes>,
}

/// How the engine is to work; kept for later starts.
#[derive(Clone, Default)]
struct Wishes {
    gate: GateMode,
    overlap: OverlapMode,
    preferred: Option<String>,
}

#[derive(Default)]
struct Owned {
    thread: Option<OwnedThread>,
    /// Number of the latest load.
    newest: u64,
    /// Number of the load whose model the link leads to.
    shown: u64,
    /// What that load was to load.
    linked: Option<Chosen>,
    /// The load under way.
    pending: Option<EngineHandle>,
    /// The latest model that was ready.
    loaded: Option<Chosen>,
}

struct OwnedThread {
    thread: EngineThread,
    abandon: watch::Sender<bool>,
}

/// A load that has begun.
struct Launch {
    number: u64,
    running: RunningEngine,
    chosen: Chosen,
    replace: Replace,
    /// Whether there is no other model to go back to.
    is_last_resort: bool,
}

impl LocalEngine {
    /// An engine that is not started yet.
    pub fn new(source: impl EngineSource + 'static) -> Self {
        Self {
            source: Box::new(source),
            link: watch::channel(EngineLink::Starting).0,
            loads: watch::channel(LoadState::default()).0,
            owned: Mutex::default(),
            wishes: tokio::sync::Mutex::default(),
        }
    }

    /// How the engine can be reached, now and after each change.
    pub fn link(&self) -> watch::Receiver<EngineLink> {
        self.link.subscribe()
    }

    /// The load under way, and how the latest one failed, now and after each change.
    pub fn loads(&self) -> watch::Receiver<LoadState> {
        self.loads.subscribe()
    }

    /// The model that takes requests, and its context window in tokens.
    pub fn loaded(&self) -> Option<(Arc<ModelFolder>, u32)> {
        match &*self.link.borrow() {
            EngineLink::Running(running) => Some((running.model.clone(), running.context_tokens()?)),
            EngineLink::Starting | EngineLink::Unavailable(_) => None,
        }
    }

    /// Names the model that a start without a loaded model is to take, if it can be used.
    pub async fn prefer(&self, model_id: Option<String>) {
        self.wishes.lock().await.preferred = model_id;
    }

    // Starting.

    /// Starts the engine on a new thread, ending the one before: with the model that was loaded last, else with one that
    /// is found. Failures are told through [`LocalEngine::link`]; a model that another one had to stand in for through
    /// [`LocalEngine::loads`].
    pub async fn restart(self: &Arc<Self>) {
        let wishes = self.wishes.lock().await;
        self.forget_loads(EngineLink::Starting);
        self.loads.send_replace(LoadState::default());
        let (engine, wishes_now) = (self.clone(), wishes.clone());
        let started = tokio::task::spawn_blocking(move || {
            engine.end_thread();
            let (chosen, preflight) = engine.choose(wishes_now.preferred.as_deref())?;
            engine.launch(chosen, preflight, &wishes_now, true)
        });
        match started.await.unwrap_or(Err(AppError::TaskPanicked)) {
            Ok(launch) => self.follow_apart(launch),
            Err(error) => {
                tracing::error!(error = crate::error::in_full(&error), "there is no engine");
                self.link.send_replace(EngineLink::Unavailable(error));
            }
        }
    }

    fn choose(&self, preferred: Option<&str>) -> Result<(Chosen, Preflight), AppError> {
        let loaded = self.owned().loaded.clone();
        if let Some(chosen) = loaded {
            match self.source.preflight(&chosen.model, chosen.request) {
                Ok(preflight) => return Ok((chosen, preflight)),
                Err(error) => self.loads.send_modify(|loads| loads.fail(&chosen.model.id, &error)),
            }
        }
        let found = self.source.find_model(preferred)?;
        if let Some((id, error)) = &found.passed_over {
            self.loads.send_modify(|loads| loads.fail(id, error));
        }
        // Nobody is there to choose a smaller context.
        let request = LoadRequest { memory: MemoryPolicy::TakeOffer, ..LoadRequest::default() };
        let preflight = self.source.preflight(&found.model, request)?;
        Ok((Chosen { model: Arc::new(found.model), request }, preflight))
    }

    /// Loads a model and lets it answer in place of the present one, which goes on meanwhile if memory allows both.
    /// Returns once the load has begun; [`LocalEngine::loads`] tells how it goes on. If it fails after all, the present
    /// model stays, or comes back.
    ///
    /// # Errors
    /// What can be known before weights are read, and then nothing has changed: [`AppError::UnsupportedModel`],
    /// [`AppError::BrokenModel`], [`AppError::Tokenizer`], [`AppError::Prompt`], [`AppError::ModelTooLarge`],
    /// [`AppError::Device`]; [`AppError::EngineThread`].
    pub async fn load(self: &Arc<Self>, model: ModelFolder, request: LoadRequest) -> Result<(), AppError> {
        let wishes = self.wishes.lock().await;
        let chosen = Chosen { model: Arc::new(model), request };
        let launch = self.check_and_launch(chosen, &wishes, false).await?;
        self.loads.send_modify(|loads| loads.failure = None);
        self.follow_apart(launch);
        Ok(())
    }

    async fn check_and_launch(
        self: &Arc<Self>,
        chosen: Chosen,
        wishes: &Wishes,
        is_last_resort: bool,
    ) -> Result<Launch, AppError> {
        let (engine, wishes) = (self.clone(), wishes.clone());
        let started = tokio::task::spawn_blocking(move || {
            let preflight = engine.source.preflight(&chosen.model, chosen.request)?;
            if !engine.has_sound_thread() {
                engine.end_thread();
            }
            engine.launch(chosen, preflight, &wishes, is_last_resort)
        });
        started.await.unwrap_or(Err(AppError::TaskPanicked))
    }

    /// Hands a model to the thread, or to a new one.
    fn launch(
        &self,
        chosen: Chosen,
        preflight: Preflight,
        wishes: &Wishes,
        is_last_resort: bool,
    ) -> Result<Launch, AppError> {
        let Preflight { recommended, tokenizer, context_tokens, replace } = preflight;
        let config = EngineConfig {
            gate_mode: wishes.gate,
            overlap: wishes.overlap,
            ..EngineConfig::new(tokenizer.clone())
        };
        let start = ModelStart { config, model: &chosen.model, context_tokens };
        let mut owned = self.owned();
        let (handle, abandoned) = match &owned.thread {
            Some(own) => (self.source.replace(&own.thread, start, replace), own.abandon.subscribe()),
            None => {
                let spawned = self.source.spawn(start);
                let (thread, handle) = spawned.map_err(|error| AppError::EngineThread(Arc::new(error)))?;
                let (abandon, abandoned) = watch::channel(false);
                owned.thread = Some(OwnedThread { thread, abandon });
                (handle, abandoned)
            }
        };
        tracing::info!(model = %chosen.model.path.display(), ?replace, "a model is being loaded");
        owned.newest += 1;
        owned.pending = Some(handle.clone());
        self.loads.send_modify(|loads| loads.begin(&chosen.model));
        let model = chosen.model.clone();
        let running = RunningEngine { handle, tokenizer, model, recommended, abandoned };
        let launch = Launch { number: owned.newest, running, chosen, replace, is_last_resort };
        if self.is_answering() {
            owned.loaded = owned.linked.clone();
        } else {
            self.show(&mut owned, &launch);
        }
        Ok(launch)
    }

    fn is_answering(&self) -> bool {
        match &*self.link.borrow() {
            EngineLink::Running(running) => matches!(running.readiness(), Some(Ok(()))),
            EngineLink::Starting | EngineLink::Unavailable(_) => false,
        }
    }

    /// Whether another model can be given to the thread. One that failed at work may have left it in any state.
    fn has_sound_thread(&self) -> bool {
        let EngineLink::Running(running) = &*self.link.borrow() else { return true };
        let is_dead = running.handle.pulse() == Pulse::Dead;
        if matches!(running.handle.pulse(), Pulse::Stuck { .. }) {
            return false;
        }
        match &running.handle.status().borrow().phase {
            EnginePhase::Loading { .. } | EnginePhase::Ready => !is_dead,
            EnginePhase::Failed(EngineError::Load(_) | EngineError::LoadCancelled) => true,
            EnginePhase::Replaced | EnginePhase::Unloaded => true,
            EnginePhase::Failed(_) | EnginePhase::Stopped => false,
        }
    }

    // How a load goes on.

    fn follow_apart(self: &Arc<Self>, launch: Launch) {
        tokio::spawn(self.clone().follow(launch));
    }

    async fn follow(self: Arc<Self>, launch: Launch) {
        let mut status = launch.running.handle.status();
        let outcome = loop {
            let phase = status.borrow_and_update().phase.clone();
            match phase {
                EnginePhase::Loading { done_bytes, total_bytes } => {
                    self.note_progress(&launch, done_bytes, total_bytes);
                }
                EnginePhase::Ready | EnginePhase::Replaced => break Ok(()),
                EnginePhase::Failed(error) => break Err(error),
                EnginePhase::Unloaded => break Err(EngineError::ModelUnloaded),
                EnginePhase::Stopped => break Err(EngineError::Stopped),
            }
            if status.changed().await.is_err() {
                break Err(EngineError::Stopped);
            }
        };
        match outcome {
            Ok(()) => self.settle(&launch),
            Err(error) => {
                let previous = self.give_up(&launch, error.into());
                if let Some(previous) = previous {
                    // Boxed: a load that follows a load.
                    Box::pin(self.bring_back(previous)).await;
                }
            }
        }
    }

    fn note_progress(&self, launch: &Launch, done_bytes: u64, total_bytes: u64) {
        let mut owned = self.owned();
        if launch.number != owned.newest {
            return;
        }
        self.loads.send_modify(|loads| loads.advance(done_bytes, total_bytes));
        // The thread has unloaded the other model with the first slice.
        if launch.replace == Replace::UnloadFirst && total_bytes > 0 {
            self.show(&mut owned, launch);
        }
    }

    /// Lets the link lead to the model of a load, unless it leads to a later one.
    fn show(&self, owned: &mut Owned, launch: &Launch) {
        if launch.number > owned.shown {
            owned.shown = launch.number;
            owned.linked = Some(launch.chosen.clone());
            self.link.send_replace(EngineLink::Running(launch.running.clone()));
        }
    }

    fn settle(&self, launch: &Launch) {
        let mut owned = self.owned();
        self.show(&mut owned, launch);
        if owned.newest == launch.number {
            owned.pending = None;
            self.loads.send_modify(LoadState::end);
        }
        if owned.shown == launch.number {
            owned.loaded = owned.linked.clone();
        }
    }

    /// Notes that a load failed. Returns the model to bring back, if none is left.
    fn give_up(&self, launch: &Launch, error: AppError) -> Option<Chosen> {
        let mut owned = self.owned();
        if launch.number != owned.newest {
            return None;
        }
        let model = launch.chosen.model.path.display();
        tracing::warn!(%model, error = crate::error::in_full(&error), "a model was not loaded");
        owned.pending = None;
        self.loads.send_modify(|loads| loads.fail(&launch.chosen.model.id, &error));
        if self.is_answering() {
            return None;
        }
        let previous = owned.loaded.clone().filter(|_| !launch.is_last_resort);
        if previous.is_none() {
            self.link.send_replace(EngineLink::Unavailable(match error {
                AppError::Engine(EngineError::LoadCancelled) => EngineError::ModelUnloaded.into(),
                error => error,
            }));
        }
        previous
    }

    async fn bring_back(self: Arc<Self>, previous: Chosen) {
        let wishes = self.wishes.lock().await;
        if self.is_answering() || self.owned().pending.is_some() {
            // Somebody has chosen another one in the meantime.
            return;
        }
        match self.check_and_launch(previous, &wishes, true).await {
            Ok(launch) => self.follow_apart(launch),
            Err(error) => self.forget_loads(EngineLink::Unavailable(error)),
        }
    }

    /// Gives up the load under way. The present model stays, or comes back if it was unloaded for this.
    pub fn cancel_load(&self) {
        if let Some(handle) = &self.owned().pending {
            handle.cancel_load();
        }
    }

    // Ending.

    /// Unloads the model and gives up a load under way; the thread stays. Requests end with
    /// [`EngineError::ModelUnloaded`]. Returns what that gave back; `None` if no model was loaded.
    pub async fn unload(&self) -> Option<FreedMemory> {
        let _wishes = self.wishes.lock().await;
        self.forget_loads(EngineLink::Unavailable(EngineError::ModelUnloaded.into()));
        self.loads.send_modify(LoadState::end);
        let freed = self.owned().thread.as_ref().map(|own| own.thread.unload())?;
        tokio::time::timeout(UNLOAD_LIMIT, freed).await.ok()?.ok()
    }

    /// Makes every load so far one of the past, whatever it comes to.
    fn forget_loads(&self, link: EngineLink) {
        let mut owned = self.owned();
        owned.newest += 1;
        owned.shown = owned.newest;
        owned.pending = None;
        self.link.send_replace(link);
    }

    /// Ends the thread, waiting [`SHUTDOWN_LIMIT`] at most. Returns whether it ended.
    pub fn end_thread(&self) -> bool {
        let Some(OwnedThread { thread, abandon }) = self.owned().thread.take() else { return true };
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
        self.wishes.lock().await.gate = mode;
        self.handles().for_each(|handle| handle.set_gate_mode(mode));
    }

    /// Sets whether forward passes may overlap the reading of tokens, now and for later starts.
    pub async fn set_overlap(&self, mode: OverlapMode) {
        self.wishes.lock().await.overlap = mode;
        self.handles().for_each(|handle| handle.set_overlap(mode));
    }

    /// The models there are: the one that answers, and the one that is being loaded.
    fn handles(&self) -> impl Iterator<Item = EngineHandle> {
        let running = match &*self.link.borrow() {
            EngineLink::Running(running) => Some(running.handle.clone()),
            EngineLink::Starting | EngineLink::Unavailable(_) => None,
        };
        let pending = self.owned().pending.clone();
        running.into_iter().chain(pending)
    }

    /// Frees what the engine keeps for the next requests of `owner`.
    pub fn forget(&self, owner: OwnerId) {
        if let EngineLink::Running(running) = &*self.link.borrow() {
            running.handle.forget(owner);
        }
    }

    /// The engine that was started, if one was.
    pub fn running(&self) -> Option<RunningEngine> {
        match &*self.link.borrow() {
            EngineLink::Running(running) => Some(running.clone()),
            EngineLink::Starting | EngineLink::Unavailable(_) => None,
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
                            () = running.changed(status) => {}
                            _ = link.changed() => {}
                        },
                    }
                }
            }
        }
    }

    fn owned(&self) -> MutexGuard<'_, Owned> {
        // Every change is complete when it panics, if it ever does.
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
