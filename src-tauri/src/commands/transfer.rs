//! Conversations that leave the app as files, and those that come in.

use protocol::{ConversationImportReport, ExportFormat, ExportReport};
use tauri::State;

use super::{CommandResult, not_built};
use crate::state::AppState;

/// Asks where to write a file; `None` if no place was chosen.
///
/// # Errors
/// None.
#[tauri::command]
#[specta::specta]
pub async fn pick_export_file(
    _state: State<'_, AppState>,
    _suggested_name: String,
) -> CommandResult<Option<String>> {
    not_built()
}

/// Asks for the folder of a whole library; `None` if none was chosen.
///
/// # Errors
/// None.
#[tauri::command]
#[specta::specta]
pub async fn pick_export_folder(_state: State<'_, AppState>) -> CommandResult<Option<String>> {
    not_built()
}

/// Writes one conversation to a file, in place of what is there.
///
/// # Errors
/// `TransferFailed`, `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn export_conversation(
    _state: State<'_, AppState>,
    _conversation_id: String,
    _format: ExportFormat,
    _path: String,
) -> CommandResult<ExportReport> {
    not_built()
}

/// Writes every conversation: as JSON to one file, as Markdown to one file each in a folder.
///
/// # Errors
/// `TransferFailed`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn export_library(
    _state: State<'_, AppState>,
    _format: ExportFormat,
    _path: String,
) -> CommandResult<ExportReport> {
    not_built()
}

/// What is read of a conversation on screen, as Markdown.
///
/// # Errors
/// `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn read_conversation_markdown(
    _state: State<'_, AppState>,
    _conversation_id: String,
) -> CommandResult<String> {
    not_built()
}

/// Asks for files of conversations; none if none was chosen.
///
/// # Errors
/// None.
#[tauri::command]
#[specta::specta]
pub async fn pick_import_files(_state: State<'_, AppState>) -> CommandResult<Vec<String>> {
    not_built()
}

/// Brings in the conversations of files, whose format is found out. What cannot come in is told, the rest comes.
///
/// # Errors
/// The history's.
#[tauri::command]
#[specta::specta]
pub async fn import_conversations(
    _state: State<'_, AppState>,
    _paths: Vec<String>,
) -> CommandResult<ConversationImportReport> {
    not_built()
}
