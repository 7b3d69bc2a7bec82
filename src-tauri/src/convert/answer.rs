//! How an answer ended, for the wire and for the database.

use engine::RequestSummary;
use history::FinishState;
use protocol::{FinishReason, Receipt, SamplingSettings, TextPart};

use super::{milliseconds, rounded};
use crate::requests::StopCause;

/// What was measured, with the settings that were used.
pub fn receipt(summary: &RequestSummary, settings: &SamplingSettings) -> Receipt {
    Receipt {
        ttft_ms: summary.ttft.map(milliseconds),
        decode_tok_s: summary.decode_tok_s.map(rounded),
        itl_ms_p50: summary.itl_p50.map(milliseconds),
        itl_ms_p95: summary.itl_p95.map(milliseconds),
        prompt_tokens: summary.prompt_tokens,
        cached_tokens: summary.cached_tokens,
        answer_tokens: summary.answer_tokens,
        thinking_tokens: summary.thinking_tokens,
        fused_steps: summary.fused_steps,
        per_row_steps: summary.per_row_steps,
        mean_batch_rows: rounded(summary.mean_batch_rows),
        mean_logprob: summary.mean_logprob.map(rounded),
        recorded_tokens: 0,
        settings: SamplingSettings { seed: Some(summary.seed.to_string()), ..settings.clone() },
    }
}

/// The receipt of a request that never reached the engine: nothing was measured.
pub fn empty_receipt(settings: &SamplingSettings) -> Receipt {
    Receipt { settings: settings.clone(), ..receipt(&RequestSummary::default(), settings) }
}

/// Why an answer ended; `cause` tells who cancelled it.
pub fn finish_reason(reason: engine::FinishReason, cause: Option<StopCause>) -> FinishReason {
    match reason {
        engine::FinishReason::EndOfTurn => FinishReason::EndOfTurn,
        engine::FinishReason::StopSequence => FinishReason::StopSequence,
        engine::FinishReason::MaxTokens => FinishReason::MaxTokens,
        engine::FinishReason::ContextFull => FinishReason::ContextFull,
        engine::FinishReason::Incomplete => FinishReason::Incomplete,
        engine::FinishReason::Cancelled => cancelled(cause),
    }
}

/// Which part of an answer a text belongs to.
pub fn text_part(part: engine::event::TextPart) -> TextPart {
    match part {
        engine::event::TextPart::Answer => TextPart::Answer,
        engine::event::TextPart::Thinking => TextPart::Thinking,
    }
}

/// The reason of an answer that was cancelled.
pub fn cancelled(cause: Option<StopCause>) -> FinishReason {
    match cause {
        None | Some(StopCause::User) => FinishReason::Stopped,
        Some(StopCause::WindowGone | StopCause::AppExit) => FinishReason::Interrupted,
    }
}

/// The stored state that belongs to a reason.
pub fn finish_state(reason: FinishReason) -> FinishState {
    match reason {
        FinishReason::EndOfTurn
        | FinishReason::StopSequence
        | FinishReason::MaxTokens
        | FinishReason::ContextFull
        | FinishReason::Incomplete => FinishState::Complete,
        FinishReason::Stopped => FinishState::Stopped,
        FinishReason::Failed => FinishState::Failed,
        FinishReason::Interrupted => FinishState::Interrupted,
    }
}
