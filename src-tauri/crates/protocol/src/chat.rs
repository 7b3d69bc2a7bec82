//! Starting, following and ending one answer.

use crate::{ErrorCode, GatePath, MessageView};
use serde::{Deserialize, Serialize};
use specta::Type;
use specta_typescript::Number;

/// Sampling settings of one conversation, as the user set them.
///
/// The app checks them against the engine's limits when an answer starts; an error names field, limit and value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct SamplingSettings {
    /// 0 to 5; below 1e-5 the likeliest token is always taken.
    #[specta(type = Number)]
    pub temperature: f32,
    /// (0, 1]; 1 turns the filter off. The token that crosses the threshold is kept.
    #[specta(type = Number)]
    pub top_p: f32,
    /// 0 turns the filter off; 1 is greedy.
    pub top_k: u32,
    /// [0, 1); 0 turns the filter off. Relative to the likeliest token.
    #[specta(type = Number)]
    pub min_p: f32,
    /// Decimal u64. `None` draws one per answer; the receipt says which.
    pub seed: Option<String>,
    /// At least 1.
    pub max_tokens: u32,
    /// Alternatives to record per token, 0 to 20; `None` records nothing.
    pub logprobs: Option<u8>,
    /// Sequences that end the answer; they are not part of it. At most 16, none empty.
    pub stop: Vec<String>,
    /// Instructions placed before the conversation; empty for none.
    pub system_prompt: String,
}

/// Asks for an answer to a new user message.
#[derive(Debug, Clone, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct StartGeneration {
    /// Chosen by the UI, unique per answer; names the answer in `stop_generation` and in `RowStatus`.
    pub request_id: String,
    /// Conversation that the message belongs to.
    pub conversation_id: String,
    /// The user's message, not empty.
    pub text: String,
}

/// Both messages of a turn, on disk before generation starts.
#[derive(Debug, Clone, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct StartedGeneration {
    /// Stored user message.
    pub user_message: MessageView,
    /// Stored, still empty answer that the stream fills.
    pub answer: MessageView,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum FinishReason {
    /// The model ended its turn.
    EndOfTurn,
    /// A stop sequence appeared.
    StopSequence,
    /// `max_tokens` were generated.
    MaxTokens,
    /// The context window is full.
    ContextFull,
    /// The user stopped it.
    Stopped,
    /// It failed; the error code says why.
    Failed,
    /// The app ended while the answer was running.
    Interrupted,
}

/// What the engine measured and used for one answer; stored with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// Arrival of the command to the first token event sent.
    #[specta(type = Option<Number>)]
    pub ttft_ms: Option<f64>,
    /// Decode tokens per second: (tokens - 1) / (last token - first token).
    #[specta(type = Option<Number>)]
    pub decode_tok_s: Option<f64>,
    /// Median gap between consecutive tokens.
    #[specta(type = Option<Number>)]
    pub itl_ms_p50: Option<f64>,
    /// 95th percentile of the gap between consecutive tokens.
    #[specta(type = Option<Number>)]
    pub itl_ms_p95: Option<f64>,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens of the answer.
    pub answer_tokens: u32,
    /// Decode steps that sampled this row in the fused graph.
    pub fused_steps: u32,
    /// Decode steps that sampled this row on the per-row path.
    pub per_row_steps: u32,
    /// Mean rows in the batch over this row's decode steps.
    #[specta(type = Number)]
    pub mean_batch_rows: f64,
    /// Mean log-probability of the chosen tokens, when logprobs were asked for.
    #[specta(type = Option<Number>)]
    pub mean_logprob: Option<f64>,
    /// Settings that the engine used; `seed` is always present.
    pub settings: SamplingSettings,
}

/// One step in the life of an answer. Every event names its request and its place in the request's stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct StreamEvent {
    /// `StartGeneration::request_id`.
    pub request_id: String,
    /// Counts up from 0 without gaps within a request.
    pub sequence: u32,
    /// What happened.
    pub body: StreamEventBody,
}

/// What a [`StreamEvent`] says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum StreamEventBody {
    /// Waiting for a slot.
    Queued {
        /// Requests ahead of this one.
        ahead: u32,
    },
    /// The prompt is being read.
    Prefilling {
        /// Prompt tokens in the KV cache.
        done_tokens: u32,
        /// Prompt tokens in all.
        total_tokens: u32,
    },
    /// Text was added to the answer.
    Text {
        /// Appended to what came before; never replaces.
        delta: String,
        /// Tokens of the answer so far.
        answer_tokens: u32,
    },
    /// The row's sampling path changed.
    Path {
        /// Path taken on the step that caused the event.
        path: GatePath,
    },
    /// The answer ended; the last event.
    Finished {
        /// Why.
        reason: FinishReason,
        /// What was measured.
        receipt: Receipt,
    },
    /// The answer failed; the last event. Text received before stays.
    Failed {
        /// Looked up in the UI's wording table.
        code: ErrorCode,
        /// Detail for the log and for "copy details"; never matched on.
        detail: String,
        /// What was measured until then.
        receipt: Receipt,
    },
}
