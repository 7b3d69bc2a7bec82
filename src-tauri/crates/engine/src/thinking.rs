//! A row's thinking: where it begins and ends in the text, what it counts, and when it is cut short.

use text::{SpecialTokens, SplitText, ThinkingSplitter, ThinkingStage, Tokenizer};

use crate::{EngineError, TokenId};

/// Tokens that a closing tag waits for the model to finish a character, or the tag itself, after the budget is spent.
const MAX_WAIT_TOKENS: u32 = 3;

/// Where a row is in its thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The answer may still begin with an opening tag.
    Outside,
    /// The model thinks; `count` tokens since the opening tag.
    Open { count: u32 },
    /// The budget is spent: the token at `next` of the closing text comes next, whatever the model says. `count`
    /// tokens of thinking came before.
    Forcing { next: usize, count: u32 },
    /// The answer has begun, or is about to.
    Closed,
}

/// Thinking of one row.
#[derive(Debug)]
pub(crate) struct Thinking {
    state: State,
    splitter: ThinkingSplitter,
    /// Tokens between the tags at most.
    budget: Option<u32>,
    /// Ends the thinking: a line break, the closing tag, an empty line.
    closing: Vec<TokenId>,
    /// Tags that the vocabulary hides from the text, and how they read.
    hidden_tags: Vec<(TokenId, String)>,
    waited: u32,
    tokens: u32,
}

impl Thinking {
    /// Thinking of a row that continues `prompt`. With a grammar, only the prompt can open it.
    ///
    /// # Errors
    /// [`EngineError::Text`] if the tokenizer cannot encode the closing tag.
    pub(crate) fn new(
        tokenizer: &Tokenizer,
        prompt: &[TokenId],
        budget: Option<u32>,
        has_grammar: bool,
    ) -> Result<Self, EngineError> {
        let tags = tokenizer.thinking_tags();
        let stage = match tokenizer.thinking_stage(prompt) {
            ThinkingStage::Outside if has_grammar => ThinkingStage::Closed,
            stage => stage,
        };
        let closing = match tags {
            Some(tags) => tokenizer.encode(&format!("\n{}\n\n", tags.close), SpecialTokens::Parse),
            None => Ok(Vec::new()),
        };
        let mut hidden_tags = Vec::new();
        for tag in tags.iter().flat_map(|tags| [&tags.open, &tags.close]) {
            let id = tokenizer.token_id(tag).filter(|id| tokenizer.is_special(*id));
            hidden_tags.extend(id.map(|id| (id, tag.clone())));
        }
        let mut thinking = Self {
            state: match stage {
                ThinkingStage::Outside => State::Outside,
                ThinkingStage::Open => State::Open { count: 0 },
                ThinkingStage::Closed => State::Closed,
            },
            splitter: ThinkingSplitter::new(tags.cloned(), stage),
            budget,
            closing: closing.map_err(EngineError::text)?,
            hidden_tags,
            waited: 0,
            tokens: 0,
        };
        thinking.cut_short(0, false);
        Ok(thinking)
    }

    /// The token that must come next to end the thinking.
    pub(crate) fn forced(&self) -> Option<TokenId> {
        match self.state {
            State::Forcing { next, .. } => self.closing.get(next).copied(),
            State::Outside | State::Open { .. } | State::Closed => None,
        }
    }

    /// Whether the next token belongs to the answer for certain.
    pub(crate) fn is_over(&self) -> bool {
        self.state == State::Closed
    }

    /// Tokens of thinking so far, tags included.
    pub(crate) fn tokens(&self) -> u32 {
        // Those before an opening tag turn out to be thinking only with the tag.
        if self.state == State::Outside { 0 } else { self.tokens }
    }

    /// Takes the next token, forced or not, and the text that it completed. `is_mid_character`: whether the tokens so
    /// far end within a character.
    pub(crate) fn take(&mut self, token: TokenId, text: &str, is_mid_character: bool) -> SplitText {
        self.give_way(token);
        let hidden = self.hidden_tags.iter().find(|(id, _)| *id == token);
        let mut split = self.splitter.push(hidden.map_or(text, |(_, tag)| tag.as_str()));
        let stage = self.splitter.stage();
        if self.state != State::Closed {
            self.tokens += 1;
        }
        match self.state {
            State::Closed => {}
            State::Outside => match stage {
                ThinkingStage::Outside => {}
                ThinkingStage::Open => {
                    self.state = State::Open { count: 0 };
                    self.cut_short(0, is_mid_character);
                }
                ThinkingStage::Closed => {
                    self.state = State::Closed;
                    self.tokens = 0;
                }
            },
            State::Open { .. } if stage == ThinkingStage::Closed => self.state = State::Closed,
            State::Open { count } => {
                self.state = State::Open { count: count + 1 };
                self.cut_short(count + 1, is_mid_character);
            }
            State::Forcing { next, count } if next + 1 < self.closing.len() => {
                self.state = State::Forcing { next: next + 1, count };
            }
            State::Forcing { .. } => {
                self.state = State::Closed;
                split.thinking.push_str(&self.splitter.close().thinking);
            }
        }
        split
    }

    /// Forces nothing on an answer that has gone on otherwise already: it was begun under another budget.
    fn give_way(&mut self, token: TokenId) {
        if let State::Forcing { next, count } = self.state
            && self.closing.get(next) != Some(&token)
        {
            self.state = match self.splitter.stage() {
                ThinkingStage::Closed => State::Closed,
                ThinkingStage::Outside | ThinkingStage::Open => State::Open { count: count + next as u32 },
            };
        }
    }

    /// Ends the text.
    pub(crate) fn finish(&mut self, text: &str) -> SplitText {
        let mut split = self.splitter.push(text);
        let rest = self.splitter.finish();
        split.thinking.push_str(&rest.thinking);
        split.answer.push_str(&rest.answer);
        split
    }

    /// Starts to force the closing tag if `count` tokens are what the thinking may have.
    fn cut_short(&mut self, count: u32, is_mid_character: bool) {
        if !matches!(self.state, State::Open { .. }) || self.budget.is_none_or(|budget| count < budget) {
            return;
        }
        let is_unfinished = is_mid_character || self.splitter.is_within_close();
        if is_unfinished && self.waited < MAX_WAIT_TOKENS {
            self.waited += 1;
        } else {
            self.state = State::Forcing { next: 0, count };
        }
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::*;
    use crate::testing::{SpecialTags, VOCAB_TOKENS, tag_token_tokenizer, thinking_tokenizer};

    /// Feeds tokens, the model's unless one is forced, until the thinking is over. Returns what was taken.
    fn run(prompt: &str, budget: Option<u32>, says: &str) -> (Thinking, String, SplitText) {
        let tokenizer = thinking_tokenizer().expect("a temporary folder can be written");
        let prompt: Vec<TokenId> = prompt.bytes().map(TokenId::from).collect();
        let mut thinking = Thinking::new(&tokenizer, &prompt, budget, false).expect("tags can be encoded");
        let mut detokenizer = text::Detokenizer::new(tokenizer);
        let (mut taken, mut whole) = (Vec::new(), SplitText::default());
        let mut says = says.bytes();
        while !thinking.is_over() {
            let Some(token) = thinking.forced().or_else(|| says.next().map(TokenId::from)) else { break };
            taken.push(u8::try_from(token).expect("tokens are bytes"));
            let text = detokenizer.push(token).expect("any bytes can be decoded");
            let split = thinking.take(token, &text, detokenizer.has_partial());
            whole.thinking.push_str(&split.thinking);
            whole.answer.push_str(&split.answer);
        }
        (thinking, String::from_utf8_lossy(&taken).into_owned(), whole)
    }

    #[test]
    fn a_budget_counts_from_the_opening_tag_whoever_wrote_it() {
        let (thinking, taken, split) = run("q<think>\n", Some(4), "abcdefgh");
        assert_eq!((taken.as_str(), split.thinking.as_str()), ("abcd\n</think>\n\n", "abcd"));
        assert_eq!(thinking.tokens(), 4 + 11, "the forced closing counts as thinking");
        let (thinking, taken, split) = run("q", Some(4), "<think>abcdefgh");
        assert_eq!((taken.as_str(), split.thinking.as_str()), ("<think>abcd\n</think>\n\n", "abcd"));
        assert_eq!(thinking.tokens(), 7 + 4 + 11);
    }

    #[test]
    fn a_budget_of_none_leaves_the_end_to_the_model_and_of_zero_forces_it_first() {
        let (thinking, taken, split) = run("q<think>", None, "abc</think>x");
        assert_eq!((taken.as_str(), split.thinking.as_str()), ("abc</think>", "abc"));
        assert_eq!(thinking.tokens(), 11);
        assert_eq!(run("q<think>\n", Some(0), "abc").1, "\n</think>\n\n");
        assert_eq!(run("q<think>\n", Some(1), "abc").1, "a\n</think>\n\n");
        assert_eq!(run("q", Some(0), "<think>abc").1, "<think>\n</think>\n\n");
    }

    #[test]
    fn a_spent_budget_waits_for_a_character_and_for_the_models_own_closing_but_not_long() {
        assert_eq!(run("q<think>", Some(1), "日本").1, "日\n</think>\n\n", "two tokens over");
        assert_eq!(run("q<think>", Some(2), "a🌍🌍").1, "a🌍\n</think>\n\n", "three tokens over");
        assert_eq!(run("q<think>", Some(7), "ab</think>x").1, "ab</think>", "three tokens finish the tag");
        assert_eq!(run("q<think>", Some(10), "ab</think>x").1, "ab</think>", "closed at exactly the budget");
        let slow = run("q<think>", Some(3), "ab</think>x").1;
        assert_eq!(slow, "ab</th\n</think>\n\n", "three tokens are not enough");
    }

    #[test]
    fn tags_that_are_tokens_work_hidden_from_the_text_or_not() {
        let (open, close) = (VOCAB_TOKENS, VOCAB_TOKENS + 1);
        let [a, b] = [u32::from(b'a'), u32::from(b'b')];
        for special in [SpecialTags::Yes, SpecialTags::No] {
            let tokenizer = tag_token_tokenizer(special).expect("a temporary folder can be written");
            let said = |thinking: &mut Thinking, tokens: &[TokenId]| {
                let mut detokenizer = text::Detokenizer::new(tokenizer.clone());
                let mut whole = SplitText::default();
                for token in tokens {
                    let text = detokenizer.push(*token).expect("any bytes can be decoded");
                    let split = thinking.take(*token, &text, detokenizer.has_partial());
                    whole.thinking.push_str(&split.thinking);
                    whole.answer.push_str(&split.answer);
                }
                whole
            };
            let make =
                |prompt: &[TokenId]| Thinking::new(&tokenizer, prompt, Some(3), false).expect("encoded");
            let mut own = make(&[a]);
            let split = said(&mut own, &[open, a, a, close, b]);
            assert_eq!((split.thinking.as_str(), split.answer.as_str(), own.tokens()), ("aa", "b", 4));
            let mut cut = make(&[a, open, 10]);
            assert_eq!(said(&mut cut, &[a, a, a]).thinking, "aaa");
            let mut closing = Vec::new();
            while let Some(forced) = cut.forced() {
                closing.push(forced);
                said(&mut cut, &[forced]);
            }
            // A line break, the tag, and an empty line.
            assert_eq!((closing, cut.tokens()), (vec![10, close, 10, 10], 7), "{special:?}");
            assert_eq!(said(&mut cut, &[b]).answer, "b");
        }
    }

    #[test]
    fn an_answer_without_an_opening_tag_has_no_thinking() {
        let (thinking, _, split) = run("q", Some(2), " <thin ice");
        assert!(thinking.is_over());
        assert_eq!((thinking.tokens(), split.answer.as_str()), (0, " <thin "));
        let (thinking, taken, _) = run("q<think>\n\n</think>\n\n", Some(0), "abc");
        assert_eq!((thinking.tokens(), taken.as_str()), (0, ""), "the template closed it");
    }
}
