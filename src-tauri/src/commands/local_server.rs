//! Braid as a server for other programs of this computer.

use protocol::{LocalServerSettings, LocalServerStatus};
use tauri::State;

use super::CommandResult;
use crate::state::AppState;

/// How the server is.
///
/// # Errors
/// The history's.
#[tauri::command]
#[specta::specta]
pub async fn read_local_server(state: State<'_, AppState>) -> CommandResult<LocalServerStatus> {
    // Read with the history.
    state.history().await?;
    Ok(state.server.status().await)
}

/// Switches the server on or off, or moves it to another port. That it cannot listen is told in the status.
///
/// # Errors
/// `InvalidSetting` for the port, `KeychainFailed`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn write_local_server(
    state: State<'_, AppState>,
    settings: LocalServerSettings,
) -> CommandResult<LocalServerStatus> {
    Ok(state.server.write(state.history().await?, settings).await?)
}

/// Makes another key; the one before is refused from now on.
///
/// # Errors
/// `KeychainFailed`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn renew_local_server_key(state: State<'_, AppState>) -> CommandResult<LocalServerStatus> {
    Ok(state.server.renew_key(state.history().await?).await?)
}
