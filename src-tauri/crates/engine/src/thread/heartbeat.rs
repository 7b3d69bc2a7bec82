//! Signs of life of the engine's thread.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// A step that takes longer than this is taken for a hang: prompts are read in chunks far shorter.
pub const STUCK_AFTER: Duration = Duration::from_secs(20);

/// How the engine's thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pulse {
    /// Works, or waits for requests.
    Alive,
    /// Has been in one and the same step for longer than [`STUCK_AFTER`].
    Stuck {
        /// How long.
        silent_for: Duration,
    },
    /// Has ended.
    Dead,
}

/// No step is running.
const RESTING: u64 = u64::MAX;

/// When the step that is running began. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Heartbeat {
    epoch: Instant,
    /// Milliseconds from `epoch`, or [`RESTING`].
    step_began_ms: Arc<AtomicU64>,
}

impl Heartbeat {
    pub(super) fn new(epoch: Instant) -> Self {
        Self { epoch, step_began_ms: Arc::new(AtomicU64::new(RESTING)) }
    }

    /// Notes that a step begins.
    pub(super) fn beat(&self, now: Instant) {
        let since_epoch = now.saturating_duration_since(self.epoch).as_millis() as u64;
        self.step_began_ms.store(since_epoch, Ordering::Relaxed);
    }

    /// Notes that there is nothing to do.
    pub(super) fn rest(&self) {
        self.step_began_ms.store(RESTING, Ordering::Relaxed);
    }

    /// Judges a thread that has not ended.
    pub(super) fn pulse(&self, now: Instant) -> Pulse {
        let began = match self.step_began_ms.load(Ordering::Relaxed) {
            RESTING => return Pulse::Alive,
            began_ms => self.epoch + Duration::from_millis(began_ms),
        };
        let silent_for = now.saturating_duration_since(began);
        if silent_for > STUCK_AFTER { Pulse::Stuck { silent_for } } else { Pulse::Alive }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_step_that_does_not_end_is_stuck() {
        let start = Instant::now();
        let heartbeat = Heartbeat::new(start);
        let later = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(heartbeat.pulse(later(1000)), Pulse::Alive, "nothing to do since the start");
        heartbeat.beat(later(1000));
        assert_eq!(heartbeat.pulse(later(1020)), Pulse::Alive);
        assert_eq!(
            heartbeat.pulse(later(1021)),
            Pulse::Stuck { silent_for: Duration::from_secs(21) },
            "the step has not ended"
        );
        heartbeat.beat(later(1022));
        assert_eq!(heartbeat.pulse(later(1023)), Pulse::Alive, "it was slow, no more");
        heartbeat.rest();
        assert_eq!(heartbeat.pulse(later(9000)), Pulse::Alive);
    }
}
