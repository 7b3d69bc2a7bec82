//! Where the engine reads the time.

use std::time::Instant;

/// A monotonic clock. The engine reads no other, so that its policies can be tested without waiting.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Instant;
}

/// The machine's own clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }
}
