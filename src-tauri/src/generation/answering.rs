//! The task of one answer: from the prompt to the stored end.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use engine::{
    EngineError, EngineEvent, EventReceiver, NewRequest, RequestSummary, TokenId, event::TextPart,
    params::ValidParams,
};
use history::{AnswerEnd, AnswerPiece, AnswerWriter, ConversationId, HistoryError};
use protocol::{FinishReason, Receipt, SamplingSettings, StreamEventBody};
use text::{ChatMessage, RenderOptions};

use super::{recorded::Recorded, unsaved::Unsaved};
use crate::{
    convert::{self, answer, conversation},
    error::{AppError, in_full},
    local_engine::{LocalEngine, RunningEngine},
    requests::{Requests, StopCause, Ticket},
    sampling_settings,
    settings_store::to_json,
    state::AppState,
    stream::{FrameSink, Framer, frame_interval},
};

/// Tries to store an answer's end, and the pause between them.
const FINISH_TRIES: u32 = 4;
const FINISH_PAUSE: Duration = Duration::from_millis(500);

/// What an answer is to be made from.
pub struct Asked {
    pub id: ConversationId,
    pub messages: Vec<ChatMessage>,
    pub settings: SamplingSettings,
    pub arrived_at: Instant,
}

/// A running answer. Owned by its task.
pub struct Answering {
    asked: Asked,
    framer: Framer,
    ticket: Ticket,
    writer: AnswerWriter,
    sink: Box<dyn FrameSink>,
    recorded: Recorded,
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
    /// An answer that is stored, empty, behind `writer`.
    pub fn new(
        asked: Asked,
        framer: Framer,
        ticket: Ticket,
        writer: AnswerWriter,
        sink: impl FrameSink,
    ) -> Self {
        Self {
            asked,
            framer,
            ticket,
            writer,
            sink: Box::new(sink),
            recorded: Recorded::default(),
            unsaved: Unsaved::default(),
            failure: None,
        }
    }

    /// Starts generating.
    pub fn spawn(self, state: &AppState) {
        tokio::spawn(self.run(state.engine.clone(), state.requests.clone()));
    }

    async fn run(mut self, engine: Arc<LocalEngine>, requests: Requests) {
        let ending = match self.submit(&engine).await {
            Ok(Some((running, receiver))) => self.follow(&running, receiver, &requests).await,
            Ok(None) => {
                let reason = answer::cancelled(self.ticket.stop_cause());
                Ending::Finished(reason, answer::empty_receipt(&self.asked.settings))
            }
            Err(error) => Ending::Failed(error, answer::empty_receipt(&self.asked.settings)),
        };
        self.finish(ending).await;
    }

    /// Waits for the engine, makes the prompt and submits it. `None` if the answer was stopped meanwhile.
    async fn submit(
        &mut self,
        engine: &LocalEngine,
    ) -> Result<Option<(RunningEngine, EventReceiver)>, AppError> {
        self.send([StreamEventBody::Queued { ahead: 0 }]);
        loop {
            let running = tokio::select! {
                running = engine.ready() => running?,
                _ = self.ticket.stopped() => return Ok(None),
            };
            let params = sampling_settings::resolve(&self.asked.settings, &running.tokenizer)?;
            let prompt = self.prompt_tokens(&running).await?;
            if self.ticket.stop_cause().is_some() {
                return Ok(None);
            }
            match self.submit_to(&running, prompt, params).await {
                // Nothing was said yet, so the successor can say it all.
                Err(AppError::Engine(EngineError::ModelReplaced)) => {}
                submitted => {
                    let (id, receiver) = submitted?;
                    self.ticket.submitted(running.handle.clone(), id);
                    return Ok(Some((running, receiver)));
                }
            }
        }
    }

    /// Submits from a thread that may work for a while: a grammar is compiled there.
    async fn submit_to(
        &self,
        running: &RunningEngine,
        prompt: Vec<TokenId>,
        params: ValidParams,
    ) -> Result<(engine::RequestId, EventReceiver), AppError> {
        let owner = Some(super::owner(self.asked.id));
        let new = NewRequest { prompt, params, arrived_at: self.asked.arrived_at, owner };
        let handle = running.handle.clone();
        let work = tokio::task::spawn_blocking(move || handle.submit(new));
        Ok(work.await.map_err(|_| AppError::TaskPanicked)??)
    }

    async fn prompt_tokens(&self, running: &RunningEngine) -> Result<Vec<TokenId>, AppError> {
        let (tokenizer, messages) = (running.tokenizer.clone(), self.asked.messages.clone());
        let options = RenderOptions::default();
        let work = tokio::task::spawn_blocking(move || tokenizer.prompt_tokens(&messages, &options));
        let tokens = work.await.map_err(|_| AppError::TaskPanicked)?;
        tokens.map_err(|error| AppError::Prompt(Arc::new(error)))
    }

    /// Passes events on, one frame at a time, until the terminal one.
    async fn follow(
        &mut self,
        running: &RunningEngine,
        mut receiver: EventReceiver,
        requests: &Requests,
    ) -> Ending {
        let interval = frame_interval(running.device().as_deref());
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
                    other => bodies.extend(self.body(other, running, requests)),
                }
            }
            self.send(bodies);
            self.check_saved();
            if let Some(ending) = ending {
                return ending;
            }
            tokio::time::sleep_until(sent_at + interval).await;
        }
    }

    /// The wire's form of an event that is not the last; text goes to the history on the way.
    fn body(
        &mut self,
        event: EngineEvent,
        running: &RunningEngine,
        requests: &Requests,
    ) -> Option<StreamEventBody> {
        match event {
            EngineEvent::Queued { ahead } => Some(StreamEventBody::Queued { ahead: convert::count(ahead) }),
            EngineEvent::Prefilling { done_tokens, total_tokens } => {
                Some(StreamEventBody::Prefilling { done_tokens, total_tokens })
            }
            EngineEvent::Text { part, delta, answer_tokens, thinking_tokens } => {
                self.write(part, &delta, answer_tokens, thinking_tokens);
                let part = answer::text_part(part);
                Some(StreamEventBody::Text { part, delta, answer_tokens, thinking_tokens })
            }
            EngineEvent::Path { path } => {
                let conversation_of = |id| {
                    let (_, asker) = requests.of_engine(id)?;
                    asker.conversation().map(|conversation| conversation.to_string())
                };
                Some(StreamEventBody::Path { path: convert::gate_path(&path, conversation_of) })
            }
            EngineEvent::Logprobs { entries } => {
                self.recorded.extend(&entries, &running.tokenizer);
                None
            }
            EngineEvent::Finished { .. } | EngineEvent::Failed { .. } => None,
        }
    }

    fn write(&mut self, part: TextPart, delta: &str, output_tokens: u32, thinking_tokens: u32) {
        let mut piece = AnswerPiece { output_tokens, thinking_tokens, ..AnswerPiece::default() };
        match part {
            TextPart::Answer => piece.text = delta.to_owned(),
            TextPart::Thinking => piece.thinking = delta.to_owned(),
        }
        if let Err(error) = self.writer.push_piece(piece) {
            self.note_unsaved(error);
        }
    }

    fn finished(&mut self, reason: engine::FinishReason, summary: &RequestSummary) -> Ending {
        let receipt = self.receipt(summary);
        match self.failure.take() {
            Some(error) => Ending::Failed(error, receipt),
            None => Ending::Finished(answer::finish_reason(reason, self.ticket.stop_cause()), receipt),
        }
    }

    fn failed(&mut self, error: EngineError, summary: &RequestSummary) -> Ending {
        let receipt = self.receipt(summary);
        match (self.failure.take(), self.ticket.stop_cause(), error) {
            (Some(own), _, _) => Ending::Failed(own, receipt),
            // The engine or its model went away under an answer that was being stopped anyway.
            (
                None,
                Some(cause),
                EngineError::Stopped | EngineError::ModelReplaced | EngineError::ModelUnloaded,
            ) => Ending::Finished(answer::cancelled(Some(cause)), receipt),
            (None, _, error) => Ending::Failed(error.into(), receipt),
        }
    }

    fn receipt(&self, summary: &RequestSummary) -> Receipt {
        let recorded_tokens = convert::count(self.recorded.details().len());
        Receipt { recorded_tokens, ..answer::receipt(summary, &self.asked.settings) }
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
        let details = self.recorded.details();
        let token_details_json =
            (!details.is_empty()).then(|| to_json("token details", &details)).transpose()?;
        let end = AnswerEnd {
            token_details_json,
            state: answer::finish_state(reason),
            finish_reason: conversation::word(&reason),
            receipt_json: Some(to_json("receipt", receipt)?),
            error_code: error.and_then(|error| conversation::word(&error.code())),
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
