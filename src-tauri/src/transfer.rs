//! Conversations that leave the app as files, and those that come in.
//!
//! Every file that comes in becomes Braid's own format first ([`file`]), whoever wrote it; the format is found out from
//! what is in it. Files of any size are taken apart piece by piece ([`parts`]): memory holds one conversation.

mod export;
mod file;
mod foreign;
mod import;
mod lm_studio;
mod markdown;
mod names;
mod openai;
mod parts;

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    path::PathBuf,
};

use history::History;
use protocol::{ConversationImportReport, ExportFormat, ExportReport};

pub use names::safe_name;

use crate::{
    convert::conversation::{from_json, parse_id},
    error::AppError,
    settings_store::to_json,
    state::AppState,
};

/// Writes one conversation to a file, in place of what is there.
///
/// # Errors
/// [`AppError::Transfer`], [`AppError::UnknownConversation`], the history's.
pub async fn export_conversation(
    state: &AppState,
    conversation_id: &str,
    format: ExportFormat,
    path: PathBuf,
) -> Result<ExportReport, AppError> {
    let id = parse_id(conversation_id)?;
    let state = state.clone();
    blocking(move || export::conversation(&state, id, format, &path)).await
}

/// Writes every conversation: as JSON to one file, as Markdown to one file each in a folder.
///
/// # Errors
/// [`AppError::Transfer`], the history's.
pub async fn export_library(
    state: &AppState,
    format: ExportFormat,
    path: PathBuf,
) -> Result<ExportReport, AppError> {
    let state = state.clone();
    blocking(move || export::library(&state, format, &path)).await
}

/// What is read of a conversation on screen, as Markdown.
///
/// # Errors
/// [`AppError::UnknownConversation`], the history's.
pub async fn conversation_markdown(state: &AppState, conversation_id: &str) -> Result<String, AppError> {
    let id = parse_id(conversation_id)?;
    let stored = state.history().await?.open_conversation(id).await?;
    Ok(markdown::conversation(&stored))
}

/// Brings in the conversations of files.
///
/// # Errors
/// The history's.
pub async fn import_conversations(
    state: &AppState,
    paths: Vec<String>,
) -> Result<ConversationImportReport, AppError> {
    let state = state.clone();
    blocking(move || import::import(&state, &paths)).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AppError> + Send + 'static,
) -> Result<T, AppError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| AppError::TaskPanicked)?
}

/// Where the library's name is stored.
const LIBRARY: &str = "library";

/// The name of this history in files; drawn once.
async fn library_id(history: &History) -> Result<String, AppError> {
    let stored = history.app_setting(LIBRARY).await?;
    if let Some(id) = stored.and_then(|json| from_json("library", &json)) {
        return Ok(id);
    }
    let id = format!("{:016x}", RandomState::new().build_hasher().finish());
    history.set_app_setting(LIBRARY, &to_json("library", &id)?).await?;
    Ok(id)
}
