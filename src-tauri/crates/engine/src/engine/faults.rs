//! What happens when the backend fails in a step of the whole batch.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::Engine;
use crate::{EngineError, backend::Backend, row::Ending};

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
    /// Ends the rows of the batch after a fault. Queued rows stay; prompts being read start over, since what was
    /// computed of them is not to be trusted either and nobody has seen a word yet.
    pub(super) fn recover(&mut self, fault: EngineError) -> Result<(), EngineError> {
        tracing::error!(error = &fault as &dyn std::error::Error, "the backend failed");
        let all = self.batch.leave(|_| Some(Ending::Failed(fault.clone())));
        for (row, ending) in all.gone {
            self.end(row, ending);
        }
        self.steps.record_idle();
        for row in self.scheduler.prefilling_mut() {
            self.backend.drop_prefill(row.id);
            row.restart_prefill();
        }
        self.must_clear_backend = true;
        if self.faults.record(self.clock.now()) {
            let latest = Box::new(fault);
            return Err(EngineError::RepeatedFaults { faults: MAX_FAULTS, within: FAULT_WINDOW, latest });
        }
        Ok(())
    }

    /// Empties the backend's batch after a fault.
    pub(super) fn clear_backend(&mut self) -> Result<(), EngineError> {
        if self.must_clear_backend {
            self.backend.keep_rows(&[]).map_err(EngineError::backend)?;
            self.must_clear_backend = false;
        }
        Ok(())
    }
}
