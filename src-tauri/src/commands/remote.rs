//! Servers that a tab may ask instead of the local engine.

use protocol::{RemoteServer, RemoteServerChange, RemoteServerModel};
use tauri::State;

use super::{CommandResult, not_built};
use crate::state::AppState;

/// Servers that were set up, in the order in which they were.
///
/// # Errors
/// The history's.
#[tauri::command]
#[specta::specta]
pub async fn list_remote_servers(_state: State<'_, AppState>) -> CommandResult<Vec<RemoteServer>> {
    not_built()
}

/// Sets a server up, or changes one.
///
/// # Errors
/// `RemoteAddress`, `KeychainFailed`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn save_remote_server(
    _state: State<'_, AppState>,
    _change: RemoteServerChange,
) -> CommandResult<RemoteServer> {
    not_built()
}

/// Forgets a server and its key.
///
/// # Errors
/// `KeychainFailed`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn delete_remote_server(_state: State<'_, AppState>, _server_id: String) -> CommandResult<()> {
    not_built()
}

/// Asks a server for its models.
///
/// # Errors
/// `RemoteUnknown`, `RemoteUnreachable`, `RemoteAccess`, `RemoteRefused`, `RemoteFault`.
#[tauri::command]
#[specta::specta]
pub async fn list_remote_models(
    _state: State<'_, AppState>,
    _server_id: String,
) -> CommandResult<Vec<RemoteServerModel>> {
    not_built()
}
