//! One question, several answers.

use std::{sync::Arc, time::Instant};

use engine::params::InvalidParam;
use history::HistoryError;
use protocol::{FanOut, StartedFanOut};

use super::{Asked, Owned, check_able, check_text, name_after};
use crate::{
    attachments,
    convert::conversation,
    error::AppError,
    settings_store::to_json,
    state::AppState,
    stream::{FrameSink, SharedSink},
};

/// Stores the message with an empty answer for each variant, all at once, and starts generating them all. The first
/// is shown; each ends for itself.
///
/// # Errors
/// As [`super::start`], and [`AppError::InvalidSetting`] for fewer than 2 or more than 8 variants.
pub async fn fan_out(
    state: &AppState,
    request: FanOut,
    arrived_at: Instant,
    sink: impl FrameSink,
) -> Result<StartedFanOut, AppError> {
    check_text(&request.text)?;
    let id = conversation::parse_id(&request.conversation_id)?;
    let variants = request.variants;
    if !(2..=8).contains(&variants.len()) {
        let value = variants.len().to_string();
        return Err(InvalidParam { field: "variants", limit: "2 to 8", value }.into());
    }
    let history = state.history().await?;
    let ids = variants.iter().map(|variant| variant.request_id.as_str());
    let tickets = state.requests.enter_together(ids, id)?;
    let stored = history.open_conversation(id).await?;
    let mut settings_json = Vec::with_capacity(variants.len());
    for variant in &variants {
        check_able(state, &variant.settings).await?;
        settings_json.push(to_json("sampling settings", &variant.settings)?);
    }
    let turn = history.begin_fan_out(id, stored.active_leaf, &request.text, &settings_json).await?;
    let answers = tickets.into_iter().zip(&turn.answers);
    let owned: Vec<_> = answers.map(|(ticket, answer)| Owned::new(history, ticket, *answer)).collect();
    name_after(history, &stored, &request.text).await;

    let mut path = history.message_path(id, turn.user_message).await?;
    let question = path.last().ok_or(HistoryError::MessageNotFound(turn.user_message))?;
    let first = turn.answers.first().ok_or(HistoryError::MessageNotFound(turn.user_message))?;
    let answers = history.versions(id, *first).await?;
    let mut user_message = conversation::message(question);
    attachments::fill_in_known_tokens(state, question, &mut user_message);
    let started =
        StartedFanOut { user_message, answers: answers.iter().map(conversation::message).collect() };
    attachments::spell_out(history, &mut path).await?;
    let sink: SharedSink = Arc::new(sink);
    for (owned, variant) in owned.into_iter().zip(variants) {
        owned.answer(state, Asked::new(id, &path, variant.settings, arrived_at), sink.clone());
    }
    Ok(started)
}
