//! Sampling parameters, checked once.

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
    /// Seed of the row's noise; `None` draws one at submission.
    pub seed: Option<u64>,
    /// Tokens to generate at most.
    pub max_tokens: u32,
    /// Alternatives to report per token; `None` reports no logprobs.
    pub logprobs: Option<u8>,
    /// Sequences that end the answer.
    pub stop: Vec<String>,
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
}
