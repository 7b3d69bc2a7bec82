//! What a request's caller hears, and the mailbox it travels through.
//!
//! The engine appends and never blocks. What the caller has not read yet is merged: text is concatenated, progress is
//! replaced by the latest. So a slow reader costs memory in proportion to its answer, and nothing else.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    EngineError, RequestId, TokenId,
    backend::{BiasTrace, TokenLogprobs},
    gate::{Reason, SamplingPath},
};

/// Why an answer ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended its turn.
    EndOfTurn,
    /// A stop sequence appeared.
    StopSequence,
    /// `max_tokens` were generated.
    MaxTokens,
    /// The context window is full.
    ContextFull,
    /// The answer was to match a grammar and ended before it did: at a limit, or because it no longer got anywhere.
    Incomplete,
    /// The caller cancelled it, or dropped its receiver.
    Cancelled,
}

/// What was measured of one request: times and steps of the tokens that it added, counts of the whole answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RequestSummary {
    /// Arrival of the command to the first token event.
    pub ttft: Option<Duration>,
    /// (tokens - 1) / (last token - first token); `None` below two tokens.
    pub decode_tok_s: Option<f64>,
    /// Median gap between consecutive tokens.
    pub itl_p50: Option<Duration>,
    /// 95th percentile of that gap.
    pub itl_p95: Option<Duration>,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Of those and of the answer so far, taken over from an earlier or a parallel request instead of read.
    pub cached_tokens: u32,
    /// Tokens of the answer, the answer so far included, without thinking; a token that ends the turn is not part of it.
    pub answer_tokens: u32,
    /// Tokens of thinking, the tags around it included.
    pub thinking_tokens: u32,
    /// Decode steps that sampled this row in the fused graph.
    pub fused_steps: u32,
    /// Decode steps that sampled this row on its own.
    pub per_row_steps: u32,
    /// Mean rows in the batch over this row's decode steps; 0 without one.
    pub mean_batch_rows: f64,
    /// Mean log-probability of the sampled tokens, when logprobs were asked for.
    pub mean_logprob: Option<f64>,
    /// Seed that the row's noise came from.
    pub seed: u64,
    /// Every token of the answer, thinking and the answer so far included: what
    /// [`crate::NewRequest::answer_so_far`] takes to go on after it.
    pub tokens: Vec<TokenId>,
}

/// How a row is being sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowPath {
    /// Path taken.
    pub path: SamplingPath,
    /// See [`crate::gate::RowPlan::reasons`].
    pub reasons: Vec<Reason>,
    /// See [`crate::gate::RowPlan::caused_by`].
    pub caused_by: Option<RequestId>,
    /// Decode step of the engine since which this holds.
    pub since_step: u64,
}

/// What was reported of one token.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobEntry {
    /// The token; the one that ended the turn is reported too.
    pub token: TokenId,
    /// Its log-probability and those of the likeliest alternatives; `None` if they were not asked for, or if the
    /// token was forced.
    pub logprobs: Option<TokenLogprobs>,
    /// Whether the row took the token whatever its logits said.
    pub is_forced: bool,
    /// What the logit bias changed, when asked for; `None` if the token was forced.
    pub bias_trace: Option<BiasTrace>,
}

/// Which part of an answer a text belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextPart {
    /// What the user is told.
    #[default]
    Answer,
    /// What the model thinks before; the tags around it are in neither part.
    Thinking,
}

/// One step in the life of a request.
#[derive(Debug, Clone)]
pub enum EngineEvent {
    /// Waiting for a slot.
    Queued {
        /// Requests ahead of this one in the queue.
        ahead: usize,
    },
    /// The answer goes on from [`crate::NewRequest::answer_so_far`]. Comes once, before any text, and only then.
    ///
    /// What its tokens say for certain, and what later text is added to. The text that was shown when the answer was cut
    /// can be longer: its end may have been held back until then, since it could become a tag or a stop sequence.
    Resumed {
        /// Thinking so far.
        thinking: String,
        /// Answer so far.
        answer: String,
        /// Tokens of the answer so far, without thinking.
        answer_tokens: u32,
        /// Tokens of thinking so far, the tags around it included.
        thinking_tokens: u32,
    },
    /// The prompt is being read, and the answer so far with it.
    Prefilling {
        /// Tokens of both in the KV cache. The last one gets there with the first decode step.
        done_tokens: u32,
        /// Tokens of both in all.
        total_tokens: u32,
    },
    /// The row's sampling path changed.
    Path {
        /// The new one.
        path: RowPath,
    },
    /// Text was added.
    Text {
        /// To which part.
        part: TextPart,
        /// Appended to what that part held before; never empty.
        delta: String,
        /// Tokens of the answer when this text became certain.
        answer_tokens: u32,
        /// Tokens of thinking by then, the tags around it included.
        thinking_tokens: u32,
    },
    /// Log-probabilities and bias traces of the latest tokens, when asked for.
    Logprobs {
        /// In order, at least one.
        entries: Vec<TokenLogprobEntry>,
    },
    /// The answer ended. Terminal.
    Finished {
        /// Why.
        reason: FinishReason,
        /// What was measured.
        summary: RequestSummary,
    },
    /// The answer failed; text sent before stays. Terminal.
    Failed {
        /// Why.
        error: EngineError,
        /// What was measured until then.
        summary: RequestSummary,
    },
}

impl EngineEvent {
    /// Whether this is the request's last event.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Finished { .. } | Self::Failed { .. })
    }
}

/// Events not yet read, merged by kind; drained in the order of the fields.
#[derive(Debug, Default)]
struct Pending {
    resumed: Option<EngineEvent>,
    queued: Option<EngineEvent>,
    prefilling: Option<EngineEvent>,
    path: Option<EngineEvent>,
    texts: Vec<EngineEvent>,
    logprobs: Vec<TokenLogprobEntry>,
    terminal: Option<EngineEvent>,
}

impl Pending {
    fn post(&mut self, event: EngineEvent) {
        match event {
            EngineEvent::Resumed { .. } => self.resumed = Some(event),
            EngineEvent::Queued { .. } => self.queued = Some(event),
            EngineEvent::Prefilling { .. } => self.prefilling = Some(event),
            EngineEvent::Path { .. } => self.path = Some(event),
            EngineEvent::Text { .. } => self.post_text(event),
            EngineEvent::Logprobs { entries } => self.logprobs.extend(entries),
            EngineEvent::Finished { .. } | EngineEvent::Failed { .. } => self.terminal = Some(event),
        }
    }

    /// Appends to the latest text if that is of the same part.
    fn post_text(&mut self, mut event: EngineEvent) {
        if let (
            Some(EngineEvent::Text { part: last, delta: text, .. }),
            EngineEvent::Text { part, delta, .. },
        ) = (self.texts.last(), &mut event)
            && last == part
        {
            delta.insert_str(0, text);
            self.texts.pop();
        }
        self.texts.push(event);
    }

    fn drain(&mut self) -> Vec<EngineEvent> {
        let pending = std::mem::take(self);
        let mut events: Vec<_> = [pending.resumed, pending.queued, pending.prefilling, pending.path]
            .into_iter()
            .flatten()
            .collect();
        events.extend(pending.texts);
        if !pending.logprobs.is_empty() {
            events.push(EngineEvent::Logprobs { entries: pending.logprobs });
        }
        events.extend(pending.terminal);
        events
    }
}

#[derive(Debug, Default)]
struct Mailbox {
    state: Mutex<MailboxState>,
    arrival: Notify,
}

#[derive(Debug, Default)]
struct MailboxState {
    pending: Pending,
    is_receiver_gone: bool,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, MailboxState> {
        // Every change to the state is complete when it panics, if it ever does.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens the mailbox of one request. `stub` is the summary reported if the sender is lost without a last word.
pub(crate) fn mailbox(stub: RequestSummary) -> (EventSender, EventReceiver) {
    let mailbox = Arc::new(Mailbox::default());
    let sender = EventSender { mailbox: mailbox.clone(), stub: Some(stub) };
    (sender, EventReceiver { mailbox, is_done: false })
}

/// The engine's end of a mailbox. Dropped without [`EventSender::end`], it reports [`EngineError::Stopped`]: no
/// receiver is ever left waiting.
#[derive(Debug)]
pub(crate) struct EventSender {
    mailbox: Arc<Mailbox>,
    stub: Option<RequestSummary>,
}

impl EventSender {
    pub(crate) fn post(&self, event: EngineEvent) {
        self.mailbox.lock().pending.post(event);
        self.mailbox.arrival.notify_one();
    }

    /// Posts the terminal event.
    pub(crate) fn end(mut self, event: EngineEvent) {
        self.stub = None;
        self.post(event);
    }

    /// Posts a failure as the terminal event, with nothing measured.
    pub(crate) fn refuse(mut self, error: EngineError) {
        if let Some(summary) = self.stub.take() {
            self.post(EngineEvent::Failed { error, summary });
        }
    }

    /// Whether the caller dropped its receiver.
    pub(crate) fn is_receiver_gone(&self) -> bool {
        self.mailbox.lock().is_receiver_gone
    }
}

impl Drop for EventSender {
    fn drop(&mut self) {
        if let Some(summary) = self.stub.take() {
            self.post(EngineEvent::Failed { error: EngineError::Stopped, summary });
        }
    }
}

/// The caller's end of a mailbox. Dropping it cancels the request.
#[derive(Debug)]
pub struct EventReceiver {
    mailbox: Arc<Mailbox>,
    is_done: bool,
}

impl EventReceiver {
    /// Waits for events and returns all since the last call, merged: at most one of each kind, and of texts
    /// one per change of the part. `None` once the terminal event was returned. Cancel-safe.
    pub async fn recv(&mut self) -> Option<Vec<EngineEvent>> {
        while !self.is_done {
            let events = self.try_drain();
            if !events.is_empty() {
                return Some(events);
            }
            self.mailbox.arrival.notified().await;
        }
        None
    }

    /// Returns the events since the last call without waiting; empty if there are none.
    pub fn try_drain(&mut self) -> Vec<EngineEvent> {
        let events = self.mailbox.lock().pending.drain();
        self.is_done |= events.last().is_some_and(EngineEvent::is_terminal);
        events
    }

    /// Whether the terminal event was returned.
    pub fn is_done(&self) -> bool {
        self.is_done
    }
}

impl Drop for EventReceiver {
    fn drop(&mut self) {
        self.mailbox.lock().is_receiver_gone = true;
    }
}
