//! Sampling settings, as the user set them.

use crate::RemoteTarget;
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
    /// Now and then removes the likeliest tokens; `None` never does.
    pub xtc: Option<XtcSettings>,
    /// (0, 10]; 1 is off. Divides positive logits of tokens that occurred in prompt or answer, multiplies negative ones.
    #[specta(type = Number)]
    pub repetition_penalty: f32,
    /// [-2, 2]; 0 is off. Subtracted from a token's logit once per occurrence in the answer.
    #[specta(type = Number)]
    pub frequency_penalty: f32,
    /// [-2, 2]; 0 is off. Subtracted from the logits of tokens that occur in the answer.
    #[specta(type = Number)]
    pub presence_penalty: f32,
    /// Added to the logits of single tokens; at most 1,024, none twice.
    pub logit_bias: Vec<BiasSetting>,
    /// Whether to record per token what `logit_bias` changed.
    pub wants_bias_trace: bool,
    /// What the answer must match; `None` for free text.
    pub structured_output: Option<StructuredOutput>,
    /// Tokens of thinking after which the model must answer; `None` leaves it to the model.
    pub thinking_budget: Option<u32>,
    /// Whether a model that can think is asked to; `None` leaves it to its chat template.
    pub wants_thinking: Option<bool>,
    /// Server that answers instead of the local engine; `None` answers here.
    pub remote: Option<RemoteTarget>,
}

/// "Exclude top choices".
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct XtcSettings {
    /// (0, 1]; tokens at least this likely are top choices.
    #[specta(type = Number)]
    pub threshold: f32,
    /// [0, 1]; chance per token that all top choices but the least likely are removed.
    #[specta(type = Number)]
    pub probability: f32,
}

/// The bias of one token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct BiasSetting {
    /// Which token.
    pub target: BiasTarget,
    /// [-100, 100].
    #[specta(type = Number)]
    pub value: f32,
}

/// How a token is named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum BiasTarget {
    /// By its text, which the model's tokenizer must make into exactly one token.
    Text {
        /// White space counts: " the" and "the" are two tokens.
        text: String,
    },
    /// By its number.
    TokenId {
        /// In the model's vocabulary.
        id: u32,
    },
}

/// What an answer must match, in one of three languages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum StructuredOutput {
    /// JSON that a schema describes.
    JsonSchema {
        /// A JSON Schema, as JSON text.
        schema: String,
    },
    /// Text that a regular expression matches as a whole.
    Regex {
        /// The expression.
        pattern: String,
    },
    /// Text of a grammar's language.
    Lark {
        /// The grammar, in Lark's notation.
        grammar: String,
    },
}
