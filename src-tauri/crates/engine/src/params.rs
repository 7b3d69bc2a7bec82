//! Sampling parameters, checked once.

use crate::TokenId;

/// "Exclude top choices": now and then, the likeliest tokens give way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Xtc {
    /// Tokens at least this likely after the other filters are top choices; above 0 and at most 1.
    pub threshold: f32,
    /// Chance per token that all top choices but the least likely are removed; 0 to 1.
    pub probability: f32,
}

/// What an answer must match, in one of three languages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrammarSource {
    /// A JSON Schema, as JSON text.
    JsonSchema(String),
    /// A regular expression over the whole answer.
    Regex(String),
    /// A grammar in Lark's notation.
    Lark(String),
}

/// Sampling parameters as asked for; any value.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// Divides the logits; below 1e-5 the likeliest token is taken.
    pub temperature: f32,
    /// Keeps the smallest set of tokens whose probability reaches this; 1 turns it off.
    pub top_p: f32,
    /// Keeps this many likeliest tokens; 0 turns it off.
    pub top_k: u32,
    /// Keeps tokens at least this likely relative to the likeliest; 0 turns it off.
    pub min_p: f32,
    /// Now and then removes the likeliest tokens; `None` never does.
    pub xtc: Option<Xtc>,
    /// Divides positive logits of tokens that occurred in prompt or answer and multiplies negative ones; 1 is off.
    pub repetition_penalty: f32,
    /// Subtracted from a token's logit once per occurrence in the answer; 0 is off.
    pub frequency_penalty: f32,
    /// Subtracted from the logits of tokens that occur in the answer; 0 is off.
    pub presence_penalty: f32,
    /// Added to the logits of these tokens, each at most once.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// Whether to report per token what `logit_bias` changed.
    pub wants_bias_trace: bool,
    /// What the answer must match, after any thinking.
    pub grammar: Option<GrammarSource>,
    /// Tokens of thinking after which the block is closed; `None` leaves it to the model.
    pub thinking_budget: Option<u32>,
    /// Seed of the row's noise; `None` draws one at submission.
    pub seed: Option<u64>,
    /// Tokens to generate at most.
    pub max_tokens: u32,
    /// Alternatives to report per token; `None` reports no logprobs.
    pub logprobs: Option<u8>,
    /// Sequences that end the answer.
    pub stop: Vec<String>,
}

impl Default for SamplingParams {
    /// Plain sampling at temperature 1: everything else off, 256 tokens.
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            xtc: None,
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            logit_bias: Vec::new(),
            wants_bias_trace: false,
            grammar: None,
            thinking_budget: None,
            seed: None,
            max_tokens: 256,
            logprobs: None,
            stop: Vec::new(),
        }
    }
}

/// A parameter out of its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{field} must be {limit}, but is {value}")]
pub struct InvalidParam {
    /// Name of the field.
    pub field: &'static str,
    /// The range in words.
    pub limit: &'static str,
    /// What was given.
    pub value: String,
}

/// Parameters within their ranges. Only [`SamplingParams::validate`] makes one.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidParams(SamplingParams);

impl std::ops::Deref for ValidParams {
    type Target = SamplingParams;
    fn deref(&self) -> &SamplingParams {
        &self.0
    }
}

/// Below this temperature a row is greedy.
pub const GREEDY_BELOW: f32 = 1e-5;
/// Most alternatives a token's logprobs can carry.
pub const MAX_LOGPROBS: u8 = 20;
/// Most stop sequences of a request.
pub const MAX_STOPS: usize = 16;
/// Most tokens with a logit bias.
pub const MAX_BIASED: usize = 1024;

impl SamplingParams {
    /// Checks every field against its range.
    ///
    /// # Errors
    /// [`InvalidParam`] for the first field out of range.
    pub fn validate(self) -> Result<ValidParams, InvalidParam> {
        let check = |holds: bool, field, limit, value: String| {
            if holds { Ok(()) } else { Err(InvalidParam { field, limit, value }) }
        };
        check(
            (0.0..=5.0).contains(&self.temperature),
            "temperature",
            "0 to 5",
            self.temperature.to_string(),
        )?;
        check(
            self.top_p > 0.0 && self.top_p <= 1.0,
            "top_p",
            "above 0 and at most 1",
            self.top_p.to_string(),
        )?;
        check((0.0..1.0).contains(&self.min_p), "min_p", "0 or more and below 1", self.min_p.to_string())?;
        if let Some(xtc) = self.xtc {
            let is_threshold = xtc.threshold > 0.0 && xtc.threshold <= 1.0;
            check(is_threshold, "xtc_threshold", "above 0 and at most 1", xtc.threshold.to_string())?;
            let is_chance = (0.0..=1.0).contains(&xtc.probability);
            check(is_chance, "xtc_probability", "0 to 1", xtc.probability.to_string())?;
        }
        let repetition = self.repetition_penalty;
        check(
            repetition > 0.0 && repetition <= 10.0,
            "repetition_penalty",
            "above 0 and at most 10",
            repetition.to_string(),
        )?;
        for (field, value) in
            [("frequency_penalty", self.frequency_penalty), ("presence_penalty", self.presence_penalty)]
        {
            check((-2.0..=2.0).contains(&value), field, "-2 to 2", value.to_string())?;
        }
        let biased = self.logit_bias.len();
        check(biased <= MAX_BIASED, "logit_bias", "at most 1024 tokens", biased.to_string())?;
        if let Some((token, bias)) = self.logit_bias.iter().find(|(_, bias)| !(-100.0..=100.0).contains(bias))
        {
            check(false, "logit_bias", "-100 to 100 per token", format!("{bias} for token {token}"))?;
        }
        let mut tokens: Vec<TokenId> = self.logit_bias.iter().map(|(token, _)| *token).collect();
        tokens.sort_unstable();
        if let Some(twice) = tokens.windows(2).find(|pair| pair[0] == pair[1]) {
            check(false, "logit_bias", "one value per token", format!("two for token {}", twice[0]))?;
        }
        check(self.max_tokens >= 1, "max_tokens", "at least 1", self.max_tokens.to_string())?;
        let logprobs = self.logprobs.unwrap_or(0);
        check(logprobs <= MAX_LOGPROBS, "logprobs", "0 to 20", logprobs.to_string())?;
        check(self.stop.len() <= MAX_STOPS, "stop", "at most 16 sequences", self.stop.len().to_string())?;
        let has_empty = self.stop.iter().any(String::is_empty);
        check(!has_empty, "stop", "sequences of at least one character", "an empty one".into())?;
        Ok(ValidParams(self))
    }
}

impl ValidParams {
    /// Whether the likeliest token is always taken.
    pub fn is_greedy(&self) -> bool {
        self.temperature < GREEDY_BELOW || self.top_k == 1
    }

    /// Whether any penalty has an effect.
    pub fn has_penalties(&self) -> bool {
        self.repetition_penalty != 1.0 || self.frequency_penalty != 0.0 || self.presence_penalty != 0.0
    }

    /// What decides whether two rows share a sampling class: seeds, limits and stops do not.
    pub fn class(&self) -> SamplingClass {
        if self.is_greedy() {
            return SamplingClass::default();
        }
        let bits = f32::to_bits;
        SamplingClass {
            temperature: bits(self.temperature),
            top_p: bits(self.top_p),
            top_k: self.top_k,
            min_p: bits(self.min_p),
            xtc: self.xtc.map(|xtc| [bits(xtc.threshold), bits(xtc.probability)]),
        }
    }
}

/// Canonical form of the settings that shape the sampler; all greedy rows share the default one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SamplingClass {
    temperature: u32,
    top_p: u32,
    top_k: u32,
    min_p: u32,
    xtc: Option<[u32; 2]>,
}
