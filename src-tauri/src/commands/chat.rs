//! Starting and stopping answers.

use std::time::Instant;

use protocol::{MessageView, RegenerateAnswer, StartGeneration, StartedGeneration, StreamEvent};
use tauri::{State, ipc::Channel};

use super::CommandResult;
use crate::{generation, requests::StopCause, state::AppState};

/// Stores a message and starts its answer; both are on disk when this returns. Frames may arrive before it does.
///
/// # Errors
/// See [`generation::start`].
#[tauri::command]
#[specta::specta]
pub async fn start_generation(
    state: State<'_, AppState>,
    request: StartGeneration,
    events: Channel<Vec<StreamEvent>>,
) -> CommandResult<StartedGeneration> {
    let arrived_at = Instant::now();
    Ok(generation::start(&state, request, arrived_at, events).await?)
}

/// Stores an empty version beside an answer and starts generating it; it is on disk when this returns.
///
/// # Errors
/// See [`generation::regenerate`].
#[tauri::command]
#[specta::specta]
pub async fn regenerate_answer(
    state: State<'_, AppState>,
    request: RegenerateAnswer,
    events: Channel<Vec<StreamEvent>>,
) -> CommandResult<MessageView> {
    let arrived_at = Instant::now();
    Ok(generation::regenerate(&state, request, arrived_at, events).await?)
}

/// Stops an answer in whatever phase it is; nothing happens if it has ended.
///
/// # Errors
/// None.
#[tauri::command]
#[specta::specta]
pub fn stop_generation(state: State<'_, AppState>, request_id: String) -> CommandResult<()> {
    state.requests.stop(&request_id, StopCause::User);
    Ok(())
}
