//! What a model's handles see of it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;

use super::EngineConfig;
use crate::{
    EngineError,
    backend::BackendFacts,
    metrics::steps::StepStats,
    status::{EnginePhase, EngineSnapshot},
};

/// Least time between two snapshots while nothing but progress is to be told.
const SNAPSHOT_EVERY: Duration = Duration::from_millis(100);

pub(super) type Status = watch::Receiver<Arc<EngineSnapshot>>;

/// Tells a model's handles how it is. They learn from its end, dropping it, that nothing will follow.
pub(super) struct Publisher {
    publish: watch::Sender<Arc<EngineSnapshot>>,
    published_at: Instant,
}

impl Publisher {
    /// Of a model that is about to be loaded.
    pub(super) fn new(config: &EngineConfig) -> (Self, Status) {
        let (publish, status) = watch::channel(Arc::new(EngineSnapshot {
            phase: EnginePhase::Loading { done_bytes: 0, total_bytes: 0 },
            facts: None,
            gate_mode: config.gate_mode,
            overlap: config.overlap,
            allowed_rows: 0,
            rows: Vec::new(),
            steps: StepStats::default(),
            mode_effects: Vec::new(),
            memory: None,
            ledger: None,
        }));
        (Self { publish, published_at: Instant::now() }, status)
    }

    pub(super) fn publish(&mut self, snapshot: EngineSnapshot) {
        self.published_at = Instant::now();
        self.publish.send_replace(Arc::new(snapshot));
    }

    pub(super) fn is_due(&self) -> bool {
        self.published_at.elapsed() >= SNAPSHOT_EVERY
    }

    /// Publishes how far a load is: its first slice at once.
    pub(super) fn publish_progress(&mut self, done_bytes: u64, total_bytes: u64) {
        let latest = self.publish.borrow().as_ref().clone();
        let is_first = matches!(latest.phase, EnginePhase::Loading { total_bytes: 0, .. });
        if is_first || self.is_due() {
            let phase = EnginePhase::Loading { done_bytes, total_bytes };
            self.publish(EngineSnapshot { phase, ..latest });
        }
    }

    /// Publishes the last snapshot of a model's life: everything as it was, but no rows.
    pub(super) fn publish_end(mut self, phase: EnginePhase) {
        let latest = self.publish.borrow().as_ref().clone();
        self.publish(EngineSnapshot { phase, rows: Vec::new(), ..latest });
    }
}

/// The model's facts if it takes requests.
///
/// # Errors
/// Why it does not.
pub(super) fn ready_facts(snapshot: &EngineSnapshot) -> Result<BackendFacts, EngineError> {
    match (&snapshot.phase, &snapshot.facts) {
        (EnginePhase::Ready, Some(facts)) => Ok(facts.clone()),
        (EnginePhase::Failed(error), _) => Err(error.clone()),
        (EnginePhase::Stopped, _) => Err(EngineError::Stopped),
        (EnginePhase::Replaced, _) => Err(EngineError::ModelReplaced),
        (EnginePhase::Unloaded, _) => Err(EngineError::ModelUnloaded),
        (EnginePhase::Loading { .. } | EnginePhase::Ready, _) => Err(EngineError::NotReady),
    }
}
