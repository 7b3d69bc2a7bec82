//! Words for who wrote a message and where it stands.

use std::fmt;

/// Who wrote a message. System prompts are settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// Where a message stands. User messages are always complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageState {
    /// The answer is being generated.
    Streaming,
    /// The model came to an end of its own, or to its token limit.
    Complete,
    /// The user stopped it.
    Stopped,
    /// Generation failed; `error_code` says why.
    Failed,
    /// The app ended while it was streaming.
    Interrupted,
}

/// How an answer ends: every [`MessageState`] but `Streaming`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FinishState {
    /// See [`MessageState::Complete`].
    Complete,
    /// See [`MessageState::Stopped`].
    Stopped,
    /// See [`MessageState::Failed`].
    Failed,
    /// See [`MessageState::Interrupted`].
    Interrupted,
}

impl MessageState {
    /// The word stored in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Streaming => "streaming",
            Self::Complete => "complete",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }

    /// Reads the stored word. A damaged one counts as interrupted: the text is there, its end is not known.
    pub(crate) fn parse(word: &str) -> Self {
        match word {
            "streaming" => Self::Streaming,
            "complete" => Self::Complete,
            "stopped" => Self::Stopped,
            "failed" => Self::Failed,
            _ => Self::Interrupted,
        }
    }
}

impl fmt::Display for MessageState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<FinishState> for MessageState {
    fn from(state: FinishState) -> Self {
        match state {
            FinishState::Complete => Self::Complete,
            FinishState::Stopped => Self::Stopped,
            FinishState::Failed => Self::Failed,
            FinishState::Interrupted => Self::Interrupted,
        }
    }
}
