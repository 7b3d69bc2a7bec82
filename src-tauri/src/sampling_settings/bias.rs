//! Which tokens a logit bias means.

use engine::params::InvalidParam;
use protocol::{BiasSetting, BiasTarget};
use text::{SpecialTokens, TokenId, Tokenizer};

const FIELD: &str = "logit_bias";

const ONE_TOKEN: &str = "given for texts of one token each";

/// The entries that name their token by number. Values are checked for all.
///
/// # Errors
/// [`InvalidParam`] for a value out of range beside a text.
pub fn by_id(entries: &[BiasSetting]) -> Result<Vec<(TokenId, f32)>, InvalidParam> {
    let mut found = Vec::with_capacity(entries.len());
    for entry in entries {
        match &entry.target {
            BiasTarget::TokenId { id } => found.push((*id, entry.value)),
            BiasTarget::Text { text } if !(-100.0..=100.0).contains(&entry.value) => {
                let value = format!("{} for “{text}”", entry.value);
                return Err(InvalidParam { field: FIELD, limit: "-100 to 100 per token", value });
            }
            BiasTarget::Text { .. } => {}
        }
    }
    Ok(found)
}

/// All entries with the number of their token.
///
/// # Errors
/// [`InvalidParam`] naming a text that is not exactly one token, with the tokens that it is, or a number outside the
/// vocabulary.
pub fn resolve(entries: &[BiasSetting], tokenizer: &Tokenizer) -> Result<Vec<(TokenId, f32)>, InvalidParam> {
    entries.iter().map(|entry| Ok((token_of(&entry.target, tokenizer)?, entry.value))).collect()
}

fn token_of(target: &BiasTarget, tokenizer: &Tokenizer) -> Result<TokenId, InvalidParam> {
    let invalid = |limit, value| Err(InvalidParam { field: FIELD, limit, value });
    match target {
        BiasTarget::TokenId { id } if (*id as usize) < tokenizer.vocab_tokens() => Ok(*id),
        BiasTarget::TokenId { id } => {
            let last = tokenizer.vocab_tokens().saturating_sub(1);
            invalid("given for tokens of the vocabulary", format!("for token {id}; the last is {last}"))
        }
        BiasTarget::Text { text } => match tokenizer.encode(text, SpecialTokens::AsText).as_deref() {
            Ok([token]) => Ok(*token),
            Ok([]) => invalid(ONE_TOKEN, "for an empty text".into()),
            Ok(tokens) => {
                let (count, spelled) = (tokens.len(), spelled(tokens, tokenizer));
                invalid(ONE_TOKEN, format!("for “{text}”, which is {count} tokens: {spelled}"))
            }
            Err(error) => invalid(ONE_TOKEN, format!("for “{text}”: {error}")),
        },
    }
}

/// Tokens with their numbers, so that the person can use these instead.
fn spelled(tokens: &[TokenId], tokenizer: &Tokenizer) -> String {
    let spell = |token: &TokenId| {
        let text = tokenizer.decode(&[*token]).unwrap_or_default();
        format!("“{text}” ({token})")
    };
    tokens.iter().map(spell).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::testing::byte_tokenizer;

    fn text(text: &str) -> BiasSetting {
        BiasSetting { target: BiasTarget::Text { text: text.into() }, value: 2.0 }
    }

    #[test]
    fn a_text_of_one_token_is_that_token() {
        let tokenizer = byte_tokenizer().expect("a temporary folder can be written");
        let entries = [text("a"), BiasSetting { target: BiasTarget::TokenId { id: 7 }, value: -3.5 }];
        let a = tokenizer.encode("a", SpecialTokens::AsText).expect("a byte")[0];
        assert_eq!(resolve(&entries, &tokenizer), Ok(vec![(a, 2.0), (7, -3.5)]));
    }

    #[test]
    fn a_text_of_several_tokens_is_named_with_them() {
        let tokenizer = byte_tokenizer().expect("a temporary folder can be written");
        let error = resolve(&[text("ab")], &tokenizer).expect_err("two tokens");
        assert_eq!(error.field, "logit_bias");
        for part in ["“ab”", "which is 2 tokens", "“a” (", "“b” ("] {
            assert!(error.value.contains(part), "{part} in {}", error.value);
        }
        assert!(resolve(&[text("")], &tokenizer).is_err(), "no token at all");
        let beyond = BiasSetting { target: BiasTarget::TokenId { id: 1 << 30 }, value: 1.0 };
        assert!(resolve(&[beyond], &tokenizer).is_err());
    }

    #[test]
    fn a_value_out_of_range_is_named_before_there_is_a_model() {
        let error = by_id(&[BiasSetting { value: 101.0, ..text("Paris") }]).expect_err("too much");
        assert_eq!(error.to_string(), "logit_bias must be -100 to 100 per token, but is 101 for “Paris”");
    }
}
