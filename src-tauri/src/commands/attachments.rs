//! Files that go along with a message.

use protocol::AttachmentView;
use tauri::State;

use super::{CommandResult, not_built};
use crate::state::AppState;

/// Asks for files; none if none was chosen.
///
/// # Errors
/// None.
#[tauri::command]
#[specta::specta]
pub async fn pick_attachments(_state: State<'_, AppState>) -> CommandResult<Vec<String>> {
    not_built()
}

/// Reads a file and attaches its text to what is typed in a conversation.
///
/// # Errors
/// `AttachmentRefused` with file, reason and limit; `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn attach_file(
    _state: State<'_, AppState>,
    _conversation_id: String,
    _path: String,
) -> CommandResult<AttachmentView> {
    not_built()
}

/// Attaches a text, such as a long one that was pasted, to what is typed in a conversation.
///
/// # Errors
/// As [`attach_file`].
#[tauri::command]
#[specta::specta]
pub async fn attach_text(
    _state: State<'_, AppState>,
    _conversation_id: String,
    _name: String,
    _text: String,
) -> CommandResult<AttachmentView> {
    not_built()
}

/// Takes an attachment away that was not sent yet; nothing happens if there is none.
///
/// # Errors
/// The history's.
#[tauri::command]
#[specta::specta]
pub async fn remove_attachment(_state: State<'_, AppState>, _attachment_id: String) -> CommandResult<()> {
    not_built()
}

/// The text of an attachment, as the model reads it.
///
/// # Errors
/// `AttachmentRefused` if there is none, the history's.
#[tauri::command]
#[specta::specta]
pub async fn read_attachment(_state: State<'_, AppState>, _attachment_id: String) -> CommandResult<String> {
    not_built()
}

/// Tokens of a text for the loaded model; `None` without a model.
///
/// # Errors
/// None.
#[tauri::command]
#[specta::specta]
pub async fn count_tokens(_state: State<'_, AppState>, _text: String) -> CommandResult<Option<u32>> {
    not_built()
}
