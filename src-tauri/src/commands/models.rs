//! Models: the list, loading, imports, the hub and its downloads.

use std::{path::PathBuf, time::Duration};

use protocol::{
    FitReport, HubSettings, HubSettingsChange, ImportMode, ModelEntry, ModelsStatus, RemoteModelDetails,
    RemoteModelPage, Unloaded,
};
use tauri::{AppHandle, State, ipc::Channel};
use tauri_plugin_dialog::DialogExt as _;
use tokio::time::sleep;

use super::CommandResult;
use crate::{error::AppError, local_engine::MemoryPolicy, state::AppState};

/// Least time between two statuses.
const STATUS_INTERVAL: Duration = Duration::from_millis(250);

/// All models of this computer, by name.
///
/// # Errors
/// A folder of models that cannot be listed.
#[tauri::command]
#[specta::specta]
pub async fn list_models(state: State<'_, AppState>) -> CommandResult<Vec<ModelEntry>> {
    Ok(state.library.list().await?)
}

/// Sends what is going on with models, at once and then at each change, until the window closes or watches anew.
///
/// # Errors
/// None.
#[tauri::command]
#[specta::specta]
pub async fn watch_models(state: State<'_, AppState>, updates: Channel<ModelsStatus>) -> CommandResult<()> {
    let state = state.inner().clone();
    tokio::spawn(async move {
        let watch = state.window.begin_models_watch();
        let mut sent = None;
        let mut changes = state.library.changes().await;
        loop {
            let status = state.library.status().await;
            if !state.window.is_current_models_watch(watch) {
                return;
            }
            if sent.as_ref() != Some(&status) {
                if updates.send(status.clone()).is_err() {
                    return;
                }
                sent = Some(status);
            }
            sleep(STATUS_INTERVAL).await;
            changes.next().await;
        }
    });
    Ok(())
}

/// Reckons whether a model fits into memory. `context_tokens`: the model's own if not given.
///
/// # Errors
/// A model that is not there, cannot be read or is not supported.
#[tauri::command]
#[specta::specta]
pub async fn check_model_fit(
    state: State<'_, AppState>,
    model_id: String,
    context_tokens: Option<u32>,
) -> CommandResult<FitReport> {
    Ok(state.library.fit(&model_id, context_tokens).await?)
}

/// Begins to load a model; the one that runs goes on until the new one is ready, if memory allows. Progress and failure
/// come with [`watch_models`].
///
/// # Errors
/// What can be told before anything changes: a model that is not there, cannot be read, is not supported, or does not
/// fit. `despite_fit` skips the last.
#[tauri::command]
#[specta::specta]
pub async fn load_model(
    state: State<'_, AppState>,
    model_id: String,
    context_tokens: Option<u32>,
    despite_fit: bool,
) -> CommandResult<()> {
    let memory = if despite_fit { MemoryPolicy::Insist } else { MemoryPolicy::Refuse };
    state.library.load(state.history().await?, &model_id, context_tokens, memory).await?;
    Ok(())
}

/// Gives up a load that is under way; the model that runs goes on.
///
/// # Errors
/// None.
#[tauri::command]
#[specta::specta]
pub async fn cancel_model_load(state: State<'_, AppState>) -> CommandResult<()> {
    state.engine.cancel_load();
    Ok(())
}

/// Takes the loaded model out of memory. Its running answers end and keep their text.
///
/// # Errors
/// None loaded.
#[tauri::command]
#[specta::specta]
pub async fn unload_model(state: State<'_, AppState>) -> CommandResult<Unloaded> {
    Ok(state.library.unload().await?)
}

/// Deletes a model from the disk; of a reference only the reference.
///
/// # Errors
/// A model that is loaded, not there, not Braid's to delete, or that the system does not let go.
#[tauri::command]
#[specta::specta]
pub async fn delete_model(state: State<'_, AppState>, model_id: String) -> CommandResult<()> {
    Ok(state.library.delete(&model_id).await?)
}

/// Lets the person choose a folder. `None` if they chose none.
///
/// # Errors
/// A dialog that cannot be shown.
#[tauri::command]
#[specta::specta]
pub async fn pick_model_folder(app: AppHandle) -> CommandResult<Option<String>> {
    let picked = tokio::task::spawn_blocking(move || app.dialog().file().blocking_pick_folder());
    Ok(chosen(picked.await)?)
}

/// Lets the person choose a GGUF file. `None` if they chose none.
///
/// # Errors
/// A dialog that cannot be shown.
#[tauri::command]
#[specta::specta]
pub async fn pick_gguf_file(app: AppHandle) -> CommandResult<Option<String>> {
    let picked = tokio::task::spawn_blocking(move || {
        app.dialog().file().add_filter("GGUF", &["gguf"]).blocking_pick_file()
    });
    Ok(chosen(picked.await)?)
}

/// The file or folder that was picked, if one was.
///
/// # Errors
/// A dialog that cannot be shown.
pub fn chosen(
    picked: Result<Option<tauri_plugin_dialog::FilePath>, tokio::task::JoinError>,
) -> Result<Option<String>, AppError> {
    let Some(path) = picked.map_err(|_| AppError::TaskPanicked)? else { return Ok(None) };
    Ok(path.into_path().ok().map(|path| path.display().to_string()))
}

/// Files that were picked; none if none was.
///
/// # Errors
/// A dialog that cannot be shown.
pub fn chosen_files(
    picked: Result<Option<Vec<tauri_plugin_dialog::FilePath>>, tokio::task::JoinError>,
) -> Result<Vec<String>, AppError> {
    let paths = picked.map_err(|_| AppError::TaskPanicked)?.unwrap_or_default().into_iter();
    Ok(paths.filter_map(|path| path.into_path().ok()).map(|path| path.display().to_string()).collect())
}

/// Begins to import a folder in MLX's format. Returns the import's id; progress comes with [`watch_models`].
///
/// # Errors
/// None; what goes wrong is the import's problem.
#[tauri::command]
#[specta::specta]
pub async fn import_model_folder(
    state: State<'_, AppState>,
    path: String,
    mode: ImportMode,
) -> CommandResult<String> {
    Ok(state.library.import_folder(PathBuf::from(path), mode))
}

/// Begins to import a GGUF file. Returns the import's id; progress comes with [`watch_models`].
///
/// # Errors
/// None; what goes wrong is the import's problem.
#[tauri::command]
#[specta::specta]
pub async fn import_gguf(state: State<'_, AppState>, path: String) -> CommandResult<String> {
    Ok(state.library.import_gguf(PathBuf::from(path)))
}

/// Gives up an import; nothing of it stays.
///
/// # Errors
/// None: an import that has ended is gone already.
#[tauri::command]
#[specta::specta]
pub async fn cancel_import(state: State<'_, AppState>, import_id: String) -> CommandResult<()> {
    state.library.imports().cancel(&import_id);
    Ok(())
}

/// Takes a failed import off the list.
///
/// # Errors
/// None.
#[tauri::command]
#[specta::specta]
pub async fn dismiss_import(state: State<'_, AppState>, import_id: String) -> CommandResult<()> {
    state.library.imports().dismiss(&import_id);
    Ok(())
}

/// Searches the hub. `next`: of the page before.
///
/// # Errors
/// The hub's.
#[tauri::command]
#[specta::specta]
pub async fn search_models(
    state: State<'_, AppState>,
    query: String,
    next: Option<String>,
) -> CommandResult<RemoteModelPage> {
    Ok(state.library.search(&query, next.as_deref()).await?)
}

/// What a repository of the hub holds for Braid.
///
/// # Errors
/// The hub's.
#[tauri::command]
#[specta::specta]
pub async fn read_remote_model(
    state: State<'_, AppState>,
    repo: String,
) -> CommandResult<RemoteModelDetails> {
    Ok(state.library.remote(&repo).await?)
}

/// Begins a download. Returns its id; progress comes with [`watch_models`].
///
/// # Errors
/// The hub's; too little space on the disk.
#[tauri::command]
#[specta::specta]
pub async fn start_download(
    state: State<'_, AppState>,
    repo: String,
    commit: String,
) -> CommandResult<String> {
    Ok(state.library.download(&repo, &commit).await?)
}

/// Holds a download; what has arrived stays.
///
/// # Errors
/// `DownloadNotFound`.
#[tauri::command]
#[specta::specta]
pub async fn pause_download(state: State<'_, AppState>, download_id: String) -> CommandResult<()> {
    Ok(state.library.pause_download(&download_id).await?)
}

/// Goes on with a download that was held, failed, or was found at start.
///
/// # Errors
/// `DownloadNotFound`.
#[tauri::command]
#[specta::specta]
pub async fn resume_download(state: State<'_, AppState>, download_id: String) -> CommandResult<()> {
    Ok(state.library.resume_download(&download_id).await?)
}

/// Gives up a download; nothing of it stays.
///
/// # Errors
/// `DownloadNotFound`; files that the system does not let go.
#[tauri::command]
#[specta::specta]
pub async fn cancel_download(state: State<'_, AppState>, download_id: String) -> CommandResult<()> {
    Ok(state.library.cancel_download(&download_id).await?)
}

/// Takes a download that is complete off the list; the model stays.
///
/// # Errors
/// `DownloadNotFound`.
#[tauri::command]
#[specta::specta]
pub async fn dismiss_download(state: State<'_, AppState>, download_id: String) -> CommandResult<()> {
    Ok(state.library.cancel_download(&download_id).await?)
}

/// Where models are downloaded from.
///
/// # Errors
/// A token that cannot be read.
#[tauri::command]
#[specta::specta]
pub async fn read_hub_settings(state: State<'_, AppState>) -> CommandResult<HubSettings> {
    Ok(state.library.hub_settings().await?)
}

/// Changes where models are downloaded from; downloads under way go on with it.
///
/// # Errors
/// `InvalidSetting` for an address or proxy that makes no sense; the history's.
#[tauri::command]
#[specta::specta]
pub async fn write_hub_settings(
    state: State<'_, AppState>,
    change: HubSettingsChange,
) -> CommandResult<HubSettings> {
    let history = state.history().await?;
    Ok(state.library.change_hub(history, change).await?)
}
