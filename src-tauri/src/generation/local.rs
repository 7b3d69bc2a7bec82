//! An answer of the local engine: from the prompt to the engine's last word.

use std::sync::Arc;

use engine::{
    EngineError, EngineEvent, EventReceiver, NewRequest, TokenId, event::TextPart, params::ValidParams,
};
use protocol::StreamEventBody;
use text::{RenderOptions, Tokenizer};

use super::{
    answering::{Answering, Asked, Ending},
    so_far::{Resumed, Shown},
};
use crate::{
    convert::{self, answer},
    error::AppError,
    local_engine::{LocalEngine, RunningEngine},
    requests::Requests,
    sampling_settings,
    state::AppState,
    stream::frame_interval,
};

impl Answering {
    /// Lets the local engine answer.
    pub(super) async fn answer_here(&mut self, state: &AppState) -> Ending {
        match self.submit(&state.engine).await {
            Ok(Some((running, receiver))) => self.follow(&running, receiver, &state.requests).await,
            Ok(None) => self.stopped_early(),
            Err(error) => self.failed_early(error),
        }
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
            let (prompt, resumed) = given(&self.asked, &running.tokenizer).await?;
            self.make_room(resumed.tokens.len());
            let params = sampling_settings::resolve(&self.asked.settings, &running.tokenizer)?;
            self.recorded.begin_with(resumed.details);
            if self.ticket.stop_cause().is_some() {
                return Ok(None);
            }
            match self.submit_to(&running, (prompt, resumed.tokens), params).await {
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
        (prompt, answer_so_far): (Vec<TokenId>, Vec<TokenId>),
        params: ValidParams,
    ) -> Result<(engine::RequestId, EventReceiver), AppError> {
        let owner = Some(super::owner(self.asked.id));
        let new = NewRequest { prompt, answer_so_far, params, arrived_at: self.asked.arrived_at, owner };
        let handle = running.handle.clone();
        let work = tokio::task::spawn_blocking(move || handle.submit(new));
        Ok(work.await.map_err(|_| AppError::TaskPanicked)??)
    }

    /// Lets an answer that is as long as it may be become longer.
    fn make_room(&mut self, tokens: usize) {
        let tokens = convert::count(tokens);
        let Asked { settings, so_far, .. } = &mut self.asked;
        if let Some(so_far) = so_far.as_ref().filter(|_| tokens >= settings.max_tokens) {
            settings.max_tokens = tokens.saturating_add(so_far.more_tokens);
        }
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
                let delta = self.shown.unseen(answer::text_part(part), delta);
                self.write(part, &delta, answer_tokens, thinking_tokens);
                let part = answer::text_part(part);
                (!delta.is_empty()).then_some(StreamEventBody::Text {
                    part,
                    delta,
                    answer_tokens,
                    thinking_tokens,
                })
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
            EngineEvent::Resumed { thinking, answer, answer_tokens, thinking_tokens } => {
                if let Some(so_far) = &self.asked.so_far {
                    self.shown = Shown::beyond(&so_far.said, &thinking, &answer);
                }
                self.write(TextPart::Answer, "", answer_tokens, thinking_tokens);
                None
            }
            EngineEvent::Finished { .. } | EngineEvent::Failed { .. } => None,
        }
    }
}

/// The tokens of an answer's prompt, and of what it says already.
///
/// # Errors
/// [`AppError::Prompt`].
pub(super) async fn given(asked: &Asked, tokenizer: &Tokenizer) -> Result<(Vec<TokenId>, Resumed), AppError> {
    let (tokenizer, messages) = (tokenizer.clone(), asked.messages.clone());
    let (settings, so_far) = (asked.settings.clone(), asked.so_far.clone());
    let options = RenderOptions { enable_thinking: settings.wants_thinking, ..RenderOptions::default() };
    let work = tokio::task::spawn_blocking(move || {
        let prompt = tokenizer
            .prompt_tokens(&messages, &options)
            .map_err(|error| AppError::Prompt(Arc::new(error)))?;
        let resumed = match so_far {
            Some(so_far) => so_far.tokens(&tokenizer, &prompt, &settings)?,
            None => Resumed::default(),
        };
        Ok((prompt, resumed))
    });
    work.await.map_err(|_| AppError::TaskPanicked)?
}
