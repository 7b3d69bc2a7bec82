//! What the engine measured: source of the overlay, the settings panel and the marks on tabs.

use crate::{ErrorCode, ModelSummary};
use serde::{Deserialize, Serialize};
use specta::Type;
use specta_typescript::Number;

/// How rows that need something special share the step with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum GateMode {
    /// One row in need sends the whole batch down the per-row path.
    Strict,
    /// Only the rows in need go per row; mixed sampling settings stay fused.
    #[default]
    Split,
    /// Masks, forced tokens, bias and logprobs ride inside the fused graph; only what cannot goes per row.
    Folded,
}

/// Whether the forward pass of the next step starts before the host has read the tokens of the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum OverlapMode {
    /// Never.
    Off,
    /// Whenever it is possible.
    On,
    /// Where measurements say that it is faster.
    #[default]
    Adaptive,
}

/// Why the latest step ran without overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum OverlapOff {
    /// It is switched off.
    SwitchedOff,
    /// A request is about to join the batch.
    BatchGrowing,
    /// Some row is sampled per row.
    PerRowRows,
    /// Copying the KV cache costs more than the overlap hides, as measured.
    KvCopyCostly,
    /// Steps without it are being timed, to compare.
    Measuring,
    /// Memory is short.
    MemoryPressure,
    /// Every row is at its last token.
    LastTokens,
}

/// How a row was sampled on a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum SamplingPath {
    /// In the one graph of the batch.
    Fused,
    /// In a graph of its own, with its own host read.
    PerRow,
}

/// Why a row needs, or was given, the per-row path; on the fused path, what rides inside the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum PathReason {
    /// A grammar limits the next token.
    StructuredMask,
    /// The engine closes a thinking block.
    ThinkingOverride,
    /// Per-token logprobs were asked for.
    Logprobs,
    /// Single tokens have a logit bias.
    TokenBias,
    /// What the bias changes is recorded.
    BiasTrace,
    /// Tokens that occurred are penalised.
    HistoryPenalty,
    /// A sampler that has no place in the fused graph.
    UnsupportedSampler,
    /// A processor of logits on the host.
    CustomProcessor,
    /// The row's latest step failed.
    Quarantined,
    /// Sampling settings differ between rows.
    MixedSettings,
    /// The batch has one row.
    SingleRow,
    /// The shortlist of likely tokens was too short.
    WidthOverflow,
    /// The reference path was asked for.
    ForcedReference,
    /// The fused graph failed repeatedly.
    RepeatedEvalFailure,
}

/// Path and reasons of one row, as the engine ran the step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct GatePath {
    /// Path taken.
    pub path: SamplingPath,
    /// Reasons of the row itself and of the batch. On the fused path: what rides inside the graph.
    pub reasons: Vec<PathReason>,
    /// Conversation whose row forced this one, when it was not its own doing.
    pub caused_by_conversation_id: Option<String>,
    /// Decode step of the engine since which this holds.
    pub since_step: u32,
}

/// Where a request is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum RowPhase {
    /// Waiting for a slot.
    Queued,
    /// Reading its prompt.
    Prefilling,
    /// Generating.
    Decoding,
}

/// Who asked for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum RowSource {
    /// A conversation in a tab.
    Tab,
    /// Another program, through the local server.
    Server,
    /// The benchmark.
    Benchmark,
}

/// One live request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct RowStatus {
    /// The UI's request id.
    pub request_id: String,
    /// Who asked.
    pub source: RowSource,
    /// Conversation that it answers; `None` unless a tab asked.
    pub conversation_id: Option<String>,
    /// Answer that it fills; `None` unless a tab asked.
    pub answer_id: Option<String>,
    /// Where it is in its life.
    pub phase: RowPhase,
    /// Requests ahead of it while queued.
    pub ahead: u32,
    /// Prompt tokens in the KV cache.
    pub prefill_done_tokens: u32,
    /// Prompt tokens in all.
    pub prompt_tokens: u32,
    /// Of those, the ones whose KV cache was there already.
    pub cached_tokens: u32,
    /// Tokens generated so far.
    pub answer_tokens: u32,
    /// Tokens in the row's KV cache: the figure of the context meter.
    pub kv_cache_tokens: u32,
    /// Context window of the row.
    pub context_tokens: u32,
    /// Path of the latest decode step; `None` before the first.
    pub gate: Option<GatePath>,
    /// Mean time that sampling this row on its own takes per step; `None` if it never was.
    #[specta(type = Option<Number>)]
    pub per_row_ms: Option<f64>,
    /// Decode tokens per second over the last two seconds; `None` before the second token.
    #[specta(type = Option<Number>)]
    pub decode_tok_s: Option<f64>,
    /// Arrival to first token.
    #[specta(type = Option<Number>)]
    pub ttft_ms: Option<f64>,
    /// Median gap between tokens.
    #[specta(type = Option<Number>)]
    pub itl_ms_p50: Option<f64>,
    /// 95th percentile of the gap between tokens.
    #[specta(type = Option<Number>)]
    pub itl_ms_p95: Option<f64>,
}

/// One decode step, for the heartbeat strip.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct StepBar {
    /// Counts decode steps since the engine started.
    pub step: u32,
    /// Rows in the batch.
    pub batch_rows: u32,
    /// Rows that went per row.
    pub per_row_rows: u32,
    /// Wall time of the step.
    #[specta(type = Number)]
    pub step_ms: f64,
}

/// Medians over the recent decode steps, and what each step did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct StepStats {
    /// Decode tokens per second of all rows over the last two seconds; 0 when idle.
    #[specta(type = Number)]
    pub total_tok_s: f64,
    /// Rows in the latest decode step; 0 when idle.
    pub batch_rows: u32,
    /// Decode steps since the engine started.
    pub decode_steps: u32,
    /// Steps in which every row was fused.
    pub fused_steps: u32,
    /// Steps in which some row went per row.
    pub per_row_steps: u32,
    /// Median wall time of a step.
    #[specta(type = Number)]
    pub step_ms_p50: f64,
    /// Median host time to build the forward graph.
    #[specta(type = Number)]
    pub forward_ms_p50: f64,
    /// Median host time to build the sampling graphs.
    #[specta(type = Number)]
    pub sample_ms_p50: f64,
    /// Median time blocked on the device.
    #[specta(type = Number)]
    pub wait_ms_p50: f64,
    /// Median host time after the read: detokenising, stop checks, events.
    #[specta(type = Number)]
    pub host_ms_p50: f64,
    /// Evaluations submitted by the latest decode step.
    pub evals_per_step: u32,
    /// Blocking waits of the latest decode step.
    pub waits_per_step: u32,
    /// Host reads of the latest decode step.
    pub host_reads_per_step: u32,
    /// Steps that had to run again, with a token that a longer shortlist gave.
    pub replays: u32,
    /// Why the latest step ran without overlap; `None` if it ran with it, or before the first step.
    pub overlap_off: Option<OverlapOff>,
    /// Steps that started the next forward pass before their tokens were read.
    pub overlapped_steps: u32,
    /// Of those passes, the ones that still ran when the tokens had been read.
    pub forwards_overlapped: u32,
    /// Median time inside submissions, which can block too.
    #[specta(type = Number)]
    pub submit_ms_p50: f64,
    /// What was true of the latest batch as a whole.
    pub batch_reasons: Vec<PathReason>,
    /// Latest decode steps, oldest first, at most 120.
    pub recent: Vec<StepBar>,
}

/// Bytes in use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct MemoryStats {
    /// Weights.
    #[specta(type = Number)]
    pub model_bytes: f64,
    /// KV cache of the batch, empty capacity included.
    #[specta(type = Number)]
    pub kv_cache_bytes: f64,
    /// MLX's active memory.
    #[specta(type = Number)]
    pub active_bytes: f64,
    /// MLX's peak since start.
    #[specta(type = Number)]
    pub peak_bytes: f64,
    /// What the engine may use.
    #[specta(type = Number)]
    pub limit_bytes: f64,
    /// KV snapshots kept for later prompts.
    #[specta(type = Number)]
    pub snapshot_bytes: f64,
    /// KV caches of prompts that are being read.
    #[specta(type = Number)]
    pub prefill_bytes: f64,
    /// Kept free for what comes and goes within a step.
    #[specta(type = Number)]
    pub reserved_bytes: f64,
    /// KV cache of one more token in one row.
    #[specta(type = Number)]
    pub kv_bytes_per_token: f64,
    /// What admission would still give to new requests: the headroom.
    #[specta(type = Number)]
    pub free_bytes: f64,
}

/// What steps took in one mode of the gate, with as many rows as the latest batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct ModeEffect {
    /// The mode.
    pub mode: GateMode,
    /// Rows in the batch.
    pub batch_rows: u32,
    /// Steps that were measured, the latest 256 at most.
    pub steps: u32,
    /// Median wall time of a step.
    #[specta(type = Number)]
    pub step_ms_p50: f64,
}

/// State of the engine as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum EnginePhase {
    /// Loading the model.
    Loading,
    /// Takes requests.
    Ready,
    /// Cannot take requests until restarted.
    Failed {
        /// Looked up in the UI's wording table.
        code: ErrorCode,
        /// Detail for "copy details".
        detail: String,
    },
}

/// One snapshot, sent four times a second while anybody watches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct EngineStatus {
    /// State of the engine.
    pub phase: EnginePhase,
    /// Loaded model.
    pub model: Option<ModelSummary>,
    /// Mode of the gate.
    pub gate_mode: GateMode,
    /// Whether forward passes may overlap the reading of tokens.
    pub overlap: OverlapMode,
    /// Live requests in order of arrival.
    pub rows: Vec<RowStatus>,
    /// Measured steps.
    pub steps: StepStats,
    /// Bytes in use; `None` before a model is loaded.
    pub memory: Option<MemoryStats>,
    /// Modes in which batches of the latest size have run since the model was loaded.
    pub mode_effects: Vec<ModeEffect>,
}
