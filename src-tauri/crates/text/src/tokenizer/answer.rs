//! Tokens of an answer of which only the text was kept.

use super::Tokenizer;
use crate::{Detokenizer, SplitText, TextError, ThinkingSplitter, ThinkingStage, ThinkingTags, TokenId};

/// Part of what an answer's tokens spell.
enum Piece<'a> {
    /// Written by this program: a tag, or the space around it.
    Frame(&'a str),
    /// Said by the model: what looks like a control token in it is none.
    Said(&'a str),
}

impl Tokenizer {
    /// The tokens of an answer to `prompt`, from its text, for it to go on after them. Thinking is put between the
    /// model's tags, as far as the prompt has not opened them; it counts as unfinished while the answer is empty.
    ///
    /// Streamed back, the tokens say the same, character by character. They need not be those that the model sampled,
    /// so a seed does not repeat what followed those.
    ///
    /// # Errors
    /// [`TextError::NoPlaceForThinking`] if the answer has thinking and the model has no tags for it, or the prompt
    /// closes it; [`TextError::InexactAnswer`] if the tokens would say something else, as with vocabularies that lose
    /// characters, or answers that begin like a tag; [`TextError::Encode`] or [`TextError::Decode`] if the tokenizer
    /// fails.
    pub fn answer_tokens(&self, prompt: &[TokenId], said: &SplitText) -> Result<Vec<TokenId>, TextError> {
        let stage = self.thinking_stage(prompt);
        let pieces = pieces(self.thinking_tags(), stage, said).ok_or(TextError::NoPlaceForThinking)?;
        let (mut text, mut literals) = (String::new(), Vec::new());
        for piece in pieces {
            let (Piece::Frame(added) | Piece::Said(added)) = piece;
            if let Piece::Said(said) = piece {
                let found = self.inner.added.control_literals(said);
                literals.extend(found.iter().map(|at| text.len() + at.start..text.len() + at.end));
            }
            text.push_str(added);
        }
        let tokens = self.encode_with_literals(&text, &literals)?;
        if self.read_back(&tokens, stage)? != *said {
            return Err(TextError::InexactAnswer);
        }
        Ok(tokens)
    }

    /// What the first tokens of an answer say for certain that began at `stage`: without an end that further tokens
    /// could make part of a character or of a tag.
    ///
    /// # Errors
    /// [`TextError::Decode`].
    pub fn read_answer(&self, tokens: &[TokenId], stage: ThinkingStage) -> Result<SplitText, TextError> {
        let mut reading = Reading::new(self, stage);
        tokens.iter().try_for_each(|id| reading.push(*id))?;
        Ok(reading.said)
    }

    /// What the tokens of a whole answer say that began at `stage`.
    fn read_back(&self, tokens: &[TokenId], stage: ThinkingStage) -> Result<SplitText, TextError> {
        let mut reading = Reading::new(self, stage);
        tokens.iter().try_for_each(|id| reading.push(*id))?;
        reading.finish()
    }
}

/// An answer that is read token by token.
struct Reading<'a> {
    tokenizer: &'a Tokenizer,
    splitter: ThinkingSplitter,
    detokenizer: Detokenizer,
    said: SplitText,
}

impl<'a> Reading<'a> {
    fn new(tokenizer: &'a Tokenizer, stage: ThinkingStage) -> Self {
        Self {
            tokenizer,
            splitter: ThinkingSplitter::new(tokenizer.thinking_tags().cloned(), stage),
            detokenizer: Detokenizer::new(tokenizer.clone()),
            said: SplitText::default(),
        }
    }

    fn push(&mut self, id: TokenId) -> Result<(), TextError> {
        let text = self.detokenizer.push(id)?;
        let split = self.splitter.push(self.hidden_tag(id).unwrap_or(&text));
        self.add(split);
        Ok(())
    }

    /// The tag that a token is which the vocabulary hides from the text.
    fn hidden_tag(&self, id: TokenId) -> Option<&'a str> {
        let tokenizer = self.tokenizer;
        let is_it = |tag: &&String| tokenizer.is_special(id) && tokenizer.token_id(tag) == Some(id);
        let tags = tokenizer.thinking_tags()?;
        [&tags.open, &tags.close].into_iter().find(is_it).map(String::as_str)
    }

    fn add(&mut self, split: SplitText) {
        self.said.thinking.push_str(&split.thinking);
        self.said.answer.push_str(&split.answer);
    }

    fn finish(mut self) -> Result<SplitText, TextError> {
        let rest = self.detokenizer.finish()?;
        let split = self.splitter.push(&rest);
        self.add(split);
        let split = self.splitter.finish();
        self.add(split);
        Ok(self.said)
    }
}

/// What the tokens of an answer spell after a prompt that leaves its thinking at `stage`; `None` if there is no place
/// for its thinking.
fn pieces<'a>(
    tags: Option<&'a ThinkingTags>,
    stage: ThinkingStage,
    said: &'a SplitText,
) -> Option<Vec<Piece<'a>>> {
    use Piece::{Frame, Said};
    let (has_thinking, has_answer) = (!said.thinking.is_empty(), !said.answer.is_empty());
    let answer = Said(&said.answer);
    let Some(tags) = tags.filter(|_| stage != ThinkingStage::Closed) else {
        return (!has_thinking).then(|| vec![answer]);
    };
    let mut pieces = Vec::new();
    match stage {
        ThinkingStage::Outside if !has_thinking => {
            pieces.extend(tags.direct.as_deref().filter(|_| has_answer).map(Frame));
            pieces.push(answer);
            return Some(pieces);
        }
        ThinkingStage::Outside => pieces.extend([Frame(&tags.open), Frame(tags.gap())]),
        ThinkingStage::Open | ThinkingStage::Closed => {}
    }
    pieces.push(Said(&said.thinking));
    if has_answer {
        let gap = tags.gap();
        pieces.extend([Frame(gap), Frame(&tags.close), Frame(gap), Frame(gap), answer]);
    }
    Some(pieces)
}
