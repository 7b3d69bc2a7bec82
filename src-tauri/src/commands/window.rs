//! The window's own life: its start, and what it reports of itself.

use protocol::{AppSettings, AppStart, ConversationSummary, FileDrop, MenuItem, MenuWords};
use tauri::{AppHandle, State, ipc::Channel};

use super::{CommandResult, conversations};
use crate::{convert::count, error::AppError, menu, state::AppState};

/// Characters of a failure report that are logged.
const REPORT_CHARS: usize = 4_000;

/// The UI's first call: everything for its first frame.
///
/// # Errors
/// Why the history cannot be opened or read.
#[tauri::command]
#[specta::specta]
pub async fn start_app(state: State<'_, AppState>) -> CommandResult<AppStart> {
    // Also when it fails: the UI runs and will say so.
    state.window.note_start();
    Ok(start(&state).await?)
}

/// See [`start_app`].
///
/// # Errors
/// The history's.
pub async fn start(state: &AppState) -> Result<AppStart, AppError> {
    let conversations = conversations::list(state).await?;
    Ok(AppStart {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        settings: with_existing_tabs(state.settings.current().await, &conversations),
        conversations,
        interrupted_answers: count(state.history().await?.interrupted_answers()),
        last_end: state.take_last_end(),
    })
}

fn with_existing_tabs(mut settings: AppSettings, conversations: &[ConversationSummary]) -> AppSettings {
    let exists = |id: &String| conversations.iter().any(|conversation| &conversation.id == id);
    settings.open_tabs.retain(exists);
    settings.active_tab = settings
        .active_tab
        .filter(|active| settings.open_tabs.contains(active))
        .or_else(|| settings.open_tabs.last().cloned());
    settings
}

/// Tells the watchdog that the page is alive; it is called every few seconds.
///
/// # Errors
/// None.
#[tauri::command]
#[specta::specta]
pub fn note_alive(state: State<'_, AppState>) -> CommandResult<()> {
    state.window.note_alive();
    Ok(())
}

/// Shows the menu bar with these words, where there is one, and tells what is chosen in it. Called again when the
/// language changes.
///
/// # Errors
/// `Internal` if the system refuses the menu.
#[tauri::command]
#[specta::specta]
pub fn show_menu(
    app: AppHandle,
    state: State<'_, AppState>,
    words: MenuWords,
    chosen: Channel<MenuItem>,
) -> CommandResult<()> {
    state.window.watch_menu(chosen);
    Ok(menu::show(&app, &words).map_err(|error| AppError::Menu { reason: error.to_string() })?)
}

/// Tells of files that are dragged over the window and dropped on it; `None` when they are gone again.
///
/// # Errors
/// None.
#[tauri::command]
#[specta::specta]
pub fn watch_file_drops(state: State<'_, AppState>, drops: Channel<Option<FileDrop>>) -> CommandResult<()> {
    state.window.watch_drops(drops);
    Ok(())
}

/// Writes a failure of the UI to the log.
///
/// # Errors
/// None.
#[tauri::command]
#[specta::specta]
pub fn report_ui_failure(message: String) -> CommandResult<()> {
    let message: String = message.chars().take(REPORT_CHARS).collect();
    tracing::error!(message, "the UI reported a failure");
    Ok(())
}
