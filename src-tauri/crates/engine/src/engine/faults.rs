//! What happens when the backend fails in a step of the whole batch.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::Engine;
use crate::{
    EngineError,
    backend::{Backend, MemoryUse, OutOfMemory},
    row::Ending,
};

/// Faults within [`FAULT_WINDOW`] after which the engine gives up.
pub(crate) const MAX_FAULTS: usize = 3;
/// Time over which faults are counted.
pub(crate) const FAULT_WINDOW: Duration = Duration::from_secs(60);

/// When the backend failed lately.
#[derive(Debug, Default)]
pub(super) struct FaultLog {
    recent: VecDeque<Instant>,
    /// Whether no decode step has succeeded since the latest fault.
    is_unproven: bool,
}

impl FaultLog {
    /// Notes a fault. Returns whether there were too many.
    fn record(&mut self, now: Instant) -> bool {
        self.recent.push_back(now);
        self.is_unproven = true;
        while self.recent.front().is_some_and(|at| now.saturating_duration_since(*at) >= FAULT_WINDOW) {
            self.recent.pop_front();
        }
        self.recent.len() >= MAX_FAULTS
    }

    pub(super) fn record_clean_step(&mut self) {
        self.is_unproven = false;
    }

    pub(super) fn is_unproven(&self) -> bool {
        self.is_unproven
    }
}

impl<B: Backend> Engine<B> {
    /// Ends the rows of the batch after a fault and rebuilds the backend. Queued rows stay; prompts being read start
    /// over, since what was computed of them is not to be trusted either and nobody has seen a word yet.
    ///
    /// # Errors
    /// [`EngineError::RepeatedFaults`] if there were too many; [`EngineError::Backend`] if the backend cannot be
    /// rebuilt.
    pub(super) fn recover(&mut self, fault: EngineError) -> Result<(), EngineError> {
        tracing::error!(error = &fault as &dyn std::error::Error, "the backend failed");
        if is_out_of_memory(&fault, self.backend.memory(), self.facts.memory_limit_bytes) {
            self.allowed_rows = (self.batch.len() / 2).max(1);
            tracing::warn!(rows = self.allowed_rows, "memory has run out: fewer rows from now on");
        }
        let all = self.batch.leave(|_| Some(Ending::Failed(fault.clone())));
        for (row, ending) in all.gone {
            self.end(row, ending);
        }
        self.ahead = None;
        self.last_step = None;
        self.steps.record_idle();
        self.scheduler.restart_reading();
        // The backend drops its snapshots when it is reset.
        self.prefixes.clear();
        if self.faults.record(self.clock.now()) {
            let latest = Box::new(fault);
            return Err(EngineError::RepeatedFaults { faults: MAX_FAULTS, within: FAULT_WINDOW, latest });
        }
        self.backend.reset().map_err(EngineError::backend)
    }
}

/// Whether a fault came from a lack of memory: the backend says so, or next to nothing is left.
fn is_out_of_memory(fault: &EngineError, memory: MemoryUse, limit_bytes: u64) -> bool {
    let EngineError::Backend(error) = fault else { return false };
    let first: &(dyn std::error::Error + 'static) = error.as_ref();
    let mut causes = std::iter::successors(Some(first), |error| error.source());
    causes.any(|error| error.is::<OutOfMemory>()) || memory.active_bytes >= limit_bytes / 20 * 19
}
