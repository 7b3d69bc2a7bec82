//! The benchmark that a person starts with one click.

use protocol::{BenchmarkProgress, BenchmarkReport};
use tauri::{State, ipc::Channel};

use super::CommandResult;
use crate::{benchmark, diagnostics, error::AppError, state::AppState};

/// Measures the loaded model at several batch sizes and modes; `None` if it was cancelled, or if an answer was asked
/// for meanwhile, which comes first.
///
/// # Errors
/// `BenchmarkBusy` while answers run, why there is no engine, or what ended a measurement.
#[tauri::command]
#[specta::specta]
pub async fn run_benchmark(
    state: State<'_, AppState>,
    progress: Channel<BenchmarkProgress>,
) -> CommandResult<Option<BenchmarkReport>> {
    // A window that is gone misses the progress; the report is kept.
    let tell = |step| drop(progress.send(step));
    Ok(benchmark::run(&state, tell).await?)
}

/// Ends a benchmark that runs.
///
/// # Errors
/// None.
#[tauri::command]
#[specta::specta]
pub async fn cancel_benchmark(state: State<'_, AppState>) -> CommandResult<()> {
    benchmark::cancel(&state);
    Ok(())
}

/// Writes the latest report to a file.
///
/// # Errors
/// `TransferFailed`.
#[tauri::command]
#[specta::specta]
pub async fn save_benchmark_report(state: State<'_, AppState>, path: String) -> CommandResult<()> {
    let report = state.benchmark.latest().ok_or(AppError::NoReport)?;
    Ok(diagnostics::save(path, report.markdown).await?)
}
