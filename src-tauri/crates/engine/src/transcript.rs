//! What a row's tokens say: thinking and answer, and where the answer ends by itself.

use text::{Detokenizer, SplitText, StopMatcher, Tokenizer};

use crate::{EngineError, FinishReason, TokenId, grammar::Progress, steering::Steering};

/// What a token added.
#[derive(Debug)]
pub(crate) struct Said {
    /// What can no longer change; of the answer, without a stop sequence.
    pub(crate) text: SplitText,
    /// Whether a stop sequence is complete.
    pub(crate) has_stopped: bool,
    /// What the grammar makes of the token; an error does not take the text back.
    pub(crate) progress: Result<Progress, EngineError>,
}

/// The text of one row, as far as its tokens have come.
#[derive(Debug)]
pub(crate) struct Transcript {
    tokenizer: Tokenizer,
    detokenizer: Detokenizer,
    steering: Steering,
    stop: StopMatcher,
}

impl Transcript {
    pub(crate) fn new(tokenizer: Tokenizer, steering: Steering, stop: Vec<String>) -> Self {
        let detokenizer = Detokenizer::new(tokenizer.clone());
        Self { tokenizer, detokenizer, steering, stop: StopMatcher::new(stop) }
    }

    pub(crate) fn steering(&self) -> &Steering {
        &self.steering
    }

    /// Whether the token ends the turn, and is no part of the answer.
    pub(crate) fn is_end(&self, token: TokenId) -> bool {
        self.tokenizer.eos_ids().contains(&token)
    }

    pub(crate) fn vocab_tokens(&self) -> usize {
        self.tokenizer.vocab_tokens()
    }

    /// Takes the next token, which must not end the turn.
    ///
    /// # Errors
    /// [`EngineError::Text`].
    pub(crate) fn take(&mut self, token: TokenId) -> Result<Said, EngineError> {
        let is_grammars = self.steering.is_in_grammar();
        let (text, has_stopped) = self.read(token)?;
        let progress = if is_grammars { self.steering.follow(token) } else { Ok(Progress::GoesOn) };
        Ok(Said { text, has_stopped, progress })
    }

    /// Takes the tokens that an answer has already, and gets ready for the one after them. Returns what they say for
    /// certain.
    ///
    /// # Errors
    /// [`EngineError::AnswerEnded`] or [`EngineError::AnswerRefused`] with the index of the token;
    /// [`EngineError::Text`]; [`EngineError::GrammarDeadEnd`] or [`EngineError::GrammarFailed`] if nothing can follow.
    pub(crate) fn resume(&mut self, tokens: &[TokenId]) -> Result<SplitText, EngineError> {
        let mut whole = SplitText::default();
        for (index, &token) in tokens.iter().enumerate() {
            let ended = |reason| EngineError::AnswerEnded { index, reason };
            if self.is_end(token) {
                return Err(ended(FinishReason::EndOfTurn));
            }
            let is_grammars = self.steering.is_in_grammar();
            let (text, has_stopped) = self.read(token)?;
            whole.thinking.push_str(&text.thinking);
            whole.answer.push_str(&text.answer);
            if has_stopped {
                return Err(ended(FinishReason::StopSequence));
            }
            let progress = if is_grammars { self.steering.retrace(token)? } else { Some(Progress::GoesOn) };
            match progress {
                Some(Progress::GoesOn | Progress::Stalled) => {}
                Some(Progress::Complete) => return Err(ended(FinishReason::EndOfTurn)),
                None => return Err(EngineError::AnswerRefused { index, token }),
            }
        }
        if self.steering.needs_preparing() {
            self.steering.prepare()?;
        }
        Ok(whole)
    }

    /// Text that the token makes certain, and whether a stop sequence is complete.
    fn read(&mut self, token: TokenId) -> Result<(SplitText, bool), EngineError> {
        let text = self.detokenizer.push(token).map_err(EngineError::text)?;
        let split = self.steering.split(token, &text, self.detokenizer.has_partial());
        let outcome = self.stop.push(&split.answer);
        let text = SplitText { answer: outcome.emit, ..split };
        Ok((text, outcome.stopped.is_some()))
    }

    /// Whether [`Transcript::prepare`] has work to do.
    pub(crate) fn needs_preparing(&self) -> bool {
        self.steering.needs_preparing()
    }

    /// Works out what may come next.
    ///
    /// # Errors
    /// See [`Steering::prepare`].
    pub(crate) fn prepare(&mut self) -> Result<(), EngineError> {
        self.steering.prepare()
    }

    /// Ends the text and returns what was held back.
    pub(crate) fn finish(&mut self) -> SplitText {
        let rest = self.detokenizer.finish().unwrap_or_default();
        let split = self.steering.finish(&rest);
        let mut answer = self.stop.push(&split.answer).emit;
        answer.push_str(&self.stop.finish());
        SplitText { answer, ..split }
    }
}
