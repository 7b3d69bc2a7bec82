//! Sampling settings between wire, database and engine.

mod bias;

use engine::params::{GrammarSource, InvalidParam, SamplingParams, ValidParams, Xtc};
use protocol::{SamplingSettings, StructuredOutput};
use text::{TokenId, Tokenizer};

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
        xtc: None,
        repetition_penalty: 1.0,
        frequency_penalty: 0.0,
        presence_penalty: 0.0,
        logit_bias: Vec::new(),
        wants_bias_trace: false,
        structured_output: None,
        thinking_budget: None,
        wants_thinking: None,
        remote: None,
    }
}

/// Checks settings against the engine's limits, as far as that needs no model: tokens that are named by their text
/// are left to [`resolve`].
///
/// # Errors
/// [`InvalidParam`] for the first field out of range, the seed included.
pub fn validate(settings: &SamplingSettings) -> Result<(), InvalidParam> {
    params(settings, bias::by_id(&settings.logit_bias)?).map(|_| ())
}

/// Checks settings against the engine's limits and the model's vocabulary.
///
/// # Errors
/// As [`validate`], and for a text with a bias that is not exactly one token.
pub fn resolve(settings: &SamplingSettings, tokenizer: &Tokenizer) -> Result<ValidParams, InvalidParam> {
    params(settings, bias::resolve(&settings.logit_bias, tokenizer)?)
}

fn params(settings: &SamplingSettings, logit_bias: Vec<(TokenId, f32)>) -> Result<ValidParams, InvalidParam> {
    let params = SamplingParams {
        temperature: settings.temperature,
        top_p: settings.top_p,
        top_k: settings.top_k,
        min_p: settings.min_p,
        xtc: settings.xtc.map(|xtc| Xtc { threshold: xtc.threshold, probability: xtc.probability }),
        repetition_penalty: settings.repetition_penalty,
        frequency_penalty: settings.frequency_penalty,
        presence_penalty: settings.presence_penalty,
        wants_bias_trace: settings.wants_bias_trace && !logit_bias.is_empty(),
        logit_bias,
        grammar: settings.structured_output.as_ref().map(grammar).transpose()?,
        thinking_budget: settings.thinking_budget,
        seed: settings.seed.as_deref().map(parse_seed).transpose()?,
        max_tokens: settings.max_tokens,
        logprobs: settings.logprobs,
        stop: settings.stop.clone(),
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

fn grammar(structured: &StructuredOutput) -> Result<GrammarSource, InvalidParam> {
    let invalid =
        |limit, value: &str| InvalidParam { field: "structured_output", limit, value: value.into() };
    match structured {
        StructuredOutput::JsonSchema { schema } => {
            match serde_json::from_str::<serde::de::IgnoredAny>(schema) {
                Ok(_) => Ok(GrammarSource::JsonSchema(schema.clone())),
                Err(error) => Err(invalid("a schema written in JSON", &format!("not JSON: {error}"))),
            }
        }
        StructuredOutput::Regex { pattern } if pattern.is_empty() => {
            Err(invalid("an expression", "an empty text"))
        }
        StructuredOutput::Regex { pattern } => Ok(GrammarSource::Regex(pattern.clone())),
        StructuredOutput::Lark { grammar } if grammar.trim().is_empty() => {
            Err(invalid("a grammar", "an empty text"))
        }
        StructuredOutput::Lark { grammar } => Ok(GrammarSource::Lark(grammar.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed_of(seed: &str) -> Result<Option<u64>, InvalidParam> {
        let settings = SamplingSettings { seed: Some(seed.into()), ..defaults() };
        params(&settings, Vec::new()).map(|params| params.seed)
    }

    #[test]
    fn the_defaults_are_within_the_engines_limits() {
        assert_eq!(validate(&defaults()).err(), None);
    }

    #[test]
    fn a_seed_keeps_every_bit_and_anything_else_is_named() {
        assert_eq!(seed_of("18446744073709551615").expect("the largest seed is a seed"), Some(u64::MAX));
        for bad in ["", "-1", "1.5", "0x10", "18446744073709551616"] {
            let error = seed_of(bad).expect_err(bad);
            assert_eq!((error.field, error.value.as_str()), ("seed", bad));
        }
    }

    #[test]
    fn a_setting_out_of_range_is_named_with_limit_and_value() {
        let error = validate(&SamplingSettings { temperature: 9.5, ..defaults() }).expect_err("too hot");
        assert_eq!(error.to_string(), "temperature must be 0 to 5, but is 9.5");
    }

    #[test]
    fn structured_output_is_never_empty_and_a_schema_is_json() {
        for bad in [
            StructuredOutput::JsonSchema { schema: "{\"type\": }".into() },
            StructuredOutput::Regex { pattern: String::new() },
            StructuredOutput::Lark { grammar: " \n".into() },
        ] {
            let settings = SamplingSettings { structured_output: Some(bad), ..defaults() };
            assert_eq!(validate(&settings).expect_err("refused").field, "structured_output");
        }
    }
}
