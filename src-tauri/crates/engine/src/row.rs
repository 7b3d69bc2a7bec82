//! All state of one sequence, from the queue to its last event.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Instant,
};

use text::{Detokenizer, StopMatcher, Tokenizer};

use crate::{
    EngineError, RequestId, TokenId,
    backend::{RowSampling, Sampled, StepInput},
    error::panic_message,
    event::{EngineEvent, EventSender, FinishReason, RowPath, TextPart, TokenLogprobEntry},
    gate::{RowFacts, RowPlan},
    metrics::RowMetrics,
    params::ValidParams,
    request::{QueueTicket, Submission},
};

/// How a row ends.
#[derive(Debug, Clone)]
pub(crate) enum Ending {
    Finished(FinishReason),
    Failed(EngineError),
}

/// One sequence. It moves whole: from the queue to prefill, into the batch, and out of it.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: RequestId,
    pub(crate) prompt: Vec<TokenId>,
    out: Vec<TokenId>,
    /// Columns written to the row's KV cache, private or in the batch.
    kv_cache_tokens: u32,
    params: ValidParams,
    seed: u64,
    shortlist_width: u32,
    context_tokens: u32,
    tokenizer: Tokenizer,
    detokenizer: Detokenizer,
    stop: StopMatcher,
    events: EventSender,
    /// Present while queued.
    ticket: Option<QueueTicket>,
    told_ahead: Option<usize>,
    /// Since when the row waits for its next prefill chunk.
    pub(crate) parked_since: Instant,
    is_cancelled: bool,
    pub(crate) metrics: RowMetrics,
    pub(crate) path: Option<RowPath>,
}

impl Row {
    pub(crate) fn new(
        submission: Submission,
        tokenizer: &Tokenizer,
        context_tokens: u32,
        now: Instant,
    ) -> Self {
        let Submission { id, request, seed, events, ticket } = submission;
        Self {
            id,
            out: Vec::new(),
            kv_cache_tokens: 0,
            seed,
            shortlist_width: 0,
            context_tokens,
            tokenizer: tokenizer.clone(),
            detokenizer: Detokenizer::new(tokenizer.clone()),
            stop: StopMatcher::new(request.params.stop.clone()),
            events,
            ticket: Some(ticket),
            told_ahead: None,
            parked_since: now,
            is_cancelled: false,
            metrics: RowMetrics::new(request.arrived_at),
            path: None,
            prompt: request.prompt,
            params: request.params,
        }
    }

    pub(crate) fn answer_tokens(&self) -> u32 {
        self.out.len() as u32
    }

    pub(crate) fn kv_cache_tokens(&self) -> u32 {
        self.kv_cache_tokens
    }

    pub(crate) fn context_tokens(&self) -> u32 {
        self.context_tokens
    }

    /// Index in prompt plus output of the token to be sampled next.
    fn position(&self) -> u32 {
        (self.prompt.len() + self.out.len()) as u32
    }

    /// Marks the row to leave at the next boundary.
    pub(crate) fn cancel(&mut self) {
        self.is_cancelled = true;
    }

    /// Whether the caller no longer wants the answer.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled || self.events.is_receiver_gone()
    }

    // Queue and prefill.

    /// Tells the caller its place in the queue, if that changed.
    pub(crate) fn tell_ahead(&mut self, ahead: usize) {
        if self.told_ahead.replace(ahead) != Some(ahead) {
            self.events.post(EngineEvent::Queued { ahead });
        }
    }

    /// Leaves the queue for prefill.
    pub(crate) fn start_prefill(&mut self, now: Instant) {
        self.ticket = None;
        self.parked_since = now;
        self.tell_prefill();
    }

    /// Prompt tokens that prefill has still to read: all but the last, which the first decode step takes.
    pub(crate) fn prefill_remaining(&self) -> usize {
        (self.prompt.len() - 1).saturating_sub(self.kv_cache_tokens as usize)
    }

    /// The next `chunk_tokens` of the prompt, or what is left of them.
    pub(crate) fn prefill_chunk(&self, chunk_tokens: usize) -> &[TokenId] {
        let from = self.kv_cache_tokens as usize;
        &self.prompt[from..from + chunk_tokens.min(self.prefill_remaining())]
    }

    /// Notes that `chunk_tokens` more of the prompt are in the private KV cache.
    pub(crate) fn record_prefill(&mut self, chunk_tokens: usize, now: Instant) {
        self.kv_cache_tokens += chunk_tokens as u32;
        self.parked_since = now;
        self.tell_prefill();
    }

    /// Notes that the private KV cache is gone and the prompt has to be read again.
    pub(crate) fn restart_prefill(&mut self) {
        self.kv_cache_tokens = 0;
        self.tell_prefill();
    }

    fn tell_prefill(&self) {
        let total_tokens = self.prompt.len() as u32;
        self.events.post(EngineEvent::Prefilling { done_tokens: self.kv_cache_tokens, total_tokens });
    }

    // Decode.

    /// What the row needs on the coming step.
    pub(crate) fn facts(&self) -> RowFacts {
        RowFacts {
            logprobs: self.params.logprobs,
            has_bias: !self.params.logit_bias.is_empty(),
            wants_bias_trace: self.params.wants_bias_trace,
            has_penalties: self.params.has_penalties(),
            needs_full_width: self.shortlist_width as usize >= self.tokenizer.vocab_tokens(),
            ..RowFacts::plain(self.id, self.params.class())
        }
    }

    /// Input of the next forward pass: the latest token, which is not in the KV cache yet.
    pub(crate) fn step_input(&self) -> StepInput {
        let token = self.out.last().or(self.prompt.last()).copied();
        StepInput { token: token.expect("prompts are not empty"), kv_cache_tokens: self.kv_cache_tokens }
    }

    /// Notes that a forward pass wrote the latest token.
    pub(crate) fn record_forward(&mut self) {
        self.kv_cache_tokens += 1;
    }

    /// Whether the row goes on after the coming token, unless the token itself ends it.
    pub(crate) fn is_certain_to_continue(&self) -> bool {
        self.answer_tokens() + 1 < self.params.max_tokens && self.position() + 1 < self.context_tokens
    }

    /// What the sampler has to know for the token after the latest forward pass.
    pub(crate) fn sampling(&self) -> RowSampling<'_> {
        RowSampling {
            shortlist_width: self.shortlist_width,
            ..RowSampling::new(&self.params, self.seed, self.position())
        }
    }

    /// Takes the row's part of a step, whatever goes wrong in it. Returns how the row ends, if it does.
    pub(crate) fn take(&mut self, sampled: Sampled, now: Instant) -> Option<Ending> {
        contain(|| self.take_token(sampled, now))
    }

    fn take_token(&mut self, sampled: Sampled, now: Instant) -> Result<Option<FinishReason>, EngineError> {
        self.shortlist_width = sampled.shortlist_width;
        let token = sampled.token?;
        if let Some(logprobs) = sampled.logprobs {
            self.metrics.record_logprob(logprobs.chosen);
            let entry = TokenLogprobEntry {
                token,
                logprobs: Some(logprobs),
                is_forced: false,
                bias_trace: sampled.bias_trace,
            };
            self.events.post(EngineEvent::Logprobs { entries: vec![entry] });
        }
        if self.tokenizer.eos_ids().contains(&token) {
            return Ok(Some(FinishReason::EndOfTurn));
        }
        self.out.push(token);
        self.metrics.record_token(now);
        let text = self.detokenizer.push(token).map_err(|error| EngineError::Text(Arc::new(error)))?;
        let outcome = self.stop.push(&text);
        self.tell_text(outcome.emit);
        if outcome.stopped.is_some() {
            return Ok(Some(FinishReason::StopSequence));
        }
        if self.answer_tokens() >= self.params.max_tokens {
            return Ok(Some(FinishReason::MaxTokens));
        }
        Ok((self.position() >= self.context_tokens).then_some(FinishReason::ContextFull))
    }

    fn tell_text(&self, delta: String) {
        if !delta.is_empty() {
            let answer_tokens = self.answer_tokens();
            let part = TextPart::Answer;
            self.events.post(EngineEvent::Text { part, delta, answer_tokens, thinking_tokens: 0 });
        }
    }

    /// Notes the path of step `step`, and tells the caller if it changed.
    pub(crate) fn record_path(&mut self, plan: &RowPlan, step: u64) {
        let is_same = |old: &RowPath| {
            old.path == plan.path && old.reasons == plan.reasons && old.caused_by == plan.caused_by
        };
        if self.path.as_ref().is_some_and(is_same) {
            return;
        }
        let path = RowPath {
            path: plan.path,
            reasons: plan.reasons.clone(),
            caused_by: plan.caused_by,
            since_step: step,
        };
        self.path = Some(path.clone());
        self.events.post(EngineEvent::Path { path });
    }

    /// Sends what text is still held back, then the terminal event.
    pub(crate) fn end(mut self, ending: Ending) {
        if !matches!(ending, Ending::Failed(EngineError::RowPanicked { .. } | EngineError::Text(_))) {
            // Best effort: the row ends as it ends, with or without the last characters.
            let _ = catch_unwind(AssertUnwindSafe(|| self.flush()));
        }
        let summary = self.metrics.summary(self.prompt.len() as u32, self.seed);
        self.events.end(match ending {
            Ending::Finished(reason) => EngineEvent::Finished { reason, summary },
            Ending::Failed(error) => EngineEvent::Failed { error, summary },
        });
    }

    fn flush(&mut self) {
        let rest = self.detokenizer.finish().unwrap_or_default();
        let mut text = self.stop.push(&rest).emit;
        text.push_str(&self.stop.finish());
        self.tell_text(text);
    }

    /// Checks what must hold for a row of the batch between steps.
    pub(crate) fn assert_decoding(&self) {
        let expected = self.prompt.len() + self.out.len() - 1;
        debug_assert_eq!(
            self.kv_cache_tokens as usize, expected,
            "row {}: the latest token is not in KV",
            self.id
        );
    }
}

/// Keeps a row's failure, panics included, in the row.
fn contain(work: impl FnOnce() -> Result<Option<FinishReason>, EngineError>) -> Option<Ending> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(finished)) => finished.map(Ending::Finished),
        Ok(Err(error)) => Some(Ending::Failed(error)),
        Err(panic) => {
            Some(Ending::Failed(EngineError::RowPanicked { message: panic_message(panic.as_ref()) }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_a_rows_work_is_that_rows_error() {
        let ending = contain(|| panic!("detokeniser"));
        let Some(Ending::Failed(EngineError::RowPanicked { message })) = ending else { panic!("{ending:?}") };
        assert_eq!(message, "detokeniser");
    }
}
