//! Notices an answer that gets nowhere although its grammar lets it leave: small models fall into such runs, and
//! nothing but the limit of tokens would end them.

use std::collections::VecDeque;

use crate::TokenId;

/// White space, in characters, past which an answer gets nowhere. Deep indentation stays well below it.
const MAX_WHITE_SPACE: usize = 96;
/// Digits in a row. No number that a program can use has as many.
const MAX_DIGITS: usize = 48;
/// Longest repeated passage that is looked for, in tokens: a sentence or two.
const MAX_PERIOD_TOKENS: usize = 64;
/// Tokens that only repeat what came a period before.
const MAX_REPEATED_TOKENS: usize = 128;
/// A longer passage must come this often in a row.
const MIN_REPETITIONS: usize = 4;

/// What an answer does without end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    WhiteSpace,
    Digits,
    Repetition,
}

impl Run {
    /// Whether a token only makes a run of characters longer.
    pub(super) fn goes_on_with(self, bytes: &[u8]) -> bool {
        match self {
            Self::WhiteSpace => bytes.iter().all(u8::is_ascii_whitespace),
            Self::Digits => bytes.iter().all(u8::is_ascii_digit),
            Self::Repetition => false,
        }
    }
}

/// Watches the tokens of one answer.
#[derive(Debug)]
pub(super) struct StallWatch {
    white_space: usize,
    digits: usize,
    /// Latest tokens, the latest first.
    recent: VecDeque<TokenId>,
    /// By period less one: tokens in a row that equal the token a period before.
    repeated: [usize; MAX_PERIOD_TOKENS],
}

impl Default for StallWatch {
    fn default() -> Self {
        Self { white_space: 0, digits: 0, recent: VecDeque::new(), repeated: [0; MAX_PERIOD_TOKENS] }
    }
}

impl StallWatch {
    /// Takes the next token and returns the run that has become too long.
    pub(super) fn push(&mut self, token: TokenId, bytes: &[u8]) -> Option<Run> {
        self.white_space = run_length(self.white_space, bytes, u8::is_ascii_whitespace);
        self.digits = run_length(self.digits, bytes, u8::is_ascii_digit);
        for (index, repeated) in self.repeated.iter_mut().enumerate() {
            *repeated = if self.recent.get(index) == Some(&token) { *repeated + 1 } else { 0 };
        }
        self.recent.push_front(token);
        self.recent.truncate(MAX_PERIOD_TOKENS);
        let is_repetition = |(index, repeated): (usize, &usize)| {
            *repeated >= MAX_REPEATED_TOKENS.max((index + 1) * (MIN_REPETITIONS - 1))
        };
        match () {
            () if self.white_space > MAX_WHITE_SPACE => Some(Run::WhiteSpace),
            () if self.digits > MAX_DIGITS => Some(Run::Digits),
            () if self.repeated.iter().enumerate().any(is_repetition) => Some(Run::Repetition),
            () => None,
        }
    }
}

/// Length of the run at the end of the text, after `bytes` came to a run of `before`.
fn run_length(before: usize, bytes: &[u8], belongs: impl Fn(&u8) -> bool) -> usize {
    let at_end = bytes.iter().rev().take_while(|byte| belongs(byte)).count();
    if at_end == bytes.len() { before + at_end } else { at_end }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_run(tokens: impl IntoIterator<Item = &'static str>) -> Option<(usize, Run)> {
        let mut watch = StallWatch::default();
        let id =
            |text: &str| text.bytes().fold(7, |id: u32, byte| id.wrapping_mul(31).wrapping_add(byte.into()));
        tokens.into_iter().enumerate().find_map(|(at, text)| {
            let run = watch.push(id(text), text.as_bytes())?;
            Some((at, run))
        })
    }

    #[test]
    fn runs_are_counted_in_characters_and_broken_by_any_other() {
        assert_eq!(first_run(["    "; 30]), Some((24, Run::WhiteSpace)), "the 97th character");
        assert_eq!(first_run(["12345"; 30]), Some((9, Run::Digits)), "the 50th digit");
        let broken = ["    ", "    ", "    ", "    ", "    ", "    ", "    ", "    ", "x "];
        assert_eq!(first_run(broken.into_iter().cycle().take(100)), None);
    }

    #[test]
    fn a_passage_is_repeated_when_it_came_often_enough() {
        let pair = ["0", ","];
        assert_eq!(first_run(pair.into_iter().cycle().take(500)), Some((129, Run::Repetition)));
        assert_eq!(first_run(pair.into_iter().cycle().take(120)), None, "a matrix of sixty zeros is none");
    }

    #[test]
    fn text_that_varies_is_never_a_repetition() {
        let words = ["a", "b", "c", "d", "e", "f", "g"];
        // Every window differs from the one a period before it somewhere.
        let text = (0..2000_usize).map(|i| words[(i * i / 7 + i / 64) % words.len()]);
        assert_eq!(first_run(text), None);
    }
}
