//! Requests before they become rows.

use std::{
    hash::{BuildHasher, RandomState},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use text::{SplitText, Tokenizer};

use crate::{
    EngineError, FinishReason, TokenId,
    backend::BackendFacts,
    error::panic_message,
    event::{EngineEvent, EventReceiver, EventSender, RequestSummary, mailbox},
    grammar::{GrammarCheck, Grammars},
    memory::{Ledger, Need},
    params::{GrammarSource, ValidParams},
    steering::Steering,
    thinking::Thinking,
    transcript::Transcript,
};

/// Names one request from submission to its last event. Counts up, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

impl std::fmt::Display for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Names a conversation across its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(pub u64);

// One counter for all engines of the process, so that ids stay unique when the engine is restarted.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// What is asked of the engine.
#[derive(Debug, Clone)]
pub struct NewRequest {
    /// Tokens to answer, at least one.
    pub prompt: Vec<TokenId>,
    /// Tokens that the answer has already, thinking included; empty for a new one. The answer goes on after them as if
    /// it had never been cut: penalties, grammar, thinking and stop sequences have seen them, `max_tokens` and the
    /// counts of answer and thinking tokens include them, and the same seed says the same. Their text is told once, by
    /// [`crate::EngineEvent::Resumed`]; times and log-probabilities are of the tokens after them.
    pub answer_so_far: Vec<TokenId>,
    /// How to sample, and when to stop.
    pub params: ValidParams,
    /// Conversation whose KV snapshots the request may leave behind, for its next turn; `None` leaves nothing.
    pub owner: Option<OwnerId>,
    /// When the command arrived, before tokenisation: TTFT counts from here.
    pub arrived_at: Instant,
}

/// A request that passed every check.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) id: RequestId,
    pub(crate) request: NewRequest,
    pub(crate) seed: u64,
    pub(crate) transcript: Transcript,
    pub(crate) events: EventSender,
    pub(crate) ticket: QueueTicket,
}

impl Submission {
    /// Ends a request that no engine has taken.
    pub(crate) fn refuse(self, error: EngineError) {
        self.events.refuse(error);
    }
}

/// Checks a request against the model and the queue, compiles its grammar, follows the answer so far, and draws its
/// seed if it brought none.
///
/// # Errors
/// [`EngineError::EmptyPrompt`], [`EngineError::PromptTooLong`], [`EngineError::UnknownToken`],
/// [`EngineError::TooLarge`], [`EngineError::QueueFull`], what [`Grammars::compile`] says of the grammar, or what
/// [`Transcript::resume`] says of the answer so far.
pub(crate) fn check(
    request: NewRequest,
    facts: &BackendFacts,
    intake: &Intake,
) -> Result<(Submission, EventReceiver), EngineError> {
    let (prompt_tokens, context_tokens) = (request.prompt.len(), facts.context_tokens);
    if prompt_tokens == 0 {
        return Err(EngineError::EmptyPrompt);
    }
    if prompt_tokens >= context_tokens as usize {
        return Err(EngineError::PromptTooLong { prompt_tokens, context_tokens });
    }
    let vocab_width = facts.vocab_width;
    let mut given = request.prompt.iter().chain(&request.answer_so_far);
    if let Some(&token) = given.find(|token| **token >= vocab_width) {
        return Err(EngineError::UnknownToken { token, vocab_width });
    }
    check_limits(&request, context_tokens)?;
    let given_tokens = prompt_tokens + request.answer_so_far.len();
    Ledger::new(facts).check(Need::new(
        prompt_tokens,
        given_tokens,
        request.params.max_tokens,
        context_tokens,
    ))?;
    let tokenizer = intake.grammars.tokenizer();
    let vocab_tokens = tokenizer.vocab_tokens() as u32;
    if let Some(&(token, _)) = request.params.logit_bias.iter().find(|(token, _)| *token >= vocab_tokens) {
        return Err(EngineError::UnknownToken { token, vocab_width: vocab_tokens });
    }
    let source = request.params.grammar.as_ref();
    let grammar = source.map(|source| intake.grammars.compile(source, vocab_width)).transpose()?;
    let budget = request.params.thinking_budget;
    let thinking = Thinking::new(tokenizer, &request.prompt, budget, grammar.is_some())?;
    let steering = Steering::new(thinking, grammar);
    let mut transcript = Transcript::new(tokenizer.clone(), steering, request.params.stop.clone());
    let text = resume(&mut transcript, &request.answer_so_far)?;
    let ticket = intake.queue.enter()?;
    let id = RequestId(NEXT_ID.fetch_add(1, Ordering::Relaxed));
    let seed = request.params.seed.unwrap_or_else(|| RandomState::new().hash_one(id));
    let thinking_tokens = transcript.steering().thinking_tokens();
    let answer_tokens = request.answer_so_far.len() as u32 - thinking_tokens;
    let prompt_tokens = prompt_tokens as u32;
    let stub =
        RequestSummary { prompt_tokens, answer_tokens, thinking_tokens, seed, ..RequestSummary::default() };
    let (events, receiver) = mailbox(stub);
    if !request.answer_so_far.is_empty() {
        let SplitText { thinking, answer } = text;
        events.post(EngineEvent::Resumed { thinking, answer, answer_tokens, thinking_tokens });
    }
    Ok((Submission { id, request, seed, transcript, events, ticket }, receiver))
}

/// Refuses an answer that is as long as it may be.
fn check_limits(request: &NewRequest, context_tokens: u32) -> Result<(), EngineError> {
    let tokens = request.answer_so_far.len();
    let (max_tokens, fitting) =
        (request.params.max_tokens as usize, context_tokens as usize - request.prompt.len());
    let ended = |limit: usize, reason| Err(EngineError::AnswerEnded { index: limit - 1, reason });
    match () {
        () if tokens >= max_tokens => ended(max_tokens, FinishReason::MaxTokens),
        () if tokens >= fitting => ended(fitting, FinishReason::ContextFull),
        () => Ok(()),
    }
}

/// See [`Transcript::resume`]; a panic on the way is an error.
fn resume(transcript: &mut Transcript, tokens: &[TokenId]) -> Result<SplitText, EngineError> {
    catch_unwind(AssertUnwindSafe(|| transcript.resume(tokens)))
        .unwrap_or_else(|panic| Err(EngineError::RowPanicked { message: panic_message(panic.as_ref()) }))
}

/// What requests are checked with, by whoever submits them.
#[derive(Debug, Clone)]
pub(crate) struct Intake {
    queue: QueueLimit,
    grammars: Grammars,
}

impl Intake {
    pub(crate) fn new(max_queued: usize, tokenizer: Tokenizer) -> Self {
        Self { queue: QueueLimit::new(max_queued), grammars: Grammars::new(tokenizer) }
    }

    pub(crate) fn check_grammar(&self, source: &GrammarSource) -> GrammarCheck {
        self.grammars.check(source)
    }
}

/// How many requests may wait for a slot.
#[derive(Debug, Clone)]
struct QueueLimit {
    queued: Arc<AtomicUsize>,
    max_queued: usize,
}

impl QueueLimit {
    fn new(max_queued: usize) -> Self {
        Self { queued: Arc::default(), max_queued }
    }

    fn enter(&self) -> Result<QueueTicket, EngineError> {
        let max_queued = self.max_queued;
        let one_more = |queued| (queued < max_queued).then_some(queued + 1);
        match self.queued.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(QueueTicket { queued: self.queued.clone() }),
            Err(_) => Err(EngineError::QueueFull { max_queued }),
        }
    }
}

/// A place in the queue, given back when dropped.
#[derive(Debug)]
pub(crate) struct QueueTicket {
    queued: Arc<AtomicUsize>,
}

impl Drop for QueueTicket {
    fn drop(&mut self) {
        self.queued.fetch_sub(1, Ordering::Relaxed);
    }
}
