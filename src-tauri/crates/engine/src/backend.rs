//! What the engine asks of the code that computes.
//!
//! The order of rows is the engine's: a backend keeps its KV cache in the same order by applying the same lists.
//! Every method runs on the engine thread. A decode step is one [`Backend::forward`] followed by sampling calls
//! that cover each row exactly once: at most one [`Backend::sample_fused`], any number of [`Backend::sample_row`].

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
}

/// One row's input to a decode step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepInput {
    /// Latest token of the row, not yet in its KV cache.
    pub token: TokenId,
    /// Columns of the row's KV cache before this step; the token is written to this column.
    pub kv_cache_tokens: u32,
}

/// Everything the sampler needs to know of one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowSampling {
    /// Divides the logits.
    pub temperature: f32,
    /// 0 is off.
    pub top_k: u32,
    /// 1 is off.
    pub top_p: f32,
    /// 0 is off.
    pub min_p: f32,
    /// Whether the likeliest token is taken whatever the rest says.
    pub is_greedy: bool,
    /// Seed and position folded by [`crate::sampling::noise::row_base`].
    pub noise_base: u32,
    /// Least width of the top-p shortlist: 0, or what an earlier step of this row needed.
    pub shortlist_width: u32,
    /// Alternatives to report; `None` reports no logprobs. Only [`Backend::sample_row`] may be given `Some`.
    pub logprobs: Option<u8>,
}

/// Log-probabilities of one token: log-softmax of the raw logits in f32.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobs {
    /// Of the sampled token.
    pub chosen: f32,
    /// Likeliest tokens first, ties by lowest id.
    pub top: Vec<(TokenId, f32)>,
}

/// Why a row could not be sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadRow {
    /// A logit is NaN or the largest is positive infinity.
    NonFiniteLogits,
    /// Every logit is negative infinity.
    NothingAllowed,
}

/// A sampled token.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// Token, or why there is none.
    pub token: Result<TokenId, BadRow>,
    /// Shortlist width that was enough, to be passed back as [`RowSampling::shortlist_width`].
    pub shortlist_width: u32,
    /// Present exactly when asked for.
    pub logprobs: Option<TokenLogprobs>,
}

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

    /// Keeps the rows of the batch listed in `keep` (ascending indices), dropping the others.
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

    /// Samples `rows` (indices into the batch, ascending, at least one) in one graph with one wait and one host
    /// read; `sampling[i]` belongs to `rows[i]`, as does the result. A shortlist that proves too narrow costs one
    /// more of each and counts a width miss.
    ///
    /// # Errors
    /// The backend's own.
    fn sample_fused(
        &mut self,
        rows: &[usize],
        sampling: &[RowSampling],
    ) -> Result<Vec<Sampled>, BackendError>;

    /// Samples one row in a graph of its own, with its own wait: the fallback.
    ///
    /// # Errors
    /// The backend's own.
    fn sample_row(&mut self, row: usize, sampling: &RowSampling) -> Result<Sampled, BackendError>;

    /// Running totals.
    fn counters(&self) -> Counters;

    /// Device memory in use.
    fn memory(&self) -> MemoryUse;
}
