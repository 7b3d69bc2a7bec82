//! Checking structured output while it is typed.

use protocol::{StructureCheck, StructuredOutput};
use tauri::State;

use super::CommandResult;
use crate::{state::AppState, structure};

/// What is wrong with a schema, pattern or grammar, and what of it cannot be enforced.
///
/// # Errors
/// None; problems are the result.
#[tauri::command]
#[specta::specta]
pub async fn check_structure(
    state: State<'_, AppState>,
    output: StructuredOutput,
) -> CommandResult<StructureCheck> {
    Ok(structure::check(&state, output).await?)
}
