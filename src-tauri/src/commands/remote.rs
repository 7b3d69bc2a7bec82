//! Servers that a tab may ask instead of the local engine.

use protocol::{RemoteServer, RemoteServerChange, RemoteServerModel};
use tauri::State;

use super::CommandResult;
use crate::state::AppState;

/// Servers that were set up, in the order in which they were.
///
/// # Errors
/// The history's.
#[tauri::command]
#[specta::specta]
pub async fn list_remote_servers(state: State<'_, AppState>) -> CommandResult<Vec<RemoteServer>> {
    // Read with the history.
    state.history().await?;
    Ok(state.remotes.list().await)
}

/// Sets a server up, or changes one.
///
/// # Errors
/// `InvalidSetting` for the name, `RemoteAddress`, `RemoteUnknown`, `KeychainFailed`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn save_remote_server(
    state: State<'_, AppState>,
    change: RemoteServerChange,
) -> CommandResult<RemoteServer> {
    Ok(state.remotes.save(state.history().await?, change).await?)
}

/// Forgets a server and its key.
///
/// # Errors
/// `RemoteUnknown`, `KeychainFailed`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn delete_remote_server(state: State<'_, AppState>, server_id: String) -> CommandResult<()> {
    Ok(state.remotes.delete(state.history().await?, &server_id).await?)
}

/// Asks a server for its models.
///
/// # Errors
/// `RemoteUnknown`, `RemoteUnreachable`, `RemoteAccess`, `RemoteRefused`, `RemoteFault`, `KeychainFailed`.
#[tauri::command]
#[specta::specta]
pub async fn list_remote_models(
    state: State<'_, AppState>,
    server_id: String,
) -> CommandResult<Vec<RemoteServerModel>> {
    state.history().await?;
    Ok(state.remotes.models(&server_id).await?)
}
