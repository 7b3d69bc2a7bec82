//! Answers that go on: from where they were cut, or another way from one of their tokens.

use std::{sync::Arc, time::Instant};

use engine::EngineError;
use history::{AnswerPiece, Beginning, History, HistoryError, Message, MessageState};
use protocol::{
    BranchAnswer, ContinueAnswer, FinishReason, MessageView, Receipt, SamplingSettings, TokenDetail,
};
use text::{ThinkingStage, Tokenizer};

use super::{
    Answered, Asked, Owned, check_able, local, recorded::spells, recorded::text_of, settings_of,
    so_far::SoFar, view_of,
};
use crate::{
    convert::conversation::{self, from_json},
    error::AppError,
    settings_store::to_json,
    state::AppState,
    stream::FrameSink,
};

/// Why an answer cannot go on, or not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CannotContinue {
    /// It ended by itself, or a person wrote it.
    #[error("the answer is complete")]
    Complete,
    /// Structured output that got nowhere.
    #[error("the answer no longer got anywhere")]
    Stalled,
    /// There are messages after it.
    #[error("the conversation went on from this answer")]
    Followed,
    /// It came from a server, which has no way to go on.
    #[error("a server gave this answer")]
    Served,
    /// The token was not recorded.
    #[error(
        "of this answer, {recorded_tokens} tokens were recorded, and token {token_index} is none of them"
    )]
    NotRecorded {
        /// Tokens whose details are stored.
        recorded_tokens: usize,
        /// Place of the token.
        token_index: u32,
    },
    /// The recorded tokens spell something else in the vocabulary of the loaded model.
    #[error("another model gave this answer")]
    OtherModel,
    /// The alternative ends the turn, or is no token.
    #[error("no answer goes on from token {token}")]
    NoWayOn {
        /// The token.
        token: u32,
    },
}

/// Lets an answer go on after what it says. It keeps its id; its settings are its own, with as many tokens more as a
/// new answer of the conversation would get if it is as long as they allow.
///
/// # Errors
/// Before anything changes: [`AppError::CannotContinue`], [`AppError::Prompt`] if the loaded model cannot take the
/// answer up, and as [`super::start`]. Later failures travel through `sink`.
pub async fn continue_answer(
    state: &AppState,
    request: ContinueAnswer,
    arrived_at: Instant,
    sink: impl FrameSink,
) -> Result<MessageView, AppError> {
    let id = conversation::parse_id(&request.conversation_id)?;
    let history = state.history().await?;
    let ticket = state.requests.enter(&request.request_id, id)?;
    let stored = history.open_conversation(id).await?;
    let Answered { to_question, answer } = Answered::read(history, id, &request.answer_id).await?;
    let now = settings_of(state, &stored).await;
    let more_tokens = now.max_tokens;
    let settings = conversation::settings_of_answer(&answer).unwrap_or(now);
    let view = conversation::message(&answer);
    check_open(&answer, &view, &settings)?;
    check_able(state, &settings).await?;
    let details = details_of(history, &answer).await?;
    let so_far = SoFar::of(&answer, view.receipt, details, more_tokens);
    let json = to_json("sampling settings", &settings)?;
    let asked = Asked { so_far: Some(so_far), ..Asked::new(id, &to_question, settings, arrived_at) };
    if let Some(tokenizer) = state.engine.tokenizer() {
        local::given(&asked, &tokenizer).await?;
    }
    history.reopen_answer(id, answer.id, &json).await.map_err(|error| match error {
        HistoryError::AnswerFollowed(_) => CannotContinue::Followed.into(),
        other => AppError::from(other),
    })?;
    let owned = Owned::new(history, ticket, answer.id);
    let view = view_of(history, id, answer.id).await?;
    owned.answer(state, asked, Arc::new(sink));
    Ok(view)
}

/// Stores a version of an answer that has another token at one place, and lets it go on from there, with the settings
/// and the seed of the answer.
///
/// # Errors
/// Before anything is stored: [`AppError::CannotContinue`], [`EngineError::NotReady`] while the model is loaded, and
/// as [`super::start`]. Later failures travel through `sink`.
pub async fn branch(
    state: &AppState,
    request: BranchAnswer,
    arrived_at: Instant,
    sink: impl FrameSink,
) -> Result<MessageView, AppError> {
    let id = conversation::parse_id(&request.conversation_id)?;
    let history = state.history().await?;
    let ticket = state.requests.enter(&request.request_id, id)?;
    let stored = history.open_conversation(id).await?;
    let Answered { to_question, answer } = Answered::read(history, id, &request.answer_id).await?;
    let now = settings_of(state, &stored).await;
    let more_tokens = now.max_tokens;
    let settings = conversation::settings_of_answer(&answer).unwrap_or(now);
    if settings.remote.is_some() {
        return Err(CannotContinue::Served.into());
    }
    check_able(state, &settings).await?;
    let tokenizer = state.engine.tokenizer().ok_or(AppError::Engine(EngineError::NotReady))?;
    let recorded = details_of(history, &answer).await?;
    let details = branched(recorded, &request, &tokenizer)?;
    let question = answer.parent.ok_or(HistoryError::MessageNotFound(answer.id))?;
    let json = to_json("sampling settings", &settings)?;
    let mut asked = Asked::new(id, &to_question, settings, arrived_at);
    asked.so_far = Some(SoFar { details, is_whole: true, more_tokens, ..SoFar::default() });
    let said = begin(&asked, &tokenizer).await?;
    let beginning = Beginning {
        piece: AnswerPiece {
            text: said.answer.clone(),
            thinking: said.thinking.clone(),
            ..AnswerPiece::default()
        },
        token_details_json: asked
            .so_far
            .as_ref()
            .map(|so_far| to_json("token details", &so_far.details))
            .transpose()?,
    };
    asked.so_far.iter_mut().for_each(|so_far| so_far.said = said.clone());
    let version = history.start_answer_with(question, &json, &beginning).await?;
    let owned = Owned::new(history, ticket, version);
    let view = view_of(history, id, version).await?;
    owned.answer(state, asked, Arc::new(sink));
    Ok(view)
}

/// Refuses to go on with an answer that ended by itself.
fn check_open(
    answer: &Message,
    view: &MessageView,
    settings: &SamplingSettings,
) -> Result<(), CannotContinue> {
    if settings.remote.is_some() {
        return Err(CannotContinue::Served);
    }
    if answer.state != MessageState::Complete {
        return Ok(());
    }
    match view.finish_reason {
        Some(FinishReason::MaxTokens | FinishReason::ContextFull) => Ok(()),
        Some(FinishReason::Incomplete) if is_spent(view.receipt.as_ref(), settings) => Ok(()),
        Some(FinishReason::Incomplete) => Err(CannotContinue::Stalled),
        _ => Err(CannotContinue::Complete),
    }
}

fn is_spent(receipt: Option<&Receipt>, settings: &SamplingSettings) -> bool {
    receipt.is_some_and(|receipt| receipt.answer_tokens + receipt.thinking_tokens >= settings.max_tokens)
}

async fn details_of(history: &History, answer: &Message) -> Result<Vec<TokenDetail>, AppError> {
    let stored = history.token_details(answer.id).await?;
    Ok(stored.and_then(|json| from_json("token details", &json)).unwrap_or_default())
}

/// The recorded tokens up to the one that is replaced, and the one that takes its place.
fn branched(
    mut details: Vec<TokenDetail>,
    request: &BranchAnswer,
    tokenizer: &Tokenizer,
) -> Result<Vec<TokenDetail>, CannotContinue> {
    let BranchAnswer { token_index, token, .. } = *request;
    let recorded_tokens = details.len();
    if token_index as usize >= recorded_tokens {
        return Err(CannotContinue::NotRecorded { recorded_tokens, token_index });
    }
    details.truncate(token_index as usize + 1);
    if !spells(&details, tokenizer) {
        return Err(CannotContinue::OtherModel);
    }
    if token as usize >= tokenizer.vocab_tokens() || tokenizer.eos_ids().contains(&token) {
        return Err(CannotContinue::NoWayOn { token });
    }
    let replaced = details.pop().map(|old| TokenDetail {
        token,
        text: text_of(token, tokenizer),
        logprob: old.alternatives.iter().find(|other| other.token == token).and_then(|other| other.logprob),
        is_forced: false,
        bias: None,
        ..old
    });
    details.extend(replaced);
    Ok(details)
}

/// What the first tokens of an answer say.
async fn begin(asked: &Asked, tokenizer: &Tokenizer) -> Result<text::SplitText, AppError> {
    let (prompt, resumed) = local::given(asked, tokenizer).await?;
    let has_grammar = asked.settings.structured_output.is_some();
    let stage = match tokenizer.thinking_stage(&prompt) {
        // With a grammar, only the prompt can open the thinking.
        ThinkingStage::Outside if has_grammar => ThinkingStage::Closed,
        stage => stage,
    };
    tokenizer.read_answer(&resumed.tokens, stage).map_err(|error| AppError::Prompt(Arc::new(error)))
}
