//! What an answer says already when it goes on: as text, and as the tokens that it goes on from.

use std::sync::Arc;

use history::Message;
use protocol::{Receipt, SamplingSettings, TextPart, TokenDetail};
use text::{SplitText, TextError, TokenId, Tokenizer};

use super::recorded::{spells, unmeasured};
use crate::error::AppError;

/// An answer up to where it goes on.
#[derive(Clone, Default)]
pub struct SoFar {
    /// What is stored and shown of it.
    pub said: SplitText,
    /// What was recorded of its tokens, from the first one on.
    pub details: Vec<TokenDetail>,
    /// Whether these are all of its tokens.
    pub is_whole: bool,
    /// What was measured of it.
    pub receipt: Option<Receipt>,
    /// Tokens that may be added if it is as long already as its settings allow.
    pub more_tokens: u32,
}

/// The tokens of an answer so far, with what is known of them.
#[derive(Default)]
pub struct Resumed {
    pub tokens: Vec<TokenId>,
    /// Empty if nothing is to be recorded.
    pub details: Vec<TokenDetail>,
}

impl SoFar {
    /// Of an answer that ended.
    pub fn of(
        answer: &Message,
        receipt: Option<Receipt>,
        details: Vec<TokenDetail>,
        more_tokens: u32,
    ) -> Self {
        let stored = answer.output_tokens + answer.thinking_tokens;
        let counted = receipt.as_ref().map(|receipt| receipt.answer_tokens + receipt.thinking_tokens);
        // A receipt of fewer tokens than are stored is of an earlier part: the app did not live to write a later one.
        let is_whole = counted.is_some_and(|tokens| tokens >= stored && tokens as usize == details.len());
        let said = SplitText { thinking: answer.thinking.clone(), answer: answer.text.clone() };
        Self { said, details, is_whole, receipt, more_tokens }
    }

    /// The tokens to go on from: those that were recorded if they are all there and mean the same to this model, else
    /// those that its vocabulary has for the text.
    ///
    /// # Errors
    /// [`AppError::Prompt`] if the text has no tokens.
    pub fn tokens(
        &self,
        tokenizer: &Tokenizer,
        prompt: &[TokenId],
        settings: &SamplingSettings,
    ) -> Result<Resumed, AppError> {
        if self.is_whole && spells(&self.details, tokenizer) {
            let tokens = self.details.iter().map(|detail| detail.token).collect();
            return Ok(Resumed { tokens, details: self.details.clone() });
        }
        let wrap = |error: TextError| AppError::Prompt(Arc::new(error));
        let tokens = tokenizer.answer_tokens(prompt, &self.said).map_err(wrap)?;
        let is_recorded = settings.logprobs.is_some() || settings.wants_bias_trace;
        let details = if is_recorded { unmeasured(&tokens, tokenizer) } else { Vec::new() };
        Ok(Resumed { tokens, details })
    }
}

/// Text that is stored and shown although it was not certain: what comes after it repeats it first.
#[derive(Default)]
pub struct Shown {
    thinking: String,
    answer: String,
}

impl Shown {
    /// What of `said` is beyond what the tokens say for certain.
    pub fn beyond(said: &SplitText, thinking: &str, answer: &str) -> Self {
        let rest = |said: &str, certain| said.strip_prefix(certain).unwrap_or_default().to_owned();
        Self { thinking: rest(&said.thinking, thinking), answer: rest(&said.answer, answer) }
    }

    /// The part of a delta that is not shown yet.
    pub fn unseen(&mut self, part: TextPart, delta: String) -> String {
        let rest = match part {
            TextPart::Thinking => &mut self.thinking,
            TextPart::Answer => &mut self.answer,
        };
        if let Some(left) = rest.strip_prefix(delta.as_str()) {
            *rest = left.to_owned();
            return String::new();
        }
        let rest = std::mem::take(rest);
        // What was not repeated turned out to be something else.
        delta.strip_prefix(rest.as_str()).map_or(delta.clone(), str::to_owned)
    }
}

/// The receipt of an answer that went on: of the part before and the part after. The counts of `after` are of both.
pub fn joined(before: &Receipt, after: Receipt) -> Receipt {
    let (first, whole) = (tokens(before), tokens(&after));
    if whole == 0 {
        return Receipt { settings: after.settings, ..before.clone() };
    }
    let second = whole.saturating_sub(first);
    let longer = if first >= second { before } else { &after };
    let mean = |before: Option<f64>, first: u32, after: Option<f64>, second: u32| match (before, after) {
        (Some(a), Some(b)) if first + second > 0 => {
            let (first, second) = (f64::from(first), f64::from(second));
            Some(crate::convert::rounded((a * first + b * second) / (first + second)))
        }
        (either, None) | (None, either) => either,
        (Some(_), either) => either,
    };
    let steps = |receipt: &Receipt| receipt.fused_steps + receipt.per_row_steps;
    let batch_rows = mean(
        Some(before.mean_batch_rows).filter(|_| steps(before) > 0),
        steps(before),
        Some(after.mean_batch_rows).filter(|_| steps(&after) > 0),
        steps(&after),
    );
    Receipt {
        ttft_ms: before.ttft_ms.or(after.ttft_ms),
        decode_tok_s: joined_speed([(first, before.decode_tok_s), (second, after.decode_tok_s)]),
        itl_ms_p50: longer.itl_ms_p50.or(after.itl_ms_p50),
        itl_ms_p95: longer.itl_ms_p95.or(after.itl_ms_p95),
        cached_tokens: before.cached_tokens,
        fused_steps: before.fused_steps + after.fused_steps,
        per_row_steps: before.per_row_steps + after.per_row_steps,
        mean_batch_rows: batch_rows.unwrap_or_default(),
        mean_logprob: mean(before.mean_logprob, first, after.mean_logprob, second),
        ..after
    }
}

fn tokens(receipt: &Receipt) -> u32 {
    receipt.answer_tokens + receipt.thinking_tokens
}

/// Gaps between tokens over the time that they took, the pause between the parts left out.
fn joined_speed(parts: [(u32, Option<f64>); 2]) -> Option<f64> {
    let (mut gaps, mut seconds) = (0.0, 0.0);
    for (tokens, speed) in parts {
        if let Some(speed) = speed.filter(|speed| *speed > 0.0 && tokens > 1) {
            gaps += f64::from(tokens - 1);
            seconds += f64::from(tokens - 1) / speed;
        }
    }
    (seconds > 0.0).then(|| crate::convert::rounded(gaps / seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{convert::answer::empty_receipt, sampling_settings::defaults};

    fn receipt(answer_tokens: u32, decode_tok_s: f64, mean_batch_rows: f64) -> Receipt {
        Receipt {
            ttft_ms: Some(f64::from(answer_tokens)),
            decode_tok_s: Some(decode_tok_s),
            itl_ms_p50: Some(decode_tok_s),
            answer_tokens,
            cached_tokens: answer_tokens,
            fused_steps: 10,
            mean_batch_rows,
            mean_logprob: Some(-mean_batch_rows),
            ..empty_receipt(&defaults())
        }
    }

    #[test]
    fn two_parts_have_one_receipt() {
        // 10 gaps in one second, then 20 more tokens: 19 gaps in two seconds.
        let whole = joined(&receipt(11, 10.0, 1.0), Receipt { fused_steps: 30, ..receipt(31, 9.5, 3.0) });
        assert_eq!((whole.answer_tokens, whole.fused_steps), (31, 40));
        assert_eq!(whole.decode_tok_s, Some(crate::convert::rounded(29.0 / 3.0)));
        assert_eq!((whole.ttft_ms, whole.cached_tokens), (Some(11.0), 11), "both are of the first part");
        assert_eq!(whole.mean_batch_rows, 2.5, "10 steps alone, 30 with two others");
        assert_eq!(whole.mean_logprob, Some(crate::convert::rounded(-(11.0 + 3.0 * 20.0) / 31.0)));
        assert_eq!(whole.itl_ms_p50, Some(9.5), "of the longer part");
    }

    #[test]
    fn a_part_that_added_nothing_changes_no_figure() {
        let before = receipt(11, 10.0, 1.0);
        let settings = SamplingSettings { max_tokens: 77, ..defaults() };
        let whole = joined(&before, empty_receipt(&settings));
        assert_eq!(whole, Receipt { settings, ..before });
    }

    #[test]
    fn what_is_shown_already_is_not_said_twice() {
        let said = SplitText { thinking: "hm".into(), answer: "It is EN".into() };
        let shown = || Shown::beyond(&said, "hm", "It is ");
        let mut split = shown();
        assert_eq!(split.unseen(TextPart::Thinking, "x".into()), "x");
        assert_eq!(split.unseen(TextPart::Answer, "E".into()), "");
        assert_eq!(split.unseen(TextPart::Answer, "NOUGH".into()), "OUGH");
        assert_eq!(split.unseen(TextPart::Answer, "EN".into()), "EN", "that is new");
        assert_eq!(shown().unseen(TextPart::Answer, "other".into()), "other");
        let mut nothing = Shown::beyond(&said, "hm", "It is EN");
        assert_eq!(nothing.unseen(TextPart::Answer, "D".into()), "D");
    }
}
