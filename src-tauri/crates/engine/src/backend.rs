//! What the engine asks of the code that computes.
//!
//! The order of rows is the engine's: a backend keeps its KV cache in the same order by applying the same lists.
//! Every method runs on the engine thread. A decode step is one forward pass followed by sampling calls that cover
//! each row exactly once: at most one [`Backend::submit_fused`] with its [`Backend::read_fused`], any number of
//! [`Backend::sample_row`].
//!
//! The forward pass of a step is [`Backend::forward`] from tokens that the host knows, or [`Backend::forward_ahead`]
//! of the step before: submitted between `submit_fused` and `read_fused`, from tokens still on the device, so that it
//! runs while the host reads and keeps its books.

use crate::{RequestId, TokenId};
use std::time::Duration;

/// What the loaded model and its device are.
#[derive(Debug, Clone, PartialEq)]
pub struct BackendFacts {
    /// Width of the logits; may exceed the tokenizer's size.
    pub vocab_width: u32,
    /// Context window, in tokens.
    pub context_tokens: u32,
    /// Bytes of weights on the device.
    pub model_bytes: u64,
    /// KV cache of one token in one row, in bytes.
    pub kv_cache_bytes_per_token: u64,
    /// Layers that the KV cache is divided into, equal in size.
    pub layers: u32,
    /// Most rows a batch can hold.
    pub max_rows: usize,
    /// `model_type` of the config.
    pub architecture: String,
    /// Quantisation as loaded, in words.
    pub quantisation: String,
    /// Dtype that activations are computed in.
    pub compute_dtype: String,
    /// Device in words, "cpu" or "gpu" first.
    pub device: String,
    /// Device memory that the process may use, in bytes.
    pub memory_limit_bytes: u64,
}

/// Columns that a batch's KV cache is grown to when a row needs `tokens`: steps of 256, half as much again above 2048.
/// Backends allocate by this rule and the engine plans by it.
pub fn kv_capacity_tokens(tokens: usize) -> usize {
    const STEP_TOKENS: usize = 256;
    const GEOMETRIC_ABOVE_TOKENS: usize = 2048;
    let wanted = if tokens > GEOMETRIC_ABOVE_TOKENS { tokens + tokens / 2 } else { tokens };
    wanted.next_multiple_of(STEP_TOKENS)
}

/// One row's input to a decode step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepInput {
    /// Latest token of the row, not yet in its KV cache.
    pub token: TokenId,
    /// Columns of the row's KV cache before this step; the token is written to this column.
    pub kv_cache_tokens: u32,
}

/// A token that occurred in a row's prompt or answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenToken {
    /// The token; occurs once in a list.
    pub token: TokenId,
    /// Occurrences in the answer; 0 for a token of the prompt alone.
    pub answer_count: u32,
}

/// Lowers the logits of tokens that occurred.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Penalties<'a> {
    /// Divides positive logits of seen tokens and multiplies negative ones; 1 is off.
    pub repetition: f32,
    /// Subtracted once per occurrence in the answer; 0 is off.
    pub frequency: f32,
    /// Subtracted from tokens that occur in the answer; 0 is off.
    pub presence: f32,
    /// Tokens of prompt and answer, each once, in any order.
    pub seen: &'a [SeenToken],
}

impl Penalties<'_> {
    /// What frequency and presence penalty subtract together from a seen token. One value, so that every sampler
    /// rounds alike.
    pub fn subtracted(&self, answer_count: u32) -> f32 {
        if answer_count == 0 { 0.0 } else { self.frequency * answer_count as f32 + self.presence }
    }
}

/// Tokens that a grammar allows next: bit `id % 32` of word `id / 32`. Ids past the last word are not allowed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenMask {
    /// Bits, lowest first.
    pub words: Vec<u32>,
}

impl TokenMask {
    /// Whether the mask allows `token`.
    pub fn allows(&self, token: TokenId) -> bool {
        self.words.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1)
    }

    /// Whether the mask allows nothing.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }
}

/// Everything the sampler needs to know of one row at one position, lent for a step. [`crate::sampling`] says in
/// which order it applies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowSampling<'a> {
    /// Divides the logits.
    pub temperature: f32,
    /// 0 is off.
    pub top_k: u32,
    /// 1 is off.
    pub top_p: f32,
    /// 0 is off.
    pub min_p: f32,
    /// Tokens at least this likely after the filters give way to the least likely of them; `None` when the row does
    /// not want it or this position's draw spares it.
    pub xtc_threshold: Option<f32>,
    /// Whether the likeliest token is taken whatever the rest says.
    pub is_greedy: bool,
    /// Seed and position folded by [`crate::sampling::noise::row_base`].
    pub noise_base: u32,
    /// Least width of the top-p shortlist: 0, or what an earlier step of this row needed.
    pub shortlist_width: u32,
    /// `None` without an effective penalty.
    pub penalties: Option<Penalties<'a>>,
    /// Added to the logits of these tokens, each at most once; ids below the tokenizer's size.
    pub bias: &'a [(TokenId, f32)],
    /// What the row's grammar allows; `None` allows everything.
    pub mask: Option<&'a TokenMask>,
    /// Token that the row takes whatever its logits say, bad logits excepted.
    pub forced: Option<TokenId>,
    /// Alternatives to report; `None` reports no logprobs.
    pub logprobs: Option<u8>,
    /// Whether to report what the bias changed.
    pub wants_bias_trace: bool,
}

impl RowSampling<'_> {
    /// The likeliest token, and nothing else.
    pub const GREEDY: RowSampling<'static> = RowSampling {
        temperature: 0.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        xtc_threshold: None,
        is_greedy: true,
        noise_base: 0,
        shortlist_width: 0,
        penalties: None,
        bias: &[],
        mask: None,
        forced: None,
        logprobs: None,
        wants_bias_trace: false,
    };
}

/// Log-probabilities of one token: log-softmax of the raw logits in f32.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobs {
    /// Of the sampled token.
    pub chosen: f32,
    /// Likeliest tokens first, ties by lowest id.
    pub top: Vec<(TokenId, f32)>,
}

/// What a row's logit bias changed at one position. Both log-probabilities are of the sampled token, after penalties
/// and mask, before the temperature.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BiasTrace {
    /// Likeliest token without the bias, the lowest id on ties.
    pub unbiased_likeliest: TokenId,
    /// With the bias.
    pub logprob_with: f32,
    /// Without it.
    pub logprob_without: f32,
}

/// Why a row could not be sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadRow {
    /// A logit is NaN or positive infinity, also where the mask does not allow its token.
    NonFiniteLogits,
    /// Every logit is negative infinity, after penalties, bias and mask.
    NothingAllowed,
}

/// A sampled token.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// Token, or why there is none.
    pub token: Result<TokenId, BadRow>,
    /// Shortlist width that was enough, to be passed back as [`RowSampling::shortlist_width`].
    pub shortlist_width: u32,
    /// Present exactly when asked for and the row is not bad.
    pub logprobs: Option<TokenLogprobs>,
    /// Present exactly when asked for and the row is not bad.
    pub bias_trace: Option<BiasTrace>,
}

/// What [`Backend::read_fused`] read.
#[derive(Debug, Clone, PartialEq)]
pub struct FusedRead {
    /// One per row, in the order of the rows.
    pub sampled: Vec<Sampled>,
    /// Whether a forward pass ahead started from a token that a wider shortlist then replaced: the next step must
    /// begin with [`Backend::forward`], which writes the same columns again.
    pub is_ahead_stale: bool,
}

/// Names a KV snapshot. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SnapshotId(pub u64);

/// Running totals since the backend was built; the engine takes differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Graphs submitted for evaluation.
    pub evals: u64,
    /// Blocking waits for the device.
    pub waits: u64,
    /// Arrays read by the host.
    pub host_reads: u64,
    /// Steps repeated at a wider shortlist.
    pub width_misses: u64,
    /// Time blocked in waits.
    pub waited: Duration,
    /// Time spent inside submissions, which can block too.
    pub submitting: Duration,
    /// Forward passes submitted ahead.
    pub forwards_ahead: u64,
    /// Of those, the ones that were still running right after the tokens before them were read: real overlap.
    pub forwards_overlapped: u64,
}

impl Counters {
    /// What was added since `before`.
    pub fn since(self, before: Counters) -> Counters {
        Counters {
            evals: self.evals - before.evals,
            waits: self.waits - before.waits,
            host_reads: self.host_reads - before.host_reads,
            width_misses: self.width_misses - before.width_misses,
            waited: self.waited.saturating_sub(before.waited),
            submitting: self.submitting.saturating_sub(before.submitting),
            forwards_ahead: self.forwards_ahead - before.forwards_ahead,
            forwards_overlapped: self.forwards_overlapped - before.forwards_overlapped,
        }
    }
}

/// Device memory in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryUse {
    /// KV cache of the batch, empty capacity included.
    pub kv_cache_bytes: u64,
    /// Allocated and referenced.
    pub active_bytes: u64,
    /// Largest `active_bytes` since start.
    pub peak_bytes: u64,
}

/// The device has no memory left. A backend makes it the source of its own error when it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the device has no memory left")]
pub struct OutOfMemory;

/// A backend's own error, boxed: the engine reports it and ends what it must, never inspects it.
pub type BackendError = Box<dyn std::error::Error + Send + Sync>;

/// Computes for the engine. An error from any method but [`Backend::prefill`] and [`Backend::join`] is a fault
/// of the whole batch: it cannot be attributed to a row.
pub trait Backend {
    /// What is loaded.
    fn facts(&self) -> &BackendFacts;

    /// Appends `tokens` to the private KV cache of `id` (B = 1), opening it on the first call. Blocks until done.
    ///
    /// # Errors
    /// The backend's own; only this request is affected.
    fn prefill(&mut self, id: RequestId, tokens: &[TokenId]) -> Result<(), BackendError>;

    /// Frees the private KV cache of `id`, if there is one.
    fn drop_prefill(&mut self, id: RequestId);

    /// Moves the private KV cache of `id` (empty if never prefilled) into the batch as its last row.
    ///
    /// # Errors
    /// The backend's own; only this request is affected, the batch is as before.
    fn join(&mut self, id: RequestId) -> Result<(), BackendError>;

    /// Keeps the rows of the batch listed in `keep` (ascending indices), dropping the others, also from the logits of
    /// a forward pass ahead.
    ///
    /// # Errors
    /// The backend's own.
    fn keep_rows(&mut self, keep: &[usize]) -> Result<(), BackendError>;

    /// Builds the forward pass of one decode step: `inputs[row]` for every row of the batch. Does not wait.
    /// The logits stay with the backend until the next call.
    ///
    /// # Errors
    /// The backend's own.
    fn forward(&mut self, inputs: &[StepInput]) -> Result<(), BackendError>;

    /// Submits the sampling graph of `rows` (indices into the batch, ascending, at least one), and the forward pass
    /// with it if that was not submitted yet; `sampling[i]` belongs to `rows[i]`. Does not wait.
    ///
    /// # Errors
    /// The backend's own.
    fn submit_fused(&mut self, rows: &[usize], sampling: &[RowSampling<'_>]) -> Result<(), BackendError>;

    /// Submits the next step's forward pass from the tokens of the latest [`Backend::submit_fused`], which covered the
    /// whole batch and was not read yet. `columns[row]`: column of the row's KV cache that its token is written to.
    /// The logits of the step before must not be sampled again, but for shortlists that prove too narrow.
    ///
    /// # Errors
    /// The backend's own.
    fn forward_ahead(&mut self, columns: &[u32]) -> Result<(), BackendError>;

    /// Reads the tokens of the latest [`Backend::submit_fused`], given its arguments again: one wait and one host
    /// read. A shortlist that proves too narrow costs one more of each and counts a width miss.
    ///
    /// # Errors
    /// The backend's own.
    fn read_fused(&mut self, rows: &[usize], sampling: &[RowSampling<'_>])
    -> Result<FusedRead, BackendError>;

    /// Samples one row in a graph of its own, with its own wait: the fallback.
    ///
    /// # Errors
    /// The backend's own.
    fn sample_row(&mut self, row: usize, sampling: &RowSampling<'_>) -> Result<Sampled, BackendError>;

    /// Keeps a copy of the whole private KV cache of `id`.
    ///
    /// # Errors
    /// The backend's own; nothing has changed.
    fn snapshot_prefill(&mut self, id: RequestId) -> Result<SnapshotId, BackendError>;

    /// Keeps a copy of the first `tokens` columns of a row of the batch. Later writes to the row do not change it.
    ///
    /// # Errors
    /// The backend's own; nothing has changed.
    fn snapshot_row(&mut self, row: usize, tokens: u32) -> Result<SnapshotId, BackendError>;

    /// Opens the private KV cache of `id` with the first `tokens` columns of a snapshot, which stays as it is.
    ///
    /// # Errors
    /// The backend's own; `id` has no private KV cache then.
    fn restore(&mut self, id: RequestId, snapshot: SnapshotId, tokens: u32) -> Result<(), BackendError>;

    /// Frees a snapshot.
    fn drop_snapshot(&mut self, snapshot: SnapshotId);

    /// Gives freed memory back to the system.
    fn trim_memory(&mut self);

    /// Drops every row, private KV cache and snapshot, and rebuilds what a failed evaluation may have left unusable.
    ///
    /// # Errors
    /// The backend's own: the engine cannot go on.
    fn reset(&mut self) -> Result<(), BackendError>;

    /// Class of the kernels that the latest forward pass dispatched to: equal words with different logits are a
    /// defect, different words may differ in the last bits.
    fn dispatch_fingerprint(&self) -> String;

    /// Running totals.
    fn counters(&self) -> Counters;

    /// Device memory in use.
    fn memory(&self) -> MemoryUse;

    /// Frees the model and all that was computed with it, and gives the memory back to the system. Returns what the
    /// process still has in use, another model's included.
    fn unload(self) -> MemoryUse
    where
        Self: Sized;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_grows_by_256_and_by_half_above_2048() {
        assert_eq!([1, 256, 257, 2048].map(kv_capacity_tokens), [256, 256, 512, 2048]);
        assert_eq!(kv_capacity_tokens(2049), 3328, "2049 + 1024, rounded up to 256");
    }
}
