//! The thread that owns the backend, and the handles that everybody else holds: one per model that was loaded.

mod heartbeat;
mod host;
mod load;
mod publisher;
mod served;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use text::Tokenizer;
use tokio::sync::{oneshot, watch};

use crate::{
    BackendError, EngineError, RequestId,
    backend::Backend,
    event::EventReceiver,
    gate::GateMode,
    grammar::GrammarCheck,
    loading::{FreedMemory, Loading, Replace},
    overlap::OverlapMode,
    params::GrammarSource,
    request::{Intake, NewRequest, OwnerId, check},
    status::EngineSnapshot,
};

use heartbeat::Heartbeat;
pub use heartbeat::{Pulse, STUCK_AFTER};
use host::{Command, Host, Steer};
use load::LoadOrder;
use publisher::{Publisher, Status, ready_facts};
use served::{Start, erase};

/// What an engine needs besides its backend.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Tokenizer of the loaded model.
    pub tokenizer: Tokenizer,
    /// Mode of the gate to start with.
    pub gate_mode: GateMode,
    /// Whether forward passes may be submitted ahead, to start with.
    pub overlap: OverlapMode,
    /// Requests that may wait for a slot.
    pub max_queued: usize,
    /// Time that one prefill chunk may take while rows decode.
    pub prefill_budget: Duration,
    /// Most device memory to plan with, in bytes; `None` leaves it to the backend's own limit, which holds anyway.
    pub max_memory_bytes: Option<u64>,
    /// Most bytes of KV snapshots kept; `None` allows a quarter of the limit. With 0, prompts that begin alike are read
    /// each on its own.
    pub max_snapshot_bytes: Option<u64>,
}

impl EngineConfig {
    /// Split gate, adaptive overlap, 64 waiting requests, chunks of 60 ms.
    pub fn new(tokenizer: Tokenizer) -> Self {
        Self {
            tokenizer,
            gate_mode: GateMode::default(),
            overlap: OverlapMode::default(),
            max_queued: 64,
            prefill_budget: Duration::from_millis(60),
            max_memory_bytes: None,
            max_snapshot_bytes: None,
        }
    }
}

/// Names a model from the beginning of its load on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ModelId(u64);

// One counter for all threads of the process.
static NEXT_MODEL: AtomicU64 = AtomicU64::new(1);

/// Owns the engine's thread. Dropping it asks the thread to stop and waits until it has.
///
/// At most one model answers and one more is being loaded. The thread stays when a model fails or is unloaded.
pub struct EngineThread {
    commands: mpsc::Sender<Command>,
    heartbeat: Heartbeat,
    thread: Option<JoinHandle<()>>,
}

/// Reaches one model from any thread. No method waits for the engine; [`EngineHandle::submit`] takes as long as the
/// request's grammar takes to compile, and its answer so far to follow. Once the model was replaced or unloaded, the handle refuses everything.
#[derive(Clone)]
pub struct EngineHandle {
    model: ModelId,
    commands: mpsc::Sender<Command>,
    intake: Intake,
    status: Status,
    heartbeat: Heartbeat,
}

impl EngineThread {
    /// Starts the thread and returns at once; `start` and what it returns run on the thread, so neither the load nor
    /// `B` need be `Send`. The status tells when the model is ready, or why it is not.
    ///
    /// # Errors
    /// The system's own, if it cannot start a thread.
    pub fn spawn<B, L>(
        config: EngineConfig,
        start: impl FnOnce() -> Result<L, BackendError> + Send + 'static,
    ) -> io::Result<(Self, EngineHandle)>
    where
        B: Backend + 'static,
        L: Loading<B> + 'static,
    {
        let (commands, inbox) = mpsc::channel();
        let heartbeat = Heartbeat::new(Instant::now());
        let (order, handle) = begin(&commands, &heartbeat, config, erase(start), Replace::Beside);
        let own = heartbeat.clone();
        let run = move || Host::new(inbox, own, order).run();
        let thread = std::thread::Builder::new().name("engine".into()).spawn(run)?;
        Ok((Self { commands, heartbeat, thread: Some(thread) }, handle))
    }

    /// Loads another model, in slices between the steps of the one that runs, and lets it answer once it is ready. A
    /// load already under way is given up. Returns at once: the new handle's status tells how the load goes.
    ///
    /// The handles of the model that was replaced end in [`crate::EnginePhase::Replaced`], its requests with
    /// [`EngineError::ModelReplaced`]. What becomes of it when the load fails or is cancelled, `replace` says.
    pub fn replace<B, L>(
        &self,
        config: EngineConfig,
        start: impl FnOnce() -> Result<L, BackendError> + Send + 'static,
        replace: Replace,
    ) -> EngineHandle
    where
        B: Backend + 'static,
        L: Loading<B> + 'static,
    {
        let (order, handle) = begin(&self.commands, &self.heartbeat, config, erase(start), replace);
        if let Err(mpsc::SendError(Command::Load(order))) = self.commands.send(Command::Load(Box::new(order)))
        {
            order.refuse();
        }
        handle
    }

    /// Unloads the model that runs, gives up a load under way, and keeps the thread. Requests end with
    /// [`EngineError::ModelUnloaded`].
    ///
    /// The receiver gets what was measured once that is done; it is closed without if no model was loaded.
    pub fn unload(&self) -> oneshot::Receiver<FreedMemory> {
        let (freed, receiver) = oneshot::channel();
        // A thread that has ended drops the sender.
        let _ = self.commands.send(Command::Unload(freed));
        receiver
    }

    /// Ends every request and the thread, and waits until it has ended.
    pub fn shutdown(self) {}
}

/// Prepares a load and the handle of its model.
fn begin(
    commands: &mpsc::Sender<Command>,
    heartbeat: &Heartbeat,
    config: EngineConfig,
    start: Start,
    replace: Replace,
) -> (LoadOrder, EngineHandle) {
    let (publisher, status) = Publisher::new(&config);
    let model = ModelId(NEXT_MODEL.fetch_add(1, Ordering::Relaxed));
    let intake = Intake::new(config.max_queued, config.tokenizer.clone());
    let handle = EngineHandle {
        model,
        commands: commands.clone(),
        intake: intake.clone(),
        status,
        heartbeat: heartbeat.clone(),
    };
    (LoadOrder { id: model, config, intake, publisher, start, replace }, handle)
}

impl Drop for EngineThread {
    fn drop(&mut self) {
        // The thread may have ended already.
        let _ = self.commands.send(Command::ShutDown);
        if let Some(thread) = self.thread.take() {
            // Panics are caught on the thread and reported through the status.
            let _ = thread.join();
        }
    }
}

impl EngineHandle {
    /// Checks a request and hands it to the engine.
    ///
    /// # Errors
    /// [`EngineError::NotReady`] while the model loads; [`EngineError::ModelReplaced`], [`EngineError::ModelUnloaded`],
    /// [`EngineError::Stopped`] or the error that ended the model afterwards; [`EngineError::EmptyPrompt`], [`EngineError::PromptTooLong`], [`EngineError::UnknownToken`],
    /// [`EngineError::TooLarge`], [`EngineError::QueueFull`]; of a grammar [`EngineError::Grammar`],
    /// [`EngineError::GrammarDeadEnd`] or [`EngineError::GrammarFailed`]; of an answer so far
    /// [`EngineError::AnswerEnded`], [`EngineError::AnswerRefused`] or [`EngineError::Text`].
    pub fn submit(&self, request: NewRequest) -> Result<(RequestId, EventReceiver), EngineError> {
        let (submission, receiver) = check(request, &ready_facts(&self.status.borrow())?, &self.intake)?;
        let id = submission.id;
        let submission = Box::new(submission);
        let command = Command::Submit { model: self.model, submission, status: self.status.clone() };
        match self.commands.send(command) {
            Ok(()) => Ok((id, receiver)),
            // The thread publishes why it ends before it stops listening.
            Err(_) => Err(ready_facts(&self.status.borrow()).err().unwrap_or(EngineError::Stopped)),
        }
    }

    /// Looks for everything that is wrong with a grammar, and for what of it has no effect, with the model's vocabulary.
    /// Works as long as the handle, whatever the model's phase; the first call takes as long as the first grammar does.
    pub fn check_grammar(&self, source: &GrammarSource) -> GrammarCheck {
        self.intake.check_grammar(source)
    }

    /// Ends a request at the next boundary. Does nothing if it has ended.
    pub fn cancel(&self, id: RequestId) {
        self.send(Steer::Cancel(id));
    }

    /// Frees the KV snapshots that only `owner`'s requests have left behind. Those still running leave none.
    pub fn forget(&self, owner: OwnerId) {
        self.send(Steer::Forget(owner));
    }

    /// Sets the mode of the gate from the next step on.
    pub fn set_gate_mode(&self, mode: GateMode) {
        self.send(Steer::SetGateMode(mode));
    }

    /// Sets whether forward passes may be submitted ahead, from the next step on.
    pub fn set_overlap(&self, overlap: OverlapMode) {
        self.send(Steer::SetOverlap(overlap));
    }

    /// Gives up this model's load: its status ends in [`EngineError::LoadCancelled`]. Does nothing once it is ready.
    pub fn cancel_load(&self) {
        let _ = self.commands.send(Command::CancelLoad(self.model));
    }

    /// Snapshots of the engine: at most ten a second while it works, and one at each change of the phase, of the
    /// gate's mode, or of the set of rows.
    pub fn status(&self) -> watch::Receiver<Arc<EngineSnapshot>> {
        self.status.clone()
    }

    /// Whether the engine's thread gets on with its work: a hang changes no snapshot.
    pub fn pulse(&self) -> Pulse {
        match self.status.has_changed() {
            Ok(_) => self.heartbeat.pulse(Instant::now()),
            // The thread holds the other end as long as it has the model.
            Err(_) => Pulse::Dead,
        }
    }

    fn send(&self, steer: Steer) {
        // An engine that has ended has nothing left to cancel or to set.
        let _ = self.commands.send(Command::Steer { model: self.model, steer });
    }
}
