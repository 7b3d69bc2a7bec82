//! Configs from strangers: whatever a field holds, a config is read or refused, and what is read fits together.

use crate::formula::Fixture;
use mlx_backend::MlxError;
use mlx_backend::config::{ARCHITECTURES, ModelConfig};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Values that are the wrong kind, at the edges of a kind, or far outside of it.
fn extremes() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1),
        json!(3),
        json!(1 << 24),
        json!((1_u64 << 24) + 1),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(1e-45),
        json!(1e300),
        json!(-0.0),
        json!("silu"),
        json!("\u{0}"),
        json!([]),
        json!([1, 0, 1e9]),
        json!(["full_attention", "sliding_attention", "full_attention"]),
        json!({}),
        json!({ "rope_type": "yarn", "factor": 1e30, "original_max_position_embeddings": 1 }),
        json!({ "rope_type": "llama3", "factor": 1e-30, "low_freq_factor": 1.0, "high_freq_factor": 1.000_000_1 }),
        json!({ "rope_type": "dynamic", "factor": 1e38 }),
        json!({ "rope_type": "longrope", "long_factor": [1e-38], "original_max_position_embeddings": 1 }),
        json!({ "full_attention": { "rope_type": "proportional", "partial_rotary_factor": 1e30 } }),
    ]
}

fn parse(config: &Value) -> Result<ModelConfig, MlxError> {
    ModelConfig::from_json(config.to_string().as_bytes(), Path::new("config.json"))
}

/// Reads a config; one that is accepted has to hold together.
fn survive(config: &Value) {
    let Ok(read) = parse(config) else { return };
    assert!((1..=1024).contains(&read.layers), "{config}");
    assert!(read.context_tokens >= 1, "{config}");
    assert!(read.kv_cache_bytes_per_token(4) >= 4, "{config}");
    for layer in &read.design.layers {
        let attention = &layer.attention;
        assert!(attention.heads % attention.kv_heads == 0 && attention.scale > 0.0, "{config}");
        assert!(attention.window_tokens.is_none_or(|window| window > 0), "{config}");
        let rope = attention.rope.map(|rope| &read.design.ropes[rope]);
        assert!(rope.is_none_or(|rope| rope.turned() <= attention.head_dim), "{config}");
    }
    for rope in &read.design.ropes {
        for position in [0, 1, i32::MAX] {
            assert!(
                rope.inverse_frequencies_at(position).iter().all(|inverse| inverse.is_finite()),
                "{config}"
            );
        }
    }
}

fn decoder(config: &mut Value) -> &mut Map<String, Value> {
    let key = if config.get("text_config").is_some() { "/text_config" } else { "" };
    config.pointer_mut(key).and_then(Value::as_object_mut).expect("a config is an object")
}

/// Fields of the decoder, those of others that change the mathematics, and the objects of scalings.
fn fields(config: &Value) -> Vec<String> {
    let mut config = config.clone();
    let mut names: Vec<String> = decoder(&mut config).keys().cloned().collect();
    names.extend(
        ["rope_scaling", "rope_parameters", "layer_types", "sliding_window", "quantization"]
            .map(String::from),
    );
    names.sort();
    names.dedup();
    names
}

#[test]
fn a_config_with_any_value_in_any_field_is_read_or_refused() {
    for name in ARCHITECTURES {
        let config = Fixture::read(name).config;
        for field in fields(&config) {
            for value in extremes() {
                let mut changed = config.clone();
                decoder(&mut changed).insert(field.clone(), value);
                survive(&changed);
            }
            let mut changed = config.clone();
            decoder(&mut changed).remove(&field);
            survive(&changed);
        }
    }
}

#[test]
fn a_config_with_any_values_in_three_fields_is_read_or_refused() {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut below = |count: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % count as u64) as usize
    };
    let extremes = extremes();
    for name in ARCHITECTURES {
        let config = Fixture::read(name).config;
        let fields = fields(&config);
        for _ in 0..500 {
            let mut changed = config.clone();
            for _ in 0..3 {
                let value = extremes[below(extremes.len())].clone();
                decoder(&mut changed).insert(fields[below(fields.len())].clone(), value);
            }
            survive(&changed);
        }
    }
}
