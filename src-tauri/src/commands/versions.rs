//! Other ways for a conversation to go: edits, more of an answer, branches, several answers at once.

use protocol::{
    BranchAnswer, ContinueAnswer, ConversationView, EditMessage, FanOut, MessageView, StartedFanOut,
    StartedGeneration, StreamEvent,
};
use tauri::{State, ipc::Channel};

use super::{CommandResult, not_built};
use crate::state::AppState;

/// Stores another version of a question and starts its answer; both are on disk when this returns.
///
/// # Errors
/// As `start_generation`.
#[tauri::command]
#[specta::specta]
pub async fn edit_message(
    _state: State<'_, AppState>,
    _request: EditMessage,
    _events: Channel<Vec<StreamEvent>>,
) -> CommandResult<StartedGeneration> {
    not_built()
}

/// Lets an answer that ended early go on; it streams again when this returns.
///
/// # Errors
/// `CannotContinue`, and as `start_generation`.
#[tauri::command]
#[specta::specta]
pub async fn continue_answer(
    _state: State<'_, AppState>,
    _request: ContinueAnswer,
    _events: Channel<Vec<StreamEvent>>,
) -> CommandResult<MessageView> {
    not_built()
}

/// Stores a version of an answer that takes another token at one place, and lets it go on from there.
///
/// # Errors
/// `CannotContinue`, and as `start_generation`.
#[tauri::command]
#[specta::specta]
pub async fn branch_answer(
    _state: State<'_, AppState>,
    _request: BranchAnswer,
    _events: Channel<Vec<StreamEvent>>,
) -> CommandResult<MessageView> {
    not_built()
}

/// Stores a question with several empty answers and starts them all; `events` carries those of all of them.
///
/// # Errors
/// `InvalidSetting` for fewer than 2 or more than 8 variants, and as `start_generation`.
#[tauri::command]
#[specta::specta]
pub async fn fan_out(
    _state: State<'_, AppState>,
    _request: FanOut,
    _events: Channel<Vec<StreamEvent>>,
) -> CommandResult<StartedFanOut> {
    not_built()
}

/// Goes on with one of several answers: the others are stopped, and stay as versions.
///
/// # Errors
/// `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn keep_answer(
    _state: State<'_, AppState>,
    _conversation_id: String,
    _answer_id: String,
) -> CommandResult<ConversationView> {
    not_built()
}

/// Stores a version of an answer with a text that the user wrote.
///
/// # Errors
/// `EmptyMessage`, `AlreadyGenerating`, `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn write_answer_version(
    _state: State<'_, AppState>,
    _conversation_id: String,
    _answer_id: String,
    _text: String,
) -> CommandResult<ConversationView> {
    not_built()
}

/// Every version at the place of a message, oldest first; of a running one, the text that is on disk.
///
/// # Errors
/// `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn read_versions(
    _state: State<'_, AppState>,
    _conversation_id: String,
    _message_id: String,
) -> CommandResult<Vec<MessageView>> {
    not_built()
}
