use std::path::Path;

use serde_json::Value;

use crate::{TextError, tokenizer::files};

/// Sampling that a model's maker recommends, from `generation_config.json`.
///
/// What the file does not say, or says outside the range given here, is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GenerationDefaults {
    /// Divides the logits, in [0, 100]; 0 is greedy, which is also what `do_sample: false` means.
    pub temperature: Option<f64>,
    /// Share of the probability that stays, in (0, 1].
    pub top_p: Option<f64>,
    /// How many of the likeliest tokens stay; 0 is all.
    pub top_k: Option<u32>,
    /// Least share of the likeliest token's probability, in [0, 1].
    pub min_p: Option<f64>,
    /// Divides or multiplies the logits of tokens that came before, in (0, 100]; 1 is off.
    pub repetition_penalty: Option<f64>,
}

impl GenerationDefaults {
    /// Reads the file of a model folder; nothing is recommended if there is none.
    ///
    /// # Errors
    /// [`TextError::Read`] or [`TextError::Json`].
    pub fn from_dir(dir: &Path) -> Result<Self, TextError> {
        Ok(Self::from_config(&files::read_json(&dir.join("generation_config.json"))?))
    }

    /// Takes the recommendation out of the content of a `generation_config.json`.
    pub fn from_config(config: &Value) -> Self {
        let number = |name: &str| config[name].as_f64();
        let temperature = number("temperature").filter(|value| (0.0..=100.0).contains(value));
        Self {
            temperature: if config["do_sample"] == false { Some(0.0) } else { temperature },
            top_p: number("top_p").filter(|value| *value > 0.0 && *value <= 1.0),
            top_k: config["top_k"].as_u64().and_then(|count| count.try_into().ok()),
            min_p: number("min_p").filter(|value| (0.0..=1.0).contains(value)),
            repetition_penalty: number("repetition_penalty").filter(|value| *value > 0.0 && *value <= 100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_out_of_range_or_missing_is_not_recommended() {
        let qwen = json!({ "do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "eos_token_id": [1, 2] });
        let defaults = GenerationDefaults::from_config(&qwen);
        assert_eq!((defaults.temperature, defaults.top_k, defaults.top_p), (Some(0.6), Some(20), Some(0.95)));
        assert_eq!((defaults.min_p, defaults.repetition_penalty), (None, None));
        let greedy = GenerationDefaults::from_config(&json!({ "do_sample": false, "temperature": 0.7 }));
        assert_eq!(greedy.temperature, Some(0.0));
        let odd =
            json!({ "temperature": -1, "top_p": 0, "top_k": -5, "min_p": "x", "repetition_penalty": 1e9 });
        assert_eq!(GenerationDefaults::from_config(&odd), GenerationDefaults::default());
        assert_eq!(GenerationDefaults::from_config(&Value::Null), GenerationDefaults::default());
    }
}
