//! What `config.json` says about packed weights, in both spellings that people have.

use crate::error::{MlxError, Result};
use crate::mx::quantised::{Mode, Quantisation};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::Path;

/// How the config says one matrix is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stated {
    /// An entry of its own: packed this way, or `None` for floats.
    ByName(Option<Quantisation>),
    /// As most are. One whose files hold no scales is stored as floats: converters leave out what does not divide into
    /// groups without saying so.
    AsMost(Quantisation),
    /// The config has no quantisation.
    Floats,
}

/// Quantisation of a model's matrices by the name of their tensors.
#[derive(Debug, Clone, Default)]
pub struct Quantisations {
    most: Option<Quantisation>,
    by_name: HashMap<String, Option<Quantisation>>,
}

impl Quantisations {
    /// Reads the `quantization` or else `quantization_config` entry of a whole `config.json`, at the top or under
    /// `text_config`. `path` is the file's, for errors.
    ///
    /// # Errors
    /// [`MlxError::Config`] for values that are no quantisation, [`MlxError::UnsupportedQuantisation`] for weights
    /// packed by a method that is not MLX's, [`MlxError::UnsupportedField`] for quantised activations.
    pub fn of_config(config: &Value, path: &Path) -> Result<Quantisations> {
        if config.get("quantize_activations").and_then(Value::as_bool) == Some(true) {
            return Err(MlxError::UnsupportedField {
                field: "quantize_activations".into(),
                value: "true".into(),
            });
        }
        let places = [Some(config), config.get("text_config")];
        let entry = ["quantization", "quantization_config"]
            .into_iter()
            .flat_map(|name| places.into_iter().flatten().map(move |place| (name, place)))
            .find_map(|(name, place)| Some((name, place.get(name).filter(|value| !value.is_null())?)));
        let Some((name, entry)) = entry else {
            return Ok(Quantisations::default());
        };
        let malformed = |reason| MlxError::Config { path: path.to_owned(), reason };
        let fields = entry.as_object().ok_or_else(|| malformed(format!("{name} is not an object")))?;
        match fields.get("quant_method").and_then(Value::as_str) {
            None | Some("mlx") => Quantisations::of_fields(name, fields).map_err(malformed),
            // Packed as MLX packs it; the entries beside it are about the tool that wrote it.
            Some(method @ ("mxfp4" | "mxfp8")) => {
                Ok(Quantisations { most: Mode::of_name(method).map(Mode::usual), by_name: HashMap::new() })
            }
            Some(other) => Err(MlxError::UnsupportedQuantisation(other.into())),
        }
    }

    fn of_fields(name: &str, fields: &Map<String, Value>) -> Result<Quantisations, String> {
        let most = parse(name, fields)?;
        let mut by_name = HashMap::new();
        for (tensor, value) in fields {
            match value {
                Value::Object(entry) => {
                    by_name.insert(tensor.clone(), Some(parse(tensor, entry)?));
                }
                Value::Bool(is_packed) => {
                    by_name.insert(tensor.clone(), is_packed.then_some(most));
                }
                _ => {}
            }
        }
        Ok(Quantisations { most: Some(most), by_name })
    }

    /// What is said about the matrix whose tensors start with `prefix`, as the files spell it.
    pub fn of(&self, prefix: &str) -> Stated {
        match (self.by_name.get(prefix), self.most) {
            (Some(own), _) => Stated::ByName(*own),
            (None, Some(most)) => Stated::AsMost(most),
            (None, None) => Stated::Floats,
        }
    }

    /// Quantisation of matrices without an entry of their own; `None` for a model of floats.
    pub fn most(&self) -> Option<Quantisation> {
        self.most
    }
}

/// One entry. Where it says nothing, MLX takes affine, and the mode's own group size and bits.
fn parse(name: &str, fields: &Map<String, Value>) -> Result<Quantisation, String> {
    let mode = match fields.get("mode") {
        None => Mode::Affine,
        Some(mode) => mode
            .as_str()
            .and_then(Mode::of_name)
            .ok_or_else(|| format!("{name}: quantization mode {mode} is not supported"))?,
    };
    let usual = mode.usual();
    let number = |key: &str, usual: i32| match fields.get(key) {
        None | Some(Value::Null) => Ok(usual),
        Some(value) => value
            .as_i64()
            .and_then(|value| i32::try_from(value).ok())
            .ok_or_else(|| format!("{name}: {key} is {value}, not a whole number")),
    };
    let quantisation = Quantisation {
        mode,
        group_size: number("group_size", usual.group_size)?,
        bits: number("bits", usual.bits)?,
    };
    if !quantisation.exists() {
        let Quantisation { group_size, bits, .. } = quantisation;
        return Err(format!(
            "{name}: {} with {bits} bits in groups of {group_size} is not supported",
            mode.name()
        ));
    }
    Ok(quantisation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(config: Value) -> Result<Quantisations> {
        Quantisations::of_config(&config, Path::new("config.json"))
    }

    #[test]
    fn both_spellings_and_the_text_part_say_the_same() {
        let entry =
            json!({ "group_size": 128, "bits": 3, "a.b": { "group_size": 32, "bits": 6 }, "c": false });
        for config in [
            json!({ "quantization": entry }),
            json!({ "quantization_config": entry }),
            json!({ "quantization": entry, "quantization_config": { "quant_method": "gptq" } }),
            json!({ "text_config": { "quantization": entry } }),
        ] {
            let found = of(config).expect("parses");
            assert_eq!(found.of("x"), Stated::AsMost(Quantisation::affine(128, 3)));
            assert_eq!(found.of("a.b"), Stated::ByName(Some(Quantisation::affine(32, 6))));
            assert_eq!(found.of("c"), Stated::ByName(None));
        }
        assert_eq!(of(json!({})).expect("parses").of("x"), Stated::Floats);
        assert_eq!(of(json!({ "quantization": null })).expect("parses").most(), None);
    }

    #[test]
    fn an_entry_without_numbers_takes_the_modes_own() {
        let found = of(json!({ "quantization": {
            "mode": "nvfp4", "group_size": 16, "bits": 4, "a": { "mode": "mxfp8" }, "b": {}, "c": true
        } }))
        .expect("parses");
        assert_eq!(found.most(), Some(Mode::Nvfp4.usual()));
        assert_eq!(found.of("a"), Stated::ByName(Some(Mode::Mxfp8.usual())));
        assert_eq!(
            found.of("b"),
            Stated::ByName(Some(Quantisation::affine(64, 4))),
            "MLX's default is affine"
        );
        assert_eq!(found.of("c"), Stated::ByName(Some(Mode::Nvfp4.usual())));
        let found = of(json!({ "quantization_config": { "quant_method": "mxfp4" } })).expect("parses");
        assert_eq!(found.most(), Some(Mode::Mxfp4.usual()));
    }

    #[test]
    fn other_methods_are_refused_by_name() {
        for method in ["gptq", "awq", "bitsandbytes", "fp8", "compressed-tensors", "modelopt", "bitnet"] {
            let refused = of(json!({ "quantization_config": { "quant_method": method, "bits": 4 } })).err();
            assert!(
                matches!(&refused, Some(MlxError::UnsupportedQuantisation(name)) if name == method),
                "{refused:?}"
            );
        }
        let refused = of(json!({ "quantize_activations": true })).err();
        assert!(matches!(refused, Some(MlxError::UnsupportedField { .. })), "{refused:?}");
    }

    #[test]
    fn what_mlx_does_not_have_is_refused_by_its_place() {
        for (entry, word) in [
            (json!({ "group_size": 64, "bits": 7 }), "7 bits"),
            (json!({ "group_size": 48, "bits": 4 }), "groups of 48"),
            (json!({ "group_size": 64, "bits": "4" }), "bits"),
            (json!({ "group_size": 64, "bits": 1e20 }), "bits"),
            (json!({ "mode": "mxfp4", "group_size": 64, "bits": 4 }), "mxfp4"),
            (json!({ "mode": "int4" }), "int4"),
            (json!({ "bits": 4, "model.x": { "bits": 9 } }), "model.x"),
            (json!("4-bit"), "not an object"),
        ] {
            let refused = of(json!({ "quantization": entry })).expect_err("is refused").to_string();
            assert!(refused.contains(word), "{refused}");
        }
    }
}
