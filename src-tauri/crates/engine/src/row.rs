//! All state of one sequence, from the queue to its last event.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

use text::SplitText;

use crate::{
    EngineError, RequestId, TokenId,
    backend::{BiasTrace, Penalties, RowSampling, Sampled, StepInput, TokenLogprobs},
    error::panic_message,
    event::{EngineEvent, EventSender, FinishReason, RequestSummary, RowPath, TextPart, TokenLogprobEntry},
    gate::{RowFacts, RowPlan},
    grammar::Progress,
    memory::Need,
    metrics::RowMetrics,
    params::ValidParams,
    request::{NewRequest, OwnerId, QueueTicket, Submission},
    seen::SeenTokens,
    steering::Next,
    transcript::{Said, Transcript},
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
    /// Prompt, then answer.
    tokens: Vec<TokenId>,
    prompt_tokens: usize,
    /// Tokens that the request came with: its prompt, and the answer so far.
    given_tokens: usize,
    /// Columns written to the row's KV cache, private or in the batch.
    kv_cache_tokens: u32,
    /// Given tokens that were taken over instead of read.
    cached_tokens: u32,
    /// Who may keep the row's KV cache.
    owner: Option<OwnerId>,
    params: ValidParams,
    seed: u64,
    shortlist_width: u32,
    context_tokens: u32,
    transcript: Transcript,
    /// Present if any penalty has an effect.
    seen: Option<SeenTokens>,
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
    pub(crate) fn new(submission: Submission, context_tokens: u32, now: Instant) -> Self {
        let Submission { id, request, seed, transcript, events, ticket } = submission;
        let NewRequest { prompt, answer_so_far, params, owner, arrived_at } = request;
        let mut seen = params.has_penalties().then(|| SeenTokens::of_prompt(&prompt));
        seen.iter_mut().for_each(|seen| answer_so_far.iter().for_each(|token| seen.push(*token)));
        Self {
            id,
            prompt_tokens: prompt.len(),
            given_tokens: prompt.len() + answer_so_far.len(),
            tokens: [prompt, answer_so_far].concat(),
            kv_cache_tokens: 0,
            cached_tokens: 0,
            owner,
            seed,
            shortlist_width: 0,
            context_tokens,
            transcript,
            seen,
            events,
            ticket: Some(ticket),
            told_ahead: None,
            parked_since: now,
            is_cancelled: false,
            metrics: RowMetrics::new(arrived_at),
            path: None,
            params,
        }
    }

    pub(crate) fn prompt_tokens(&self) -> usize {
        self.prompt_tokens
    }

    /// Tokens that the row has to have read before it can say more: its prompt, and the answer so far.
    pub(crate) fn given(&self) -> &[TokenId] {
        &self.tokens[..self.given_tokens]
    }

    /// Tokens of answer and thinking.
    fn out_tokens(&self) -> u32 {
        (self.tokens.len() - self.prompt_tokens) as u32
    }

    /// Tokens of the answer, without thinking.
    pub(crate) fn answer_tokens(&self) -> u32 {
        self.out_tokens() - self.thinking_tokens()
    }

    fn thinking_tokens(&self) -> u32 {
        self.transcript.steering().thinking_tokens()
    }

    pub(crate) fn kv_cache_tokens(&self) -> u32 {
        self.kv_cache_tokens
    }

    pub(crate) fn context_tokens(&self) -> u32 {
        self.context_tokens
    }

    pub(crate) fn cached_tokens(&self) -> u32 {
        self.cached_tokens
    }

    pub(crate) fn owner(&self) -> Option<OwnerId> {
        self.owner
    }

    /// Lets the row leave nothing behind.
    pub(crate) fn disown(&mut self) {
        self.owner = None;
    }

    /// Memory that the row can come to need, in tokens.
    pub(crate) fn need(&self) -> Need {
        Need::new(self.prompt_tokens, self.given_tokens, self.params.max_tokens, self.context_tokens)
    }

    /// Tokens in the row's KV cache, in order.
    pub(crate) fn written_tokens(&self) -> Vec<TokenId> {
        self.tokens[..self.kv_cache_tokens as usize].to_vec()
    }

    /// Index in prompt plus output of the token to be sampled next.
    fn position(&self) -> u32 {
        self.tokens.len() as u32
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

    /// Given tokens that prefill has still to read: all but the last, which the first decode step takes.
    pub(crate) fn prefill_remaining(&self) -> usize {
        (self.given_tokens - 1).saturating_sub(self.kv_cache_tokens as usize)
    }

    /// The next `chunk_tokens` of what was given, or what is left of them.
    pub(crate) fn prefill_chunk(&self, chunk_tokens: usize) -> &[TokenId] {
        let from = self.kv_cache_tokens as usize;
        &self.tokens[from..from + chunk_tokens.min(self.prefill_remaining())]
    }

    /// Notes that `chunk_tokens` more of what was given are in the private KV cache.
    pub(crate) fn record_prefill(&mut self, chunk_tokens: usize, now: Instant) {
        self.kv_cache_tokens += chunk_tokens as u32;
        self.parked_since = now;
        self.tell_prefill();
    }

    /// Notes that the private KV cache was opened with `tokens` that somebody else had read.
    pub(crate) fn record_restored(&mut self, tokens: usize, now: Instant) {
        self.cached_tokens = tokens as u32;
        self.record_prefill(tokens, now);
    }

    /// Notes that the private KV cache is gone and everything has to be read again.
    pub(crate) fn restart_prefill(&mut self) {
        (self.kv_cache_tokens, self.cached_tokens) = (0, 0);
        self.tell_prefill();
    }

    fn tell_prefill(&self) {
        let total_tokens = self.given_tokens as u32;
        self.events.post(EngineEvent::Prefilling { done_tokens: self.kv_cache_tokens, total_tokens });
    }

    // Decode.

    /// What the row needs on the coming step.
    pub(crate) fn facts(&self) -> RowFacts {
        let next = self.transcript.steering().next();
        let facts = RowFacts {
            has_mask: matches!(next, Next::Masked(_) | Next::Decided(_)),
            is_overridden: matches!(next, Next::Closing(_)),
            needs_full_width: self.shortlist_width as usize >= self.transcript.vocab_tokens(),
            ..RowFacts::plain(self.id, self.params.class())
        };
        if next.forced().is_some() {
            return facts;
        }
        RowFacts {
            logprobs: self.params.logprobs,
            has_bias: !self.params.logit_bias.is_empty(),
            wants_bias_trace: self.params.wants_bias_trace,
            has_penalties: self.params.has_penalties(),
            ..facts
        }
    }

    /// Input of the next forward pass: the latest token, which is not in the KV cache yet.
    pub(crate) fn step_input(&self) -> StepInput {
        let token = *self.tokens.last().expect("prompts are not empty");
        StepInput { token, kv_cache_tokens: self.kv_cache_tokens }
    }

    /// Notes that a forward pass wrote the latest token.
    pub(crate) fn record_forward(&mut self) {
        self.kv_cache_tokens += 1;
    }

    /// Whether the row goes on after the coming token, unless the token itself ends it.
    pub(crate) fn is_certain_to_continue(&self) -> bool {
        self.out_tokens() + 1 < self.params.max_tokens && self.position() + 1 < self.context_tokens
    }

    /// What the sampler has to know for the token after the latest forward pass.
    pub(crate) fn sampling(&self) -> RowSampling<'_> {
        let shortlist_width = self.shortlist_width;
        let next = self.transcript.steering().next();
        if let Some(token) = next.forced() {
            // Nothing else of the row matters then, and nothing is reported.
            return RowSampling { forced: Some(token), shortlist_width, ..RowSampling::GREEDY };
        }
        let mask = if let Next::Masked(mask) = next { Some(mask) } else { None };
        let penalties = self.seen.as_ref().map(|seen| Penalties {
            repetition: self.params.repetition_penalty,
            frequency: self.params.frequency_penalty,
            presence: self.params.presence_penalty,
            seen: seen.list(),
        });
        RowSampling {
            penalties,
            mask,
            shortlist_width,
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
        self.report(token, sampled.logprobs, sampled.bias_trace);
        if self.transcript.is_end(token) {
            return Ok(Some(self.reason(FinishReason::EndOfTurn)));
        }
        self.tokens.push(token);
        self.metrics.record_token(now);
        if let Some(seen) = &mut self.seen {
            seen.push(token);
        }
        let Said { text, has_stopped, progress } = self.transcript.take(token)?;
        self.tell_split(text);
        let reason = match progress? {
            _ if has_stopped => FinishReason::StopSequence,
            Progress::Complete => FinishReason::EndOfTurn,
            Progress::Stalled => FinishReason::Incomplete,
            Progress::GoesOn if self.out_tokens() >= self.params.max_tokens => FinishReason::MaxTokens,
            Progress::GoesOn if self.position() >= self.context_tokens => FinishReason::ContextFull,
            Progress::GoesOn => return Ok(None),
        };
        Ok(Some(self.reason(reason)))
    }

    fn reason(&self, reason: FinishReason) -> FinishReason {
        self.transcript.steering().reason(reason)
    }

    /// Tells what was asked for of a token.
    fn report(&mut self, token: TokenId, logprobs: Option<TokenLogprobs>, bias_trace: Option<BiasTrace>) {
        if let Some(logprobs) = &logprobs {
            self.metrics.record_logprob(logprobs.chosen);
        }
        if self.params.logprobs.is_some() || self.params.wants_bias_trace {
            let is_forced = self.transcript.steering().next().forced().is_some();
            let entry = TokenLogprobEntry { token, logprobs, is_forced, bias_trace };
            self.events.post(EngineEvent::Logprobs { entries: vec![entry] });
        }
    }

    /// Whether [`Row::prepare`] has work to do before the next step.
    pub(crate) fn needs_preparing(&self) -> bool {
        self.transcript.needs_preparing()
    }

    /// Works out what the grammar allows next. Returns how the row ends, if it cannot go on.
    pub(crate) fn prepare(&mut self) -> Option<Ending> {
        contain(|| self.transcript.prepare().map(|()| None))
    }

    fn tell_split(&mut self, split: SplitText) {
        self.tell_text(TextPart::Thinking, split.thinking);
        self.tell_text(TextPart::Answer, split.answer);
    }

    fn tell_text(&self, part: TextPart, delta: String) {
        if !delta.is_empty() {
            let (answer_tokens, thinking_tokens) = (self.answer_tokens(), self.thinking_tokens());
            self.events.post(EngineEvent::Text { part, delta, answer_tokens, thinking_tokens });
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
        let summary = self.summary();
        self.events.end(match ending {
            Ending::Finished(reason) => EngineEvent::Finished { reason, summary },
            Ending::Failed(error) => EngineEvent::Failed { error, summary },
        });
    }

    fn summary(&self) -> RequestSummary {
        RequestSummary {
            answer_tokens: self.answer_tokens(),
            cached_tokens: self.cached_tokens,
            thinking_tokens: self.thinking_tokens(),
            tokens: self.tokens[self.prompt_tokens..].to_vec(),
            ..self.metrics.summary(self.prompt_tokens as u32, self.seed)
        }
    }

    fn flush(&mut self) {
        let rest = self.transcript.finish();
        self.tell_split(rest);
    }

    /// Checks what must hold for a row of the batch between steps.
    pub(crate) fn assert_decoding(&self) {
        let expected = self.tokens.len() - 1;
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
