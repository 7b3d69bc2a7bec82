//! What a row may say next: thinking first, then its grammar.

use text::SplitText;

use crate::{
    EngineError, FinishReason, TokenId,
    backend::TokenMask,
    grammar::{Grammar, Progress},
    thinking::Thinking,
};

/// What is known of a row's next token before its logits are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Next<'a> {
    /// Nothing.
    Free,
    /// The grammar allows these.
    Masked(&'a TokenMask),
    /// The grammar allows only this one.
    Decided(TokenId),
    /// It is this one, part of what ends the thinking.
    Closing(TokenId),
}

impl Next<'_> {
    /// The token that comes whatever the logits say.
    pub(crate) fn forced(self) -> Option<TokenId> {
        match self {
            Self::Decided(token) | Self::Closing(token) => Some(token),
            Self::Free | Self::Masked(_) => None,
        }
    }
}

/// Thinking and grammar of one row. The grammar begins where the thinking ends, and sees no token before.
#[derive(Debug)]
pub(crate) struct Steering {
    thinking: Thinking,
    grammar: Option<Grammar>,
}

impl Steering {
    pub(crate) fn new(thinking: Thinking, grammar: Option<Grammar>) -> Self {
        Self { thinking, grammar }
    }

    pub(crate) fn next(&self) -> Next<'_> {
        if let Some(token) = self.thinking.forced() {
            return Next::Closing(token);
        }
        match &self.grammar {
            Some(grammar) if self.thinking.is_over() => {
                grammar.forced().map_or(Next::Masked(grammar.mask()), Next::Decided)
            }
            _ => Next::Free,
        }
    }

    /// Tokens of thinking so far, tags included.
    pub(crate) fn thinking_tokens(&self) -> u32 {
        self.thinking.tokens()
    }

    /// Whether the next token is the grammar's.
    pub(crate) fn is_in_grammar(&self) -> bool {
        self.grammar.is_some() && self.thinking.is_over()
    }

    /// Takes the text that a token completed; see [`Thinking::take`]. What a grammar has not seen is no answer.
    pub(crate) fn split(&mut self, token: TokenId, text: &str, is_mid_character: bool) -> SplitText {
        let is_unseen = self.grammar.is_some() && !self.thinking.is_over();
        let mut split = self.thinking.take(token, text, is_mid_character);
        if is_unseen {
            split.answer.clear();
        }
        split
    }

    /// Lets the grammar follow a token that was its own.
    ///
    /// # Errors
    /// See [`Grammar::follow`].
    pub(crate) fn follow(&mut self, token: TokenId) -> Result<Progress, EngineError> {
        self.grammar.as_mut().map_or(Ok(Progress::GoesOn), |grammar| grammar.follow(token))
    }

    /// Lets the grammar follow a token that the answer has already. `None` if it does not allow it.
    ///
    /// # Errors
    /// See [`Grammar::retrace`].
    pub(crate) fn retrace(&mut self, token: TokenId) -> Result<Option<Progress>, EngineError> {
        self.grammar.as_mut().map_or(Ok(Some(Progress::GoesOn)), |grammar| grammar.retrace(token))
    }

    /// Whether [`Steering::prepare`] has work to do.
    pub(crate) fn needs_preparing(&self) -> bool {
        self.is_in_grammar() && self.grammar.as_ref().is_some_and(Grammar::needs_preparing)
    }

    /// Works out what may come next.
    ///
    /// # Errors
    /// See [`Grammar::prepare`].
    pub(crate) fn prepare(&mut self) -> Result<(), EngineError> {
        self.grammar.as_mut().map_or(Ok(()), Grammar::prepare)
    }

    /// Ends the text; see [`Thinking::finish`].
    pub(crate) fn finish(&mut self, text: &str) -> SplitText {
        self.thinking.finish(text)
    }

    /// The reason that holds for an answer that ends for `reason`: one that had to match and does not is incomplete.
    pub(crate) fn reason(&self, reason: FinishReason) -> FinishReason {
        let Some(grammar) = &self.grammar else { return reason };
        match reason {
            FinishReason::Cancelled => reason,
            // The text that matches would end with the stop sequence, which is cut off.
            FinishReason::StopSequence => FinishReason::Incomplete,
            _ if self.thinking.is_over() && grammar.is_accepting() => reason,
            _ => FinishReason::Incomplete,
        }
    }
}
