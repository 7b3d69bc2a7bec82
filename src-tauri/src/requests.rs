//! Running answers by the UI's request id: who answers what, and how to stop it.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use engine::{EngineHandle, RequestId};
use history::{ConversationId, MessageId};
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

/// Who asked for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// A conversation in a tab.
    Tab {
        /// The conversation.
        conversation: ConversationId,
        /// What is filled; `None` until it is stored.
        answer: Option<MessageId>,
    },
    /// Another program, through the local server.
    Server,
    /// The benchmark.
    Benchmark,
}

impl Asker {
    /// The conversation, if a tab asked.
    pub fn conversation(self) -> Option<ConversationId> {
        match self {
            Self::Tab { conversation, .. } => Some(conversation),
            Self::Server | Self::Benchmark => None,
        }
    }

    /// The answer, if a tab asked and it is stored.
    pub fn answer(self) -> Option<MessageId> {
        match self {
            Self::Tab { answer, .. } => answer,
            Self::Server | Self::Benchmark => None,
        }
    }

    fn is_other_than(self, conversation: ConversationId, kept: MessageId) -> bool {
        self.conversation() == Some(conversation) && self.answer() != Some(kept)
    }
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
    asker: Asker,
    stop: watch::Sender<Option<StopCause>>,
    submitted: Option<(EngineHandle, RequestId)>,
}

impl Requests {
    /// Notes a conversation's request as running until the returned ticket is dropped.
    ///
    /// # Errors
    /// [`AppError::AlreadyGenerating`] if its conversation has a running answer, or its id is taken.
    pub fn enter(&self, request_id: &str, conversation: ConversationId) -> Result<Ticket, AppError> {
        let mut tickets = self.enter_together([request_id], conversation)?;
        tickets.pop().ok_or_else(|| already(conversation.to_string()))
    }

    /// As [`Self::enter`], for several answers at once; a ticket each, in their order.
    ///
    /// # Errors
    /// As [`Self::enter`], and if two have the same id; none is noted then.
    pub fn enter_together<'a>(
        &self,
        request_ids: impl IntoIterator<Item = &'a str>,
        conversation: ConversationId,
    ) -> Result<Vec<Ticket>, AppError> {
        let mut running = self.lock();
        if running.values().any(|other| other.asker.conversation() == Some(conversation)) {
            return Err(already(conversation.to_string()));
        }
        let mut tickets = Vec::new();
        for request_id in request_ids {
            let asker = Asker::Tab { conversation, answer: None };
            match self.note(&mut running, request_id, asker) {
                Some(ticket) => tickets.push(ticket),
                None => {
                    // Dropping a ticket takes the lock.
                    drop(running);
                    return Err(already(conversation.to_string()));
                }
            }
        }
        Ok(tickets)
    }

    /// Notes a request of the local server or of the benchmark as running until the returned ticket is dropped.
    ///
    /// # Errors
    /// [`AppError::AlreadyGenerating`] if its id is taken.
    pub fn enter_other(&self, request_id: &str, asker: Asker) -> Result<Ticket, AppError> {
        self.note(&mut self.lock(), request_id, asker).ok_or_else(|| already(request_id.to_owned()))
    }

    /// `None` if the id is taken: events are told apart by it.
    fn note(&self, running: &mut HashMap<String, Running>, request_id: &str, asker: Asker) -> Option<Ticket> {
        let Entry::Vacant(place) = running.entry(request_id.to_owned()) else { return None };
        let (stop, stopped) = watch::channel(None);
        place.insert(Running { asker, stop, submitted: None });
        self.shared.count.send_replace(running.len());
        Some(Ticket { requests: self.clone(), request_id: request_id.to_owned(), stopped })
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

    /// Stops the answers that are running in a conversation.
    pub fn stop_conversation(&self, conversation: ConversationId, cause: StopCause) {
        self.stop_where(cause, |asker| asker.conversation() == Some(conversation));
    }

    /// Stops the answers that are running in a conversation, but for one.
    pub fn stop_others(&self, conversation: ConversationId, kept: MessageId, cause: StopCause) {
        self.stop_where(cause, |asker| asker.is_other_than(conversation, kept));
    }

    /// Stops every request of the local server or of the benchmark.
    pub fn stop_of(&self, asker: Asker, cause: StopCause) {
        self.stop_where(cause, |other| other == asker);
    }

    fn stop_where(&self, cause: StopCause, is_meant: impl Fn(Asker) -> bool) {
        let running = self.lock();
        running.values().filter(|running| is_meant(running.asker)).for_each(|running| running.stop(cause));
    }

    /// Whether an answer is running in a conversation.
    pub fn is_answering(&self, conversation: ConversationId) -> bool {
        self.lock().values().any(|running| running.asker.conversation() == Some(conversation))
    }

    /// Whether nothing is running at all.
    pub fn is_idle(&self) -> bool {
        self.lock().is_empty()
    }

    /// Whether anything runs that somebody else asked for.
    pub fn has_other_than(&self, asker: Asker) -> bool {
        self.lock().values().any(|running| running.asker != asker)
    }

    /// Tells of every request that begins or ends; its value is how many run.
    pub fn changes(&self) -> watch::Receiver<usize> {
        self.shared.count.subscribe()
    }

    /// Requests that fill answers of a conversation, with those answers, oldest answer first.
    pub fn of_conversation(&self, conversation: ConversationId) -> Vec<(String, MessageId)> {
        let running = self.lock();
        let own = running.iter().filter(|(_, other)| other.asker.conversation() == Some(conversation));
        let mut found: Vec<_> =
            own.filter_map(|(id, other)| Some((id.clone(), other.asker.answer()?))).collect();
        found.sort_by_key(|(_, answer)| *answer);
        found
    }

    /// The app's id of a request of the engine, and who asked.
    pub fn of_engine(&self, id: RequestId) -> Option<(String, Asker)> {
        let running = self.lock();
        let found = running.iter().find(|(_, other)| matches!(other.submitted, Some((_, own)) if own == id));
        found.map(|(request_id, other)| (request_id.clone(), other.asker))
    }

    /// Waits until no answer but one is running in a conversation, `limit` at most.
    pub async fn others_ended(&self, conversation: ConversationId, kept: MessageId, limit: Duration) {
        let mut count = self.shared.count.subscribe();
        let ended = async {
            loop {
                // Before looking: an answer that ends in between is a change.
                count.borrow_and_update();
                let is_other = |running: &Running| running.asker.is_other_than(conversation, kept);
                if !self.lock().values().any(is_other) || count.changed().await.is_err() {
                    return;
                }
            }
        };
        // Those that need longer end all the same.
        let _ = tokio::time::timeout(limit, ended).await;
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

fn already(conversation_id: String) -> AppError {
    AppError::AlreadyGenerating { conversation_id }
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

    /// Notes the answer that the request fills, now that it is stored.
    pub fn fills(&self, stored: MessageId) {
        if let Some(Running { asker: Asker::Tab { answer, .. }, .. }) =
            self.requests.lock().get_mut(&self.request_id)
        {
            *answer = Some(stored);
        }
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

    #[test]
    fn several_answers_enter_together_or_not_at_all() {
        let requests = Requests::default();
        assert!(requests.enter_together(["a", "b", "a"], ConversationId(1)).is_err());
        assert!(requests.is_idle(), "what was refused left nothing behind");
        let tickets = requests.enter_together(["a", "b", "c"], ConversationId(1)).expect("three ids");
        assert!(
            requests.enter("d", ConversationId(1)).is_err(),
            "the conversation is busy until all have ended"
        );
        for (ticket, answer) in tickets.iter().zip([4, 3, 5]) {
            ticket.fills(MessageId(answer));
        }
        let active = requests.of_conversation(ConversationId(1));
        let expected = [("b", 3), ("a", 4), ("c", 5)].map(|(id, answer)| (id.to_owned(), MessageId(answer)));
        assert_eq!(active, expected);
        requests.stop_others(ConversationId(1), MessageId(3), StopCause::User);
        let causes: Vec<_> = tickets.iter().map(Ticket::stop_cause).collect();
        assert_eq!(causes, [Some(StopCause::User), None, Some(StopCause::User)]);
    }

    #[test]
    fn requests_of_no_conversation_run_beside_those_of_tabs() {
        let requests = Requests::default();
        let tab = requests.enter("a", ConversationId(1)).expect("nothing is running");
        let server = requests.enter_other("s1", Asker::Server).expect("its id is free");
        let _second = requests.enter_other("s2", Asker::Server).expect("a server answers several");
        assert!(requests.enter_other("a", Asker::Benchmark).is_err(), "events are told apart by request id");
        assert_eq!(requests.of_conversation(ConversationId(1)), [], "no answer is stored yet");
        requests.stop_of(Asker::Server, StopCause::AppExit);
        assert_eq!((server.stop_cause(), tab.stop_cause()), (Some(StopCause::AppExit), None));
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
