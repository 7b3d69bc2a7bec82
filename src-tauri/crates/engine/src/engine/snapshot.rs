//! The engine as others see it.

use std::time::Instant;

use super::Engine;
use crate::{
    backend::Backend,
    row::Row,
    status::{EnginePhase, EngineSnapshot, RowPhase, RowSnapshot},
};

impl<B: Backend> Engine<B> {
    /// The engine as it is now.
    pub fn snapshot(&self, phase: EnginePhase) -> EngineSnapshot {
        let now = self.clock.now();
        let queued = self.scheduler.queued().enumerate();
        let mut rows: Vec<_> =
            queued.map(|(ahead, row)| snapshot_row(row, RowPhase::Queued, ahead, now)).collect();
        let prefilling = self.scheduler.prefilling();
        rows.extend(prefilling.map(|row| snapshot_row(row, RowPhase::Prefilling, 0, now)));
        rows.extend(self.batch.rows().iter().map(|row| snapshot_row(row, RowPhase::Decoding, 0, now)));
        rows.sort_unstable_by_key(|row| row.id);
        EngineSnapshot {
            phase,
            facts: Some(self.facts.clone()),
            gate_mode: self.gate_mode,
            overlap: self.overlap.mode,
            allowed_rows: self.allowed_rows,
            rows,
            steps: self.steps.stats(now),
            mode_effects: self.modes.effects(),
            memory: Some(self.backend.memory()),
            ledger: Some(self.ledger_use()),
        }
    }
}

fn snapshot_row(row: &Row, phase: RowPhase, ahead: usize, now: Instant) -> RowSnapshot {
    let prompt_tokens = row.given().len() as u32;
    RowSnapshot {
        id: row.id,
        phase,
        ahead: ahead as u32,
        prefill_done_tokens: row.kv_cache_tokens().min(prompt_tokens),
        prompt_tokens,
        cached_tokens: row.cached_tokens(),
        answer_tokens: row.answer_tokens(),
        kv_cache_tokens: row.kv_cache_tokens(),
        context_tokens: row.context_tokens(),
        path: row.path.clone(),
        per_row_cost: row.metrics.per_row_cost(),
        decode_tok_s: row.metrics.recent_tok_s(now),
        ttft: row.metrics.ttft(),
        itl_p50: row.metrics.itl(0.5),
        itl_p95: row.metrics.itl(0.95),
    }
}
