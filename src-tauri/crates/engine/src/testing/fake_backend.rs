//! The scripted backend.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

use super::{FakeClock, FakeRow, FaultAt, Script, VOCAB_TOKENS};
use crate::{
    BackendError, RequestId, TokenId,
    backend::{
        Backend, BackendFacts, Counters, FusedRead, MemoryUse, OutOfMemory, RowSampling, Sampled, SnapshotId,
        StepInput,
    },
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
    /// Rows submitted to be sampled together.
    SampleFused(Vec<usize>),
    /// The next forward pass, before the tokens were read.
    ForwardAhead(Vec<RequestId>),
    /// A snapshot of this many columns.
    Snapshot(SnapshotId, usize),
    /// This many columns of a snapshot opened a request's private KV cache.
    Restore(RequestId, SnapshotId, usize),
    /// Freed memory was given back.
    TrimMemory,
    /// A snapshot was freed.
    DropSnapshot(SnapshotId),
    /// Everything was dropped.
    Reset,
    /// A row sampled alone.
    SampleRow(usize),
    /// The model was freed.
    Unload,
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

impl Pace {
    fn now(&self) -> Instant {
        match self {
            Self::Fake(clock) => clock.now(),
            Self::Real => Instant::now(),
        }
    }
}

/// A fused graph that was submitted and not read.
struct Submitted {
    rows: Vec<usize>,
    sampled: Vec<Sampled>,
    /// Whether a shortlist was too narrow, so that the tokens on the device are not those that will be read.
    is_narrow: bool,
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
    submitted: Option<Submitted>,
    /// Whether `batch` has already taken the tokens of `submitted`.
    is_ahead: bool,
    /// When the logits that are sampled next are there.
    logits_at: Instant,
    /// When those of the forward pass ahead are.
    ahead_at: Instant,
    snapshots: HashMap<SnapshotId, Vec<TokenId>>,
    untrimmed_bytes: u64,
    next_snapshot: u64,
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
            layers: 1,
            max_rows: script.max_rows,
            architecture: "scripted".into(),
            quantisation: "none".into(),
            compute_dtype: "f32".into(),
            device: "cpu, scripted".into(),
            memory_limit_bytes: script.memory_limit_bytes,
        };
        let now = pace.now();
        let untrimmed_bytes = script.untrimmed_bytes;
        Self {
            script,
            facts,
            pace,
            logits_at: now,
            ahead_at: now,
            private: HashMap::new(),
            batch: Vec::new(),
            unsampled: Vec::new(),
            submitted: None,
            is_ahead: false,
            snapshots: HashMap::new(),
            untrimmed_bytes,
            next_snapshot: 0,
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

    /// Whether the batch has already taken tokens that the engine has not: a forward pass ahead is under way.
    pub fn is_ahead(&self) -> bool {
        self.is_ahead
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
        let at = self.pace.now();
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push(LoggedCall { call, at });
    }

    fn fail_if(&self, fault: FaultAt) -> Result<(), BackendError> {
        if self.script.faults.contains(&fault) { Err(format!("scripted: {fault:?}").into()) } else { Ok(()) }
    }

    /// Snapshots that are kept.
    pub fn snapshots(&self) -> usize {
        self.snapshots.len()
    }

    fn keep_snapshot(&mut self, tokens: Vec<TokenId>) -> SnapshotId {
        let id = SnapshotId(self.next_snapshot);
        self.next_snapshot += 1;
        self.note(Call::Snapshot(id, tokens.len()));
        self.snapshots.insert(id, tokens);
        id
    }

    /// One wait, one host read.
    fn read(&mut self) {
        self.spend(self.logits_at.saturating_duration_since(self.pace.now()));
        self.counters.waits += 1;
        self.counters.host_reads += 1;
    }

    fn sample(&mut self, row: usize, sampling: &RowSampling<'_>) -> Sampled {
        if std::mem::take(&mut self.is_ahead) {
            self.logits_at = self.ahead_at;
        }
        let index = self.unsampled.iter().position(|other| *other == row);
        self.unsampled.remove(index.expect("each row is sampled once per forward pass"));
        let logits = self.script.logits(&self.batch[row].1);
        let token = reference::sample(&logits, VOCAB_TOKENS, sampling);
        let logprobs = |top| reference::logprobs(&logits, VOCAB_TOKENS, token.ok()?, top).ok();
        let bias_trace = |token| reference::bias_trace(&logits, VOCAB_TOKENS, sampling, token).ok();
        Sampled {
            token,
            shortlist_width: sampling.shortlist_width.max(self.width_needed(sampling)),
            logprobs: sampling.logprobs.and_then(logprobs),
            bias_trace: token.ok().filter(|_| sampling.wants_bias_trace).and_then(bias_trace),
        }
    }

    fn run_forward(&mut self, inputs: &[StepInput]) -> Result<(), BackendError> {
        assert!(self.unsampled.is_empty(), "rows {:?} were not sampled in the last step", self.unsampled);
        assert_eq!(inputs.len(), self.batch.len(), "one input per row of the batch");
        self.steps += 1;
        assert_ne!(Some(self.steps), self.script.panic_at_step, "scripted panic");
        self.fail_if(FaultAt::Forward(self.steps))?;
        if self.script.faults.contains(&FaultAt::OutOfMemory(self.steps)) {
            return Err(Box::new(OutOfMemory));
        }
        for (input, (id, row)) in inputs.iter().zip(&mut self.batch) {
            assert_eq!(input.kv_cache_tokens as usize, row.tokens.len(), "KV cache of {id}");
            row.tokens.push(input.token);
        }
        self.unsampled = (0..self.batch.len()).collect();
        Ok(())
    }

    fn width_needed(&self, sampling: &RowSampling<'_>) -> u32 {
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
        self.is_ahead &= !keep.is_empty();
        // Rows of a forward pass ahead are still to be sampled; others were.
        self.unsampled = if self.is_ahead { (0..keep.len()).collect() } else { Vec::new() };
        self.batch = keep.iter().map(|row| self.batch[*row].clone()).collect();
        self.note(Call::KeepRows(keep.to_vec()));
        Ok(())
    }

    fn forward(&mut self, inputs: &[StepInput]) -> Result<(), BackendError> {
        assert!(self.submitted.is_none(), "the last fused graph was not read");
        if std::mem::take(&mut self.is_ahead) {
            // A replay: the same columns are written again.
            self.unsampled.clear();
            self.batch.iter_mut().for_each(|(_, row)| _ = row.tokens.pop());
        }
        self.spend(self.script.step);
        self.run_forward(inputs)?;
        self.note(Call::Forward(self.batch.iter().map(|(id, _)| *id).collect()));
        Ok(())
    }

    fn submit_fused(&mut self, rows: &[usize], sampling: &[RowSampling<'_>]) -> Result<(), BackendError> {
        assert!(!rows.is_empty() && rows.len() == sampling.len(), "one sampling per row");
        assert!(rows.is_sorted_by(|a, b| a < b), "rows must ascend: {rows:?}");
        assert!(self.submitted.is_none(), "the last fused graph was not read");
        self.fail_if(FaultAt::Sample(self.steps))?;
        self.counters.evals += 1;
        self.note(Call::SampleFused(rows.to_vec()));
        let sampled = rows.iter().zip(sampling).map(|(row, sampling)| self.sample(*row, sampling)).collect();
        let is_narrow = sampling.iter().any(|row| row.shortlist_width < self.width_needed(row));
        self.submitted = Some(Submitted { rows: rows.to_vec(), sampled, is_narrow });
        Ok(())
    }

    fn forward_ahead(&mut self, columns: &[u32]) -> Result<(), BackendError> {
        let submitted = self.submitted.as_ref().expect("a fused graph was submitted");
        assert!(submitted.rows.len() == self.batch.len(), "the graph covers the batch");
        assert!(self.unsampled.is_empty(), "the graph covers the batch");
        assert!(!self.is_ahead, "one forward pass ahead at a time");
        // A narrow shortlist gives another token than the one read later.
        let on_device =
            |sampled: &Sampled| sampled.token.map_or(0, |token| token ^ u32::from(submitted.is_narrow));
        let step_input = |(column, sampled): (&u32, &Sampled)| StepInput {
            token: on_device(sampled),
            kv_cache_tokens: *column,
        };
        let inputs: Vec<StepInput> = columns.iter().zip(&submitted.sampled).map(step_input).collect();
        self.counters.evals += 1;
        self.counters.forwards_ahead += 1;
        // Computed in turn, while the caller goes on.
        self.ahead_at = self.logits_at.max(self.pace.now()) + self.script.step;
        self.run_forward(&inputs)?;
        self.is_ahead = true;
        self.note(Call::ForwardAhead(self.batch.iter().map(|(id, _)| *id).collect()));
        Ok(())
    }

    fn read_fused(
        &mut self,
        rows: &[usize],
        sampling: &[RowSampling<'_>],
    ) -> Result<FusedRead, BackendError> {
        let submitted = self.submitted.take().expect("a fused graph was submitted");
        self.fail_if(FaultAt::Read(self.steps - u64::from(self.is_ahead)))?;
        assert_eq!(
            (submitted.rows.as_slice(), rows.len()),
            (rows, sampling.len()),
            "the graph's rows are read"
        );
        self.read();
        let is_running = self.is_ahead && self.ahead_at > self.pace.now();
        self.counters.forwards_overlapped += u64::from(is_running);
        if submitted.is_narrow {
            self.counters.evals += 1;
            self.read();
            self.counters.width_misses += 1;
        }
        Ok(FusedRead { sampled: submitted.sampled, is_ahead_stale: self.is_ahead && submitted.is_narrow })
    }

    fn sample_row(&mut self, row: usize, sampling: &RowSampling<'_>) -> Result<Sampled, BackendError> {
        self.fail_if(FaultAt::Sample(self.steps))?;
        self.counters.evals += 1;
        let sampled = self.sample(row, sampling);
        self.read();
        self.note(Call::SampleRow(row));
        Ok(sampled)
    }

    fn snapshot_prefill(&mut self, id: RequestId) -> Result<SnapshotId, BackendError> {
        let tokens = self.private.get(&id).cloned().unwrap_or_default();
        Ok(self.keep_snapshot(tokens))
    }

    fn snapshot_row(&mut self, row: usize, tokens: u32) -> Result<SnapshotId, BackendError> {
        let kept = self.batch[row].1.tokens[..tokens as usize].to_vec();
        Ok(self.keep_snapshot(kept))
    }

    fn restore(&mut self, id: RequestId, snapshot: SnapshotId, tokens: u32) -> Result<(), BackendError> {
        let kept = self.snapshots.get(&snapshot).expect("the snapshot was not dropped");
        let opened = self.private.insert(id, kept[..tokens as usize].to_vec());
        assert!(opened.is_none(), "{id} had a private KV cache already");
        self.note(Call::Restore(id, snapshot, tokens as usize));
        Ok(())
    }

    fn drop_snapshot(&mut self, snapshot: SnapshotId) {
        assert!(self.snapshots.remove(&snapshot).is_some(), "{snapshot:?} dropped twice");
        self.note(Call::DropSnapshot(snapshot));
    }

    fn trim_memory(&mut self) {
        self.untrimmed_bytes = 0;
        self.note(Call::TrimMemory);
    }

    fn reset(&mut self) -> Result<(), BackendError> {
        self.fail_if(FaultAt::Reset)?;
        self.batch.clear();
        self.private.clear();
        self.snapshots.clear();
        self.unsampled.clear();
        self.submitted = None;
        self.is_ahead = false;
        self.note(Call::Reset);
        Ok(())
    }

    fn dispatch_fingerprint(&self) -> String {
        format!("scripted, {} rows", self.batch.len())
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn memory(&self) -> MemoryUse {
        let bytes_of = |tokens: usize| tokens as u64 * self.facts.kv_cache_bytes_per_token;
        let batch: usize = self.batch.iter().map(|(_, row)| row.tokens.len()).sum();
        let apart: usize = self.private.values().chain(self.snapshots.values()).map(Vec::len).sum();
        let foreign_bytes = self.script.foreign_bytes.load(Ordering::Relaxed);
        let active_bytes = bytes_of(batch + apart) + self.untrimmed_bytes + foreign_bytes;
        MemoryUse { kv_cache_bytes: bytes_of(batch), active_bytes, peak_bytes: active_bytes }
    }

    fn unload(self) -> MemoryUse {
        self.note(Call::Unload);
        let active_bytes = self.script.foreign_bytes.load(Ordering::Relaxed);
        MemoryUse { kv_cache_bytes: 0, active_bytes, peak_bytes: active_bytes }
    }
}
