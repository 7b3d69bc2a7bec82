//! The benchmark that a person starts with one click.

use protocol::{BenchmarkProgress, BenchmarkReport};
use tauri::{State, ipc::Channel};

use super::{CommandResult, not_built};
use crate::state::AppState;

/// Measures the loaded model at several batch sizes and modes; `None` if it was cancelled.
///
/// # Errors
/// `BenchmarkBusy` while answers run, why there is no engine, or what ended a measurement.
#[tauri::command]
#[specta::specta]
pub async fn run_benchmark(
    _state: State<'_, AppState>,
    _progress: Channel<BenchmarkProgress>,
) -> CommandResult<Option<BenchmarkReport>> {
    not_built()
}

/// Ends a benchmark that runs.
///
/// # Errors
/// None.
#[tauri::command]
#[specta::specta]
pub async fn cancel_benchmark(_state: State<'_, AppState>) -> CommandResult<()> {
    not_built()
}

/// Writes the latest report to a file.
///
/// # Errors
/// `TransferFailed`.
#[tauri::command]
#[specta::specta]
pub async fn save_benchmark_report(_state: State<'_, AppState>, _path: String) -> CommandResult<()> {
    not_built()
}
