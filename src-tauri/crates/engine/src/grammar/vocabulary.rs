//! The vocabulary as the grammar library wants it: a trie of token bytes.

use llguidance::toktrie::{InferenceCapabilities, TokRxInfo, TokTrie, TokenizerEnv};
use text::{SpecialTokens, TokenId, Tokenizer};

/// Longest token that a grammar may use: the library's trie is no deeper.
const MAX_TOKEN_BYTES: usize = 512;
/// Texts whose encoding shows whether tokens joined are the text that they were made from.
const PROBES: [&str; 3] = ["{\"a", " true", "0,"];

pub(super) struct Vocabulary {
    tokenizer: Tokenizer,
    trie: TokTrie,
    is_canonical: bool,
}

impl Vocabulary {
    pub(super) fn new(tokenizer: Tokenizer) -> Self {
        let mut words: Vec<Vec<u8>> =
            (0..tokenizer.vocab_tokens() as TokenId).map(|id| word(&tokenizer, id)).collect();
        let mut eos_ids = tokenizer.eos_ids().to_vec();
        eos_ids.retain(|id| (*id as usize) < words.len());
        if eos_ids.is_empty() {
            // The library wants one. It is past the vocabulary, so no mask ever shows it.
            eos_ids.push(words.len() as TokenId);
            words.push(control_word("end"));
        }
        let trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, eos_ids[0]), &words);
        let is_canonical = PROBES.iter().all(|probe| spells(&tokenizer, probe));
        Self { trie: trie.with_eos_tokens(&eos_ids), tokenizer, is_canonical }
    }

    /// Tokens can be forced only where the tokenizer says which ones a text becomes.
    pub(super) fn capabilities(&self) -> InferenceCapabilities {
        InferenceCapabilities { ff_tokens: self.is_canonical, ..InferenceCapabilities::default() }
    }

    fn encode(&self, text: &str) -> Vec<TokenId> {
        let greedy = |_| self.trie.greedy_tokenize(text.as_bytes());
        self.tokenizer.encode(text, SpecialTokens::AsText).unwrap_or_else(greedy)
    }
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.trie.tokenize_with_greedy_fallback(bytes, |text| self.encode(text))
    }

    fn tokenize_is_canonical(&self) -> bool {
        self.is_canonical
    }
}

/// Bytes of a token; none for a token that no grammar may use.
fn word(tokenizer: &Tokenizer, id: TokenId) -> Vec<u8> {
    let word = match tokenizer.is_control(id) {
        true => control_word(&tokenizer.token_spelling(id).unwrap_or_default()),
        false => tokenizer.token_bytes(id),
    };
    if word.len() <= MAX_TOKEN_BYTES { word } else { Vec::new() }
}

/// The library tells control tokens by a byte that no text contains.
fn control_word(spelling: &str) -> Vec<u8> {
    [&[TokTrie::SPECIAL_TOKEN_MARKER], spelling.as_bytes()].concat()
}

fn spells(tokenizer: &Tokenizer, text: &str) -> bool {
    let bytes =
        |ids: Vec<TokenId>| ids.into_iter().flat_map(|id| tokenizer.token_bytes(id)).collect::<Vec<_>>();
    tokenizer.encode(text, SpecialTokens::AsText).is_ok_and(|ids| bytes(ids) == text.as_bytes())
}
