//! The fallback: one row, its own graph, its own wait.

use super::fused::Sampler;
use crate::error::Result;
use crate::mx::{self, Array, Purpose};
use engine::backend::{RowSampling, Sampled};

impl Sampler {
    /// Samples `logits` `[1, V]`: one wait and one read, and one more of each per shortlist width that proves too
    /// narrow.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn sample_alone(&self, logits: &Array, row: &RowSampling<'_>) -> Result<Sampled> {
        let mut row = [*row];
        loop {
            let graph = self.build(logits, &row)?;
            let words = mx::read_u32(graph.packed(), Purpose::Decode)?;
            let outcome = graph.outcomes(&words, &row).remove(0);
            if outcome.too_narrow.is_none() {
                return Ok(outcome.sampled);
            }
            mx::count_width_miss();
            row = [self.widened(&row[0], &outcome)];
        }
    }
}
