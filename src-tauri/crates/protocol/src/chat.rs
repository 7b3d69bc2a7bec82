//! Starting, following and ending one answer.

use crate::{ErrorCode, GatePath, MessageView, SamplingSettings};
use serde::{Deserialize, Serialize};
use specta::Type;
use specta_typescript::Number;

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

/// Asks for another version of an answer, beside the ones that are there.
#[derive(Debug, Clone, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct RegenerateAnswer {
    /// As in [`StartGeneration::request_id`].
    pub request_id: String,
    /// Conversation of the answer.
    pub conversation_id: String,
    /// The answer that gets a sibling.
    pub answer_id: String,
    /// What the new version is made with.
    pub seed: SeedChoice,
}

/// What another version of an answer is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum SeedChoice {
    /// The conversation's settings of now, with a seed drawn anew.
    New,
    /// The settings and the seed of the answer: the same text again.
    Same,
}

/// Asks for another version of a question, and an answer to it. The question's attachments go with it.
#[derive(Debug, Clone, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct EditMessage {
    /// As in [`StartGeneration::request_id`].
    pub request_id: String,
    /// Conversation of the question.
    pub conversation_id: String,
    /// The question that gets a sibling.
    pub message_id: String,
    /// What it says now, not empty.
    pub text: String,
}

/// Asks for more of an answer that ended early: stopped, interrupted, failed, or out of tokens.
#[derive(Debug, Clone, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct ContinueAnswer {
    /// As in [`StartGeneration::request_id`].
    pub request_id: String,
    /// Conversation of the answer.
    pub conversation_id: String,
    /// The answer that goes on; it keeps its id and its text.
    pub answer_id: String,
}

/// Asks for a version of an answer that takes another way at one token, and goes on from there.
#[derive(Debug, Clone, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct BranchAnswer {
    /// As in [`StartGeneration::request_id`].
    pub request_id: String,
    /// Conversation of the answer.
    pub conversation_id: String,
    /// The answer that gets a sibling; its tokens were recorded, see `read_token_details`.
    pub answer_id: String,
    /// Place of the token that is replaced, among the recorded ones.
    pub token_index: u32,
    /// Number of the token that takes its place.
    pub token: u32,
}

/// Asks one question for several answers at once: versions that share the reading of the prompt.
#[derive(Debug, Clone, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct FanOut {
    /// Conversation that the question belongs to.
    pub conversation_id: String,
    /// The user's message, not empty.
    pub text: String,
    /// 2 to 8 answers, left to right.
    pub variants: Vec<FanOutVariant>,
}

/// One answer of a [`FanOut`].
#[derive(Debug, Clone, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct FanOutVariant {
    /// As in [`StartGeneration::request_id`].
    pub request_id: String,
    /// What it is made with.
    pub settings: SamplingSettings,
}

/// The question and the answers of a [`FanOut`], on disk before generation starts.
#[derive(Debug, Clone, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct StartedFanOut {
    /// Stored user message.
    pub user_message: MessageView,
    /// Stored, still empty answers, in the order of the variants.
    pub answers: Vec<MessageView>,
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
    /// Structured output that stalled or was cut off: what there is matches only the beginning of what was asked for.
    Incomplete,
    /// The user stopped it.
    Stopped,
    /// It failed; the error code says why.
    Failed,
    /// The app ended while the answer was running.
    Interrupted,
}

/// What the engine measured and used for one answer; stored with it.
///
/// Of an answer that went on after an end: counts and means are of all parts, the pauses between them left out of the
/// speed; time to first token and cached tokens of the first part; gaps of the part with more tokens.
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
    /// Of those, the ones whose KV cache was there already.
    pub cached_tokens: u32,
    /// Tokens of the answer, thinking left out. Of a server that counts none: pieces in which the text came.
    pub answer_tokens: u32,
    /// Tokens of the thinking, counted likewise.
    pub thinking_tokens: u32,
    /// Decode steps that sampled this row in the fused graph; none of them, and no other steps, where a server answers.
    pub fused_steps: u32,
    /// Decode steps that sampled this row on the per-row path.
    pub per_row_steps: u32,
    /// Mean rows in the batch over this row's decode steps.
    #[specta(type = Number)]
    pub mean_batch_rows: f64,
    /// Mean log-probability of the chosen tokens, when logprobs were asked for.
    #[specta(type = Option<Number>)]
    pub mean_logprob: Option<f64>,
    /// Tokens whose details were stored with the answer, see `read_token_details`; 0 when none were asked for.
    pub recorded_tokens: u32,
    /// Settings that the engine used, `seed` included. Of a server: those that it was sent, without a seed if it drew one.
    pub settings: SamplingSettings,
}

/// Which part of an answer a text belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum TextPart {
    /// What the person asked for.
    Answer,
    /// What the model thought before it.
    Thinking,
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
        /// Where it belongs.
        part: TextPart,
        /// Appended to what came before in that part; never replaces.
        delta: String,
        /// Tokens of the answer so far; where a server answers, pieces of it.
        answer_tokens: u32,
        /// Tokens of the thinking so far; where a server answers, pieces of it.
        thinking_tokens: u32,
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
