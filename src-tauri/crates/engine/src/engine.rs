//! One unit of work at a time: a prefill chunk or a decode step, with the rows that come and go around it.
//!
//! A decode step is forward, gate, sample, bookkeeping. Nothing between forward and sample needs the host to have
//! read anything, so the next forward can later be submitted before the bookkeeping of this one.

mod faults;

use std::{sync::Arc, time::Instant};

use text::Tokenizer;

use crate::{
    BackendError, EngineError, RequestId,
    backend::{Backend, BackendFacts, Counters, Sampled},
    batch::{Batch, Departure},
    clock::Clock,
    event::{EventReceiver, FinishReason},
    gate::{self, EnvFacts, ForcedReference, GateMode, GatePlan, SamplingPath},
    metrics::steps::{StepMetrics, StepSample},
    overlap::{OverlapMode, OverlapOff},
    request::{NewRequest, QueueLimit, Submission, check},
    row::{Ending, Row},
    scheduler::{Scheduler, Work},
    status::{EnginePhase, EngineSnapshot, RowPhase, RowSnapshot},
    thread::EngineConfig,
};
use faults::FaultLog;

/// The engine without its thread: whoever calls [`Engine::step`] owns the backend's thread.
pub struct Engine<B> {
    backend: B,
    facts: BackendFacts,
    tokenizer: Tokenizer,
    gate_mode: GateMode,
    clock: Arc<dyn Clock>,
    queue: QueueLimit,
    scheduler: Scheduler,
    batch: Batch,
    steps: StepMetrics,
    faults: FaultLog,
    forced_reference: ForcedReference,
    overlap: OverlapMode,
    /// Whether the backend may hold rows that the batch no longer has.
    must_clear_backend: bool,
    has_news: bool,
}

impl<B: Backend> Engine<B> {
    /// Wraps a loaded backend.
    pub fn new(config: EngineConfig, backend: B, clock: Arc<dyn Clock>) -> Self {
        let queue = QueueLimit::new(config.max_queued);
        Self::with_queue(config, backend, clock, queue)
    }

    pub(crate) fn with_queue(
        config: EngineConfig,
        backend: B,
        clock: Arc<dyn Clock>,
        queue: QueueLimit,
    ) -> Self {
        Self {
            facts: backend.facts().clone(),
            backend,
            tokenizer: config.tokenizer,
            gate_mode: config.gate_mode,
            clock,
            queue,
            scheduler: Scheduler::new(config.prefill_budget),
            batch: Batch::default(),
            steps: StepMetrics::default(),
            faults: FaultLog::default(),
            forced_reference: ForcedReference::default(),
            overlap: config.overlap,
            must_clear_backend: false,
            has_news: false,
        }
    }

    /// Checks a request and enqueues it.
    ///
    /// # Errors
    /// [`EngineError::EmptyPrompt`], [`EngineError::PromptTooLong`], [`EngineError::UnknownToken`] or
    /// [`EngineError::QueueFull`].
    pub fn submit(&mut self, request: NewRequest) -> Result<(RequestId, EventReceiver), EngineError> {
        let (submission, receiver) = check(request, &self.facts, &self.queue)?;
        let id = submission.id;
        self.enqueue(submission);
        Ok((id, receiver))
    }

    pub(crate) fn enqueue(&mut self, submission: Submission) {
        let now = self.clock.now();
        self.scheduler.enqueue(Row::new(submission, &self.tokenizer, self.facts.context_tokens, now));
        self.has_news = true;
    }

    /// Marks a request to end at the next boundary. Unknown ids are ignored: they may just have ended.
    pub fn cancel(&mut self, id: RequestId) {
        if let Some(row) = self.batch.get_mut(id).or_else(|| self.scheduler.get_mut(id)) {
            row.cancel();
        }
    }

    /// Sets the mode of the gate from the next step on.
    pub fn set_gate_mode(&mut self, mode: GateMode) {
        self.gate_mode = mode;
        self.has_news = true;
    }

    /// Sends every row down the per-row path from the next step on, or no longer: to compare with.
    pub fn set_forced_reference(&mut self, reference: ForcedReference) {
        self.forced_reference = reference;
    }

    /// Sets whether forward passes may be submitted ahead, from the next step on.
    pub fn set_overlap(&mut self, overlap: OverlapMode) {
        self.overlap = overlap;
        self.has_news = true;
    }

    /// Whether there is nothing to do until a request arrives.
    pub fn is_idle(&self) -> bool {
        self.batch.is_empty() && self.scheduler.is_empty()
    }

    /// The backend, for its counters.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Lets rows come and go, then runs one prefill chunk or one decode step. A fault of the backend ends the rows
    /// of the batch and nothing else.
    ///
    /// # Errors
    /// [`EngineError::RepeatedFaults`] if the backend failed three times within a minute: the caller must give up.
    pub fn step(&mut self) -> Result<(), EngineError> {
        let outcome = self.run_step();
        outcome.or_else(|fault| self.recover(fault))
    }

    fn run_step(&mut self) -> Result<(), EngineError> {
        self.clear_backend()?;
        self.drop_cancelled()?;
        let now = self.clock.now();
        self.has_news |= self.scheduler.admit(self.batch.len(), self.facts.max_rows, now);
        self.join_ready();
        match self.scheduler.next_work(self.batch.len(), now) {
            Work::Prefill { id, tokens } => self.prefill(id, tokens),
            Work::Decode => self.decode()?,
            Work::Idle => {}
        }
        if self.batch.is_empty() {
            self.steps.record_idle();
        }
        Ok(())
    }

    fn drop_cancelled(&mut self) -> Result<(), EngineError> {
        for row in self.scheduler.take_cancelled() {
            self.backend.drop_prefill(row.id);
            self.end(row, Ending::Finished(FinishReason::Cancelled));
        }
        self.leave(|row| row.is_cancelled().then_some(Ending::Finished(FinishReason::Cancelled)))
    }

    /// Takes rows out of the batch and lets the KV cache follow.
    fn leave(&mut self, ending: impl FnMut(&Row) -> Option<Ending>) -> Result<(), EngineError> {
        let Departure { gone, keep } = self.batch.leave(ending);
        if gone.is_empty() {
            return Ok(());
        }
        for (row, ending) in gone {
            self.end(row, ending);
        }
        self.backend.keep_rows(&keep).map_err(EngineError::backend)
    }

    fn end(&mut self, row: Row, ending: Ending) {
        self.has_news = true;
        row.end(ending);
    }

    fn join_ready(&mut self) {
        for row in self.scheduler.take_ready() {
            match self.backend.join(row.id) {
                Ok(()) => self.batch.join(row),
                Err(error) => self.fail_prefill(row, error),
            }
            self.has_news = true;
        }
    }

    fn prefill(&mut self, id: RequestId, tokens: usize) {
        let Some(row) = self.scheduler.get_mut(id) else { return };
        let started = self.clock.now();
        let outcome = self.backend.prefill(id, row.prefill_chunk(tokens));
        let now = self.clock.now();
        match outcome {
            Ok(()) => row.record_prefill(tokens, now),
            Err(error) => {
                if let Some(row) = self.scheduler.take_prefilling(id) {
                    self.fail_prefill(row, error);
                }
            }
        }
        self.scheduler.record_chunk(tokens, now.saturating_duration_since(started));
    }

    fn fail_prefill(&mut self, row: Row, error: BackendError) {
        self.backend.drop_prefill(row.id);
        self.end(row, Ending::Failed(EngineError::prefill(error)));
    }

    fn decode(&mut self) -> Result<(), EngineError> {
        let started_at = self.clock.now();
        let before = self.backend.counters();
        self.forward()?;
        let forward_at = self.clock.now();
        let plan = self.plan();
        debug_assert!(plan.is_for(self.batch.ids()), "nobody comes or goes between plan and sampling");
        let sampled = self.sample(&plan)?;
        let read_at = self.clock.now();
        let counted = self.backend.counters().since(before);
        let rows = self.batch.len();
        let endings = self.keep_books(&plan, sampled)?;
        let now = self.clock.now();
        let sample = StepSample {
            batch_rows: rows,
            per_row_rows: plan.rows_on(SamplingPath::PerRow).len(),
            tokens: rows - endings.failed,
            expected_waits: plan.expected_waits,
            batch_reasons: plan.batch_reasons,
            overlap_off: Some(OverlapOff::SwitchedOff),
            is_replay: false,
            started_at,
            forward: forward_at - started_at,
            sampling: read_at - forward_at,
            host: now - read_at,
            counted,
        };
        self.scheduler.record_step(sample.wall());
        self.steps.record(sample, now);
        self.faults.record_clean_step();
        let mut endings = endings.by_row.into_iter();
        self.leave(|_| endings.next().flatten())
    }

    fn plan(&self) -> GatePlan {
        let env = EnvFacts {
            is_reference_forced: self.forced_reference == ForcedReference::On,
            has_failed_eval: self.faults.is_unproven(),
        };
        gate::plan(self.gate_mode, &self.batch.facts(), env)
    }

    fn forward(&mut self) -> Result<(), EngineError> {
        self.backend.forward(&self.batch.step_inputs()).map_err(EngineError::backend)?;
        self.batch.rows_mut().for_each(Row::record_forward);
        Ok(())
    }

    /// Samples every row on the path that the plan gives it. Results are in batch order.
    fn sample(&mut self, plan: &GatePlan) -> Result<Vec<Sampled>, EngineError> {
        let mut results: Vec<Option<Sampled>> = vec![None; plan.rows.len()];
        let fused = plan.rows_on(SamplingPath::Fused);
        if !fused.is_empty() {
            let sampling = self.batch.sampling(&fused);
            self.backend.submit_fused(&fused, &sampling).map_err(EngineError::backend)?;
            let sampled = self.backend.read_fused(&fused, &sampling).map_err(EngineError::backend)?.sampled;
            if sampled.len() != fused.len() {
                return Err(EngineError::ResultCount { rows: fused.len(), results: sampled.len() });
            }
            for (&row, sampled) in fused.iter().zip(sampled) {
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
        Ok(results.into_iter().map(|result| result.expect("each row has one path")).collect())
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
        Ok(Endings { by_row, failed })
    }

    /// Ends every request with `error`.
    pub(crate) fn fail_all(&mut self, error: &EngineError) {
        let all = self.batch.leave(|_| Some(Ending::Failed(error.clone())));
        all.gone.into_iter().for_each(|(row, ending)| row.end(ending));
        self.scheduler.take_all().into_iter().for_each(|row| row.end(Ending::Failed(error.clone())));
    }

    /// Whether rows came, went or moved on, or the mode changed, since the last call.
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// The engine as it is now.
    pub fn snapshot(&self, phase: EnginePhase) -> EngineSnapshot {
        let now = self.clock.now();
        let queued = self.scheduler.queued().enumerate();
        let mut rows: Vec<_> =
            queued.map(|(ahead, row)| snapshot_row(row, RowPhase::Queued, ahead, now)).collect();
        let prefilling = self.scheduler.prefilling().iter();
        rows.extend(prefilling.map(|row| snapshot_row(row, RowPhase::Prefilling, 0, now)));
        rows.extend(self.batch.rows().iter().map(|row| snapshot_row(row, RowPhase::Decoding, 0, now)));
        rows.sort_unstable_by_key(|row| row.id);
        EngineSnapshot {
            phase,
            facts: Some(self.facts.clone()),
            gate_mode: self.gate_mode,
            overlap: self.overlap,
            rows,
            steps: self.steps.stats(now),
            memory: Some(self.backend.memory()),
        }
    }

    /// Running totals of the backend.
    pub fn counters(&self) -> Counters {
        self.backend.counters()
    }
}

/// How the rows of a step end, in batch order.
struct Endings {
    by_row: Vec<Option<Ending>>,
    /// Rows that could not be sampled.
    failed: usize,
}

fn snapshot_row(row: &Row, phase: RowPhase, ahead: usize, now: Instant) -> RowSnapshot {
    let prompt_tokens = row.prompt.len() as u32;
    RowSnapshot {
        id: row.id,
        phase,
        ahead: ahead as u32,
        prefill_done_tokens: row.kv_cache_tokens().min(prompt_tokens),
        prompt_tokens,
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
