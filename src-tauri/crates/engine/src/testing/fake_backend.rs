//! The scripted backend.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{FakeClock, FakeRow, FaultAt, Script, VOCAB_TOKENS};
use crate::{
    BackendError, RequestId, TokenId,
    backend::{Backend, BackendFacts, Counters, MemoryUse, RowSampling, Sampled, StepInput},
    clock::Clock,
    sampling::reference,
};

/// A call that the engine made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// This many prompt tokens of a request.
    Prefill(RequestId, usize),
    /// A private KV cache was freed.
    DropPrefill(RequestId),
    /// A request joined the batch.
    Join(RequestId),
    /// Rows kept.
    KeepRows(Vec<usize>),
    /// A forward pass over the batch, by request.
    Forward(Vec<RequestId>),
    /// Rows sampled together.
    SampleFused(Vec<usize>),
    /// A row sampled alone.
    SampleRow(usize),
}

/// A call and when it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedCall {
    /// What was called.
    pub call: Call,
    /// End of the call.
    pub at: Instant,
}

/// How time passes.
enum Pace {
    Fake(FakeClock),
    Real,
}

/// A backend that follows a [`Script`]. Panics when the engine breaks the contract of [`Backend`].
pub struct FakeBackend {
    script: Script,
    facts: BackendFacts,
    pace: Pace,
    private: HashMap<RequestId, Vec<TokenId>>,
    batch: Vec<(RequestId, FakeRow)>,
    /// Rows of the latest forward pass that were not sampled yet.
    unsampled: Vec<usize>,
    steps: u64,
    keeps: u64,
    counters: Counters,
    log: Arc<Mutex<Vec<LoggedCall>>>,
}

impl FakeBackend {
    /// Follows `script` in real time: it sleeps as long as the script says.
    pub fn new(script: impl Into<Script>) -> Self {
        Self::with_pace(script.into(), Pace::Real)
    }

    /// Follows `script` on a clock of its own making: calls move `clock` on instead of sleeping.
    pub fn on_clock(script: impl Into<Script>, clock: FakeClock) -> Self {
        Self::with_pace(script.into(), Pace::Fake(clock))
    }

    fn with_pace(script: Script, pace: Pace) -> Self {
        let facts = BackendFacts {
            vocab_width: script.vocab_width(),
            context_tokens: script.context_tokens,
            model_bytes: 0,
            kv_cache_bytes_per_token: 4,
            max_rows: script.max_rows,
            architecture: "scripted".into(),
            quantisation: "none".into(),
            compute_dtype: "f32".into(),
            device: "cpu, scripted".into(),
        };
        Self {
            script,
            facts,
            pace,
            private: HashMap::new(),
            batch: Vec::new(),
            unsampled: Vec::new(),
            steps: 0,
            keeps: 0,
            counters: Counters::default(),
            log: Arc::default(),
        }
    }

    /// The calls so far, shared with the backend: keeps growing after the engine has taken the backend.
    pub fn log(&self) -> Arc<Mutex<Vec<LoggedCall>>> {
        self.log.clone()
    }

    /// The batch as the backend holds it.
    pub fn batch(&self) -> &[(RequestId, FakeRow)] {
        &self.batch
    }

    /// Requests with a private KV cache.
    pub fn private_rows(&self) -> usize {
        self.private.len()
    }

    fn spend(&self, time: Duration) {
        match &self.pace {
            Pace::Fake(clock) => clock.advance(time),
            Pace::Real if time.is_zero() => {}
            Pace::Real => std::thread::sleep(time),
        }
    }

    fn note(&self, call: Call) {
        let at = match &self.pace {
            Pace::Fake(clock) => clock.now(),
            Pace::Real => Instant::now(),
        };
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push(LoggedCall { call, at });
    }

    fn fail_if(&self, fault: FaultAt) -> Result<(), BackendError> {
        if self.script.faults.contains(&fault) { Err(format!("scripted: {fault:?}").into()) } else { Ok(()) }
    }

    /// One graph, one wait, one host read.
    fn count_read(&mut self) {
        self.counters.evals += 1;
        self.counters.waits += 1;
        self.counters.host_reads += 1;
    }

    fn sample(&mut self, row: usize, sampling: &RowSampling) -> Sampled {
        let index = self.unsampled.iter().position(|other| *other == row);
        self.unsampled.remove(index.expect("each row is sampled once per forward pass"));
        let logits = self.script.logits(&self.batch[row].1);
        let token = reference::sample(&logits, VOCAB_TOKENS, sampling);
        let logprobs = |top| reference::logprobs(&logits, VOCAB_TOKENS, token.ok()?, top).ok();
        Sampled {
            token,
            shortlist_width: sampling.shortlist_width.max(self.width_needed(sampling)),
            logprobs: sampling.logprobs.and_then(logprobs),
        }
    }

    fn width_needed(&self, sampling: &RowSampling) -> u32 {
        let has_open_shortlist = !sampling.is_greedy && sampling.top_k == 0 && sampling.top_p < 1.0;
        if has_open_shortlist { self.script.needed_width } else { 0 }
    }
}

impl Backend for FakeBackend {
    fn facts(&self) -> &BackendFacts {
        &self.facts
    }

    fn prefill(&mut self, id: RequestId, tokens: &[TokenId]) -> Result<(), BackendError> {
        assert!(!tokens.is_empty(), "an empty chunk was prefilled for {id}");
        self.spend(self.script.prefill_per_token * tokens.len() as u32);
        self.note(Call::Prefill(id, tokens.len()));
        let private = self.private.entry(id).or_default();
        private.extend(tokens);
        if self.script.unreadable == private.first().copied() {
            return Err("scripted: this prompt cannot be read".into());
        }
        Ok(())
    }

    fn drop_prefill(&mut self, id: RequestId) {
        self.private.remove(&id);
        self.note(Call::DropPrefill(id));
    }

    fn join(&mut self, id: RequestId) -> Result<(), BackendError> {
        assert!(self.batch.len() < self.script.max_rows, "{id} joined a full batch");
        assert!(self.batch.iter().all(|(other, _)| *other != id), "{id} joined twice");
        let tokens = self.private.remove(&id).unwrap_or_default();
        // The last prompt token comes with the first forward pass.
        let prompt_tokens = tokens.len() + 1;
        self.batch.push((id, FakeRow { tokens, prompt_tokens }));
        self.note(Call::Join(id));
        Ok(())
    }

    fn keep_rows(&mut self, keep: &[usize]) -> Result<(), BackendError> {
        assert!(keep.is_sorted_by(|a, b| a < b), "rows to keep must ascend: {keep:?}");
        self.keeps += 1;
        self.fail_if(FaultAt::KeepRows(self.keeps))?;
        self.unsampled.clear();
        self.batch = keep.iter().map(|row| self.batch[*row].clone()).collect();
        self.note(Call::KeepRows(keep.to_vec()));
        Ok(())
    }

    fn forward(&mut self, inputs: &[StepInput]) -> Result<(), BackendError> {
        assert!(self.unsampled.is_empty(), "rows {:?} were not sampled in the last step", self.unsampled);
        assert_eq!(inputs.len(), self.batch.len(), "one input per row of the batch");
        self.steps += 1;
        self.spend(self.script.step);
        assert_ne!(Some(self.steps), self.script.panic_at_step, "scripted panic");
        self.fail_if(FaultAt::Forward(self.steps))?;
        for (input, (id, row)) in inputs.iter().zip(&mut self.batch) {
            assert_eq!(input.kv_cache_tokens as usize, row.tokens.len(), "KV cache of {id}");
            assert!(input.kv_cache_tokens < self.facts.context_tokens, "{id} overran its context");
            row.tokens.push(input.token);
        }
        self.unsampled = (0..self.batch.len()).collect();
        self.note(Call::Forward(self.batch.iter().map(|(id, _)| *id).collect()));
        Ok(())
    }

    fn sample_fused(
        &mut self,
        rows: &[usize],
        sampling: &[RowSampling],
    ) -> Result<Vec<Sampled>, BackendError> {
        assert!(!rows.is_empty() && rows.len() == sampling.len(), "one sampling per row");
        assert!(rows.is_sorted_by(|a, b| a < b), "rows must ascend: {rows:?}");
        assert!(sampling.iter().all(|row| row.logprobs.is_none()), "logprobs are not fused");
        self.fail_if(FaultAt::Sample(self.steps))?;
        self.count_read();
        if sampling.iter().any(|row| row.shortlist_width < self.width_needed(row)) {
            self.count_read();
            self.counters.width_misses += 1;
        }
        self.note(Call::SampleFused(rows.to_vec()));
        Ok(rows.iter().zip(sampling).map(|(row, sampling)| self.sample(*row, sampling)).collect())
    }

    fn sample_row(&mut self, row: usize, sampling: &RowSampling) -> Result<Sampled, BackendError> {
        self.fail_if(FaultAt::Sample(self.steps))?;
        self.count_read();
        self.note(Call::SampleRow(row));
        Ok(self.sample(row, sampling))
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn memory(&self) -> MemoryUse {
        let tokens: usize = self.batch.iter().map(|(_, row)| row.tokens.len()).sum();
        let kv_cache_bytes = tokens as u64 * self.facts.kv_cache_bytes_per_token;
        MemoryUse { kv_cache_bytes, active_bytes: kv_cache_bytes, peak_bytes: kv_cache_bytes }
    }
}
