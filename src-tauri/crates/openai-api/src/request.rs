//! What is asked of `/v1/chat/completions`.
//!
//! Fields that are `None` are not sent. Of what arrives, unknown fields are ignored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One request for a chat completion.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChatRequest {
    /// The server's name for the model.
    pub model: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// Whether the answer comes in pieces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// What else comes with the pieces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_options: Option<StreamOptions>,
    /// Divides the logits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Nucleus of probability, (0, 1].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// Likeliest tokens kept; not in OpenAI's own API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// Least probability relative to the likeliest; not in OpenAI's own API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_p: Option<f32>,
    /// Seed of the noise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// Sequences that end the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// Tokens to generate at most; the older name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Tokens to generate at most; the newer name, which wins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_completion_tokens: Option<u32>,
    /// Subtracted once per occurrence, -2 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f32>,
    /// Subtracted once, -2 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f32>,
    /// Divides positive logits of tokens that occurred; not in OpenAI's own API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repetition_penalty: Option<f32>,
    /// Chance that top choices are excluded; not in OpenAI's own API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xtc_probability: Option<f32>,
    /// How likely a top choice is; not in OpenAI's own API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xtc_threshold: Option<f32>,
    /// Added to the logits of tokens, by token id in decimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logit_bias: Option<BTreeMap<String, f32>>,
    /// Whether log-probabilities come with the tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<bool>,
    /// Alternatives per token, 0 to 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_logprobs: Option<u32>,
    /// What the answer must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_format: Option<ResponseFormat>,
    /// Answers wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n: Option<u32>,
    /// How much to think; "none" for not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    /// Variables of the model's chat template; not in OpenAI's own API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat_template_kwargs: Option<TemplateVariables>,
    /// Functions that the model may call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Value>,
    /// The older form of `tools`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub functions: Option<Value>,
    /// Kinds of output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modalities: Option<Vec<String>>,
}

/// A number from 0 to 2^64 - 1; a negative one, which some programs send, stands for the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Seed {
    /// As most send it.
    Positive(u64),
    /// As OpenAI's schema allows it.
    Negative(i64),
}

impl Seed {
    /// The seed's 64 bits.
    pub fn bits(self) -> u64 {
        match self {
            Self::Positive(seed) => seed,
            Self::Negative(seed) => seed.cast_unsigned(),
        }
    }
}

/// One message of the conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Message {
    /// `system`, `developer`, `user`, `assistant` or `tool`.
    pub role: String,
    /// What is said; `None` only where a tool was called instead.
    pub content: Option<Content>,
    /// What was thought before; servers that do not know it ignore it.
    #[serde(skip_serializing_if = "Option::is_none", alias = "reasoning")]
    pub reasoning_content: Option<String>,
    /// Calls that the model made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Value>,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// Text in parts, and what is no text.
    Parts(Vec<Part>),
}

/// A part of what a message says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Part {
    /// `text`, or something else such as `image_url`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The text of a part of that kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// One sequence or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Stop {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl From<Stop> for Vec<String> {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::One(sequence) => vec![sequence],
            Stop::Many(sequences) => sequences,
        }
    }
}

/// What comes with a streamed answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamOptions {
    /// Whether the counts of tokens come in a piece of their own.
    pub include_usage: Option<bool>,
}

/// What an answer must be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResponseFormat {
    /// `text`, `json_object` or `json_schema`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The schema, for `json_schema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_schema: Option<JsonSchemaFormat>,
}

/// A schema and what it is called.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JsonSchemaFormat {
    /// Letters, digits, `_` and `-`.
    pub name: String,
    /// The JSON Schema.
    pub schema: Value,
    /// Whether the answer is held to it token by token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
}

/// Variables of chat templates that this crate knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TemplateVariables {
    /// Whether a model that can think is asked to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_thinking: Option<bool>,
}
