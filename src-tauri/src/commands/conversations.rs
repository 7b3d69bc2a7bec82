//! The sidebar's list, and what is stored with a conversation.

use std::time::{SystemTime, UNIX_EPOCH};

use protocol::{
    ActiveRequest, ConversationSummary, ConversationView, SamplingSettings, ScrollPlace, SearchHit,
    TokenDetail,
};
use tauri::State;

use super::CommandResult;
use crate::{
    attachments,
    convert::conversation::{
        self, attachment, from_json, message, new_summary, parse_id, parse_message_id, scroll_place,
        search_hit, stored_scroll_place, summary, summary_of,
    },
    error::AppError,
    generation,
    requests::StopCause,
    settings_store::to_json,
    state::AppState,
};

/// All conversations, latest first.
///
/// # Errors
/// The history's.
#[tauri::command]
#[specta::specta]
pub async fn list_conversations(state: State<'_, AppState>) -> CommandResult<Vec<ConversationSummary>> {
    Ok(list(&state).await?)
}

/// See [`list_conversations`].
///
/// # Errors
/// The history's.
pub async fn list(state: &AppState) -> Result<Vec<ConversationSummary>, AppError> {
    let stored = state.history().await?.list_conversations().await?;
    Ok(stored.into_iter().map(summary).collect())
}

/// Conversations that a search gives at most: more than a person reads through.
const MAX_SEARCH_HITS: u32 = 50;

/// Conversations with every word of `query` in their title or in one message; at most 50, matching titles first.
///
/// # Errors
/// The history's.
#[tauri::command]
#[specta::specta]
pub async fn search_conversations(
    state: State<'_, AppState>,
    query: String,
) -> CommandResult<Vec<SearchHit>> {
    Ok(search(&state, &query).await?)
}

/// See [`search_conversations`].
///
/// # Errors
/// The history's.
pub async fn search(state: &AppState, query: &str) -> Result<Vec<SearchHit>, AppError> {
    let hits = state.history().await?.search(query, MAX_SEARCH_HITS).await?;
    Ok(hits.into_iter().map(search_hit).collect())
}

/// Makes an empty conversation with the settings for new ones.
///
/// # Errors
/// The history's.
#[tauri::command]
#[specta::specta]
pub async fn create_conversation(state: State<'_, AppState>) -> CommandResult<ConversationSummary> {
    Ok(create(&state).await?)
}

/// See [`create_conversation`].
///
/// # Errors
/// The history's.
pub async fn create(state: &AppState) -> Result<ConversationSummary, AppError> {
    let history = state.history().await?;
    let settings = to_json("sampling settings", &state.settings.current().await.new_conversation)?;
    let id = history.create_conversation("").await?;
    history.set_conversation_settings(id, &settings).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(new_summary(id, i64::try_from(now.as_millis()).unwrap_or(i64::MAX)))
}

/// Opens a conversation.
///
/// # Errors
/// `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn open_conversation(
    state: State<'_, AppState>,
    conversation_id: String,
) -> CommandResult<ConversationView> {
    Ok(open(&state, &conversation_id).await?)
}

/// See [`open_conversation`].
///
/// # Errors
/// [`AppError::UnknownConversation`], the history's.
pub async fn open(state: &AppState, conversation_id: &str) -> Result<ConversationView, AppError> {
    let id = parse_id(conversation_id)?;
    // Before the messages are read: an answer that ends in between is read whole.
    let active = state.requests.of_conversation(id);
    let stored = state.history().await?.open_conversation(id).await?;
    let settings = stored.settings_json.as_deref().and_then(conversation::settings);
    let settings = match settings {
        Some(settings) => settings,
        None => state.settings.current().await.new_conversation,
    };
    let active_requests = active
        .into_iter()
        .map(|(request_id, answer)| ActiveRequest { request_id, answer_id: answer.to_string() });
    let mut view = ConversationView {
        summary: summary_of(&stored),
        messages: stored.path.iter().map(message).collect(),
        draft: stored.draft.clone(),
        settings,
        draft_attachments: stored.draft_attachments.iter().map(attachment).collect(),
        active_requests: active_requests.collect(),
        scroll: stored.scroll.map(scroll_place),
    };
    attachments::fill_in_tokens(state, &stored, &mut view).await;
    Ok(view)
}

/// Changes a title.
///
/// # Errors
/// `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn rename_conversation(
    state: State<'_, AppState>,
    conversation_id: String,
    title: String,
) -> CommandResult<()> {
    let id = parse_id(&conversation_id)?;
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(state.history().await?.rename_conversation(id, &title).await.map_err(AppError::from)?)
}

/// Keeps a conversation at hand, above the others.
///
/// # Errors
/// `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn pin_conversation(state: State<'_, AppState>, conversation_id: String) -> CommandResult<()> {
    let id = parse_id(&conversation_id)?;
    Ok(state.history().await?.pin_conversation(id).await.map_err(AppError::from)?)
}

/// Undoes [`pin_conversation`].
///
/// # Errors
/// `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn unpin_conversation(state: State<'_, AppState>, conversation_id: String) -> CommandResult<()> {
    let id = parse_id(&conversation_id)?;
    Ok(state.history().await?.unpin_conversation(id).await.map_err(AppError::from)?)
}

/// Hides a conversation, stopping its answer; [`restore_conversation`] brings it back.
///
/// # Errors
/// `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn delete_conversation(state: State<'_, AppState>, conversation_id: String) -> CommandResult<()> {
    let id = parse_id(&conversation_id)?;
    state.history().await?.delete_conversation(id).await.map_err(AppError::from)?;
    state.requests.stop_conversation(id, StopCause::User);
    state.engine.forget(generation::owner(id));
    Ok(())
}

/// Ends the answer of a conversation whose tab is closed, and frees what the engine keeps for its next one.
///
/// # Errors
/// `ConversationNotFound`.
#[tauri::command]
#[specta::specta]
pub fn close_conversation(state: State<'_, AppState>, conversation_id: String) -> CommandResult<()> {
    let id = parse_id(&conversation_id)?;
    state.requests.stop_conversation(id, StopCause::User);
    state.engine.forget(generation::owner(id));
    Ok(())
}

/// Shows another version of a message: the conversation then runs through it to the newest message below it.
///
/// # Errors
/// `AlreadyGenerating` while an answer is written, `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn select_version(
    state: State<'_, AppState>,
    conversation_id: String,
    message_id: String,
) -> CommandResult<ConversationView> {
    Ok(select(&state, &conversation_id, &message_id).await?)
}

/// See [`select_version`].
///
/// # Errors
/// [`AppError::AlreadyGenerating`], [`AppError::UnknownConversation`], [`AppError::UnknownAnswer`], the history's.
pub async fn select(
    state: &AppState,
    conversation_id: &str,
    message_id: &str,
) -> Result<ConversationView, AppError> {
    let id = parse_id(conversation_id)?;
    if state.requests.is_answering(id) {
        return Err(AppError::AlreadyGenerating { conversation_id: conversation_id.to_owned() });
    }
    state.history().await?.select_branch(id, parse_message_id(message_id)?).await?;
    open(state, conversation_id).await
}

/// What was recorded of an answer's tokens; empty if nothing was.
///
/// # Errors
/// The history's.
#[tauri::command]
#[specta::specta]
pub async fn read_token_details(
    state: State<'_, AppState>,
    message_id: String,
) -> CommandResult<Vec<TokenDetail>> {
    Ok(token_details(&state, &message_id).await?)
}

/// See [`read_token_details`].
///
/// # Errors
/// [`AppError::UnknownAnswer`], the history's.
pub async fn token_details(state: &AppState, message_id: &str) -> Result<Vec<TokenDetail>, AppError> {
    let stored = state.history().await?.token_details(parse_message_id(message_id)?).await?;
    Ok(stored.and_then(|json| from_json("token details", &json)).unwrap_or_default())
}

/// Undoes [`delete_conversation`].
///
/// # Errors
/// `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn restore_conversation(state: State<'_, AppState>, conversation_id: String) -> CommandResult<()> {
    let id = parse_id(&conversation_id)?;
    Ok(state.history().await?.restore_conversation(id).await.map_err(AppError::from)?)
}

/// Keeps what is typed and not sent.
///
/// # Errors
/// `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn save_draft(
    state: State<'_, AppState>,
    conversation_id: String,
    text: String,
) -> CommandResult<()> {
    let id = parse_id(&conversation_id)?;
    Ok(state.history().await?.save_draft(id, &text).await.map_err(AppError::from)?)
}

/// Keeps where the reader is in a conversation; `None` is the end.
///
/// # Errors
/// `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn save_scroll(
    state: State<'_, AppState>,
    conversation_id: String,
    place: Option<ScrollPlace>,
) -> CommandResult<()> {
    Ok(keep_scroll(&state, &conversation_id, place).await?)
}

/// See [`save_scroll`].
///
/// # Errors
/// [`AppError::UnknownConversation`], [`AppError::UnknownAnswer`], the history's.
pub async fn keep_scroll(
    state: &AppState,
    conversation_id: &str,
    place: Option<ScrollPlace>,
) -> Result<(), AppError> {
    let id = parse_id(conversation_id)?;
    let place = place.map(|place| stored_scroll_place(&place)).transpose()?;
    Ok(state.history().await?.save_scroll(id, place).await?)
}

/// Keeps the settings of a conversation's next answer.
///
/// # Errors
/// `InvalidSetting` with field, limit and value; `ConversationNotFound`, the history's.
#[tauri::command]
#[specta::specta]
pub async fn write_conversation_settings(
    state: State<'_, AppState>,
    conversation_id: String,
    settings: SamplingSettings,
) -> CommandResult<()> {
    Ok(write_settings(&state, &conversation_id, &settings).await?)
}

/// See [`write_conversation_settings`].
///
/// # Errors
/// [`AppError::InvalidSetting`], [`AppError::UnknownConversation`], the history's.
pub async fn write_settings(
    state: &AppState,
    conversation_id: &str,
    settings: &SamplingSettings,
) -> Result<(), AppError> {
    let id = parse_id(conversation_id)?;
    generation::check_settings(state, settings)?;
    let json = to_json("sampling settings", settings)?;
    Ok(state.history().await?.set_conversation_settings(id, &json).await?)
}
