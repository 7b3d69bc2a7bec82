//! The task of one answer: its frames, its text on disk, its stored end.

use std::time::{Duration, Instant};

use engine::{EngineError, RequestSummary, event::TextPart};
use history::{AnswerEnd, AnswerPiece, AnswerWriter, ConversationId, HistoryError};
use protocol::{FinishReason, Receipt, SamplingSettings, StreamEventBody};
use text::ChatMessage;

use super::{
    recorded::Recorded,
    so_far::{Shown, SoFar, joined},
    unsaved::Unsaved,
};
use crate::{
    convert::{self, answer, conversation},
    error::{AppError, in_full},
    requests::{StopCause, Ticket},
    settings_store::to_json,
    state::AppState,
    stream::{Framer, SharedSink},
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
    /// What the answer says already, if it goes on.
    pub so_far: Option<SoFar>,
}

/// A running answer. Owned by its task.
pub struct Answering {
    pub(super) asked: Asked,
    framer: Framer,
    pub(super) ticket: Ticket,
    writer: AnswerWriter,
    sink: SharedSink,
    pub(super) recorded: Recorded,
    pub(super) shown: Shown,
    unsaved: Unsaved,
    /// What ends the answer although the engine would go on.
    failure: Option<AppError>,
}

/// How an answer ended.
pub(super) enum Ending {
    Finished(FinishReason, Receipt),
    Failed(AppError, Receipt),
}

impl Answering {
    /// An answer that is stored, empty, behind `writer`.
    pub fn new(asked: Asked, framer: Framer, ticket: Ticket, writer: AnswerWriter, sink: SharedSink) -> Self {
        // As long as nothing is asked for, what was recorded before stays.
        let mut recorded = Recorded::default();
        recorded.begin_with(asked.so_far.iter().flat_map(|so_far| so_far.details.clone()).collect());
        Self {
            asked,
            framer,
            ticket,
            writer,
            sink,
            recorded,
            shown: Shown::default(),
            unsaved: Unsaved::default(),
            failure: None,
        }
    }

    /// Starts generating.
    pub fn spawn(self, state: &AppState) {
        tokio::spawn(self.run(state.clone()));
    }

    async fn run(mut self, state: AppState) {
        let ending = match self.asked.settings.remote.clone() {
            Some(target) => self.answer_there(&state, target).await,
            None => self.answer_here(&state).await,
        };
        self.finish(ending).await;
    }

    /// The ending of an answer that was stopped before anybody could say anything.
    pub(super) fn stopped_early(&self) -> Ending {
        let reason = answer::cancelled(self.ticket.stop_cause());
        Ending::Finished(reason, self.of_both_parts(answer::empty_receipt(&self.asked.settings)))
    }

    /// The ending of an answer that failed before anybody could say anything.
    pub(super) fn failed_early(&self, error: AppError) -> Ending {
        Ending::Failed(error, self.of_both_parts(answer::empty_receipt(&self.asked.settings)))
    }

    /// Sends text to the history.
    pub(super) fn write(&mut self, part: TextPart, delta: &str, output_tokens: u32, thinking_tokens: u32) {
        let mut piece = AnswerPiece { output_tokens, thinking_tokens, ..AnswerPiece::default() };
        match part {
            TextPart::Answer => piece.text = delta.to_owned(),
            TextPart::Thinking => piece.thinking = delta.to_owned(),
        }
        if let Err(error) = self.writer.push_piece(piece) {
            self.note_unsaved(error);
        }
    }

    pub(super) fn finished(&mut self, reason: engine::FinishReason, summary: &RequestSummary) -> Ending {
        let receipt = self.receipt(summary);
        match self.failure.take() {
            Some(error) => Ending::Failed(error, receipt),
            None => Ending::Finished(answer::finish_reason(reason, self.ticket.stop_cause()), receipt),
        }
    }

    pub(super) fn failed(&mut self, error: EngineError, summary: &RequestSummary) -> Ending {
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
        self.of_both_parts(answer::receipt(summary, &self.asked.settings))
    }

    /// The receipt of the whole answer, if there was a part before this one.
    fn of_both_parts(&self, receipt: Receipt) -> Receipt {
        let before = self.asked.so_far.as_ref().and_then(|so_far| so_far.receipt.as_ref());
        let receipt = match before {
            Some(before) => joined(before, receipt),
            None => receipt,
        };
        let recorded_tokens = convert::count(self.recorded.details().len());
        Receipt { recorded_tokens, ..receipt }
    }

    pub(super) fn ending_of_stopped_engine(&mut self) -> Ending {
        self.failed(EngineError::Stopped, &RequestSummary::default())
    }

    pub(super) fn send(&mut self, bodies: impl IntoIterator<Item = StreamEventBody>) {
        for frame in self.framer.frames(bodies) {
            if self.sink.send(frame).is_err() {
                self.ticket.stop(StopCause::WindowGone);
            }
        }
    }

    /// What ends the answer although whoever answers would go on.
    pub(super) fn take_failure(&mut self) -> Option<AppError> {
        self.failure.take()
    }

    pub(super) fn check_saved(&mut self) {
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
