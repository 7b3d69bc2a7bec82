//! One decode step: forward, gate, sample, bookkeeping.
//!
//! The sampler is bound late. Where the batch allows it, the next forward pass is submitted from the tokens of this
//! step's graph before the host has read them, so that it runs while the host reads and keeps its books. The masks,
//! forced tokens and penalties of the next step are ready when its own graph is built, after that.

use std::time::{Duration, Instant};

use super::Engine;
use crate::{
    EngineError, RequestId,
    backend::{Backend, Sampled},
    gate::{self, EnvFacts, ForcedReference, GatePlan, SamplingPath},
    metrics::steps::StepSample,
    overlap::{Arm, BatchSize, OverlapFacts, OverlapOff},
    row::{Ending, Row},
};

/// A forward pass that was submitted before the tokens it starts from were read.
#[derive(Debug)]
pub(super) struct Ahead {
    /// Rows of the pass, in batch order.
    ids: Vec<RequestId>,
    /// Whether a token that it started from was replaced.
    is_stale: bool,
}

impl Ahead {
    /// Drops all rows but those at `keep`, as the backend does.
    pub(super) fn keep(&mut self, keep: &[usize]) {
        self.ids = keep.iter().map(|row| self.ids[*row]).collect();
    }
}

/// The decode step before, if nothing but bookkeeping came in between.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastStep {
    read_at: Instant,
    size: BatchSize,
}

/// Where the logits of a step came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forward {
    /// From a pass that the step before submitted ahead.
    Taken,
    /// From a pass of this step.
    Built,
    /// From a pass of this step, since the one submitted ahead started from a token that was replaced.
    Replayed,
}

/// Tokens of a step, in batch order.
struct SampledRows {
    rows: Vec<Sampled>,
    /// Host time to build the next forward pass, without what its submission took.
    ahead: Duration,
}

/// How the rows of a step end, in batch order.
struct Endings {
    by_row: Vec<Option<Ending>>,
    /// Rows that could not be sampled.
    failed: usize,
}

impl<B: Backend> Engine<B> {
    pub(super) fn decode(&mut self) -> Result<(), EngineError> {
        let started_at = self.clock.now();
        let before = self.backend.counters();
        let forward = self.forward()?;
        let forward_at = self.clock.now();
        let size = BatchSize::new(self.batch.len(), self.batch.longest_kv_cache_tokens());
        let plan = self.plan();
        let overlap_off = self.overlap.decide(self.overlap_facts(&plan), size);
        let sampled = self.sample(&plan, overlap_off)?;
        let read_at = self.clock.now();
        let counted = self.backend.counters().since(before);
        let last = self.last_step.replace(LastStep { read_at, size });
        let wall = read_at - last.map_or(started_at, |last| last.read_at);
        if let Some(arm) = arm(forward, overlap_off).filter(|_| last.is_some_and(|last| last.size == size)) {
            self.overlap.record(size, arm, overlap_off, wall);
        }
        let rows = self.batch.len();
        let ahead = sampled.ahead;
        let endings = self.keep_books(&plan, sampled.rows)?;
        let now = self.clock.now();
        let sample = StepSample {
            batch_rows: rows,
            per_row_rows: plan.rows_on(SamplingPath::PerRow).len(),
            tokens: rows - endings.failed,
            expected_waits: plan.expected_waits,
            batch_reasons: plan.batch_reasons,
            overlap_off,
            is_replay: forward == Forward::Replayed,
            started_at,
            wall,
            forward: forward_at - started_at + ahead,
            sampling: (read_at - forward_at).saturating_sub(ahead),
            host: now - read_at,
            counted,
        };
        if tracing::enabled!(tracing::Level::TRACE) {
            let fingerprint = self.backend.dispatch_fingerprint();
            tracing::trace!(
                step = self.steps.next_step(),
                ?wall,
                ?forward,
                ?overlap_off,
                fingerprint,
                "decode step"
            );
        }
        self.scheduler.record_step(wall);
        // Steps that another cause sent per row say nothing of the mode.
        if self.forced_reference == ForcedReference::Off && !self.faults.is_unproven() {
            self.modes.record(self.gate_mode, rows, wall);
        }
        self.steps.record(sample, now);
        self.faults.record_clean_step();
        let mut endings = endings.by_row.into_iter();
        self.leave(|_| endings.next().flatten())
    }

    /// Sees to it that the logits of every row are there or under way.
    fn forward(&mut self) -> Result<Forward, EngineError> {
        let forward = match self.ahead.take() {
            None => Forward::Built,
            Some(ahead) => {
                debug_assert!(self.batch.ids().eq(ahead.ids.iter().copied()), "the pass is of these rows");
                if ahead.is_stale { Forward::Replayed } else { Forward::Taken }
            }
        };
        if forward != Forward::Taken {
            self.backend.forward(&self.batch.step_inputs()).map_err(EngineError::backend)?;
        }
        self.batch.rows_mut().for_each(Row::record_forward);
        Ok(forward)
    }

    fn plan(&self) -> GatePlan {
        let env = EnvFacts {
            is_reference_forced: self.forced_reference == ForcedReference::On,
            has_failed_eval: self.faults.is_unproven(),
        };
        gate::plan(self.gate_mode, &self.batch.facts(), env)
    }

    fn overlap_facts(&self, plan: &GatePlan) -> OverlapFacts {
        let memory = self.backend.memory();
        let with_copy = memory.active_bytes.saturating_add(memory.kv_cache_bytes);
        OverlapFacts {
            is_all_fused: plan.is_all_fused(),
            is_growing: self.scheduler.is_reading(),
            has_continuing_row: self.batch.rows().iter().any(Row::is_certain_to_continue),
            has_room: with_copy <= self.facts.memory_limit_bytes,
        }
    }

    /// Samples every row on the path that the plan gives it, and submits the next forward pass if nothing speaks
    /// against it.
    fn sample(
        &mut self,
        plan: &GatePlan,
        overlap_off: Option<OverlapOff>,
    ) -> Result<SampledRows, EngineError> {
        debug_assert!(plan.is_for(self.batch.ids()), "nobody comes or goes between plan and sampling");
        let mut results: Vec<Option<Sampled>> = vec![None; plan.rows.len()];
        let mut ahead = Duration::ZERO;
        let fused = plan.rows_on(SamplingPath::Fused);
        if !fused.is_empty() {
            let sampling = self.batch.sampling(&fused);
            self.backend.submit_fused(&fused, &sampling).map_err(EngineError::backend)?;
            if overlap_off.is_none() {
                let started_at = self.clock.now();
                let before = self.backend.counters();
                let columns: Vec<u32> = self.batch.rows().iter().map(Row::kv_cache_tokens).collect();
                self.backend.forward_ahead(&columns).map_err(EngineError::backend)?;
                let submitting = self.backend.counters().since(before).submitting;
                ahead = (self.clock.now() - started_at).saturating_sub(submitting);
            }
            let read = self.backend.read_fused(&fused, &sampling).map_err(EngineError::backend)?;
            if read.sampled.len() != fused.len() {
                return Err(EngineError::ResultCount { rows: fused.len(), results: read.sampled.len() });
            }
            if overlap_off.is_none() {
                self.ahead = Some(Ahead { ids: plan.ids.clone(), is_stale: read.is_ahead_stale });
            }
            for (&row, sampled) in fused.iter().zip(read.sampled) {
                results[row] = Some(sampled);
            }
        }
        for row in plan.rows_on(SamplingPath::PerRow) {
            let started_at = self.clock.now();
            let sampling = self.batch.rows()[row].sampling();
            results[row] = Some(self.backend.sample_row(row, &sampling).map_err(EngineError::backend)?);
            let took = self.clock.now().saturating_duration_since(started_at);
            self.batch.row_mut(row).metrics.record_per_row_cost(took);
        }
        let rows = results.into_iter().map(|result| result.expect("each row has one path")).collect();
        Ok(SampledRows { rows, ahead })
    }

    /// Gives each row its token. A row that fails ends alone; if none of several could be sampled, the cause is not
    /// in the rows.
    fn keep_books(&mut self, plan: &GatePlan, sampled: Vec<Sampled>) -> Result<Endings, EngineError> {
        let rows = self.batch.len();
        let failed = sampled.iter().filter(|sampled| sampled.token.is_err()).count();
        if failed == rows && rows > 1 {
            return Err(EngineError::AllRowsBad { rows });
        }
        let step = self.steps.next_step();
        let mut by_row = Vec::with_capacity(rows);
        for ((row, plan), sampled) in self.batch.rows_mut().zip(&plan.rows).zip(sampled) {
            row.record_path(plan, step);
            row.metrics.record_step(plan.path, rows);
            by_row.push(row.take(sampled, self.clock.now()));
        }
        self.batch.prepare(&mut by_row);
        Ok(Endings { by_row, failed })
    }
}

/// What the time of a step says of the two ways to run it; nothing where it began in one and ended in the other.
fn arm(forward: Forward, overlap_off: Option<OverlapOff>) -> Option<Arm> {
    match (forward, overlap_off) {
        (Forward::Taken, None) => Some(Arm::Overlapped),
        (Forward::Built, Some(_)) => Some(Arm::Sync),
        _ => None,
    }
}
