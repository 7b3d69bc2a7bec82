//! Files that go along with a message.

use std::path::Path;

use protocol::AttachmentView;
use tauri::{AppHandle, State};
use tauri_plugin_dialog::DialogExt as _;

use super::{CommandResult, models::chosen_files};
use crate::{attachments, state::AppState};

/// Asks for files; none if none was chosen.
///
/// # Errors
/// A dialog that cannot be shown.
#[tauri::command]
#[specta::specta]
pub async fn pick_attachments(app: AppHandle) -> CommandResult<Vec<String>> {
    let picked = tokio::task::spawn_blocking(move || app.dialog().file().blocking_pick_files());
    Ok(chosen_files(picked.await)?)
}

/// Reads a file and attaches its text to what is typed in a conversation.
///
/// # Errors
/// `AttachmentRefused` with file, reason and limit; `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn attach_file(
    state: State<'_, AppState>,
    conversation_id: String,
    path: String,
) -> CommandResult<AttachmentView> {
    Ok(attachments::attach_file(&state, &conversation_id, Path::new(&path)).await?)
}

/// Attaches a text, such as a long one that was pasted, to what is typed in a conversation.
///
/// # Errors
/// As [`attach_file`].
#[tauri::command]
#[specta::specta]
pub async fn attach_text(
    state: State<'_, AppState>,
    conversation_id: String,
    name: String,
    text: String,
) -> CommandResult<AttachmentView> {
    Ok(attachments::attach_text(&state, &conversation_id, &name, text).await?)
}

/// Takes an attachment away that was not sent yet; nothing happens if there is none.
///
/// # Errors
/// The history's.
#[tauri::command]
#[specta::specta]
pub async fn remove_attachment(state: State<'_, AppState>, attachment_id: String) -> CommandResult<()> {
    Ok(attachments::remove(&state, &attachment_id).await?)
}

/// The text of an attachment, as the model reads it.
///
/// # Errors
/// `AttachmentRefused` if there is none, the history's.
#[tauri::command]
#[specta::specta]
pub async fn read_attachment(state: State<'_, AppState>, attachment_id: String) -> CommandResult<String> {
    Ok(attachments::text(&state, &attachment_id).await?)
}

/// Tokens of a text for the loaded model; `None` without a model.
///
/// # Errors
/// None.
#[tauri::command]
#[specta::specta]
pub async fn count_tokens(state: State<'_, AppState>, text: String) -> CommandResult<Option<u32>> {
    Ok(attachments::count_tokens(&state.engine, text).await)
}
