//! What an answer says of itself.

use serde::{Deserialize, Deserializer, Serialize};

/// Counts of tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens of the prompt.
    #[serde(deserialize_with = "lenient")]
    pub prompt_tokens: u32,
    /// Tokens of the answer, thinking included.
    #[serde(deserialize_with = "lenient")]
    pub completion_tokens: u32,
    /// Both together.
    #[serde(deserialize_with = "lenient")]
    pub total_tokens: u32,
    /// Of the prompt.
    #[serde(deserialize_with = "or_default")]
    pub prompt_tokens_details: PromptDetails,
    /// Of the answer.
    #[serde(deserialize_with = "or_default")]
    pub completion_tokens_details: CompletionDetails,
}

/// What the prompt's tokens were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptDetails {
    /// Tokens whose KV cache was there already.
    #[serde(deserialize_with = "lenient")]
    pub cached_tokens: u32,
}

/// What the answer's tokens were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompletionDetails {
    /// Tokens of thinking.
    #[serde(deserialize_with = "lenient")]
    pub reasoning_tokens: u32,
}

/// A count that may be absent, null or too large.
fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(value.as_u64().map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX)))
}

fn or_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
