//! What the rows answer.

use anyhow::{Context, Result};
use text::{ChatMessage, RenderOptions, Role, TokenId, Tokenizer};

/// Questions that a model answers at length.
const QUESTIONS: [&str; 8] = [
    "Write a long story about a lighthouse keeper.",
    "Explain in detail how rain forms.",
    "List twenty uses of a brick and explain each.",
    "Describe the city of Rome and its history.",
    "Explain prime numbers with many examples.",
    "Tell me everything about honey bees.",
    "Explain how planes fly, step by step.",
    "Plan a week of dinners with recipes.",
];

/// Prompts of every row, the same for everybody who is measured.
pub struct Prompts {
    tokenizer: Tokenizer,
    random_tokens: Option<u32>,
}

impl Prompts {
    /// Questions in the chat template, or with `random_tokens` that many random tokens each.
    pub fn new(tokenizer: Tokenizer, random_tokens: Option<u32>) -> Prompts {
        Prompts { tokenizer, random_tokens }
    }

    /// Token ids of row `row`'s prompt.
    ///
    /// # Errors
    /// The tokenizer's, if it has no chat template.
    pub fn of_row(&self, row: usize) -> Result<Vec<TokenId>> {
        match self.random_tokens {
            Some(count) => Ok(random(row, count, self.tokenizer.vocab_tokens() as u32)),
            None => {
                let message = ChatMessage::new(Role::User, QUESTIONS[row % QUESTIONS.len()]);
                self.tokenizer
                    .prompt_tokens(&[message], &RenderOptions::default())
                    .context("cannot render the prompt")
            }
        }
    }

    /// In words.
    pub fn words(&self) -> String {
        match self.random_tokens {
            Some(count) => format!("{count} random tokens, the same for every arm"),
            None => "questions in the model's chat template, the same for every arm".into(),
        }
    }
}

/// Ids from the middle of the vocabulary: single bytes lie before it, control tokens behind it.
fn random(row: usize, count: u32, vocab_tokens: u32) -> Vec<TokenId> {
    let (first, span) = (vocab_tokens / 4, vocab_tokens / 2);
    let mut state = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(row as u64 + 1);
    (0..count)
        .map(|_| {
            // A linear congruential generator's high bits are good enough to spread ids.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            first + (state >> 33) as u32 % span
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_prompts_differ_by_row_and_stay_in_the_vocabulary() {
        let (first, second) = (random(0, 128, 49_152), random(1, 128, 49_152));
        assert_eq!(first.len(), 128);
        assert_ne!(first, second, "equal prompts would share a prefix");
        assert_eq!(first, random(0, 128, 49_152), "peers get the same prompt");
        assert!(first.iter().chain(&second).all(|id| (12_288..36_864).contains(id)));
    }
}
