//! One answer, from the person's message to its stored end.
//!
//! Order matters: both messages are on disk before anything is asked of the engine, and the end is on disk before the
//! UI hears of it. Whatever goes wrong after the first write ends the answer as failed; the message stays.

mod answering;
mod recorded;
mod unsaved;

use std::time::Instant;

use engine::OwnerId;
use history::{AnswerWriter, Conversation, ConversationId, History, HistoryError, MessageId, Role};
use protocol::{
    MessageView, RegenerateAnswer, SamplingSettings, SeedChoice, StartGeneration, StartedGeneration,
};

use crate::{
    convert::conversation,
    error::AppError,
    prompt, sampling_settings,
    settings_store::to_json,
    state::AppState,
    stream::{FrameSink, Framer},
};
use answering::{Answering, Asked};

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
    let settings = settings_of(state, &stored).await;
    check_settings(state, &settings)?;
    let settings_json = to_json("sampling settings", &settings)?;
    let turn = history.begin_turn(id, stored.active_leaf, &request.text, &settings_json).await?;
    ticket.fills(turn.answer);
    // From here on the writer owns the answer's end: dropped early, it marks it interrupted.
    let writer = AnswerWriter::spawn(history, turn.answer);
    if stored.title.is_empty() && stored.path.is_empty() {
        let title = conversation::title_of(&request.text);
        if let Err(error) = history.rename_conversation(id, &title).await {
            tracing::warn!(%error, "a conversation got no title");
        }
    }
    let started = started(history, id, turn.answer).await?;
    let messages = prompt::messages(&settings.system_prompt, &stored.path, &request.text);
    let asked = Asked { id, messages, settings, arrived_at };
    Answering::new(asked, Framer::new(request.request_id), ticket, writer, sink).spawn(state);
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
    let old = conversation::parse_message_id(&request.answer_id)?;
    let history = state.history().await?;
    state.engine.check()?;
    let ticket = state.requests.enter(&request.request_id, id)?;
    let stored = history.open_conversation(id).await?;
    let path = history.message_path(id, old).await?;
    let [before @ .., question, answer] = path.as_slice() else {
        return Err(AppError::UnknownAnswer { given: request.answer_id });
    };
    if (question.role, answer.role) != (Role::User, Role::Assistant) {
        return Err(AppError::UnknownAnswer { given: request.answer_id });
    }
    let settings = match request.seed {
        SeedChoice::New => SamplingSettings { seed: None, ..settings_of(state, &stored).await },
        SeedChoice::Same => {
            conversation::settings_of_answer(answer).unwrap_or(settings_of(state, &stored).await)
        }
    };
    check_settings(state, &settings)?;
    let version = history.start_answer(question.id, &to_json("sampling settings", &settings)?).await?;
    ticket.fills(version);
    let writer = AnswerWriter::spawn(history, version);
    let path = history.message_path(id, version).await?;
    let view = path.last().map(conversation::message).ok_or(HistoryError::MessageNotFound(version))?;
    let messages = prompt::messages(&settings.system_prompt, before, &question.text);
    let asked = Asked { id, messages, settings, arrived_at };
    Answering::new(asked, Framer::new(request.request_id), ticket, writer, sink).spawn(state);
    Ok(view)
}

async fn settings_of(state: &AppState, stored: &Conversation) -> SamplingSettings {
    match stored.settings_json.as_deref().and_then(conversation::settings) {
        Some(settings) => settings,
        None => state.settings.current().await.new_conversation,
    }
}

/// Refuses settings before anything is stored; completely if it is known which model will answer.
pub fn check_settings(state: &AppState, settings: &SamplingSettings) -> Result<(), AppError> {
    match state.engine.tokenizer() {
        Some(tokenizer) => sampling_settings::resolve(settings, &tokenizer).map(|_| ())?,
        None => sampling_settings::validate(settings)?,
    }
    Ok(())
}

async fn started(
    history: &History,
    id: ConversationId,
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

/// Whose KV snapshots a conversation's requests leave behind.
pub fn owner(id: ConversationId) -> OwnerId {
    OwnerId(id.0.unsigned_abs())
}
