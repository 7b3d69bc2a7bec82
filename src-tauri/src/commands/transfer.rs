//! Conversations that leave the app as files, and those that come in.

use std::path::PathBuf;

use protocol::{ConversationImportReport, ExportFormat, ExportReport};
use tauri::{AppHandle, State};
use tauri_plugin_dialog::DialogExt as _;

use super::{
    CommandResult,
    models::{chosen, chosen_files},
};
use crate::{state::AppState, transfer};

/// Asks where to write a file; `None` if no place was chosen.
///
/// # Errors
/// A dialog that cannot be shown.
#[tauri::command]
#[specta::specta]
pub async fn pick_export_file(app: AppHandle, suggested_name: String) -> CommandResult<Option<String>> {
    let name = transfer::safe_name(&suggested_name);
    let picked =
        tokio::task::spawn_blocking(move || app.dialog().file().set_file_name(name).blocking_save_file());
    Ok(chosen(picked.await)?)
}

/// Asks for the folder of a whole library; `None` if none was chosen.
///
/// # Errors
/// A dialog that cannot be shown.
#[tauri::command]
#[specta::specta]
pub async fn pick_export_folder(app: AppHandle) -> CommandResult<Option<String>> {
    let picked = tokio::task::spawn_blocking(move || app.dialog().file().blocking_pick_folder());
    Ok(chosen(picked.await)?)
}

/// Writes one conversation to a file, in place of what is there.
///
/// # Errors
/// `TransferFailed`, `DiskFull`, `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn export_conversation(
    state: State<'_, AppState>,
    conversation_id: String,
    format: ExportFormat,
    path: String,
) -> CommandResult<ExportReport> {
    Ok(transfer::export_conversation(&state, &conversation_id, format, PathBuf::from(path)).await?)
}

/// Writes every conversation: as JSON to one file, as Markdown to one file each in a folder.
///
/// # Errors
/// `TransferFailed`, `DiskFull`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn export_library(
    state: State<'_, AppState>,
    format: ExportFormat,
    path: String,
) -> CommandResult<ExportReport> {
    Ok(transfer::export_library(&state, format, PathBuf::from(path)).await?)
}

/// What is read of a conversation on screen, as Markdown.
///
/// # Errors
/// `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn read_conversation_markdown(
    state: State<'_, AppState>,
    conversation_id: String,
) -> CommandResult<String> {
    Ok(transfer::conversation_markdown(&state, &conversation_id).await?)
}

/// Asks for files of conversations; none if none was chosen.
///
/// # Errors
/// A dialog that cannot be shown.
#[tauri::command]
#[specta::specta]
pub async fn pick_import_files(app: AppHandle) -> CommandResult<Vec<String>> {
    let picked = tokio::task::spawn_blocking(move || {
        app.dialog().file().add_filter("JSON, ZIP", &["json", "zip"]).blocking_pick_files()
    });
    Ok(chosen_files(picked.await)?)
}

/// Brings in the conversations of files, whose format is found out. What cannot come in is told, the rest comes.
///
/// # Errors
/// The history's.
#[tauri::command]
#[specta::specta]
pub async fn import_conversations(
    state: State<'_, AppState>,
    paths: Vec<String>,
) -> CommandResult<ConversationImportReport> {
    Ok(transfer::import_conversations(&state, paths).await?)
}
