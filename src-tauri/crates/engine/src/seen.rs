//! The tokens that penalties look at.

use std::collections::HashMap;

use crate::{TokenId, backend::SeenToken};

/// Tokens of a row's prompt and answer, each once, counted as they come.
#[derive(Debug, Default)]
pub(crate) struct SeenTokens {
    list: Vec<SeenToken>,
    places: HashMap<TokenId, usize>,
}

impl SeenTokens {
    pub(crate) fn of_prompt(prompt: &[TokenId]) -> Self {
        let mut seen = Self::default();
        prompt.iter().for_each(|token| _ = seen.entry(*token));
        seen
    }

    /// Counts a token of the answer.
    pub(crate) fn push(&mut self, token: TokenId) {
        self.entry(token).answer_count += 1;
    }

    pub(crate) fn list(&self) -> &[SeenToken] {
        &self.list
    }

    fn entry(&mut self, token: TokenId) -> &mut SeenToken {
        let place = *self.places.entry(token).or_insert_with(|| {
            self.list.push(SeenToken { token, answer_count: 0 });
            self.list.len() - 1
        });
        &mut self.list[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_is_listed_once_and_only_the_answer_is_counted() {
        let mut seen = SeenTokens::of_prompt(&[5, 9, 5]);
        [9, 7, 7].into_iter().for_each(|token| seen.push(token));
        let listed = |token, answer_count| SeenToken { token, answer_count };
        assert_eq!(seen.list(), [listed(5, 0), listed(9, 1), listed(7, 2)]);
    }
}
