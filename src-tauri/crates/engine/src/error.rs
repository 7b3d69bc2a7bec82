//! What can go wrong with a request, or with the engine as a whole.

use std::{error::Error, sync::Arc, time::Duration};

use crate::{BackendError, FinishReason, TokenId, backend::BadRow};

/// Source of an error that several rows may carry.
pub type SharedError = Arc<dyn Error + Send + Sync>;

/// Every failure the engine reports. Cheap to clone: a fault of the batch is told to each of its rows.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// A request without prompt tokens: there is nothing to continue.
    #[error("the prompt has no tokens")]
    EmptyPrompt,
    /// The prompt leaves no room for an answer.
    #[error(
        "the prompt has {prompt_tokens} tokens; the context window of {context_tokens} needs one for the answer"
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt_tokens: usize,
        /// Size of the context window.
        context_tokens: u32,
    },
    /// A token of the prompt, of the answer so far, or of the logit bias, that the model does not have.
    #[error("token {token} is outside the model's vocabulary of {vocab_width}")]
    UnknownToken {
        /// The token.
        token: TokenId,
        /// Width of the logits; of biased tokens, size of the tokenizer's vocabulary.
        vocab_width: u32,
    },
    /// The answer so far cannot go on: it has ended.
    #[error("the answer ended with its token {index}: {reason:?}")]
    AnswerEnded {
        /// Place in the answer of the token with which it ended, from 0.
        index: usize,
        /// Why it ended there.
        reason: FinishReason,
    },
    /// The request's grammar does not allow the answer so far.
    #[error("the grammar does not allow token {index} of the answer so far, {token}")]
    AnswerRefused {
        /// Place of the first such token in the answer, from 0.
        index: usize,
        /// The token.
        token: TokenId,
    },
    /// The grammar of the request is malformed, or asks for something that cannot be enforced.
    #[error("the grammar cannot be used at {at}: {reason}")]
    Grammar {
        /// JSON pointer into the schema ("" is all of it), or position in the text.
        at: String,
        /// What is wrong there.
        reason: String,
    },
    /// The request needs more memory than it can ever get.
    #[error(
        "the request needs {needed_bytes} bytes and can have {limit_bytes}; an answer of {fitting_answer_tokens} \
         tokens would fit"
    )]
    TooLarge {
        /// What it needs, with the weights.
        needed_bytes: u64,
        /// The most there is.
        limit_bytes: u64,
        /// Longest answer to the same prompt that would fit; 0 if none would.
        fitting_answer_tokens: u32,
    },
    /// As many requests wait as may wait.
    #[error("{max_queued} requests are waiting already")]
    QueueFull {
        /// The limit.
        max_queued: usize,
    },
    /// The model is still loading.
    #[error("the model is still loading")]
    NotReady,
    /// Another model has taken the place of the one that was asked.
    #[error("another model was loaded")]
    ModelReplaced,
    /// The model that was asked was unloaded.
    #[error("the model was unloaded")]
    ModelUnloaded,
    /// The load was given up before it was done.
    #[error("loading the model was cancelled")]
    LoadCancelled,
    /// The engine was shut down.
    #[error("the engine was shut down")]
    Stopped,
    /// The backend could not be built.
    #[error("the model could not be loaded")]
    Load(#[source] SharedError),
    /// The backend could not read this request's prompt, or could not take it into the batch.
    #[error("the prompt could not be read")]
    Prefill(#[source] SharedError),
    /// The backend failed in a step of the whole batch.
    #[error("the backend failed in a decode step")]
    Backend(#[source] SharedError),
    /// Sampling returned results for another number of rows than were asked for: a defect of the backend.
    #[error("sampling {rows} rows gave {results} results")]
    ResultCount {
        /// Rows asked for.
        rows: usize,
        /// Results returned.
        results: usize,
    },
    /// No row of a batch could be sampled, so the cause is not in a row.
    #[error("the model gave unusable logits for all {rows} rows of the batch")]
    AllRowsBad {
        /// Rows of the batch.
        rows: usize,
    },
    /// The row's logits hold a NaN or positive infinity.
    #[error("the model gave logits that are not finite")]
    NonFiniteLogits,
    /// The row's logits allow no token.
    #[error("the model's logits allow no token")]
    NothingAllowed,
    /// The row's grammar allows no token of the vocabulary.
    #[error("the grammar allows no token")]
    GrammarDeadEnd,
    /// The row's grammar could not be followed any further.
    #[error("the grammar could not be followed: {reason}")]
    GrammarFailed {
        /// What the matcher said.
        reason: String,
    },
    /// The row's tokens could not be turned into text.
    #[error("tokens could not be turned into text")]
    Text(#[source] Arc<text::TextError>),
    /// Work on one row panicked: a defect, contained in the row.
    #[error("a defect ended this answer: {message}")]
    RowPanicked {
        /// The panic's message.
        message: String,
    },
    /// The engine thread panicked: a defect.
    #[error("a defect stopped the engine: {message}")]
    Panicked {
        /// The panic's message.
        message: String,
    },
    /// The backend failed too often to go on.
    #[error("the backend failed {faults} times within {within:?}")]
    RepeatedFaults {
        /// Faults counted.
        faults: usize,
        /// Time they fell into.
        within: Duration,
        /// The latest one.
        #[source]
        latest: Box<EngineError>,
    },
}

impl EngineError {
    pub(crate) fn backend(source: BackendError) -> Self {
        Self::Backend(source.into())
    }

    pub(crate) fn text(source: text::TextError) -> Self {
        Self::Text(Arc::new(source))
    }

    pub(crate) fn prefill(source: BackendError) -> Self {
        Self::Prefill(source.into())
    }
}

impl From<BadRow> for EngineError {
    fn from(bad: BadRow) -> Self {
        match bad {
            BadRow::NonFiniteLogits => Self::NonFiniteLogits,
            BadRow::NothingAllowed => Self::NothingAllowed,
        }
    }
}

/// The text of a caught panic.
pub(crate) fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let literal = payload.downcast_ref::<&str>().map(ToString::to_string);
    literal.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
