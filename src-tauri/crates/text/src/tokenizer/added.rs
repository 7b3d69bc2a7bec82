//! Added tokens: which of them steer the model, and how to keep a quotation of one apart from the real thing.

use std::{collections::HashMap, ops::Range};

use aho_corasick::{AhoCorasick, BuildError, MatchKind};
use tokenizers::{AddedToken, NormalizedString, PreTokenizedString, Token, normalizer};

use crate::{ChatMessage, Role, TextError, TokenId};

/// Added tokens that steer the model although vocabularies do not mark them as special.
const MARKERS: [&str; 6] =
    ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"];

/// Placeholders begin with a character of a private-use plane, which no tokenizer or template treats as space.
const OPEN: char = '\u{F0000}';
const CLOSE: char = '\u{F0001}';

/// Place of a control token that a text merely quotes, in bytes.
pub(crate) type Literal = Range<usize>;

/// How to hand a quoted control token to the model's own vocabulary.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    Whole,
    InsideLiterals,
}

/// A text cut at its added tokens.
pub(crate) struct Pieces {
    pub(crate) text: PreTokenizedString,
    /// How many of the added tokens found are control tokens.
    pub(crate) control_tokens: usize,
}

pub(crate) struct AddedTokens {
    by_id: HashMap<TokenId, AddedToken>,
    all: Finder,
    control: Finder,
    special: Finder,
}

/// Finds tokens by their text, the leftmost and then the longest first, as the tokenizer does.
struct Finder {
    automaton: AhoCorasick,
    ids: Vec<TokenId>,
}

impl Finder {
    fn new<'a>(tokens: impl Iterator<Item = (&'a TokenId, &'a AddedToken)>) -> Result<Self, BuildError> {
        let (ids, texts): (Vec<TokenId>, Vec<&str>) =
            tokens.map(|(id, token)| (*id, token.content.as_str())).unzip();
        let automaton = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(texts)?;
        Ok(Self { automaton, ids })
    }

    fn find(&self, text: &str) -> Vec<(TokenId, Range<usize>)> {
        self.automaton
            .find_iter(text)
            .map(|found| (self.ids[found.pattern().as_usize()], found.range()))
            .collect()
    }
}

impl AddedTokens {
    pub(crate) fn new(hf: &tokenizers::Tokenizer) -> Result<Self, BuildError> {
        let by_id: HashMap<TokenId, AddedToken> = hf
            .get_added_tokens_decoder()
            .into_iter()
            .filter(|(_, token)| !token.content.is_empty())
            .collect();
        let all = Finder::new(by_id.iter())?;
        let control = Finder::new(by_id.iter().filter(|(_, token)| is_control(token)))?;
        let special = Finder::new(by_id.iter().filter(|(_, token)| token.special))?;
        Ok(Self { by_id, all, control, special })
    }

    pub(crate) fn is_special(&self, id: TokenId) -> bool {
        self.by_id.get(&id).is_some_and(|token| token.special)
    }

    pub(crate) fn is_control(&self, id: TokenId) -> bool {
        self.by_id.get(&id).is_some_and(is_control)
    }

    pub(crate) fn control_ids(&self) -> Vec<TokenId> {
        let mut ids: Vec<_> = self.by_id.keys().copied().filter(|id| self.is_control(*id)).collect();
        ids.sort_unstable();
        ids
    }

    /// Every place where `text` spells out a control token.
    pub(crate) fn control_literals(&self, text: &str) -> Vec<Literal> {
        self.control.find(text).into_iter().map(|(_, range)| range).collect()
    }

    /// Replaces what messages quote of control tokens by placeholders.
    ///
    /// An answer of the model may hold markers such as `</think>` that its template looks for: those stay.
    pub(crate) fn quote(&self, messages: &[ChatMessage]) -> Quoted {
        let mut quoted = Quoted {
            messages: messages.to_vec(),
            literals: Vec::new(),
            open: String::new(),
            close: String::new(),
        };
        let texts =
            || messages.iter().flat_map(|message| [Some(&message.content), message.reasoning.as_ref()]);
        let nonce = (0_u64..).find(|nonce| {
            let (open, close) = (format!("{OPEN}{nonce}."), format!(".{nonce}{CLOSE}"));
            texts().flatten().all(|text| !text.contains(&open) && !text.contains(&close))
        });
        let nonce = nonce.expect("finite messages cannot contain every number");
        quoted.open = format!("{OPEN}{nonce}.");
        quoted.close = format!(".{nonce}{CLOSE}");
        for (index, original) in messages.iter().enumerate() {
            let finder = if original.role == Role::Assistant { &self.special } else { &self.control };
            let content = quoted.replace(&original.content, finder);
            let reasoning = original.reasoning.as_ref().map(|text| quoted.replace(text, finder));
            quoted.messages[index].content = content;
            quoted.messages[index].reasoning = reasoning;
        }
        quoted
    }

    /// Cuts `text` at its added tokens, except where `literals` says that one is only quoted.
    ///
    /// Tokens that match normalised text are looked for in the text as it stands: the two differ only for
    /// vocabularies that add such tokens and change case or form as well.
    pub(crate) fn pieces(&self, text: &str, literals: &[Literal], cut: Cut) -> Pieces {
        let mut cuts: Vec<(Option<TokenId>, Range<usize>)> = Vec::new();
        let mut from = 0;
        for literal in literals {
            self.find_between(text, from..literal.start, &mut cuts);
            if cut == Cut::InsideLiterals {
                let first = text[literal.clone()].chars().next().map_or(0, char::len_utf8);
                cuts.push((None, literal.start..literal.start + first));
                cuts.push((None, literal.start + first..literal.end));
            }
            from = literal.end;
        }
        self.find_between(text, from..text.len(), &mut cuts);
        let control_tokens = cuts.iter().filter(|(id, _)| id.is_some_and(|id| self.is_control(id))).count();
        let mut pieces = PreTokenizedString::from(text);
        pieces
            .split(|_, whole| Ok(split_at(&whole, text.len(), &cuts)))
            .expect("the closure above never fails");
        Pieces { text: pieces, control_tokens }
    }

    fn find_between(
        &self,
        text: &str,
        within: Range<usize>,
        cuts: &mut Vec<(Option<TokenId>, Range<usize>)>,
    ) {
        let area = &text[within.clone()];
        let mut taken = 0;
        for (id, found) in self.all.find(area) {
            let token = &self.by_id[&id];
            let (left, right) = (&area[..found.start], &area[found.end..]);
            let touches_word =
                left.chars().next_back().is_some_and(is_word) || right.chars().next().is_some_and(is_word);
            if found.start < taken || (token.single_word && touches_word) {
                continue;
            }
            let start = if token.lstrip { left.trim_end().len().max(taken) } else { found.start };
            let end = if token.rstrip { area.len() - right.trim_start().len() } else { found.end };
            cuts.push((Some(id), within.start + start..within.start + end));
            taken = end;
        }
    }
}

/// Messages whose quoted control tokens are placeholders.
pub(crate) struct Quoted {
    pub(crate) messages: Vec<ChatMessage>,
    literals: Vec<String>,
    open: String,
    close: String,
}

impl Quoted {
    /// Writes a placeholder for every token that `finder` finds.
    fn replace(&mut self, original: &str, finder: &Finder) -> String {
        let mut text = String::with_capacity(original.len());
        let mut copied = 0;
        for (_, range) in finder.find(original) {
            text.push_str(&original[copied..range.start]);
            text.push_str(&format!("{}{}{}", self.open, self.literals.len(), self.close));
            self.literals.push(original[range.clone()].to_string());
            copied = range.end;
        }
        text.push_str(&original[copied..]);
        text
    }

    /// Puts the quotations back and says where they are.
    pub(crate) fn restore(&self, rendered: &str) -> Result<(String, Vec<Literal>), TextError> {
        let mut text = String::with_capacity(rendered.len());
        let mut literals = Vec::new();
        let mut rest = rendered;
        while let Some(at) = rest.find(&self.open) {
            text.push_str(&rest[..at]);
            let (literal, after) =
                self.placeholder(&rest[at + self.open.len()..]).ok_or_else(|| self.cut())?;
            literals.push(text.len()..text.len() + literal.len());
            text.push_str(literal);
            rest = after;
        }
        if !self.literals.is_empty() && rest.contains(&self.close) {
            return Err(self.cut());
        }
        text.push_str(rest);
        Ok((text, literals))
    }

    fn placeholder<'a, 'b>(&'a self, after_open: &'b str) -> Option<(&'a str, &'b str)> {
        let (index, after) = after_open.split_once(&self.close)?;
        let literal = self.literals.get(index.parse::<usize>().ok()?)?;
        Some((literal, after))
    }

    fn cut(&self) -> TextError {
        TextError::TemplateCutsLiteral { literal: self.literals.first().cloned().unwrap_or_default() }
    }
}

fn split_at(
    whole: &NormalizedString,
    text_bytes: usize,
    cuts: &[(Option<TokenId>, Range<usize>)],
) -> Vec<(NormalizedString, Option<Vec<Token>>)> {
    let mut pieces = Vec::new();
    let mut from = 0;
    let slice =
        |range: Range<usize>| whole.slice(normalizer::Range::Original(range)).expect("cut at token edges");
    for (id, range) in cuts {
        if from < range.start {
            pieces.push((slice(from..range.start), None));
        }
        let token = id.map(|id| vec![Token::new(id, String::new(), (0, range.len()))]);
        pieces.push((slice(range.clone()), token));
        from = range.end;
    }
    if from < text_bytes {
        pieces.push((slice(from..text_bytes), None));
    }
    pieces
}

fn is_control(token: &AddedToken) -> bool {
    token.special || MARKERS.contains(&token.content.as_str())
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The byte that a character of a byte-level vocabulary stands for.
///
/// Source: GPT-2's `bytes_to_unicode`: printable Latin-1 characters stand for themselves, every other byte for the
/// next free character from U+0100 on.
pub(crate) fn byte_of(character: char) -> Option<u8> {
    let code = u32::from(character);
    match code {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => u8::try_from(code).ok(),
        0x100..=0x120 => u8::try_from(code - 0x100).ok(),
        0x121..=0x142 => u8::try_from(code - 0x121 + 0x7F).ok(),
        0x143 => Some(0xAD),
        _ => None,
    }
}
