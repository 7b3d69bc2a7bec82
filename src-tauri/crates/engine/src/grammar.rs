//! What a row may say next when its answer has to match a grammar.
//!
//! A grammar is compiled once, on the thread that submits the request, for the vocabulary that all requests share.
//! From there it follows the row's tokens on the engine thread: [`Grammar::follow`] takes one, and
//! [`Grammar::prepare`] works out what may come next, which is where the time goes.

mod check;
mod compile;
mod places;
mod schema;
mod stall;
#[cfg(all(test, feature = "testing"))]
mod tests;
mod vocabulary;

use std::collections::VecDeque;

use llguidance::{TokenParser, api::StopReason, toktrie::SimpleVob};
use text::Tokenizer;

use crate::{EngineError, TokenId, backend::TokenMask};
use stall::{Run, StallWatch};

pub use check::{GrammarCheck, GrammarProblem, ProblemSeverity, check_grammar};
pub(crate) use compile::Grammars;

/// What a token did to the grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is more to come, or may be.
    GoesOn,
    /// The answer matches, and nothing can follow it.
    Complete,
    /// The answer gets nowhere: it could go on like this for ever.
    Stalled,
}

/// One row's place in its grammar.
pub(crate) struct Grammar {
    parser: TokenParser,
    tokenizer: Tokenizer,
    /// Width of the logits.
    vocab_width: usize,
    mask: TokenMask,
    /// Tokens that the grammar leaves no choice about, the next one first.
    forced: VecDeque<TokenId>,
    is_accepting: bool,
    is_prepared: bool,
    stall: StallWatch,
}

impl std::fmt::Debug for Grammar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grammar").field("is_accepting", &self.is_accepting).finish_non_exhaustive()
    }
}

impl Grammar {
    /// Starts at the beginning of the grammar that `parser` was made for. `vocab_width`: width of the logits.
    fn new(parser: TokenParser, tokenizer: Tokenizer, vocab_width: u32) -> Result<Self, EngineError> {
        let mut grammar = Self {
            parser,
            tokenizer,
            vocab_width: vocab_width as usize,
            mask: TokenMask::default(),
            forced: VecDeque::new(),
            is_accepting: false,
            is_prepared: false,
            stall: StallWatch::default(),
        };
        grammar.parser.start_without_prompt();
        grammar.is_accepting = grammar.parser.is_accepting();
        grammar.prepare()?;
        Ok(grammar)
    }

    /// The only token that may come next, if the grammar leaves no choice.
    pub(crate) fn forced(&self) -> Option<TokenId> {
        self.forced.front().copied()
    }

    /// Tokens that may come next: those that end a turn exactly if the answer so far matches, other control tokens
    /// and ids past the vocabulary never.
    pub(crate) fn mask(&self) -> &TokenMask {
        &self.mask
    }

    /// Whether the answer so far matches.
    pub(crate) fn is_accepting(&self) -> bool {
        self.is_accepting
    }

    /// Takes the token that was sampled, which must not be one that ends a turn.
    ///
    /// # Errors
    /// [`EngineError::GrammarFailed`] if the grammar does not allow the token, or has become too complex to follow.
    pub(crate) fn follow(&mut self, token: TokenId) -> Result<Progress, EngineError> {
        let had_choice = self.forced.pop_front().is_none();
        let run = self.stall.push(token, &self.tokenizer.token_bytes(token));
        let is_stalled = run.is_some_and(|run| had_choice && self.could_leave(run));
        Ok(match self.consume(token)? {
            Progress::GoesOn if is_stalled => Progress::Stalled,
            progress => progress,
        })
    }

    /// Takes a token that the answer has already, and that need not have been sampled under this grammar. `None` if
    /// the grammar does not allow it. An answer that got nowhere may go on.
    ///
    /// # Errors
    /// [`EngineError::GrammarFailed`] if the grammar has become too complex to follow.
    pub(crate) fn retrace(&mut self, token: TokenId) -> Result<Option<Progress>, EngineError> {
        // As between two steps, so that what is left of a forced run stays the same.
        self.force();
        if self.forced.pop_front() != Some(token) {
            self.forced.clear();
        }
        let is_allowed = !self.tokenizer.is_control(token)
            && self.parser.validate_tokens_raw(&[token]).map_err(failed)? == 1;
        if !is_allowed {
            return Ok(None);
        }
        self.stall.push(token, &self.tokenizer.token_bytes(token));
        self.consume(token).map(Some)
    }

    fn consume(&mut self, token: TokenId) -> Result<Progress, EngineError> {
        self.is_prepared = false;
        self.parser.consume_token(token).map_err(failed)?;
        let is_complete = self.parser.check_stop().map_err(failed)?;
        self.is_accepting = is_complete || self.parser.is_accepting();
        Ok(if is_complete { Progress::Complete } else { Progress::GoesOn })
    }

    /// Whether [`Grammar::prepare`] has work to do before the next step.
    pub(crate) fn needs_preparing(&self) -> bool {
        !self.is_prepared && self.forced.is_empty()
    }

    /// Works out what may come next.
    ///
    /// # Errors
    /// [`EngineError::GrammarDeadEnd`] if that is nothing; [`EngineError::GrammarFailed`] if it cannot be worked out.
    pub(crate) fn prepare(&mut self) -> Result<(), EngineError> {
        self.force();
        if self.forced.is_empty() {
            let allowed = match self.parser.compute_mask() {
                Ok(allowed) => allowed,
                Err(_) if self.parser.stop_reason() == StopReason::NoExtensionBias => {
                    return Err(EngineError::GrammarDeadEnd);
                }
                Err(error) => return Err(failed(error)),
            };
            self.mask = self.mask_of(&allowed);
            if self.mask.is_empty() {
                return Err(EngineError::GrammarDeadEnd);
            }
        }
        self.is_prepared = true;
        Ok(())
    }

    /// Asks for tokens that leave no choice, once those known are taken.
    fn force(&mut self) {
        if self.forced.is_empty() {
            let forced = self.parser.compute_ff_tokens();
            // The mask says what becomes of a grammar that asks for a control token.
            if !forced.iter().any(|token| self.tokenizer.is_control(*token)) {
                self.forced.extend(forced);
            }
        }
    }

    fn mask_of(&self, allowed: &SimpleVob) -> TokenMask {
        let mut words = vec![0; self.vocab_width.div_ceil(32)];
        let known_tokens = self.tokenizer.vocab_tokens().min(self.vocab_width);
        for (at, (word, allowed)) in words.iter_mut().zip(allowed.as_slice()).enumerate() {
            let known = known_tokens.saturating_sub(at * 32);
            *word = if known >= 32 { *allowed } else { allowed & ((1 << known) - 1) };
        }
        let mut mask = TokenMask { words };
        for control in self.tokenizer.control_ids() {
            set(&mut mask, *control, false);
        }
        for end in self.tokenizer.eos_ids() {
            set(&mut mask, *end, self.is_accepting);
        }
        mask
    }

    /// Whether the row could have said something that does not go on with `run`.
    fn could_leave(&self, run: Run) -> bool {
        let allowed = || allowed_tokens(&self.mask);
        match run {
            Run::Repetition => allowed().nth(1).is_some(),
            Run::WhiteSpace | Run::Digits => {
                let leaves = |token| !run.goes_on_with(&self.tokenizer.token_bytes(token));
                allowed().any(leaves)
            }
        }
    }
}

fn failed(error: impl std::fmt::Display) -> EngineError {
    EngineError::GrammarFailed { reason: error.to_string() }
}

fn set(mask: &mut TokenMask, token: TokenId, is_allowed: bool) {
    let Some(word) = mask.words.get_mut(token as usize / 32) else { return };
    let bit = 1 << (token % 32);
    *word = if is_allowed { *word | bit } else { *word & !bit };
}

fn allowed_tokens(mask: &TokenMask) -> impl Iterator<Item = TokenId> {
    let set_words = mask.words.iter().enumerate().filter(|(_, word)| **word != 0);
    set_words.flat_map(|(at, word)| {
        (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at as TokenId * 32 + bit)
    })
}
