//! A report for who helps: what runs where and how, without a word that a person or a model wrote.

use tauri::State;

use super::CommandResult;
use crate::{diagnostics, state::AppState};

/// The report, as Markdown.
///
/// # Errors
/// None: what cannot be read is said in the report.
#[tauri::command]
#[specta::specta]
pub async fn read_diagnostics(state: State<'_, AppState>) -> CommandResult<String> {
    Ok(diagnostics::report(&state).await)
}

/// Writes the report to a file.
///
/// # Errors
/// `TransferFailed`.
#[tauri::command]
#[specta::specta]
pub async fn save_diagnostics(state: State<'_, AppState>, path: String) -> CommandResult<()> {
    Ok(diagnostics::save(path, diagnostics::report(&state).await).await?)
}
