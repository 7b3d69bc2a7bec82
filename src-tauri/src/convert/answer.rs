//! How an answer ended, for the wire and for the database.

use engine::RequestSummary;
use history::FinishState;
use protocol::{FinishReason, Receipt, SamplingSettings};

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
        answer_tokens: summary.answer_tokens,
        fused_steps: summary.fused_steps,
        per_row_steps: summary.per_row_steps,
        mean_batch_rows: rounded(summary.mean_batch_rows),
        mean_logprob: summary.mean_logprob.map(rounded),
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
        engine::FinishReason::MaxTokens | engine::FinishReason::Incomplete => FinishReason::MaxTokens,
        engine::FinishReason::ContextFull => FinishReason::ContextFull,
        engine::FinishReason::Cancelled => cancelled(cause),
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
        | FinishReason::ContextFull => FinishState::Complete,
        FinishReason::Stopped => FinishState::Stopped,
        FinishReason::Failed => FinishState::Failed,
        FinishReason::Interrupted => FinishState::Interrupted,
    }
}
