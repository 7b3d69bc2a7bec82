//! Answers, from the person's message to their stored end.
//!
//! Order matters: both messages are on disk before anything is asked of the engine, and the end is on disk before the
//! UI hears of it. Whatever goes wrong after the first write ends the answer as failed; the message stays.

mod answering;
mod fan_out;
mod local;
mod more;
mod recorded;
mod remote;
mod so_far;
mod unsaved;

use std::{sync::Arc, time::Instant};

use engine::OwnerId;
use history::{
    AnswerWriter, Conversation, ConversationId, History, HistoryError, Message, MessageId, Role, Turn,
};
use protocol::{
    EditMessage, MessageView, RegenerateAnswer, SamplingSettings, SeedChoice, StartGeneration,
    StartedGeneration,
};

use crate::{
    attachments,
    convert::conversation,
    error::AppError,
    prompt,
    requests::Ticket,
    sampling_settings,
    settings_store::to_json,
    state::AppState,
    stream::{FrameSink, Framer, SharedSink},
};
use answering::{Answering, Asked};
pub use fan_out::fan_out;
pub use more::{CannotContinue, branch, continue_answer};

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
    check_text(&request.text)?;
    let id = conversation::parse_id(&request.conversation_id)?;
    let history = state.history().await?;
    let ticket = state.requests.enter(&request.request_id, id)?;
    let stored = history.open_conversation(id).await?;
    let settings = settings_of(state, &stored).await;
    check_able(state, &settings).await?;
    let json = to_json("sampling settings", &settings)?;
    let turn = history.begin_turn(id, stored.active_leaf, &request.text, &json).await?;
    let owned = Owned::new(history, ticket, turn.answer);
    name_after(history, &stored, &request.text).await;
    let (started, path) = started(state, history, id, turn).await?;
    owned.answer(state, Asked::new(id, &path, settings, arrived_at), Arc::new(sink));
    Ok(started)
}

/// Stores another version of a question with its empty answer and starts generating. What followed the old version
/// stays with it; the draft stays too.
///
/// # Errors
/// As [`start`], and [`AppError::UnknownAnswer`] if there is no such question.
pub async fn edit(
    state: &AppState,
    request: EditMessage,
    arrived_at: Instant,
    sink: impl FrameSink,
) -> Result<StartedGeneration, AppError> {
    check_text(&request.text)?;
    let id = conversation::parse_id(&request.conversation_id)?;
    let question = conversation::parse_message_id(&request.message_id)?;
    let history = state.history().await?;
    let ticket = state.requests.enter(&request.request_id, id)?;
    let stored = history.open_conversation(id).await?;
    let settings = settings_of(state, &stored).await;
    check_able(state, &settings).await?;
    let json = to_json("sampling settings", &settings)?;
    let edited = history.begin_edit(id, question, &request.text, &json).await;
    let turn = edited.map_err(|error| match error {
        HistoryError::MessageNotFound(_) | HistoryError::NotAUserMessage(_) => {
            AppError::UnknownAnswer { given: request.message_id }
        }
        other => other.into(),
    })?;
    let owned = Owned::new(history, ticket, turn.answer);
    let (started, path) = started(state, history, id, turn).await?;
    owned.answer(state, Asked::new(id, &path, settings, arrived_at), Arc::new(sink));
    Ok(started)
}

/// Stores an empty version beside an answer and starts generating it. The other versions stay.
///
/// # Errors
/// Before anything is stored: [`AppError::UnknownConversation`], [`AppError::UnknownAnswer`],
/// [`AppError::AlreadyGenerating`], [`AppError::InvalidSetting`], why there is no engine, or the history's error.
/// Later failures travel through `sink`.
pub async fn regenerate(
    state: &AppState,
    request: RegenerateAnswer,
    arrived_at: Instant,
    sink: impl FrameSink,
) -> Result<MessageView, AppError> {
    let id = conversation::parse_id(&request.conversation_id)?;
    let history = state.history().await?;
    let ticket = state.requests.enter(&request.request_id, id)?;
    let stored = history.open_conversation(id).await?;
    let Answered { to_question, answer } = Answered::read(history, id, &request.answer_id).await?;
    let settings = match request.seed {
        SeedChoice::New => SamplingSettings { seed: None, ..settings_of(state, &stored).await },
        SeedChoice::Same => {
            conversation::settings_of_answer(&answer).unwrap_or(settings_of(state, &stored).await)
        }
    };
    check_able(state, &settings).await?;
    let json = to_json("sampling settings", &settings)?;
    let question = answer.parent.ok_or(HistoryError::MessageNotFound(answer.id))?;
    let version = history.start_answer(question, &json).await?;
    let owned = Owned::new(history, ticket, version);
    let view = view_of(history, id, version).await?;
    owned.answer(state, Asked::new(id, &to_question, settings, arrived_at), Arc::new(sink));
    Ok(view)
}

/// An answer of a conversation, and how the conversation came to it.
pub struct Answered {
    /// The path from the root to the question, as the model reads it.
    pub to_question: Vec<Message>,
    /// The answer to it.
    pub answer: Message,
}

impl Answered {
    /// Reads the answer that the UI names.
    ///
    /// # Errors
    /// [`AppError::UnknownAnswer`] if it is none, the history's.
    pub async fn read(history: &History, id: ConversationId, given: &str) -> Result<Self, AppError> {
        let unknown = || AppError::UnknownAnswer { given: given.to_owned() };
        let mut path = history.message_path(id, conversation::parse_message_id(given)?).await?;
        let answer = path.pop().ok_or_else(unknown)?;
        match (path.last().map(|question| question.role), answer.role) {
            (Some(Role::User), Role::Assistant) => {}
            _ => return Err(unknown()),
        }
        attachments::spell_out(history, &mut path).await?;
        Ok(Self { to_question: path, answer })
    }
}

/// A stored answer whose end is in good hands: dropped early, it is marked interrupted.
struct Owned {
    ticket: Ticket,
    writer: AnswerWriter,
}

impl Owned {
    fn new(history: &History, ticket: Ticket, answer: MessageId) -> Self {
        ticket.fills(answer);
        Self { ticket, writer: AnswerWriter::spawn(history, answer) }
    }

    /// Starts generating.
    fn answer(self, state: &AppState, asked: Asked, sink: SharedSink) {
        let framer = Framer::new(self.ticket.request_id().to_owned());
        Answering::new(asked, framer, self.ticket, self.writer, sink).spawn(state);
    }
}

impl Asked {
    /// An answer to the question at the end of a path.
    fn new(
        id: ConversationId,
        to_question: &[Message],
        settings: SamplingSettings,
        arrived_at: Instant,
    ) -> Self {
        let messages = prompt::messages(&settings.system_prompt, to_question);
        Self { id, messages, settings, arrived_at, so_far: None }
    }
}

fn check_text(text: &str) -> Result<(), AppError> {
    if text.trim().is_empty() { Err(AppError::EmptyMessage) } else { Ok(()) }
}

async fn settings_of(state: &AppState, stored: &Conversation) -> SamplingSettings {
    match stored.settings_json.as_deref().and_then(conversation::settings) {
        Some(settings) => settings,
        None => state.settings.current().await.new_conversation,
    }
}

/// Refuses, before anything is stored, what nobody could answer.
async fn check_able(state: &AppState, settings: &SamplingSettings) -> Result<(), AppError> {
    match &settings.remote {
        Some(target) => state.remotes.check(target).await?,
        None => state.engine.check()?,
    }
    check_settings(state, settings)
}

/// Refuses settings before anything is stored; completely if it is known who will answer.
pub fn check_settings(state: &AppState, settings: &SamplingSettings) -> Result<(), AppError> {
    if settings.remote.is_some() {
        sampling_settings::validate(settings)?;
        return crate::remote::check_settings(settings);
    }
    match state.engine.tokenizer() {
        Some(tokenizer) => sampling_settings::resolve(settings, &tokenizer).map(|_| ())?,
        None => sampling_settings::validate(settings)?,
    }
    Ok(())
}

/// Gives a conversation without a title one, taken from its first message.
async fn name_after(history: &History, stored: &Conversation, text: &str) {
    if !stored.title.is_empty() || !stored.path.is_empty() {
        return;
    }
    if let Err(error) = history.rename_conversation(stored.id, &conversation::title_of(text)).await {
        tracing::warn!(%error, "a conversation got no title");
    }
}

/// Both messages of a turn as the UI shows them, and the path up to the question as the model reads it.
async fn started(
    state: &AppState,
    history: &History,
    id: ConversationId,
    turn: Turn,
) -> Result<(StartedGeneration, Vec<Message>), AppError> {
    let mut path = history.message_path(id, turn.answer).await?;
    let (Some(answer), Some(question)) = (path.pop(), path.last()) else {
        return Err(HistoryError::MessageNotFound(turn.answer).into());
    };
    let (mut user_message, answer) = (conversation::message(question), conversation::message(&answer));
    attachments::fill_in_known_tokens(state, question, &mut user_message);
    attachments::spell_out(history, &mut path).await?;
    Ok((StartedGeneration { user_message, answer }, path))
}

async fn view_of(history: &History, id: ConversationId, answer: MessageId) -> Result<MessageView, AppError> {
    let path = history.message_path(id, answer).await?;
    Ok(path.last().map(conversation::message).ok_or(HistoryError::MessageNotFound(answer))?)
}

/// Whose KV snapshots a conversation's requests leave behind.
pub fn owner(id: ConversationId) -> OwnerId {
    OwnerId(id.0.unsigned_abs())
}
