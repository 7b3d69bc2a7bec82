//! The app's errors in the words of the API.

use openai_api::server::Refusal;
use protocol::ErrorCode;

use crate::error::{AppError, in_full};

/// A model is on its way.
pub(super) fn loading() -> Refusal {
    Refusal::unavailable("model_loading", "Braid is loading a model; ask again in a moment")
}

/// Why a request gets no answer.
pub(super) fn of(error: &AppError) -> Refusal {
    if let AppError::InvalidSetting(invalid) = error {
        return Refusal::invalid(param_of(invalid.field), error.to_string());
    }
    let words = in_full(error);
    match error.code() {
        ErrorCode::QueueFull => Refusal::unavailable("queue_full", words),
        ErrorCode::EngineNotReady => loading(),
        ErrorCode::ModelReplaced => Refusal::unavailable("model_replaced", words),
        ErrorCode::ModelUnloaded | ErrorCode::ModelMissing => {
            Refusal::unavailable("no_model", format!("no model is loaded in Braid: {words}"))
        }
        ErrorCode::EngineFailed | ErrorCode::ModelUnusable | ErrorCode::ModelUnsupported => {
            Refusal::unavailable("engine_failed", words)
        }
        ErrorCode::ContextTooLong => Refusal::impossible("context_length_exceeded", words),
        ErrorCode::TooLarge => Refusal::impossible("out_of_memory", words),
        ErrorCode::GrammarRefused | ErrorCode::GrammarDeadEnd => Refusal::invalid("response_format", words),
        ErrorCode::TemplateRejected => Refusal::invalid("messages", words),
        _ => Refusal::failed(words),
    }
}

/// What the API calls a setting.
fn param_of(field: &'static str) -> &'static str {
    match field {
        "logprobs" => "top_logprobs",
        "structured_output" => "response_format",
        field => field,
    }
}
