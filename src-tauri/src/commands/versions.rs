//! Other ways for a conversation to go: edits, more of an answer, branches, several answers at once.

use std::time::{Duration, Instant};

use protocol::{
    BranchAnswer, ContinueAnswer, ConversationView, EditMessage, FanOut, MessageView, StartedFanOut,
    StartedGeneration, StreamEvent,
};
use tauri::{State, ipc::Channel};

use super::{CommandResult, conversations::open};
use crate::{
    convert::conversation::{message, parse_id, parse_message_id},
    error::AppError,
    generation::{self, Answered},
    requests::StopCause,
    state::AppState,
};

/// How long keeping one answer waits for the end of the others.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// Stores another version of a question and starts its answer; both are on disk when this returns.
///
/// # Errors
/// As `start_generation`.
#[tauri::command]
#[specta::specta]
pub async fn edit_message(
    state: State<'_, AppState>,
    request: EditMessage,
    events: Channel<Vec<StreamEvent>>,
) -> CommandResult<StartedGeneration> {
    let arrived_at = Instant::now();
    Ok(generation::edit(&state, request, arrived_at, events).await?)
}

/// Lets an answer that ended early go on; it streams again when this returns.
///
/// # Errors
/// `CannotContinue`, and as `start_generation`.
#[tauri::command]
#[specta::specta]
pub async fn continue_answer(
    state: State<'_, AppState>,
    request: ContinueAnswer,
    events: Channel<Vec<StreamEvent>>,
) -> CommandResult<MessageView> {
    let arrived_at = Instant::now();
    Ok(generation::continue_answer(&state, request, arrived_at, events).await?)
}

/// Stores a version of an answer that takes another token at one place, and lets it go on from there.
///
/// # Errors
/// `CannotContinue`, and as `start_generation`.
#[tauri::command]
#[specta::specta]
pub async fn branch_answer(
    state: State<'_, AppState>,
    request: BranchAnswer,
    events: Channel<Vec<StreamEvent>>,
) -> CommandResult<MessageView> {
    let arrived_at = Instant::now();
    Ok(generation::branch(&state, request, arrived_at, events).await?)
}

/// Stores a question with several empty answers and starts them all; `events` carries those of all of them.
///
/// # Errors
/// `InvalidSetting` for fewer than 2 or more than 8 variants, and as `start_generation`.
#[tauri::command]
#[specta::specta]
pub async fn fan_out(
    state: State<'_, AppState>,
    request: FanOut,
    events: Channel<Vec<StreamEvent>>,
) -> CommandResult<StartedFanOut> {
    let arrived_at = Instant::now();
    Ok(generation::fan_out(&state, request, arrived_at, events).await?)
}

/// Goes on with one of several answers: the others are stopped, and stay as versions.
///
/// # Errors
/// `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn keep_answer(
    state: State<'_, AppState>,
    conversation_id: String,
    answer_id: String,
) -> CommandResult<ConversationView> {
    Ok(keep(&state, &conversation_id, &answer_id).await?)
}

/// Stores a version of an answer with a text that the user wrote.
///
/// # Errors
/// `EmptyMessage`, `AlreadyGenerating`, `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn write_answer_version(
    state: State<'_, AppState>,
    conversation_id: String,
    answer_id: String,
    text: String,
) -> CommandResult<ConversationView> {
    Ok(write_version(&state, &conversation_id, &answer_id, &text).await?)
}

/// Every version at the place of a message, oldest first; of a running one, the text that is on disk.
///
/// # Errors
/// `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn read_versions(
    state: State<'_, AppState>,
    conversation_id: String,
    message_id: String,
) -> CommandResult<Vec<MessageView>> {
    Ok(versions(&state, &conversation_id, &message_id).await?)
}

/// See [`keep_answer`].
///
/// # Errors
/// [`AppError::UnknownConversation`], [`AppError::UnknownAnswer`], the history's.
pub async fn keep(
    state: &AppState,
    conversation_id: &str,
    answer_id: &str,
) -> Result<ConversationView, AppError> {
    let id = parse_id(conversation_id)?;
    let history = state.history().await?;
    let kept = Answered::read(history, id, answer_id).await?.answer.id;
    state.requests.stop_others(id, kept, StopCause::User);
    // Else the next message would come while they still end.
    state.requests.others_ended(id, kept, STOP_LIMIT).await;
    history.select_branch(id, kept).await?;
    open(state, conversation_id).await
}

/// See [`write_answer_version`].
///
/// # Errors
/// [`AppError::EmptyMessage`], [`AppError::AlreadyGenerating`], [`AppError::UnknownConversation`],
/// [`AppError::UnknownAnswer`], the history's.
pub async fn write_version(
    state: &AppState,
    conversation_id: &str,
    answer_id: &str,
    text: &str,
) -> Result<ConversationView, AppError> {
    if text.trim().is_empty() {
        return Err(AppError::EmptyMessage);
    }
    let id = parse_id(conversation_id)?;
    if state.requests.is_answering(id) {
        return Err(AppError::AlreadyGenerating { conversation_id: conversation_id.to_owned() });
    }
    let history = state.history().await?;
    let Answered { to_question, .. } = Answered::read(history, id, answer_id).await?;
    let question = to_question.last().map(|question| question.id);
    let unknown = || AppError::UnknownAnswer { given: answer_id.to_owned() };
    history.write_answer(question.ok_or_else(unknown)?, text).await?;
    open(state, conversation_id).await
}

/// See [`read_versions`].
///
/// # Errors
/// [`AppError::UnknownConversation`], [`AppError::UnknownAnswer`], the history's.
pub async fn versions(
    state: &AppState,
    conversation_id: &str,
    message_id: &str,
) -> Result<Vec<MessageView>, AppError> {
    let (id, meant) = (parse_id(conversation_id)?, parse_message_id(message_id)?);
    let versions = state.history().await?.versions(id, meant).await?;
    Ok(versions.iter().map(message).collect())
}
