//! A report for who helps: what runs where and how, without a word that a person or a model wrote.

use tauri::State;

use super::{CommandResult, not_built};
use crate::state::AppState;

/// The report, as Markdown.
///
/// # Errors
/// None: what cannot be read is said in the report.
#[tauri::command]
#[specta::specta]
pub async fn read_diagnostics(_state: State<'_, AppState>) -> CommandResult<String> {
    not_built()
}

/// Writes the report to a file.
///
/// # Errors
/// `TransferFailed`.
#[tauri::command]
#[specta::specta]
pub async fn save_diagnostics(_state: State<'_, AppState>, _path: String) -> CommandResult<()> {
    not_built()
}
