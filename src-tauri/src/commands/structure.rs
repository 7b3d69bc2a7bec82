//! Checking structured output while it is typed.

use protocol::{StructureCheck, StructuredOutput};
use tauri::State;

use super::{CommandResult, not_built};
use crate::state::AppState;

/// What is wrong with a schema, pattern or grammar, and what of it cannot be enforced.
///
/// # Errors
/// None; problems are the result.
#[tauri::command]
#[specta::specta]
pub async fn check_structure(
    _state: State<'_, AppState>,
    _output: StructuredOutput,
) -> CommandResult<StructureCheck> {
    not_built()
}
