//! What the engine shows of itself.

use std::time::Duration;

use crate::{
    EngineError, RequestId,
    backend::{BackendFacts, MemoryUse},
    event::RowPath,
    gate::GateMode,
    memory::LedgerUse,
    metrics::{modes::ModeEffect, steps::StepStats},
    overlap::OverlapMode,
};

/// State of one model and the engine that runs it. Those after [`EnginePhase::Ready`] are final.
#[derive(Debug, Clone)]
pub enum EnginePhase {
    /// Reading the weights.
    Loading {
        /// Bytes on the device.
        done_bytes: u64,
        /// Bytes in all; 0 until the files were opened.
        total_bytes: u64,
    },
    /// Takes requests.
    Ready,
    /// Could not be loaded, or takes no requests any more.
    Failed(EngineError),
    /// Another model has taken its place.
    Replaced,
    /// Was unloaded to give its memory back.
    Unloaded,
    /// Was shut down.
    Stopped,
}

/// Where a request is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowPhase {
    /// Waiting for a slot.
    Queued,
    /// Reading its prompt.
    Prefilling,
    /// Generating.
    Decoding,
}

/// One live request.
#[derive(Debug, Clone, PartialEq)]
pub struct RowSnapshot {
    /// The request.
    pub id: RequestId,
    /// Where it is in its life.
    pub phase: RowPhase,
    /// Requests ahead of it while queued.
    pub ahead: u32,
    /// Prompt tokens in the KV cache.
    pub prefill_done_tokens: u32,
    /// Prompt tokens in all. An answer that goes on counts as prompt here as far as it came with the request.
    pub prompt_tokens: u32,
    /// Of those, taken over from an earlier or a parallel request instead of read.
    pub cached_tokens: u32,
    /// Tokens of the answer so far, without thinking.
    pub answer_tokens: u32,
    /// Tokens in the row's KV cache.
    pub kv_cache_tokens: u32,
    /// Context window of the row.
    pub context_tokens: u32,
    /// Path of the latest decode step; `None` before the first.
    pub path: Option<RowPath>,
    /// Mean time to sample the row in a graph of its own, over its recent per-row steps; `None` without one.
    pub per_row_cost: Option<Duration>,
    /// Decode tokens per second over the last two seconds; `None` before the second token.
    pub decode_tok_s: Option<f64>,
    /// Arrival to first token.
    pub ttft: Option<Duration>,
    /// Median gap between tokens.
    pub itl_p50: Option<Duration>,
    /// 95th percentile of the gap between tokens.
    pub itl_p95: Option<Duration>,
}

/// The engine at one moment.
#[derive(Debug, Clone)]
pub struct EngineSnapshot {
    /// State as a whole.
    pub phase: EnginePhase,
    /// The loaded model; `None` until it is.
    pub facts: Option<BackendFacts>,
    /// Mode of the gate.
    pub gate_mode: GateMode,
    /// Whether forward passes may be submitted ahead.
    pub overlap: OverlapMode,
    /// Rows that may run or read their prompt at once: as many as the backend takes, fewer once memory has run out;
    /// 0 until a model is loaded.
    pub allowed_rows: usize,
    /// Live requests in order of arrival.
    pub rows: Vec<RowSnapshot>,
    /// Measured steps.
    pub steps: StepStats,
    /// Modes of the gate in which batches of the latest size have run since the model was loaded.
    pub mode_effects: Vec<ModeEffect>,
    /// Device memory; `None` until a model is loaded.
    pub memory: Option<MemoryUse>,
    /// Device memory as planned; `None` until a model is loaded.
    pub ledger: Option<LedgerUse>,
}
