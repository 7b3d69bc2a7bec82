//! Engines and loads as the thread sees them: whatever the backend's type.

use std::sync::Arc;

use super::{EngineConfig, host::Steer};
use crate::{
    BackendError, EngineError,
    backend::Backend,
    clock::SystemClock,
    engine::Engine,
    loading::{FreedMemory, LoadStep, Loading},
    request::{Intake, Submission},
    status::{EnginePhase, EngineSnapshot},
};

/// A loaded model at work.
pub(super) trait Served {
    fn enqueue(&mut self, submission: Box<Submission>);
    fn steer(&mut self, steer: Steer);
    fn is_idle(&self) -> bool;
    /// Whether rows decode or read their prompts, rather than wait.
    fn is_working(&self) -> bool;
    fn step(&mut self) -> Result<(), EngineError>;
    fn take_news(&mut self) -> bool;
    fn snapshot(&self) -> EngineSnapshot;
    /// Tells whether another model takes up memory that it may give back: requests that do not fit wait for that.
    fn set_memory_shared(&mut self, is_shared: bool);
    fn fail_all(&mut self, error: &EngineError);
    /// Frees the model.
    fn unload(self: Box<Self>) -> FreedMemory;
}

impl<B: Backend> Served for Engine<B> {
    fn enqueue(&mut self, submission: Box<Submission>) {
        Engine::enqueue(self, *submission);
    }

    fn steer(&mut self, steer: Steer) {
        match steer {
            Steer::Cancel(id) => self.cancel(id),
            Steer::Forget(owner) => self.forget(owner),
            Steer::SetGateMode(mode) => self.set_gate_mode(mode),
            Steer::SetOverlap(overlap) => self.set_overlap(overlap),
        }
    }

    fn is_idle(&self) -> bool {
        Engine::is_idle(self)
    }

    fn is_working(&self) -> bool {
        Engine::is_working(self)
    }

    fn step(&mut self) -> Result<(), EngineError> {
        Engine::step(self)
    }

    fn take_news(&mut self) -> bool {
        Engine::take_news(self)
    }

    fn snapshot(&self) -> EngineSnapshot {
        Engine::snapshot(self, EnginePhase::Ready)
    }

    fn set_memory_shared(&mut self, is_shared: bool) {
        Engine::set_memory_shared(self, is_shared);
    }

    fn fail_all(&mut self, error: &EngineError) {
        Engine::fail_all(self, error);
    }

    fn unload(self: Box<Self>) -> FreedMemory {
        (*self).unload()
    }
}

/// Makes the engine of a loaded backend.
pub(super) type MakeEngine = Box<dyn FnOnce(EngineConfig, Intake) -> Box<dyn Served>>;

/// A load under way.
pub(super) type Advance = Box<dyn FnMut() -> Result<LoadStep<MakeEngine>, BackendError>>;

/// Begins a load, on the thread.
pub(super) type Start = Box<dyn FnOnce() -> Result<Advance, BackendError> + Send>;

pub(super) fn erase<B, L>(start: impl FnOnce() -> Result<L, BackendError> + Send + 'static) -> Start
where
    B: Backend + 'static,
    L: Loading<B> + 'static,
{
    Box::new(move || {
        let mut loading = start()?;
        let advance = move || -> Result<LoadStep<MakeEngine>, BackendError> {
            Ok(match loading.advance()? {
                LoadStep::Reading { done_bytes, total_bytes } => {
                    LoadStep::Reading { done_bytes, total_bytes }
                }
                LoadStep::Ready(backend) => LoadStep::Ready(make_engine(backend)),
            })
        };
        Ok(Box::new(advance) as Advance)
    })
}

fn make_engine<B: Backend + 'static>(backend: B) -> MakeEngine {
    Box::new(|config, intake| Box::new(Engine::with_queue(config, backend, Arc::new(SystemClock), intake)))
}
