use crate::{TextError, TokenId, Tokenizer, tokenizer::TextForm};

/// A UTF-8 character has at most four bytes, so a run of more byte tokens than this is not a character in the making.
const MAX_HELD_TOKENS: usize = 4;

/// Turns the token ids of one row into text as they come.
///
/// One per row, never shared: what it holds back belongs to that row's last character. Special tokens are skipped by
/// id, except those that make up a thinking tag. Otherwise the pieces joined equal the decoding of all ids at once,
/// apart from a character that is cut off at the very end. Cost per token is bounded, whatever came before.
#[derive(Debug, Clone)]
pub struct Detokenizer {
    tokenizer: Tokenizer,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    /// Byte-level vocabularies: a token is a run of bytes, so the text is exact with at most three bytes held.
    Bytes { held: Vec<u8> },
    /// Any other decoder: the text of a token is what it adds to the decoding of its predecessors.
    /// `bytes`: what byte tokens at the end have of a character so far.
    Window { ids: Vec<TokenId>, shown: usize, bytes: Vec<u8> },
}

impl Detokenizer {
    /// Starts an empty text.
    pub fn new(tokenizer: Tokenizer) -> Self {
        let state = match tokenizer.text_form() {
            TextForm::ByteLevel => State::Bytes { held: Vec::new() },
            TextForm::ByteFallback | TextForm::Other => {
                State::Window { ids: Vec::new(), shown: 0, bytes: Vec::new() }
            }
        };
        Self { tokenizer, state }
    }

    /// Takes the next token and returns the text that is now certain; empty while a character is incomplete.
    ///
    /// # Errors
    /// [`TextError::Decode`] if the tokenizer's decoder fails.
    pub fn push(&mut self, id: TokenId) -> Result<String, TextError> {
        if self.tokenizer.is_hidden(id) {
            return Ok(String::new());
        }
        if self.tokenizer.is_special(id) && matches!(self.state, State::Window { .. }) {
            // The decoder below leaves special tokens out.
            return Ok(self.finish()? + &self.tokenizer.token_spelling(id).unwrap_or_default());
        }
        match &mut self.state {
            State::Bytes { held } => {
                self.tokenizer.append_token_bytes(id, held);
                Ok(take_complete(held))
            }
            State::Window { ids, shown, bytes } => {
                ids.push(id);
                let byte = self.tokenizer.fallback_byte(id);
                bytes.extend(byte);
                if byte.is_some() && is_cut_off(bytes) {
                    return Ok(String::new());
                }
                bytes.clear();
                let before = self.tokenizer.decode(&ids[..*shown])?;
                let after = self.tokenizer.decode(ids)?;
                let may_be_cut_off = self.tokenizer.text_form() == TextForm::Other
                    && after.ends_with(char::REPLACEMENT_CHARACTER)
                    && ids.len() - *shown < MAX_HELD_TOKENS;
                if may_be_cut_off {
                    return Ok(String::new());
                }
                let text = after[common_prefix_bytes(&before, &after)..].to_string();
                ids.drain(..*shown);
                *shown = ids.len();
                Ok(text)
            }
        }
    }

    /// Whether the tokens so far end within a character.
    pub fn has_partial(&self) -> bool {
        match &self.state {
            State::Bytes { held } => !held.is_empty(),
            State::Window { ids, shown, .. } => ids.len() > *shown,
        }
    }

    /// Ends the text. A character that is still incomplete is dropped: half a character carries no text.
    ///
    /// # Errors
    /// [`TextError::Decode`] if the tokenizer's decoder fails.
    pub fn finish(&mut self) -> Result<String, TextError> {
        match &mut self.state {
            State::Bytes { held } => {
                held.clear();
                Ok(String::new())
            }
            State::Window { ids, shown, bytes } => {
                let before = self.tokenizer.decode(&ids[..*shown])?;
                // Bytes without their character are no text.
                ids.truncate(ids.len() - std::mem::take(bytes).len());
                let after = self.tokenizer.decode(ids)?;
                *shown = ids.len();
                let text = &after[common_prefix_bytes(&before, &after)..];
                let is_certain = self.tokenizer.text_form() == TextForm::ByteFallback;
                let certain = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
                Ok(if is_certain { text } else { certain }.to_string())
            }
        }
    }
}

/// Whether bytes end within a character and are fine up to there.
fn is_cut_off(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// Removes and returns the text of every complete character; invalid bytes become U+FFFD as in `from_utf8_lossy`.
fn take_complete(held: &mut Vec<u8>) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < held.len() {
        let (valid, skip) = match std::str::from_utf8(&held[at..]) {
            Ok(rest) => {
                text.push_str(rest);
                at = held.len();
                break;
            }
            Err(error) => (error.valid_up_to(), error.error_len()),
        };
        text.push_str(&String::from_utf8_lossy(&held[at..at + valid]));
        at += valid;
        let Some(skip) = skip else { break };
        text.push(char::REPLACEMENT_CHARACTER);
        at += skip;
    }
    held.drain(..at);
    text
}

fn common_prefix_bytes(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(x, y)| x == y).map(|(x, _)| x.len_utf8()).sum()
}
