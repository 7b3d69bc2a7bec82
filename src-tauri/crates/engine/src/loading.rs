//! Loading a model in slices, so that another one can go on answering on the same thread.

use std::time::{Duration, Instant};

use crate::BackendError;

/// What one slice of a load came to.
#[derive(Debug)]
pub enum LoadStep<B> {
    /// There is more to read.
    Reading {
        /// Bytes of weights that are on the device.
        done_bytes: u64,
        /// Bytes of weights in all; the same from the first slice on.
        total_bytes: u64,
    },
    /// The model is loaded. The load must not be advanced again.
    Ready(B),
}

/// A load under way. Dropping it gives up the load and frees what it has read.
pub trait Loading<B> {
    /// Reads the next slice. The first call finds out what can be known without reading weights: whether the model is
    /// supported and its files are whole.
    ///
    /// # Errors
    /// The backend's own; the load is over then, and must not be advanced again.
    fn advance(&mut self) -> Result<LoadStep<B>, BackendError>;
}

impl<B, F: FnMut() -> Result<LoadStep<B>, BackendError>> Loading<B> for F {
    fn advance(&mut self) -> Result<LoadStep<B>, BackendError> {
        self()
    }
}

/// What becomes of the model that runs while another one loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// It goes on answering until the new one is ready; if the load fails or is cancelled, nothing has changed.
    Beside,
    /// It is unloaded after the first slice, to make room. Files that cannot be used change nothing even so.
    UnloadFirst,
}

/// What unloading a model gave back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreedMemory {
    /// Device memory in use before.
    pub before_bytes: u64,
    /// And after.
    pub after_bytes: u64,
}

/// Time that decoding gets for each unit of time that loading takes: gaps between tokens grow by half on average.
const DECODE_SHARE: u32 = 2;

/// Decides when rows that run leave time for a slice.
#[derive(Debug, Default)]
pub(crate) struct SlicePacer {
    /// End of the latest slice, and how long it took.
    latest: Option<(Instant, Duration)>,
}

impl SlicePacer {
    /// Whether the rows have had their share since the latest slice.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.latest.is_none_or(|(at, took)| now.saturating_duration_since(at) >= took * DECODE_SHARE)
    }

    pub(crate) fn record(&mut self, started: Instant, ended: Instant) {
        self.latest = Some((ended, ended.saturating_duration_since(started)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_get_twice_the_time_that_the_latest_slice_took() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut pacer = SlicePacer::default();
        assert!(pacer.is_due(start), "the first slice waits for nobody");
        pacer.record(start, after(30));
        assert!(!pacer.is_due(after(89)));
        assert!(pacer.is_due(after(90)));
        pacer.record(after(90), after(91));
        assert!(pacer.is_due(after(93)), "only the latest slice counts");
    }
}
