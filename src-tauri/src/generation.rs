//! One answer, from the person's message to its stored end.
//!
//! Order matters: both messages are on disk before anything is asked of the engine, and the end is on disk before the
//! UI hears of it. Whatever goes wrong after the first write ends the answer as failed; the message stays.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use engine::{
    EngineError, EngineEvent, EventReceiver, NewRequest, RequestSummary, TokenId, params::ValidParams,
};
use history::{AnswerEnd, AnswerWriter, History, HistoryError, MessageId};
use protocol::{
    FinishReason, Receipt, SamplingSettings, StartGeneration, StartedGeneration, StreamEventBody,
};
use text::{ChatMessage, RenderOptions};

use crate::{
    convert::{self, answer, conversation},
    error::{AppError, in_full},
    local_engine::{LocalEngine, RunningEngine},
    prompt,
    requests::{Requests, StopCause, Ticket},
    sampling_settings,
    settings_store::to_json,
    state::AppState,
    stream::{FRAME_INTERVAL, FrameSink, Framer},
};

/// How long text may stay unsaved before its answer ends: writing on would promise what the disk does not hold.
const UNSAVED_LIMIT: Duration = Duration::from_secs(3);

/// Tries to store an answer's end, and the pause between them.
const FINISH_TRIES: u32 = 4;
const FINISH_PAUSE: Duration = Duration::from_millis(500);

/// Stores the message with its empty answer and starts generating.
///
/// # Errors
/// Before anything is stored: [`AppError::EmptyMessage`], [`AppError::UnknownConversation`],
/// [`AppError::AlreadyGenerating`], [`AppError::InvalidSetting`], why there is no engine, or the history's error.
/// Later failures travel through `sink`.
pub async fn start(
    state: &AppState,
    request: StartGeneration,
    arrived_at: Instant,
    sink: impl FrameSink,
) -> Result<StartedGeneration, AppError> {
    if request.text.trim().is_empty() {
        return Err(AppError::EmptyMessage);
    }
    let id = conversation::parse_id(&request.conversation_id)?;
    let history = state.history().await?;
    state.engine.check()?;
    let ticket = state.requests.enter(&request.request_id, id)?;
    let stored = history.open_conversation(id).await?;
    let settings =
        match stored.settings_json.as_deref().and_then(|json| conversation::from_json("settings", json)) {
            Some(settings) => settings,
            None => state.settings.current().await.new_conversation,
        };
    let params = sampling_settings::validate(&settings)?;
    let settings_json = to_json("sampling settings", &settings)?;
    let turn = history.begin_turn(id, stored.active_leaf, &request.text, &settings_json).await?;
    // From here on the writer owns the answer's end: dropped early, it marks it interrupted.
    let writer = AnswerWriter::spawn(history, turn.answer);
    if stored.title.is_empty() && stored.path.is_empty() {
        let title = conversation::title_of(&request.text);
        if let Err(error) = history.rename_conversation(id, &title).await {
            tracing::warn!(%error, "a conversation got no title");
        }
    }
    let started = started(history, id, turn.answer).await?;
    let answering = Answering {
        framer: Framer::new(request.request_id),
        messages: prompt::messages(&settings.system_prompt, &stored.path, &request.text),
        requests: state.requests.clone(),
        ticket,
        writer,
        sink: Box::new(sink),
        settings,
        params,
        arrived_at,
        unsaved: Unsaved::default(),
        failure: None,
    };
    tokio::spawn(answering.run(state.engine.clone()));
    Ok(started)
}

async fn started(
    history: &History,
    id: history::ConversationId,
    answer: MessageId,
) -> Result<StartedGeneration, AppError> {
    let path = history.message_path(id, answer).await?;
    match path.as_slice() {
        [.., user_message, answer] => Ok(StartedGeneration {
            user_message: conversation::message(user_message),
            answer: conversation::message(answer),
        }),
        _ => Err(HistoryError::MessageNotFound(answer).into()),
    }
}

/// A running answer. Owned by its task.
struct Answering {
    framer: Framer,
    messages: Vec<ChatMessage>,
    requests: Requests,
    ticket: Ticket,
    writer: AnswerWriter,
    sink: Box<dyn FrameSink>,
    settings: SamplingSettings,
    params: ValidParams,
    arrived_at: Instant,
    unsaved: Unsaved,
    /// What ends the answer although the engine would go on.
    failure: Option<AppError>,
}

/// How an answer ended.
enum Ending {
    Finished(FinishReason, Receipt),
    Failed(AppError, Receipt),
}

impl Answering {
    async fn run(mut self, engine: Arc<LocalEngine>) {
        let ending = match self.submit(&engine).await {
            Ok(Some((running, receiver))) => self.follow(running, receiver).await,
            Ok(None) => {
                let reason = answer::cancelled(self.ticket.stop_cause());
                Ending::Finished(reason, answer::empty_receipt(&self.settings))
            }
            Err(error) => Ending::Failed(error, answer::empty_receipt(&self.settings)),
        };
        self.finish(ending).await;
    }

    /// Waits for the engine, makes the prompt and submits it. `None` if the answer was stopped meanwhile.
    async fn submit(
        &mut self,
        engine: &LocalEngine,
    ) -> Result<Option<(RunningEngine, EventReceiver)>, AppError> {
        self.send([StreamEventBody::Queued { ahead: 0 }]);
        let running = tokio::select! {
            running = engine.ready() => running?,
            _ = self.ticket.stopped() => return Ok(None),
        };
        let prompt = self.prompt_tokens(&running).await?;
        if self.ticket.stop_cause().is_some() {
            return Ok(None);
        }
        let new =
            NewRequest { prompt, params: self.params.clone(), owner: None, arrived_at: self.arrived_at };
        let (id, receiver) = running.handle.submit(new)?;
        self.ticket.submitted(running.handle.clone(), id);
        Ok(Some((running, receiver)))
    }

    async fn prompt_tokens(&mut self, running: &RunningEngine) -> Result<Vec<TokenId>, AppError> {
        let (tokenizer, messages) = (running.tokenizer.clone(), std::mem::take(&mut self.messages));
        let options = RenderOptions { add_generation_prompt: true };
        let work = tokio::task::spawn_blocking(move || tokenizer.prompt_tokens(&messages, options));
        let tokens = work.await.map_err(|_| AppError::TaskPanicked)?;
        tokens.map_err(|error| AppError::Prompt(Arc::new(error)))
    }

    /// Passes events on, one frame at a time, until the terminal one.
    async fn follow(&mut self, running: RunningEngine, mut receiver: EventReceiver) -> Ending {
        loop {
            let events = tokio::select! {
                events = receiver.recv() => events.unwrap_or_default(),
                () = running.abandoned() => Vec::new(),
            };
            if events.is_empty() {
                return self.ending_of_stopped_engine();
            }
            let sent_at = tokio::time::Instant::now();
            let mut bodies = Vec::with_capacity(events.len());
            let mut ending = None;
            for event in events {
                match event {
                    EngineEvent::Finished { reason, summary } => {
                        ending = Some(self.finished(reason, &summary))
                    }
                    EngineEvent::Failed { error, summary } => ending = Some(self.failed(error, &summary)),
                    other => bodies.extend(self.body(other)),
                }
            }
            self.send(bodies);
            self.check_saved();
            if let Some(ending) = ending {
                return ending;
            }
            tokio::time::sleep_until(sent_at + FRAME_INTERVAL).await;
        }
    }

    /// The wire's form of an event that is not the last; text goes to the history on the way.
    fn body(&mut self, event: EngineEvent) -> Option<StreamEventBody> {
        match event {
            EngineEvent::Queued { ahead } => Some(StreamEventBody::Queued { ahead: convert::count(ahead) }),
            EngineEvent::Prefilling { done_tokens, total_tokens } => {
                Some(StreamEventBody::Prefilling { done_tokens, total_tokens })
            }
            EngineEvent::Text { delta, answer_tokens, .. } => {
                if let Err(error) = self.writer.push(&delta, answer_tokens) {
                    self.note_unsaved(error);
                }
                Some(StreamEventBody::Text { delta, answer_tokens })
            }
            EngineEvent::Path { path } => {
                let conversation_of =
                    |id| self.requests.of_engine(id).map(|(_, conversation)| conversation.to_string());
                Some(StreamEventBody::Path { path: convert::gate_path(&path, conversation_of) })
            }
            // Their mean is in the receipt; the UI shows no single ones yet.
            EngineEvent::Logprobs { .. } => None,
            EngineEvent::Finished { .. } | EngineEvent::Failed { .. } => None,
        }
    }

    fn finished(&mut self, reason: engine::FinishReason, summary: &RequestSummary) -> Ending {
        let receipt = answer::receipt(summary, &self.settings);
        match self.failure.take() {
            Some(error) => Ending::Failed(error, receipt),
            None => Ending::Finished(answer::finish_reason(reason, self.ticket.stop_cause()), receipt),
        }
    }

    fn failed(&mut self, error: EngineError, summary: &RequestSummary) -> Ending {
        let receipt = answer::receipt(summary, &self.settings);
        match (self.failure.take(), self.ticket.stop_cause(), error) {
            (Some(own), _, _) => Ending::Failed(own, receipt),
            // The engine was shut down under an answer that was being stopped anyway.
            (None, Some(cause), EngineError::Stopped) => {
                Ending::Finished(answer::cancelled(Some(cause)), receipt)
            }
            (None, _, error) => Ending::Failed(error.into(), receipt),
        }
    }

    fn ending_of_stopped_engine(&mut self) -> Ending {
        self.failed(EngineError::Stopped, &RequestSummary::default())
    }

    fn send(&mut self, bodies: impl IntoIterator<Item = StreamEventBody>) {
        for frame in self.framer.frames(bodies) {
            if self.sink.send(frame).is_err() {
                self.ticket.stop(StopCause::WindowGone);
            }
        }
    }

    fn check_saved(&mut self) {
        if let Some(error) = self.writer.take_failure() {
            self.note_unsaved(error);
        }
    }

    /// Ends the answer if its text cannot be saved and that is not likely to pass.
    fn note_unsaved(&mut self, error: HistoryError) {
        tracing::warn!(%error, "an answer's text could not be saved");
        if (self.unsaved.lasts(Instant::now()) || !error.is_transient()) && self.failure.is_none() {
            self.failure = Some(error.into());
            self.ticket.stop(StopCause::User);
        }
    }

    /// Stores the end, gives the conversation free, then tells the UI.
    async fn finish(mut self, ending: Ending) {
        let stored = self.store(&ending).await;
        let last = match (ending, stored) {
            (Ending::Finished(reason, receipt), Ok(())) => StreamEventBody::Finished { reason, receipt },
            (Ending::Finished(_, receipt), Err(error)) => failed_body(&error, receipt),
            (Ending::Failed(error, receipt), _) => failed_body(&error, receipt),
        };
        let Self { ticket, mut framer, sink, .. } = self;
        drop(ticket);
        for frame in framer.frames([last]) {
            // A window that is gone misses nothing that is not stored.
            let _ = sink.send(frame);
        }
    }

    async fn store(&mut self, ending: &Ending) -> Result<(), AppError> {
        let (reason, receipt, error) = match ending {
            Ending::Finished(reason, receipt) => (*reason, receipt, None),
            Ending::Failed(error, receipt) => (FinishReason::Failed, receipt, Some(error)),
        };
        if let Some(error) = error {
            tracing::warn!(error = in_full(error), "an answer failed");
        }
        let end = AnswerEnd {
            state: answer::finish_state(reason),
            finish_reason: conversation::word(&reason),
            receipt_json: Some(to_json("receipt", receipt)?),
            error_code: error.and_then(|error| conversation::word(&error.code())),
            token_details_json: None,
        };
        let mut tries = 1;
        loop {
            match self.writer.finish(end.clone()).await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_transient() && tries < FINISH_TRIES => {
                    tries += 1;
                    tokio::time::sleep(FINISH_PAUSE).await;
                }
                Err(error) => {
                    tracing::error!(%error, "an answer's end could not be saved");
                    return Err(error.into());
                }
            }
        }
    }
}

fn failed_body(error: &AppError, receipt: Receipt) -> StreamEventBody {
    StreamEventBody::Failed { code: error.code(), detail: in_full(error), receipt }
}

/// How long saving has been failing.
#[derive(Default)]
struct Unsaved {
    since: Option<Instant>,
    latest: Option<Instant>,
}

impl Unsaved {
    /// Notes a failure; says whether they have lasted too long. A pause between failures means one was overcome.
    fn lasts(&mut self, now: Instant) -> bool {
        let is_new = self.latest.is_none_or(|latest| now - latest > 3 * history::FLUSH_INTERVAL);
        let since = if is_new { now } else { self.since.unwrap_or(now) };
        (self.since, self.latest) = (Some(since), Some(now));
        now - since >= UNSAVED_LIMIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_to_save_end_an_answer_only_once_they_last() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut unsaved = Unsaved::default();
        assert!(!unsaved.lasts(at(0)));
        assert!(!unsaved.lasts(at(600)));
        assert!(!unsaved.lasts(at(5_000)), "a long pause: the earlier failure was overcome");
        for ms in [5_600, 6_200, 6_800, 7_400] {
            assert!(!unsaved.lasts(at(ms)));
        }
        assert!(unsaved.lasts(at(8_100)));
    }
}
