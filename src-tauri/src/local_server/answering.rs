//! One request of another program, from its messages to its last event.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

use engine::{
    EngineError, EngineEvent, EventReceiver, FinishReason, NewRequest, OwnerId, RequestSummary,
    TokenLogprobEntry, event::TextPart, params::ValidParams,
};
use openai_api::{
    response::{CompletionDetails, PromptDetails, Usage},
    server::{
        Answer, AnswerEnd, AnswerEvent, Answerer, Asked, AskedRole, Refusal, ServedModel, TokenLogprob,
    },
};
use protocol::{BiasSetting, BiasTarget, SamplingSettings, StructuredOutput, XtcSettings};
use text::{ChatMessage, RenderOptions, Role, TokenId, Tokenizer};
use tokio::sync::mpsc;

use super::refusals;
use crate::{
    error::AppError,
    keychain::new_id,
    local_engine::{EngineLink, LocalEngine, RunningEngine},
    requests::{Asker, Requests, StopCause, Ticket},
    sampling_settings,
};

/// Whose KV snapshots the requests leave behind, so that a program's next turn need not read all of it again; no
/// conversation has this number.
const OWNER: OwnerId = OwnerId(u64::MAX);

/// Tokens of an answer whose request sets no limit, if memory allows.
const MAX_TOKENS: u32 = 4096;

/// Events that may wait for the client; the engine's mailbox holds the rest, merged.
const EVENTS_WAITING: usize = 8;

/// Answers with the loaded model, in the batch of everybody.
#[derive(Clone)]
pub(super) struct BatchAnswerer {
    engine: Arc<LocalEngine>,
    requests: Requests,
    served: Arc<AtomicU32>,
}

impl BatchAnswerer {
    pub fn new(engine: Arc<LocalEngine>, requests: Requests, served: Arc<AtomicU32>) -> Self {
        Self { engine, requests, served }
    }

    /// The model that answers, which must be the one that is asked for.
    fn running(&self, model: &str) -> Result<RunningEngine, Refusal> {
        self.engine.check().map_err(|error| refusals::of(&error))?;
        let running = match &*self.engine.link().borrow() {
            EngineLink::Running(running) => running.clone(),
            EngineLink::Starting | EngineLink::Unavailable(_) => return Err(refusals::loading()),
        };
        if running.context_tokens().is_none() {
            return Err(refusals::loading());
        }
        let own = &running.model;
        if model.is_empty() || [&own.id, &own.name].into_iter().any(|name| name == model) {
            return Ok(running);
        }
        let words = format!("the model \"{model}\" is not loaded in Braid; loaded is \"{}\"", own.id);
        Err(Refusal::unknown_model(words))
    }

    /// Submits a request; one without a limit of its own gets the longest answer that fits.
    async fn submit(
        &self,
        running: &RunningEngine,
        prompt: Vec<TokenId>,
        mut settings: SamplingSettings,
        has_own_limit: bool,
        arrived_at: Instant,
    ) -> Result<(engine::RequestId, EventReceiver), Refusal> {
        loop {
            let params = sampling_settings::resolve(&settings, &running.tokenizer)
                .map_err(|invalid| refusals::of(&AppError::from(invalid)))?;
            match submit_once(running, prompt.clone(), params, arrived_at).await {
                Err(AppError::TooLarge { fitting_answer_tokens, .. })
                    if !has_own_limit && (1..settings.max_tokens).contains(&fitting_answer_tokens) =>
                {
                    settings.max_tokens = fitting_answer_tokens;
                }
                submitted => return submitted.map_err(|error| refusals::of(&error)),
            }
        }
    }
}

/// Submits from a thread that may work for a while: a grammar is compiled there.
async fn submit_once(
    running: &RunningEngine,
    prompt: Vec<TokenId>,
    params: ValidParams,
    arrived_at: Instant,
) -> Result<(engine::RequestId, EventReceiver), AppError> {
    let owner = Some(OWNER);
    let new = NewRequest { prompt, params, arrived_at, owner, answer_so_far: Vec::new() };
    let handle = running.handle.clone();
    let work = tokio::task::spawn_blocking(move || handle.submit(new));
    Ok(work.await.map_err(|_| AppError::TaskPanicked)??)
}

impl Answerer for BatchAnswerer {
    fn models(&self) -> Vec<ServedModel> {
        let loaded = self.engine.loaded();
        let served = |(model, context_tokens): (Arc<model_hub::ModelFolder>, u32)| ServedModel {
            id: model.id.clone(),
            context_tokens: Some(context_tokens),
        };
        loaded.map(served).into_iter().collect()
    }

    async fn answer(&self, asked: Asked) -> Result<Answer, Refusal> {
        let arrived_at = Instant::now();
        self.served.fetch_add(1, Ordering::Relaxed);
        let running = self.running(&asked.model)?;
        let id = format!("chatcmpl-{}", new_id());
        let ticket = self.requests.enter_other(&id, Asker::Server).map_err(|error| refusals::of(&error))?;
        let has_own_limit = asked.max_tokens.is_some();
        let settings = settings(&asked, &running);
        let prompt = prompt_tokens(&running.tokenizer, asked).await?;
        let (engine_id, receiver) =
            self.submit(&running, prompt, settings, has_own_limit, arrived_at).await?;
        ticket.submitted(running.handle.clone(), engine_id);
        let (sender, events) = mpsc::channel(EVENTS_WAITING);
        let model = running.model.id.clone();
        tokio::spawn(pass_on(running, receiver, ticket, sender));
        Ok(Answer { id, model, events })
    }
}

/// What a request does not set is what the model's maker recommends, or off.
fn settings(asked: &Asked, running: &RunningEngine) -> SamplingSettings {
    let recommended = running.recommended;
    // Beyond these a recommendation would be refused, and the program could not know why.
    let usable =
        |value: Option<f64>, most: f64| value.filter(|value| *value <= most).map(|value| value as f32);
    let bias =
        |(id, value): &(u32, f32)| BiasSetting { target: BiasTarget::TokenId { id: *id }, value: *value };
    SamplingSettings {
        temperature: asked.temperature.or(usable(recommended.temperature, 5.0)).unwrap_or(1.0),
        top_p: asked.top_p.or(usable(recommended.top_p, 1.0)).unwrap_or(1.0),
        top_k: asked.top_k.or(recommended.top_k).unwrap_or(0),
        min_p: asked.min_p.or(usable(recommended.min_p, 0.99)).unwrap_or(0.0),
        seed: asked.seed.map(|seed| seed.to_string()),
        max_tokens: asked.max_tokens.unwrap_or(MAX_TOKENS),
        logprobs: asked.logprobs,
        stop: asked.stop.clone(),
        xtc: asked.xtc.map(|(threshold, probability)| XtcSettings { threshold, probability }),
        repetition_penalty: asked
            .repetition_penalty
            .or(usable(recommended.repetition_penalty, 10.0))
            .unwrap_or(1.0),
        frequency_penalty: asked.frequency_penalty.unwrap_or(0.0),
        presence_penalty: asked.presence_penalty.unwrap_or(0.0),
        logit_bias: asked.logit_bias.iter().map(bias).collect(),
        structured_output: asked
            .json
            .as_ref()
            .map(|json| StructuredOutput::JsonSchema { schema: json.schema() }),
        wants_thinking: asked.wants_thinking,
        ..sampling_settings::defaults()
    }
}

async fn prompt_tokens(tokenizer: &Tokenizer, asked: Asked) -> Result<Vec<TokenId>, Refusal> {
    let options = RenderOptions { enable_thinking: asked.wants_thinking, ..RenderOptions::default() };
    let messages: Vec<ChatMessage> = asked
        .messages
        .into_iter()
        .map(|message| {
            let role = match message.role {
                AskedRole::System => Role::System,
                AskedRole::User => Role::User,
                AskedRole::Assistant => Role::Assistant,
            };
            ChatMessage { reasoning: message.thinking, ..ChatMessage::new(role, message.text) }
        })
        .collect();
    let tokenizer = tokenizer.clone();
    let work = tokio::task::spawn_blocking(move || tokenizer.prompt_tokens(&messages, &options));
    let tokens = work.await.map_err(|_| refusals::of(&AppError::TaskPanicked))?;
    tokens.map_err(|error| refusals::of(&AppError::Prompt(Arc::new(error))))
}

/// Passes an answer's events on until its end, or until nobody listens: then the receiver is dropped, which cancels.
async fn pass_on(
    running: RunningEngine,
    mut receiver: EventReceiver,
    ticket: Ticket,
    sender: mpsc::Sender<AnswerEvent>,
) {
    loop {
        let events = tokio::select! {
            events = receiver.recv() => events.unwrap_or_default(),
            () = running.abandoned() => Vec::new(),
            () = sender.closed() => return,
        };
        let said = merged(&events, &running.tokenizer);
        if let Some(said) = said
            && sender.send(said).await.is_err()
        {
            return;
        }
        let end = match events.into_iter().next_back() {
            None => Some(AnswerEvent::Failed(refusals::of(&EngineError::Stopped.into()))),
            Some(EngineEvent::Finished { reason, summary }) => Some(finished(reason, &summary, &ticket)),
            Some(EngineEvent::Failed { error, .. }) => {
                let stopped = ticket.stop_cause().map(stopped);
                Some(AnswerEvent::Failed(stopped.unwrap_or_else(|| refusals::of(&error.into()))))
            }
            Some(_) => None,
        };
        if let Some(end) = end {
            // Given free first: whoever hears the end may count on it.
            drop(ticket);
            let _ = sender.send(end).await;
            return;
        }
    }
}

/// Texts and log-probabilities of a batch of events as one; `None` if there are none.
fn merged(events: &[EngineEvent], tokenizer: &Tokenizer) -> Option<AnswerEvent> {
    let (mut thinking, mut text, mut logprobs) = (String::new(), String::new(), Vec::new());
    for event in events {
        match event {
            EngineEvent::Text { part: TextPart::Thinking, delta, .. } => thinking.push_str(delta),
            EngineEvent::Text { part: TextPart::Answer, delta, .. } => text.push_str(delta),
            EngineEvent::Logprobs { entries } => {
                let told = entries.iter().filter(|entry| !tokenizer.is_control(entry.token));
                logprobs.extend(told.map(|entry| logprob(entry, tokenizer)));
            }
            _ => {}
        }
    }
    let is_empty = thinking.is_empty() && text.is_empty() && logprobs.is_empty();
    (!is_empty).then_some(AnswerEvent::More { thinking, text, logprobs })
}

/// A token that the row had to take is certain.
fn logprob(entry: &TokenLogprobEntry, tokenizer: &Tokenizer) -> TokenLogprob {
    let of = |token: TokenId, logprob: f32| {
        let bytes = tokenizer.token_bytes(token);
        TokenLogprob {
            text: String::from_utf8_lossy(&bytes).into_owned(),
            bytes,
            logprob: logprob.is_finite().then_some(logprob),
            alternatives: Vec::new(),
        }
    };
    let top = entry.logprobs.as_ref().map_or(&[] as &[_], |logprobs| &logprobs.top);
    let chosen = entry.logprobs.as_ref().map_or(0.0, |logprobs| logprobs.chosen);
    TokenLogprob {
        alternatives: top.iter().map(|(token, logprob)| of(*token, *logprob)).collect(),
        ..of(entry.token, chosen)
    }
}

fn finished(reason: FinishReason, summary: &RequestSummary, ticket: &Ticket) -> AnswerEvent {
    let reason = match reason {
        FinishReason::EndOfTurn | FinishReason::StopSequence => AnswerEnd::Stop,
        FinishReason::MaxTokens | FinishReason::ContextFull | FinishReason::Incomplete => AnswerEnd::Length,
        FinishReason::Cancelled => {
            return AnswerEvent::Failed(stopped(ticket.stop_cause().unwrap_or(StopCause::User)));
        }
    };
    AnswerEvent::Finished { reason, usage: usage(summary) }
}

fn usage(summary: &RequestSummary) -> Usage {
    let completion_tokens = summary.answer_tokens + summary.thinking_tokens;
    Usage {
        prompt_tokens: summary.prompt_tokens,
        completion_tokens,
        total_tokens: summary.prompt_tokens + completion_tokens,
        prompt_tokens_details: PromptDetails { cached_tokens: summary.cached_tokens },
        completion_tokens_details: CompletionDetails { reasoning_tokens: summary.thinking_tokens },
    }
}

fn stopped(cause: StopCause) -> Refusal {
    match cause {
        StopCause::User | StopCause::WindowGone => {
            Refusal::unavailable("stopped", "the answer was stopped in Braid")
        }
        StopCause::AppExit => Refusal::unavailable("server_stopped", "Braid's server was switched off"),
    }
}
