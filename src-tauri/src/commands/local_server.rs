//! Braid as a server for other programs of this computer.

use protocol::{LocalServerSettings, LocalServerStatus};
use tauri::State;

use super::{CommandResult, not_built};
use crate::state::AppState;

/// How the server is.
///
/// # Errors
/// The history's.
#[tauri::command]
#[specta::specta]
pub async fn read_local_server(_state: State<'_, AppState>) -> CommandResult<LocalServerStatus> {
    not_built()
}

/// Switches the server on or off, or moves it to another port. That it cannot listen is told in the status.
///
/// # Errors
/// `InvalidSetting` for the port, `KeychainFailed`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn write_local_server(
    _state: State<'_, AppState>,
    _settings: LocalServerSettings,
) -> CommandResult<LocalServerStatus> {
    not_built()
}

/// Makes another key; the one before is refused from now on.
///
/// # Errors
/// `KeychainFailed`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn renew_local_server_key(_state: State<'_, AppState>) -> CommandResult<LocalServerStatus> {
    not_built()
}
