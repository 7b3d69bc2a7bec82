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

    /// What tokens of an answer say that began at `stage`.
    fn read_back(&self, tokens: &[TokenId], stage: ThinkingStage) -> Result<SplitText, TextError> {
        let tags = self.thinking_tags();
        let hidden = |id: TokenId| {
            let tag = |tag: &&String| self.is_special(id) && self.token_id(tag) == Some(id);
            tags.and_then(|tags| [&tags.open, &tags.close].into_iter().find(tag))
        };
        let mut splitter = ThinkingSplitter::new(tags.cloned(), stage);
        let mut detokenizer = Detokenizer::new(self.clone());
        let mut whole = SplitText::default();
        let mut add = |split: SplitText| {
            whole.thinking.push_str(&split.thinking);
            whole.answer.push_str(&split.answer);
        };
        for &id in tokens {
            let text = detokenizer.push(id)?;
            add(splitter.push(hidden(id).unwrap_or(&text)));
        }
        add(splitter.push(&detokenizer.finish()?));
        add(splitter.finish());
        Ok(whole)
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
