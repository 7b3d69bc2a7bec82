//! Watching and restarting the engine.

use std::{sync::Arc, time::Duration};

use engine::{EngineSnapshot, Pulse};
use protocol::EngineStatus;
use tauri::{State, ipc::Channel};
use tokio::{
    sync::watch::Receiver,
    time::{sleep, timeout},
};

use super::CommandResult;
use crate::{convert::status, local_engine::EngineLink, state::AppState};

/// Least time between two statuses.
const STATUS_INTERVAL: Duration = Duration::from_millis(250);

/// Longest time without one: the UI takes longer silence for a fault.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// Sends the engine's status at once, then four times a second while something changes and once a second otherwise,
/// until the window closes or watches anew.
///
/// # Errors
/// None.
#[tauri::command]
#[specta::specta]
pub async fn watch_engine(state: State<'_, AppState>, updates: Channel<EngineStatus>) -> CommandResult<()> {
    let state = state.inner().clone();
    tokio::spawn(async move {
        let watch = state.window.begin_watch();
        let is_wanted = |status| state.window.is_current_watch(watch) && updates.send(status).is_ok();
        follow(&state, is_wanted).await;
    });
    Ok(())
}

/// Ends the engine and starts it again with whatever model is there now. Running answers fail and keep their text.
///
/// # Errors
/// None; what goes wrong is the engine's status.
#[tauri::command]
#[specta::specta]
pub async fn restart_engine(state: State<'_, AppState>) -> CommandResult<()> {
    state.engine.restart().await;
    Ok(())
}

/// The engine's status now.
pub async fn current(state: &AppState) -> EngineStatus {
    let link = state.engine.link().borrow().clone();
    let EngineLink::Running(running) = &link else { return status_of(state, &link, None, Pulse::Dead).await };
    let snapshot = running.handle.status().borrow().clone();
    status_of(state, &link, Some(&snapshot), running.handle.pulse()).await
}

/// Sends statuses until `send` says that nobody wants them any more.
pub async fn follow(state: &AppState, mut send: impl FnMut(EngineStatus) -> bool) {
    let mut link = state.engine.link();
    loop {
        let current = link.borrow_and_update().clone();
        let mut snapshots = match &current {
            EngineLink::Running(running) => Some(running.handle.status()),
            EngineLink::Starting | EngineLink::Unavailable(_) => None,
        };
        let snapshot = snapshots.as_mut().map(|snapshots| snapshots.borrow_and_update().clone());
        let pulse = match &current {
            EngineLink::Running(running) => running.handle.pulse(),
            EngineLink::Starting | EngineLink::Unavailable(_) => Pulse::Dead,
        };
        if !send(status_of(state, &current, snapshot.as_deref(), pulse).await) {
            return;
        }
        sleep(STATUS_INTERVAL).await;
        let engine_changed = changed(snapshots.filter(|_| pulse != Pulse::Dead));
        let change = async {
            tokio::select! {
                () = engine_changed => {}
                // The sender lives as long as the state.
                _ = link.changed() => {}
            }
        };
        // Silence is an answer too: the status goes out again, as a sign of life.
        let _ = timeout(IDLE_INTERVAL - STATUS_INTERVAL, change).await;
    }
}

/// Waits for the next snapshot, or for the end of the engine; for ever without one.
async fn changed(snapshots: Option<Receiver<Arc<EngineSnapshot>>>) {
    match snapshots {
        Some(mut snapshots) => drop(snapshots.changed().await),
        None => std::future::pending().await,
    }
}

async fn status_of(
    state: &AppState,
    link: &EngineLink,
    snapshot: Option<&EngineSnapshot>,
    pulse: Pulse,
) -> EngineStatus {
    match (link, snapshot) {
        (EngineLink::Running(running), Some(snapshot)) => {
            status::of_engine(snapshot, running, pulse, &|id| state.requests.of_engine(id))
        }
        (EngineLink::Unavailable(error), _) => {
            status::without_engine(Some(error), &state.settings.current().await)
        }
        (EngineLink::Starting | EngineLink::Running(_), _) => {
            status::without_engine(None, &state.settings.current().await)
        }
    }
}
