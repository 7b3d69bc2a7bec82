//! What an answer records of its tokens.

use engine::{TokenLogprobEntry, backend::BiasTrace};
use protocol::{BiasEffect, TokenAlternative, TokenDetail};
use text::{TokenId, Tokenizer};

use crate::convert::rounded;

/// Tokens whose details are kept at most: with twenty alternatives each, some four megabytes.
const MAX_TOKENS: usize = 4096;

/// Details of an answer's tokens, from the first one on.
#[derive(Default)]
pub struct Recorded {
    details: Vec<TokenDetail>,
}

impl Recorded {
    /// Starts with the tokens that an answer has already.
    pub fn begin_with(&mut self, details: Vec<TokenDetail>) {
        self.details = details;
        self.details.truncate(MAX_TOKENS);
    }

    /// Adds what the engine reported; what is beyond the limit is left out.
    pub fn extend(&mut self, entries: &[TokenLogprobEntry], tokenizer: &Tokenizer) {
        let room = MAX_TOKENS - self.details.len();
        self.details.extend(entries.iter().take(room).map(|entry| detail(entry, tokenizer)));
    }

    /// The details, first token first.
    pub fn details(&self) -> &[TokenDetail] {
        &self.details
    }
}

fn detail(entry: &TokenLogprobEntry, tokenizer: &Tokenizer) -> TokenDetail {
    let logprobs = entry.logprobs.as_ref();
    let top = logprobs.map_or(&[] as &[_], |logprobs| &logprobs.top);
    TokenDetail {
        token: entry.token,
        text: text_of(entry.token, tokenizer),
        logprob: logprobs.and_then(|logprobs| finite(logprobs.chosen)),
        alternatives: top
            .iter()
            .map(|(token, logprob)| TokenAlternative {
                token: *token,
                text: text_of(*token, tokenizer),
                logprob: finite(*logprob),
            })
            .collect(),
        is_forced: entry.is_forced,
        bias: entry.bias_trace.map(|trace| effect(trace, tokenizer)),
    }
}

fn effect(trace: BiasTrace, tokenizer: &Tokenizer) -> BiasEffect {
    BiasEffect {
        unbiased_likeliest: text_of(trace.unbiased_likeliest, tokenizer),
        logprob_with: finite(trace.logprob_with),
        logprob_without: finite(trace.logprob_without),
    }
}

/// JSON has no infinity: a token that cannot be has no logprob.
fn finite(logprob: f32) -> Option<f64> {
    logprob.is_finite().then(|| rounded(f64::from(logprob)))
}

/// Whether recorded tokens are spelled in this vocabulary as they were when they were recorded.
pub fn spells(details: &[TokenDetail], tokenizer: &Tokenizer) -> bool {
    let is_alike = |detail: &TokenDetail| {
        (detail.token as usize) < tokenizer.vocab_tokens() && text_of(detail.token, tokenizer) == detail.text
    };
    details.iter().all(is_alike)
}

/// Details of tokens of which nothing was measured.
pub fn unmeasured(tokens: &[TokenId], tokenizer: &Tokenizer) -> Vec<TokenDetail> {
    let detail = |token: &TokenId| TokenDetail {
        token: *token,
        text: text_of(*token, tokenizer),
        logprob: None,
        alternatives: Vec::new(),
        is_forced: false,
        bias: None,
    };
    tokens.iter().take(MAX_TOKENS).map(detail).collect()
}

/// What a token adds to the text; of a special one, its spelling.
pub fn text_of(token: TokenId, tokenizer: &Tokenizer) -> String {
    if tokenizer.is_special(token) {
        return tokenizer.token_spelling(token).unwrap_or_default();
    }
    String::from_utf8_lossy(&tokenizer.token_bytes(token)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{backend::TokenLogprobs, testing::byte_tokenizer};
    use text::SpecialTokens;

    fn entry(token: TokenId) -> TokenLogprobEntry {
        let logprobs =
            TokenLogprobs { chosen: -0.5, top: vec![(token, -0.5), (token + 1, f32::NEG_INFINITY)] };
        TokenLogprobEntry { token, logprobs: Some(logprobs), is_forced: false, bias_trace: None }
    }

    #[test]
    fn a_token_that_cannot_be_has_no_logprob_and_a_forced_one_neither() {
        let tokenizer = byte_tokenizer().expect("a temporary folder can be written");
        let a = tokenizer.encode("a", SpecialTokens::AsText).expect("a byte")[0];
        let mut recorded = Recorded::default();
        let forced = TokenLogprobEntry { logprobs: None, is_forced: true, ..entry(a) };
        recorded.extend(&[entry(a), forced], &tokenizer);
        let [sampled, forced] = recorded.details() else { panic!("two tokens") };
        assert_eq!((sampled.text.as_str(), sampled.logprob), ("a", Some(-0.5)));
        assert_eq!(sampled.alternatives[1].logprob, None);
        assert_eq!((forced.is_forced, forced.logprob, forced.alternatives.len()), (true, None, 0));
    }

    #[test]
    fn only_the_first_tokens_of_an_endless_answer_are_kept() {
        let tokenizer = byte_tokenizer().expect("a temporary folder can be written");
        let mut recorded = Recorded::default();
        recorded.extend(&vec![entry(3); MAX_TOKENS - 1], &tokenizer);
        recorded.extend(&[entry(4), entry(5)], &tokenizer);
        assert_eq!(recorded.details().len(), MAX_TOKENS);
        assert_eq!(recorded.details().last().map(|detail| detail.token), Some(4));
    }
}
