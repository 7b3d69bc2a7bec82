//! The thread that owns the backend, and the handle that everybody else holds.

mod heartbeat;

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use text::Tokenizer;
use tokio::sync::watch;

use crate::{
    BackendError, EngineError, RequestId,
    backend::{Backend, BackendFacts},
    clock::SystemClock,
    engine::Engine,
    error::panic_message,
    event::EventReceiver,
    gate::GateMode,
    metrics::steps::StepStats,
    overlap::OverlapMode,
    request::{Intake, NewRequest, OwnerId, Submission, check},
    status::{EnginePhase, EngineSnapshot},
};

use heartbeat::Heartbeat;
pub use heartbeat::{Pulse, STUCK_AFTER};

/// Least time between two snapshots while nothing but progress is to be told.
const SNAPSHOT_EVERY: Duration = Duration::from_millis(100);

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

enum Command {
    Submit(Box<Submission>),
    Cancel(RequestId),
    Forget(OwnerId),
    SetGateMode(GateMode),
    SetOverlap(OverlapMode),
    ShutDown,
}

/// Owns the engine's thread. Dropping it asks the thread to stop and waits until it has.
pub struct EngineThread {
    commands: mpsc::Sender<Command>,
    thread: Option<JoinHandle<()>>,
}

/// Reaches the engine from any thread. No method waits for the engine; [`EngineHandle::submit`] takes as long as the
/// request's grammar takes to compile.
#[derive(Clone)]
pub struct EngineHandle {
    commands: mpsc::Sender<Command>,
    intake: Intake,
    status: watch::Receiver<Arc<EngineSnapshot>>,
    heartbeat: Heartbeat,
}

impl EngineThread {
    /// Starts the thread and returns at once; `build` runs on it, so `B` need not be `Send`. The status tells when
    /// the backend is ready, or why it is not.
    ///
    /// # Errors
    /// The system's own, if it cannot start a thread.
    pub fn spawn<B: Backend + 'static>(
        config: EngineConfig,
        build: impl FnOnce() -> Result<B, BackendError> + Send + 'static,
    ) -> io::Result<(Self, EngineHandle)> {
        let (commands, inbox) = mpsc::channel();
        let first = EngineSnapshot {
            phase: EnginePhase::Loading,
            facts: None,
            gate_mode: config.gate_mode,
            overlap: config.overlap,
            allowed_rows: 0,
            rows: Vec::new(),
            steps: StepStats::default(),
            memory: None,
            ledger: None,
        };
        let (publish, status) = watch::channel(Arc::new(first));
        let intake = Intake::new(config.max_queued, config.tokenizer.clone());
        let heartbeat = Heartbeat::new(Instant::now());
        let handle = EngineHandle {
            commands: commands.clone(),
            intake: intake.clone(),
            status,
            heartbeat: heartbeat.clone(),
        };
        let publisher = Publisher { publish, published_at: Instant::now(), heartbeat };
        let run = move || run(config, intake, build, &inbox, publisher);
        let thread = std::thread::Builder::new().name("engine".into()).spawn(run)?;
        Ok((Self { commands, thread: Some(thread) }, handle))
    }

    /// Ends every request and the thread, and waits until it has ended.
    pub fn shutdown(self) {}
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
    /// [`EngineError::NotReady`] while the model loads; [`EngineError::Stopped`] or the error that stopped the engine
    /// afterwards; [`EngineError::EmptyPrompt`], [`EngineError::PromptTooLong`], [`EngineError::UnknownToken`],
    /// [`EngineError::TooLarge`], [`EngineError::QueueFull`]; of a grammar [`EngineError::Grammar`],
    /// [`EngineError::GrammarDeadEnd`] or [`EngineError::GrammarFailed`].
    pub fn submit(&self, request: NewRequest) -> Result<(RequestId, EventReceiver), EngineError> {
        let (submission, receiver) = check(request, &self.ready_facts()?, &self.intake)?;
        let id = submission.id;
        match self.commands.send(Command::Submit(Box::new(submission))) {
            Ok(()) => Ok((id, receiver)),
            // The thread publishes why it ends before it stops listening.
            Err(_) => Err(self.ready_facts().err().unwrap_or(EngineError::Stopped)),
        }
    }

    /// Ends a request at the next boundary. Does nothing if it has ended.
    pub fn cancel(&self, id: RequestId) {
        self.send(Command::Cancel(id));
    }

    /// Frees the KV snapshots that only `owner`'s requests have left behind. Those still running leave none.
    pub fn forget(&self, owner: OwnerId) {
        self.send(Command::Forget(owner));
    }

    /// Sets the mode of the gate from the next step on.
    pub fn set_gate_mode(&self, mode: GateMode) {
        self.send(Command::SetGateMode(mode));
    }

    /// Sets whether forward passes may be submitted ahead, from the next step on.
    pub fn set_overlap(&self, overlap: OverlapMode) {
        self.send(Command::SetOverlap(overlap));
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
            // The thread holds the other end as long as it runs.
            Err(_) => Pulse::Dead,
        }
    }

    fn ready_facts(&self) -> Result<BackendFacts, EngineError> {
        let snapshot = self.status.borrow();
        match (&snapshot.phase, &snapshot.facts) {
            (EnginePhase::Ready, Some(facts)) => Ok(facts.clone()),
            (EnginePhase::Failed(error), _) => Err(error.clone()),
            (EnginePhase::Stopped, _) => Err(EngineError::Stopped),
            (EnginePhase::Loading | EnginePhase::Ready, _) => Err(EngineError::NotReady),
        }
    }

    fn send(&self, command: Command) {
        // A stopped engine has nothing left to cancel or to set.
        let _ = self.commands.send(command);
    }
}

/// Tells the world how the engine is.
struct Publisher {
    publish: watch::Sender<Arc<EngineSnapshot>>,
    published_at: Instant,
    heartbeat: Heartbeat,
}

impl Publisher {
    fn publish(&mut self, snapshot: EngineSnapshot) {
        self.published_at = Instant::now();
        self.publish.send_replace(Arc::new(snapshot));
    }

    fn is_due(&self) -> bool {
        self.published_at.elapsed() >= SNAPSHOT_EVERY
    }

    /// Publishes the last snapshot of an engine's life: everything as it was, but no rows.
    fn publish_end(&mut self, phase: EnginePhase) {
        let latest = self.publish.borrow().as_ref().clone();
        self.publish(EngineSnapshot { phase, rows: Vec::new(), ..latest });
    }
}

fn run<B: Backend>(
    config: EngineConfig,
    intake: Intake,
    build: impl FnOnce() -> Result<B, BackendError>,
    inbox: &mpsc::Receiver<Command>,
    mut publisher: Publisher,
) {
    let backend = match catch_unwind(AssertUnwindSafe(build)) {
        Ok(Ok(backend)) => backend,
        Ok(Err(error)) => return publisher.publish_end(EnginePhase::Failed(EngineError::Load(error.into()))),
        Err(panic) => return publisher.publish_end(EnginePhase::Failed(panicked(panic.as_ref()))),
    };
    let mut engine = Engine::with_queue(config, backend, Arc::new(SystemClock), intake);
    publisher.publish(engine.snapshot(EnginePhase::Ready));
    let served = catch_unwind(AssertUnwindSafe(|| serve(&mut engine, inbox, &mut publisher)));
    let error = match served {
        Ok(Ok(())) => EngineError::Stopped,
        Ok(Err(error)) => error,
        Err(panic) => panicked(panic.as_ref()),
    };
    if !matches!(error, EngineError::Stopped) {
        tracing::error!(error = &error as &dyn std::error::Error, "the engine gave up");
    }
    // First the phase: whoever learns of an ended request must find the engine ended too.
    publisher.publish_end(match &error {
        EngineError::Stopped => EnginePhase::Stopped,
        error => EnginePhase::Failed(error.clone()),
    });
    while let Ok(command) = inbox.try_recv() {
        // What was asked for in the meantime ends like the rest.
        let _ = obey(&mut engine, command);
    }
    engine.fail_all(&error);
}

fn panicked(payload: &(dyn std::any::Any + Send)) -> EngineError {
    EngineError::Panicked { message: panic_message(payload) }
}

/// Runs the engine until it is asked to stop, or has to.
fn serve<B: Backend>(
    engine: &mut Engine<B>,
    inbox: &mpsc::Receiver<Command>,
    publisher: &mut Publisher,
) -> Result<(), EngineError> {
    loop {
        if engine.is_idle() {
            publisher.heartbeat.rest();
            publisher.publish(engine.snapshot(EnginePhase::Ready));
            let Ok(command) = inbox.recv() else { return Ok(()) };
            if obey(engine, command).is_break() {
                return Ok(());
            }
        }
        while let Ok(command) = inbox.try_recv() {
            if obey(engine, command).is_break() {
                return Ok(());
            }
        }
        publisher.heartbeat.beat(Instant::now());
        engine.step()?;
        if engine.take_news() || publisher.is_due() {
            publisher.publish(engine.snapshot(EnginePhase::Ready));
        }
    }
}

fn obey<B: Backend>(engine: &mut Engine<B>, command: Command) -> std::ops::ControlFlow<()> {
    match command {
        Command::Submit(submission) => engine.enqueue(*submission),
        Command::Cancel(id) => engine.cancel(id),
        Command::Forget(owner) => engine.forget(owner),
        Command::SetGateMode(mode) => engine.set_gate_mode(mode),
        Command::SetOverlap(overlap) => engine.set_overlap(overlap),
        Command::ShutDown => return std::ops::ControlFlow::Break(()),
    }
    std::ops::ControlFlow::Continue(())
}
