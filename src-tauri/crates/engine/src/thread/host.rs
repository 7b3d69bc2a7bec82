//! What runs on the engine's thread: the model that answers, and the one that is being loaded.

use std::{
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    time::Instant,
};

use tokio::sync::oneshot;

use super::{
    ModelId,
    heartbeat::Heartbeat,
    load::{Load, LoadOrder},
    publisher::{Publisher, Status, ready_facts},
    served::{MakeEngine, Served},
};
use crate::{
    EngineError,
    error::panic_message,
    gate::GateMode,
    loading::{FreedMemory, LoadStep, Replace},
    overlap::OverlapMode,
    request::{OwnerId, RequestId, Submission},
    status::EnginePhase,
};

/// What the thread is asked to do.
pub(super) enum Command {
    /// `status`: what the model's handle sees, to know why there is no such model any more.
    Submit {
        model: ModelId,
        submission: Box<Submission>,
        status: Status,
    },
    Steer {
        model: ModelId,
        steer: Steer,
    },
    Load(Box<LoadOrder>),
    CancelLoad(ModelId),
    /// The memory that was freed is sent back; nothing if no model was loaded.
    Unload(oneshot::Sender<FreedMemory>),
    ShutDown,
}

/// What a model that is loaded, or being loaded, is asked to do. One that is gone has nothing left to do.
pub(super) enum Steer {
    Cancel(RequestId),
    Forget(OwnerId),
    SetGateMode(GateMode),
    SetOverlap(OverlapMode),
}

/// The model that answers.
struct Current {
    id: ModelId,
    engine: Box<dyn Served>,
    publisher: Publisher,
}

/// Everything on the thread.
pub(super) struct Host {
    inbox: mpsc::Receiver<Command>,
    heartbeat: Heartbeat,
    current: Option<Current>,
    load: Option<Load>,
}

impl Host {
    pub(super) fn new(inbox: mpsc::Receiver<Command>, heartbeat: Heartbeat, first: LoadOrder) -> Self {
        Self { inbox, heartbeat, current: None, load: Some(first.into()) }
    }

    /// Works until it is asked to shut down.
    pub(super) fn run(mut self) {
        while self.turn().is_continue() {}
        self.end_load(EnginePhase::Stopped);
        self.end_current(EnginePhase::Stopped, &EngineError::Stopped);
        while let Ok(command) = self.inbox.try_recv() {
            match command {
                Command::Submit { submission, .. } => submission.refuse(EngineError::Stopped),
                Command::Load(order) => order.refuse(),
                Command::Steer { .. } | Command::CancelLoad(_) | Command::Unload(_) | Command::ShutDown => {}
            }
        }
    }

    /// Obeys what was asked, then does one piece of each model's work.
    fn turn(&mut self) -> ControlFlow<()> {
        let is_idle = self.current.as_ref().is_none_or(|current| current.engine.is_idle());
        if is_idle && self.load.is_none() {
            self.heartbeat.rest();
            self.publish_current();
            match self.inbox.recv() {
                Ok(command) => self.obey(command)?,
                Err(mpsc::RecvError) => return ControlFlow::Break(()),
            }
        }
        while let Ok(command) = self.inbox.try_recv() {
            self.obey(command)?;
        }
        self.heartbeat.beat(Instant::now());
        self.step();
        self.load_slice();
        ControlFlow::Continue(())
    }

    fn obey(&mut self, command: Command) -> ControlFlow<()> {
        match command {
            Command::Submit { model, submission, status } => match &self.current {
                Some(current) if current.id == model => self.guard(|engine| {
                    engine.enqueue(submission);
                    Ok(())
                }),
                _ => {
                    let why = ready_facts(&status.borrow()).err();
                    submission.refuse(why.unwrap_or(EngineError::Stopped));
                }
            },
            Command::Steer { model, steer } => self.steer(model, steer),
            Command::Load(order) => self.begin_load(*order),
            Command::CancelLoad(model) => {
                if self.load.as_ref().is_some_and(|load| load.id == model) {
                    self.end_load(EnginePhase::Failed(EngineError::LoadCancelled));
                }
            }
            Command::Unload(freed) => {
                self.end_load(EnginePhase::Failed(EngineError::LoadCancelled));
                if let Some(memory) = self.end_current(EnginePhase::Unloaded, &EngineError::ModelUnloaded) {
                    // Whoever asked may no longer care.
                    let _ = freed.send(memory);
                }
            }
            Command::ShutDown => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    fn steer(&mut self, model: ModelId, steer: Steer) {
        if self.current.as_ref().is_some_and(|current| current.id == model) {
            return self.guard(|engine| {
                engine.steer(steer);
                Ok(())
            });
        }
        match (self.load.as_mut().filter(|load| load.id == model), steer) {
            (Some(load), Steer::SetGateMode(mode)) => load.config.gate_mode = mode,
            (Some(load), Steer::SetOverlap(overlap)) => load.config.overlap = overlap,
            // A model that does not answer has no requests.
            (Some(_), Steer::Cancel(_) | Steer::Forget(_)) | (None, _) => {}
        }
    }

    // The model that answers.

    fn step(&mut self) {
        self.guard(|engine| if engine.is_idle() { Ok(()) } else { engine.step() });
        if let Some(current) = &mut self.current
            && (current.engine.take_news() || (!current.engine.is_idle() && current.publisher.is_due()))
        {
            self.publish_current();
        }
    }

    /// Lets the current engine work. An error or a panic ends it, and it alone.
    fn guard(&mut self, work: impl FnOnce(&mut dyn Served) -> Result<(), EngineError>) {
        let Some(current) = &mut self.current else { return };
        let error = match catch_unwind(AssertUnwindSafe(|| work(current.engine.as_mut()))) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(panic) => panicked(panic.as_ref()),
        };
        tracing::error!(error = &error as &dyn std::error::Error, "the engine gave up");
        self.end_current(EnginePhase::Failed(error.clone()), &error);
    }

    fn publish_current(&mut self) {
        if let Some(current) = &mut self.current {
            current.publisher.publish(current.engine.snapshot());
        }
    }

    /// Ends the model that answers: its requests with `error`, its handles with `phase`. Returns what that freed.
    fn end_current(&mut self, phase: EnginePhase, error: &EngineError) -> Option<FreedMemory> {
        let Current { mut engine, publisher, .. } = self.current.take()?;
        // First the phase: whoever learns of an ended request must find its model ended too.
        publisher.publish_end(phase);
        let freed = catch_unwind(AssertUnwindSafe(move || {
            engine.fail_all(error);
            engine.unload()
        }));
        match freed {
            Ok(freed) => {
                let FreedMemory { before_bytes, after_bytes } = freed;
                tracing::info!(before_bytes, after_bytes, "model unloaded");
                Some(freed)
            }
            Err(panic) => {
                tracing::error!(message = panic_message(panic.as_ref()), "a model could not be unloaded");
                None
            }
        }
    }

    // The model that is being loaded.

    /// Begins a load in the place of the one under way, if there is one.
    fn begin_load(&mut self, order: LoadOrder) {
        self.end_load(EnginePhase::Failed(EngineError::LoadCancelled));
        self.load = Some(order.into());
        self.share_memory();
    }

    fn load_slice(&mut self) {
        let is_contended = self.current.as_ref().is_some_and(|current| current.engine.is_working());
        let Some(load) = &mut self.load else { return };
        let started = Instant::now();
        if is_contended && !load.pacer.is_due(started) {
            return;
        }
        match catch_unwind(AssertUnwindSafe(|| load.advance())) {
            Ok(Ok(LoadStep::Reading { done_bytes, total_bytes })) => {
                load.pacer.record(started, Instant::now());
                load.publisher.publish_progress(done_bytes, total_bytes);
                if load.replace == Replace::UnloadFirst {
                    self.end_current(EnginePhase::Replaced, &EngineError::ModelReplaced);
                }
            }
            Ok(Ok(LoadStep::Ready(make_engine))) => self.switch(make_engine),
            Ok(Err(error)) => self.end_load(EnginePhase::Failed(EngineError::Load(error.into()))),
            Err(panic) => self.end_load(EnginePhase::Failed(panicked(panic.as_ref()))),
        }
    }

    /// Lets the loaded model answer in the place of the current one.
    fn switch(&mut self, make_engine: MakeEngine) {
        let Some(Load { id, config, intake, mut publisher, .. }) = self.load.take() else { return };
        let engine = match catch_unwind(AssertUnwindSafe(|| make_engine(config, intake))) {
            Ok(engine) => engine,
            Err(panic) => {
                publisher.publish_end(EnginePhase::Failed(panicked(panic.as_ref())));
                return self.share_memory();
            }
        };
        self.end_current(EnginePhase::Replaced, &EngineError::ModelReplaced);
        publisher.publish(engine.snapshot());
        self.current = Some(Current { id, engine, publisher });
    }

    /// Gives up the load under way and frees what it has read.
    fn end_load(&mut self, phase: EnginePhase) {
        let Some(Load { publisher, stage, .. }) = self.load.take() else { return };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(stage))) {
            tracing::error!(message = panic_message(panic.as_ref()), "a load could not be given up");
        }
        publisher.publish_end(phase);
        self.share_memory();
    }

    fn share_memory(&mut self) {
        if let Some(current) = &mut self.current {
            current.engine.set_memory_shared(self.load.is_some());
        }
    }
}

fn panicked(payload: &(dyn std::any::Any + Send)) -> EngineError {
    EngineError::Panicked { message: panic_message(payload) }
}
