//! An answer of the local engine: from the prompt to the engine's last word.

use std::sync::Arc;

use engine::{EngineError, EngineEvent, EventReceiver, NewRequest, TokenId, params::ValidParams};
use protocol::StreamEventBody;
use text::RenderOptions;

use super::answering::{Answering, Ending};
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
        let new = NewRequest {
            prompt,
            answer_so_far: Vec::new(),
            params,
            arrived_at: self.asked.arrived_at,
            owner,
        };
        let handle = running.handle.clone();
        let work = tokio::task::spawn_blocking(move || handle.submit(new));
        Ok(work.await.map_err(|_| AppError::TaskPanicked)??)
    }

    async fn prompt_tokens(&self, running: &RunningEngine) -> Result<Vec<TokenId>, AppError> {
        let (tokenizer, messages) = (running.tokenizer.clone(), self.asked.messages.clone());
        let enable_thinking = self.asked.settings.wants_thinking;
        let options = RenderOptions { enable_thinking, ..RenderOptions::default() };
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
            EngineEvent::Resumed { .. } | EngineEvent::Finished { .. } | EngineEvent::Failed { .. } => None,
        }
    }
}
