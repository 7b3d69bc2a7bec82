//! What was recorded of an answer's tokens: source of the logprobs view.

use serde::{Deserialize, Serialize};
use specta::Type;
use specta_typescript::Number;

/// One token of an answer, or of its thinking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct TokenDetail {
    /// Number in the model's vocabulary.
    pub token: u32,
    /// What it adds to the text; bytes that are no whole character are U+FFFD. Of a special token, its spelling.
    pub text: String,
    /// Log-softmax of the raw logits; `None` for a forced token, which was not sampled, for minus infinity, and for a
    /// token of an answer that went on after an end, if nothing was recorded before it.
    #[specta(type = Option<Number>)]
    pub logprob: Option<f64>,
    /// Likeliest tokens of this place, likeliest first.
    pub alternatives: Vec<TokenAlternative>,
    /// Whether the engine put it there: a closed thinking block, or the only way a grammar leaves.
    pub is_forced: bool,
    /// What the logit bias changed; `None` when no trace was asked for.
    pub bias: Option<BiasEffect>,
}

/// A token that could have been.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct TokenAlternative {
    /// Number in the model's vocabulary.
    pub token: u32,
    /// As [`TokenDetail::text`].
    pub text: String,
    /// As [`TokenDetail::logprob`].
    #[specta(type = Option<Number>)]
    pub logprob: Option<f64>,
}

/// What the logit bias changed at one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct BiasEffect {
    /// Text of the token that would have been the likeliest without the bias.
    pub unbiased_likeliest: String,
    /// Log-probability of the token with the bias, after penalties and mask; `None` for minus infinity.
    #[specta(type = Option<Number>)]
    pub logprob_with: Option<f64>,
    /// The same without it.
    #[specta(type = Option<Number>)]
    pub logprob_without: Option<f64>,
}
