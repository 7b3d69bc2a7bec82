//! Settings of the app.

use engine::params::InvalidParam;
use protocol::{AppSettings, GateMode, OverlapMode};
use tauri::State;

use super::CommandResult;
use crate::{
    convert::{to_engine_mode, to_engine_overlap},
    error::AppError,
    generation::check_settings,
    state::AppState,
};

/// Stores the app's settings and applies those that concern the engine.
///
/// # Errors
/// `InvalidSetting` for the size of text and the settings of new conversations; the history's.
#[tauri::command]
#[specta::specta]
pub async fn write_app_settings(state: State<'_, AppState>, settings: AppSettings) -> CommandResult<()> {
    Ok(write(&state, settings).await?)
}

/// Stores the gate's mode and applies it from the next step on.
///
/// # Errors
/// The history's.
#[tauri::command]
#[specta::specta]
pub async fn set_gate_mode(state: State<'_, AppState>, mode: GateMode) -> CommandResult<()> {
    Ok(set_mode(&state, mode).await?)
}

/// Stores whether forward passes may overlap the reading of tokens, and applies it.
///
/// # Errors
/// The history's.
#[tauri::command]
#[specta::specta]
pub async fn set_overlap(state: State<'_, AppState>, mode: OverlapMode) -> CommandResult<()> {
    Ok(set_overlap_mode(&state, mode).await?)
}

/// See [`write_app_settings`].
///
/// # Errors
/// [`AppError::InvalidSetting`], the history's.
pub async fn write(state: &AppState, settings: AppSettings) -> Result<(), AppError> {
    check_settings(state, &settings.new_conversation)?;
    check_text_size(settings.text_size_percent)?;
    let (mode, overlap) = (settings.gate_mode, settings.overlap);
    state.settings.change(state.history().await?, |current| *current = settings).await?;
    state.engine.set_gate_mode(to_engine_mode(mode)).await;
    state.engine.set_overlap(to_engine_overlap(overlap)).await;
    Ok(())
}

/// See [`set_gate_mode`].
///
/// # Errors
/// The history's.
pub async fn set_mode(state: &AppState, mode: GateMode) -> Result<(), AppError> {
    state.settings.change(state.history().await?, |current| current.gate_mode = mode).await?;
    state.engine.set_gate_mode(to_engine_mode(mode)).await;
    Ok(())
}

/// See [`set_overlap`].
///
/// # Errors
/// The history's.
pub async fn set_overlap_mode(state: &AppState, mode: OverlapMode) -> Result<(), AppError> {
    state.settings.change(state.history().await?, |current| current.overlap = mode).await?;
    state.engine.set_overlap(to_engine_overlap(mode)).await;
    Ok(())
}

fn check_text_size(percent: u16) -> Result<(), InvalidParam> {
    if (90..=150).contains(&percent) {
        return Ok(());
    }
    Err(InvalidParam { field: "text_size_percent", limit: "90 to 150", value: percent.to_string() })
}
