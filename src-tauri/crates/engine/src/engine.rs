//! One unit of work at a time: a prefill chunk or a decode step, with the rows that come and go around it.

mod admission;
mod decode;
mod faults;
mod prefixes;
mod snapshot;

use std::sync::Arc;

use crate::{
    BackendError, EngineError, RequestId,
    backend::{Backend, BackendFacts, Counters},
    batch::{Batch, Departure},
    clock::Clock,
    event::{EventReceiver, FinishReason},
    gate::{ForcedReference, GateMode},
    loading::FreedMemory,
    memory::Ledger,
    metrics::{modes::ModeTimes, steps::StepMetrics},
    overlap::{OverlapMode, OverlapPolicy},
    prefix_cache::PrefixCache,
    request::{Intake, NewRequest, Submission, check},
    row::{Ending, Row},
    scheduler::{Scheduler, Work},
    thread::EngineConfig,
};
use decode::{Ahead, LastStep};
use faults::FaultLog;

/// The engine without its thread: whoever calls [`Engine::step`] owns the backend's thread.
pub struct Engine<B> {
    backend: B,
    facts: BackendFacts,
    gate_mode: GateMode,
    clock: Arc<dyn Clock>,
    intake: Intake,
    scheduler: Scheduler,
    ledger: Ledger,
    prefixes: PrefixCache,
    max_snapshot_bytes: u64,
    batch: Batch,
    steps: StepMetrics,
    modes: ModeTimes,
    faults: FaultLog,
    forced_reference: ForcedReference,
    overlap: OverlapPolicy,
    ahead: Option<Ahead>,
    last_step: Option<LastStep>,
    /// Rows that may hold a slot: as many as the backend takes, fewer once memory has run out.
    allowed_rows: usize,
    /// Whether another model has memory that may become free.
    is_memory_shared: bool,
    has_news: bool,
}

impl<B: Backend> Engine<B> {
    /// Wraps a loaded backend.
    pub fn new(config: EngineConfig, backend: B, clock: Arc<dyn Clock>) -> Self {
        let intake = Intake::new(config.max_queued, config.tokenizer.clone());
        Self::with_queue(config, backend, clock, intake)
    }

    pub(crate) fn with_queue(
        config: EngineConfig,
        backend: B,
        clock: Arc<dyn Clock>,
        intake: Intake,
    ) -> Self {
        let mut facts = backend.facts().clone();
        facts.memory_limit_bytes = facts.memory_limit_bytes.min(config.max_memory_bytes.unwrap_or(u64::MAX));
        let max_snapshot_bytes = config.max_snapshot_bytes.unwrap_or(facts.memory_limit_bytes / 4);
        Self {
            ledger: Ledger::new(&facts),
            prefixes: PrefixCache::new(facts.kv_cache_bytes_per_token),
            max_snapshot_bytes,
            facts,
            gate_mode: config.gate_mode,
            clock,
            intake,
            scheduler: Scheduler::new(config.prefill_budget),
            batch: Batch::default(),
            steps: StepMetrics::default(),
            modes: ModeTimes::new(backend.facts().max_rows),
            faults: FaultLog::default(),
            forced_reference: ForcedReference::default(),
            overlap: OverlapPolicy::new(config.overlap),
            ahead: None,
            last_step: None,
            allowed_rows: backend.facts().max_rows,
            backend,
            is_memory_shared: false,
            has_news: false,
        }
    }

    /// Checks a request and enqueues it.
    ///
    /// # Errors
    /// [`EngineError::EmptyPrompt`], [`EngineError::PromptTooLong`], [`EngineError::UnknownToken`],
    /// [`EngineError::TooLarge`], [`EngineError::QueueFull`]; of a grammar [`EngineError::Grammar`],
    /// [`EngineError::GrammarDeadEnd`] or [`EngineError::GrammarFailed`]; of an answer so far
    /// [`EngineError::AnswerEnded`], [`EngineError::AnswerRefused`] or [`EngineError::Text`].
    pub fn submit(&mut self, request: NewRequest) -> Result<(RequestId, EventReceiver), EngineError> {
        let (submission, receiver) = check(request, &self.facts, &self.intake)?;
        let id = submission.id;
        self.enqueue(submission);
        Ok((id, receiver))
    }

    pub(crate) fn enqueue(&mut self, submission: Submission) {
        let now = self.clock.now();
        self.scheduler.enqueue(Row::new(submission, self.facts.context_tokens, now));
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
        self.overlap.mode = overlap;
        self.has_news = true;
    }

    /// Starts the statistics of decode steps over, so that what follows is measured alone.
    pub fn forget_steps(&mut self) {
        self.steps = StepMetrics::default();
        self.has_news = true;
    }

    /// Whether there is nothing to do until a request arrives.
    pub fn is_idle(&self) -> bool {
        self.batch.is_empty() && self.scheduler.is_empty()
    }

    /// Whether rows decode or read their prompts.
    pub(crate) fn is_working(&self) -> bool {
        !self.batch.is_empty() || self.scheduler.is_reading()
    }

    /// Sets whether another model takes up memory that it may give back: requests that do not fit wait for that
    /// instead of being refused.
    pub(crate) fn set_memory_shared(&mut self, is_shared: bool) {
        self.is_memory_shared = is_shared;
    }

    /// Frees the model. Requests must have ended.
    pub(crate) fn unload(self) -> FreedMemory {
        let before_bytes = self.backend.memory().active_bytes;
        FreedMemory { before_bytes, after_bytes: self.backend.unload().active_bytes }
    }

    /// The backend, for its counters.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Lets rows come and go, then runs one prefill chunk or one decode step. A fault of the backend ends the rows
    /// of the batch and nothing else.
    ///
    /// # Errors
    /// [`EngineError::RepeatedFaults`] if the backend failed three times within a minute, [`EngineError::Backend`] if it
    /// cannot be rebuilt: the caller must give up.
    pub fn step(&mut self) -> Result<(), EngineError> {
        let outcome = self.run_step();
        outcome.or_else(|fault| self.recover(fault))
    }

    fn run_step(&mut self) -> Result<(), EngineError> {
        self.drop_cancelled()?;
        let now = self.clock.now();
        self.admit();
        // Only at a boundary: nobody joins while a forward pass of the others is under way.
        if self.ahead.is_none() {
            self.join_ready();
        }
        match self.scheduler.next_work(self.batch.len(), now) {
            Work::Prefill { id, tokens } => self.prefill(id, tokens),
            Work::Decode => self.decode()?,
            Work::Idle => {}
        }
        if self.batch.is_empty() {
            self.steps.record_idle();
            self.last_step = None;
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
        self.keep_answers(&gone, &keep);
        for (row, ending) in gone {
            self.end(row, ending);
        }
        if let Some(ahead) = &mut self.ahead {
            ahead.keep(&keep);
        }
        if keep.is_empty() {
            self.ahead = None;
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
            self.last_step = None;
        }
    }

    fn prefill(&mut self, id: RequestId, tokens: usize) {
        let Some(row) = self.scheduler.get_mut(id) else { return };
        self.last_step = None;
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
        self.scheduler.record_chunk(tokens, self.batch.len(), now.saturating_duration_since(started));
    }

    fn fail_prefill(&mut self, row: Row, error: BackendError) {
        self.backend.drop_prefill(row.id);
        self.end(row, Ending::Failed(EngineError::prefill(error)));
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

    /// Running totals of the backend.
    pub fn counters(&self) -> Counters {
        self.backend.counters()
    }
}
