//! Running answers by the UI's request id: who answers what, and how to stop it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use engine::{EngineHandle, RequestId};
use history::ConversationId;
use tokio::sync::watch;

use crate::error::AppError;

/// Why an answer is stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopCause {
    /// The person asked for it.
    User,
    /// The window that showed it is gone.
    WindowGone,
    /// The app exits.
    AppExit,
}

/// Every answer that is running; cloning shares it. No lock outlives a call.
#[derive(Clone, Default)]
pub struct Requests {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    running: Mutex<HashMap<String, Running>>,
    count: watch::Sender<usize>,
}

struct Running {
    conversation: ConversationId,
    stop: watch::Sender<Option<StopCause>>,
    submitted: Option<(EngineHandle, RequestId)>,
}

impl Requests {
    /// Notes a request as running until the returned ticket is dropped.
    ///
    /// # Errors
    /// [`AppError::AlreadyGenerating`] if its conversation has a running answer, or its id is taken.
    pub fn enter(&self, request_id: &str, conversation: ConversationId) -> Result<Ticket, AppError> {
        let mut running = self.lock();
        let is_busy = running.contains_key(request_id)
            || running.values().any(|other| other.conversation == conversation);
        if is_busy {
            return Err(AppError::AlreadyGenerating { conversation_id: conversation.to_string() });
        }
        let (stop, stopped) = watch::channel(None);
        running.insert(request_id.to_owned(), Running { conversation, stop, submitted: None });
        self.shared.count.send_replace(running.len());
        drop(running);
        Ok(Ticket { requests: self.clone(), request_id: request_id.to_owned(), stopped })
    }

    /// Stops a request in whatever phase it is. Nothing happens if it has ended; the first cause stays.
    pub fn stop(&self, request_id: &str, cause: StopCause) {
        if let Some(running) = self.lock().get(request_id) {
            running.stop(cause);
        }
    }

    /// Stops every request.
    pub fn stop_all(&self, cause: StopCause) {
        self.lock().values().for_each(|running| running.stop(cause));
    }

    /// Stops the answer that is running in a conversation, if there is one.
    pub fn stop_conversation(&self, conversation: ConversationId, cause: StopCause) {
        let running = self.lock();
        running
            .values()
            .filter(|other| other.conversation == conversation)
            .for_each(|other| other.stop(cause));
    }

    /// The request that is answering in a conversation.
    pub fn of_conversation(&self, conversation: ConversationId) -> Option<String> {
        let running = self.lock();
        running.iter().find(|(_, other)| other.conversation == conversation).map(|(id, _)| id.clone())
    }

    /// UI request id and conversation of a request of the engine.
    pub fn of_engine(&self, id: RequestId) -> Option<(String, ConversationId)> {
        let running = self.lock();
        let found = running.iter().find(|(_, other)| matches!(other.submitted, Some((_, own)) if own == id));
        found.map(|(request_id, other)| (request_id.clone(), other.conversation))
    }

    /// Waits until no request is running, `limit` at most. Returns how many still are.
    pub async fn drained(&self, limit: Duration) -> usize {
        let mut count = self.shared.count.subscribe();
        let drained = tokio::time::timeout(limit, count.wait_for(|count| *count == 0)).await.is_ok();
        if drained { 0 } else { self.lock().len() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Running>> {
        // Every change of the map is a single call that cannot panic half-way.
        self.shared.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    fn stop(&self, cause: StopCause) {
        self.stop.send_if_modified(|current| {
            let is_first = current.is_none();
            *current = current.or(Some(cause));
            is_first
        });
        if let Some((engine, id)) = &self.submitted {
            engine.cancel(*id);
        }
    }
}

/// A running request's place among [`Requests`]; dropping it gives the conversation free.
pub struct Ticket {
    requests: Requests,
    request_id: String,
    stopped: watch::Receiver<Option<StopCause>>,
}

impl Ticket {
    /// The UI's request id.
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// Notes the engine's name for the request, so that stopping cancels it there; cancels at once if it was stopped.
    pub fn submitted(&self, engine: EngineHandle, id: RequestId) {
        let mut running = self.requests.lock();
        let Some(entry) = running.get_mut(&self.request_id) else { return };
        if entry.stop.borrow().is_some() {
            engine.cancel(id);
        }
        entry.submitted = Some((engine, id));
    }

    /// Stops this request.
    pub fn stop(&self, cause: StopCause) {
        self.requests.stop(&self.request_id, cause);
    }

    /// Why it was stopped, if it was.
    pub fn stop_cause(&self) -> Option<StopCause> {
        *self.stopped.borrow()
    }

    /// Waits until it is stopped.
    pub async fn stopped(&self) -> StopCause {
        let mut stopped = self.stopped.clone();
        match stopped.wait_for(Option::is_some).await.map(|cause| *cause) {
            Ok(Some(cause)) => cause,
            // The sender lives as long as the ticket.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut running = self.requests.lock();
        running.remove(&self.request_id);
        self.requests.shared.count.send_replace(running.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_has_one_running_answer() {
        let requests = Requests::default();
        let first = requests.enter("a", ConversationId(1)).expect("nothing is running");
        let second = requests.enter("b", ConversationId(1));
        assert!(matches!(second, Err(AppError::AlreadyGenerating { .. })));
        let same_id = requests.enter("a", ConversationId(2));
        assert!(same_id.is_err(), "events are told apart by request id");
        requests.enter("c", ConversationId(2)).expect("another conversation is free");
        drop(first);
        requests.enter("b", ConversationId(1)).expect("the first answer ended");
    }

    #[tokio::test]
    async fn stopping_before_submission_is_remembered_and_the_first_cause_stays() {
        let requests = Requests::default();
        let ticket = requests.enter("a", ConversationId(1)).expect("nothing is running");
        requests.stop("a", StopCause::User);
        requests.stop_all(StopCause::AppExit);
        requests.stop("unknown", StopCause::User);
        assert_eq!(ticket.stopped().await, StopCause::User);
    }

    #[tokio::test(start_paused = true)]
    async fn draining_waits_for_the_last_ticket_but_not_for_ever() {
        let requests = Requests::default();
        let ticket = requests.enter("a", ConversationId(1)).expect("nothing is running");
        assert_eq!(requests.drained(Duration::from_secs(2)).await, 1);
        drop(ticket);
        assert_eq!(requests.drained(Duration::from_secs(2)).await, 0);
    }
}
