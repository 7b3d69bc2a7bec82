//! Sampling settings between wire, database and engine.

use engine::params::{InvalidParam, SamplingParams, ValidParams};
use protocol::SamplingSettings;

/// What a new conversation starts with until the person chooses otherwise.
///
/// Temperature and top-p are those that the starter model's card recommends for chat.
pub fn defaults() -> SamplingSettings {
    SamplingSettings {
        temperature: 0.2,
        top_p: 0.9,
        top_k: 0,
        min_p: 0.0,
        seed: None,
        max_tokens: 1024,
        logprobs: None,
        stop: Vec::new(),
        system_prompt: String::new(),
    }
}

/// Checks settings against the engine's limits.
///
/// # Errors
/// [`InvalidParam`] for the first field out of range, the seed included.
pub fn validate(settings: &SamplingSettings) -> Result<ValidParams, InvalidParam> {
    let seed = settings.seed.as_deref().map(parse_seed).transpose()?;
    let params = SamplingParams {
        temperature: settings.temperature,
        top_p: settings.top_p,
        top_k: settings.top_k,
        min_p: settings.min_p,
        seed,
        max_tokens: settings.max_tokens,
        logprobs: settings.logprobs,
        stop: settings.stop.clone(),
        ..SamplingParams::default()
    };
    params.validate()
}

fn parse_seed(text: &str) -> Result<u64, InvalidParam> {
    text.trim().parse().map_err(|_| InvalidParam {
        field: "seed",
        limit: "a whole number from 0 to 18446744073709551615",
        value: text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_within_the_engines_limits() {
        assert_eq!(validate(&defaults()).err(), None);
    }

    #[test]
    fn a_seed_keeps_every_bit_and_anything_else_is_named() {
        let with_seed = |seed: &str| SamplingSettings { seed: Some(seed.into()), ..defaults() };
        let params = validate(&with_seed("18446744073709551615")).expect("the largest seed is a seed");
        assert_eq!(params.seed, Some(u64::MAX));
        for bad in ["", "-1", "1.5", "0x10", "18446744073709551616"] {
            let error = validate(&with_seed(bad)).expect_err(bad);
            assert_eq!((error.field, error.value.as_str()), ("seed", bad));
        }
    }

    #[test]
    fn a_setting_out_of_range_is_named_with_limit_and_value() {
        let error = validate(&SamplingSettings { temperature: 9.5, ..defaults() }).expect_err("too hot");
        assert_eq!(error.to_string(), "temperature must be 0 to 5, but is 9.5");
    }
}
