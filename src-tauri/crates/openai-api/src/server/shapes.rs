//! Answers in the convention's shapes.

use serde_json::{Map, Value, json};

use super::{AnswerEnd, ServedModel, TokenLogprob};
use crate::response::Usage;

/// What stands for a log-probability of negative infinity, which JSON cannot write.
const LEAST_LOGPROB: f32 = -9999.0;

/// What all pieces of an answer have in common.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub id: String,
    pub model: String,
    pub created: u64,
}

pub(super) fn models(models: &[ServedModel], created: u64) -> Value {
    let entries: Vec<Value> = models.iter().map(|entry| model(entry, created)).collect();
    json!({ "object": "list", "data": entries })
}

pub(super) fn model(model: &ServedModel, created: u64) -> Value {
    json!({
        "id": model.id,
        "object": "model",
        "created": created,
        "owned_by": "braid",
        "max_model_len": model.context_tokens,
    })
}

/// A piece of a streamed answer. `usage`: `None` leaves the field out.
pub(super) fn chunk(head: &Head, choice: Option<Value>, usage: Option<Value>) -> Value {
    let mut chunk = json!({
        "id": head.id,
        "object": "chat.completion.chunk",
        "created": head.created,
        "model": head.model,
        "choices": choice.into_iter().collect::<Vec<_>>(),
    });
    if let Some(usage) = usage {
        chunk["usage"] = usage;
    }
    chunk
}

/// The choice of a piece.
pub(super) fn delta(delta: Value, logprobs: &[TokenLogprob], finish: Option<AnswerEnd>) -> Value {
    json!({
        "index": 0,
        "delta": delta,
        "logprobs": logprobs_of(logprobs),
        "finish_reason": finish.map(word),
    })
}

/// What is added by a piece.
pub(super) fn added(thinking: &str, text: &str) -> Value {
    let mut delta = Map::new();
    if !thinking.is_empty() {
        delta.insert("reasoning_content".into(), thinking.into());
    }
    if !text.is_empty() {
        delta.insert("content".into(), text.into());
    }
    Value::Object(delta)
}

/// A whole answer.
pub(super) fn completion(
    head: &Head,
    (thinking, text): (&str, &str),
    logprobs: &[TokenLogprob],
    reason: AnswerEnd,
    usage: Usage,
) -> Value {
    let mut message = json!({ "role": "assistant", "content": text, "refusal": null });
    if !thinking.is_empty() {
        message["reasoning_content"] = thinking.into();
    }
    json!({
        "id": head.id,
        "object": "chat.completion",
        "created": head.created,
        "model": head.model,
        "choices": [{
            "index": 0,
            "message": message,
            "logprobs": logprobs_of(logprobs),
            "finish_reason": word(reason),
        }],
        "usage": usage,
    })
}

fn word(end: AnswerEnd) -> &'static str {
    match end {
        AnswerEnd::Stop => "stop",
        AnswerEnd::Length => "length",
    }
}

fn logprobs_of(tokens: &[TokenLogprob]) -> Value {
    if tokens.is_empty() {
        return Value::Null;
    }
    let content: Vec<Value> = tokens
        .iter()
        .map(|token| {
            let mut entry = entry(token);
            entry["top_logprobs"] = token.alternatives.iter().map(self::entry).collect();
            entry
        })
        .collect();
    json!({ "content": content, "refusal": null })
}

fn entry(token: &TokenLogprob) -> Value {
    json!({ "token": token.text, "logprob": token.logprob.unwrap_or(LEAST_LOGPROB), "bytes": token.bytes })
}
