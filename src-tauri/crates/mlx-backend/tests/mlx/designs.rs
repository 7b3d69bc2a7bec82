//! What architectures read of a config, without MLX: every field that changes the mathematics is used or refused.

use mlx_backend::MlxError;
use mlx_backend::config::{ARCHITECTURES, ModelConfig};
use mlx_backend::model::design::{AttentionDesign, Design, KvSource, MlpDesign};
use mlx_backend::model::rope::{RopeDesign, Scaling};
use serde_json::{Map, Value, json};
use std::path::Path;

/// A config of the architecture as its fixture has it.
fn config(name: &str) -> Value {
    let path = format!("{}/tests/fixtures/architectures/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut fixture: Map<String, Value> = serde_json::from_str(&text).expect("the fixture parses");
    fixture.remove("config").expect("a fixture has a config")
}

/// The object of a config that describes the decoder.
fn decoder(config: &mut Value) -> &mut Map<String, Value> {
    let key = if config.get("text_config").is_some() { "/text_config" } else { "" };
    config.pointer_mut(key).and_then(Value::as_object_mut).expect("a config is an object")
}

fn read(config: &Value) -> Result<ModelConfig, MlxError> {
    ModelConfig::from_json(config.to_string().as_bytes(), Path::new("config.json"))
}

fn with(name: &str, changes: Value) -> Result<Design, MlxError> {
    let mut config = config(name);
    decoder(&mut config).extend(changes.as_object().expect("changes are an object").clone());
    read(&config).map(|config| config.design)
}

fn attention(design: &Design) -> Vec<&AttentionDesign> {
    design.layers.iter().map(|layer| &layer.attention).collect()
}

#[track_caller]
fn assert_refused(name: &str, changes: Value, field: &str) {
    match with(name, changes.clone()) {
        Err(MlxError::UnsupportedField { field: named, .. }) => {
            assert_eq!(named, field, "{name} with {changes}")
        }
        other => panic!("{name} with {changes}: {:?}", other.map(|design| design.layers.len())),
    }
}

#[test]
fn every_architecture_refuses_foreign_mathematics_by_name() {
    for name in ARCHITECTURES {
        for (field, value) in [
            ("clip_qkv", json!(8.0)),
            ("use_parallel_residual", json!(true)),
            ("use_bidirectional_attention", json!(true)),
            ("attention_chunk_size", json!(8192)),
            ("kv_lora_rank", json!(512)),
            ("position_embedding_type", json!("alibi")),
            ("scale_emb", json!(12)),
            ("lm_head_bias", json!(true)),
            ("rotary_pct", json!(0.25)),
            ("n_routed_experts", json!(64)),
        ] {
            let refused = with(name, json!({ field: value })).err();
            let is_named = matches!(&refused, Some(MlxError::UnsupportedField { field: named, .. }) if named.ends_with(field));
            assert!(is_named, "{name} with {field}: {refused:?}");
        }
    }
}

#[test]
fn fields_without_effect_are_no_reason_to_refuse() {
    for name in ARCHITECTURES {
        let harmless = json!({
            "_name_or_path": "x", "use_cache": true, "torch_dtype": "bfloat16", "initializer_range": 0.02,
            "bos_token_id": 1, "eos_token_id": [1, 2], "pretraining_tp": 1, "attention_dropout": 0.0,
            "clip_qkv": null, "use_parallel_residual": false, "n_routed_experts": 0, "scale_emb": 1,
        });
        with(name, harmless).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn each_architecture_refuses_what_it_does_not_have() {
    for (name, changes, field) in [
        ("llama", json!({ "hidden_act": "relu" }), "hidden_act"),
        ("llama", json!({ "sliding_window": 64 }), "sliding_window"),
        ("llama", json!({ "layer_types": vec!["linear_attention"; 3] }), "layer_types"),
        (
            "llama",
            json!({ "rope_scaling": { "rope_type": "mrope", "mrope_section": [2, 3, 3] } }),
            "rope_scaling.rope_type",
        ),
        ("llama", json!({ "rope_scaling": { "type": "xpos", "factor": 2.0 } }), "rope_scaling.type"),
        (
            "llama",
            json!({ "rope_scaling": { "type": "linear", "factor": 2.0, "twist": 3 } }),
            "rope_scaling.twist",
        ),
        ("llama", json!({ "rope_traditional": true }), "rope_traditional"),
        ("llama", json!({ "partial_rotary_factor": 0.5 }), "partial_rotary_factor"),
        ("llama", json!({ "num_experts": 8 }), "num_experts"),
        (
            "llama",
            json!({ "rope_parameters": { "rope_type": "yarn", "factor": 4.0 },
                          "rope_scaling": { "rope_type": "linear", "factor": 4.0 } }),
            "rope_parameters",
        ),
        ("mistral", json!({ "hidden_act": "gelu" }), "hidden_act"),
        ("mistral", json!({ "attention_bias": true }), "attention_bias"),
        ("qwen2", json!({ "mlp_bias": true }), "mlp_bias"),
        ("qwen2", json!({ "use_mrope": true }), "use_mrope"),
        ("qwen3", json!({ "attn_logit_softcapping": 30.0 }), "attn_logit_softcapping"),
        ("phi3", json!({ "attention_bias": true }), "attention_bias"),
        (
            "phi3",
            json!({ "rope_scaling": { "type": "longrope", "long_factor": vec![1.0; 8], "attn_factor": 2.0 } }),
            "rope_scaling.attn_factor",
        ),
        ("smollm3", json!({ "residual_multiplier": 0.5 }), "residual_multiplier"),
        ("gemma2", json!({ "hidden_activation": "relu" }), "hidden_activation"),
        ("gemma2", json!({ "hidden_activation": null, "hidden_act": "silu" }), "hidden_act"),
        ("gemma3_text", json!({ "num_kv_shared_layers": 2 }), "num_kv_shared_layers"),
        ("gemma3_text", json!({ "altup_num_inputs": 4 }), "altup_num_inputs"),
        ("gemma3", json!({ "num_local_experts": 8 }), "text_config.num_local_experts"),
        ("gemma4_text", json!({ "enable_moe_block": true }), "enable_moe_block"),
        ("gemma4_text", json!({ "attention_bias": true }), "attention_bias"),
        ("gemma4_text", json!({ "use_bidirectional_attention": "all" }), "use_bidirectional_attention"),
        ("gemma4_text", json!({ "per_layer_config": { "1": { "head_dim": 8 } } }), "per_layer_config"),
        (
            "gemma4",
            json!({ "rope_parameters": { "full_attention": { "rope_type": "yarn", "factor": 2.0 } } }),
            "text_config.rope_parameters.full_attention.rope_type",
        ),
        ("gpt_oss", json!({ "hidden_act": "gelu" }), "hidden_act"),
        ("gpt_oss", json!({ "moe_intermediate_size": 32 }), "moe_intermediate_size"),
        ("granite", json!({ "final_logit_softcapping": 30.0 }), "final_logit_softcapping"),
        ("granite", json!({ "num_local_experts": 8 }), "num_local_experts"),
        ("olmo2", json!({ "sliding_window": 8 }), "sliding_window"),
        ("olmo2", json!({ "mlp_bias": true }), "mlp_bias"),
        ("qwen3_moe", json!({ "num_local_experts": 8 }), "num_local_experts"),
        ("qwen3_moe", json!({ "swiglu_limit": 7.0 }), "swiglu_limit"),
    ] {
        assert_refused(name, changes, field);
    }
}

#[test]
fn impossible_values_are_errors_that_name_the_field() {
    for (changes, word) in [
        (json!({ "hidden_size": null }), "hidden_size is missing"),
        (json!({ "hidden_size": -1 }), "hidden_size must be"),
        (json!({ "hidden_size": 1e300 }), "hidden_size must be"),
        (json!({ "num_attention_heads": "4" }), "num_attention_heads must be"),
        (json!({ "num_attention_heads": 5, "head_dim": null }), "5 heads"),
        (json!({ "num_key_value_heads": 3 }), "cannot share 3 key heads"),
        (json!({ "head_dim": 15 }), "width 15"),
        (json!({ "head_dim": 1 << 24 }), "heads must be 2 to 16384 wide"),
        (json!({ "num_attention_heads": 65_536, "head_dim": 4096 }), "65536 heads of width 4096"),
        (json!({ "num_hidden_layers": 16_777_216 }), "num_hidden_layers must be"),
        (json!({ "num_hidden_layers": 100_000 }), "num_hidden_layers must be"),
        (json!({ "rms_norm_eps": 0 }), "rms_norm_eps must be"),
        (json!({ "rope_theta": -1.0 }), "rope_theta must be"),
        (json!({ "rope_scaling": "linear" }), "rope_scaling must be an object"),
        (json!({ "rope_scaling": { "type": "linear" } }), "rope_scaling.factor is missing"),
        (
            json!({ "rope_scaling": { "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0 } }),
            "low_freq_factor",
        ),
        (json!({ "layer_types": ["full_attention"] }), "layer_types has 1 entries"),
        (json!({ "tie_word_embeddings": "yes" }), "tie_word_embeddings must be true or false"),
    ] {
        let error = with("llama", changes.clone()).expect_err("is refused").to_string();
        assert!(error.contains(word), "{changes}: {error}");
    }
    for bytes in ["", "[]", "{}", "null", r#"{"model_type": 3}"#] {
        let error = ModelConfig::from_json(bytes.as_bytes(), Path::new("config.json"));
        assert!(matches!(error, Err(MlxError::Config { .. })), "{bytes:?}");
    }
}

#[test]
fn an_unknown_architecture_is_told_which_ones_run() {
    let error = read(&json!({ "model_type": "mamba2" })).expect_err("is refused");
    assert!(matches!(&error, MlxError::UnsupportedArchitecture(name) if name == "mamba2"));
    let text = error.to_string();
    for name in ARCHITECTURES {
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn windows_lie_where_each_architecture_has_them() {
    let windows = |name: &str, changes: Value| -> Vec<Option<i32>> {
        let design = with(name, changes).unwrap_or_else(|error| panic!("{name}: {error}"));
        attention(&design).into_iter().map(|attention| attention.window_tokens).collect()
    };
    assert_eq!(windows("mistral", json!({})), [Some(16); 3]);
    assert_eq!(windows("mistral", json!({ "sliding_window": null })), [None; 3]);
    assert_eq!(windows("qwen2", json!({})), [None; 3], "use_sliding_window is false");
    let used = json!({ "use_sliding_window": true, "sliding_window": 8, "max_window_layers": 1 });
    assert_eq!(windows("qwen2", used), [None, Some(8), Some(8)]);
    assert_eq!(windows("gemma2", json!({})), [Some(16), None, Some(16), None]);
    assert_eq!(windows("gemma3_text", json!({})), [Some(16), None, Some(16), None], "its pattern is two");
    assert_eq!(windows("gpt_oss", json!({})), [Some(16), None, Some(16), None]);
    assert_eq!(windows("gpt_oss", json!({ "layer_types": null })), [Some(16), None, Some(16), None]);
    let types = json!({ "layer_types": ["full_attention", "sliding_attention", "full_attention"], "sliding_window": 9 });
    assert_eq!(windows("llama", types), [None, Some(9), None]);
}

#[test]
fn newer_and_older_spellings_of_positions_say_the_same() {
    let scaling = json!({ "rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 64 });
    let old = with("llama", json!({ "rope_theta": 5e5, "rope_scaling": scaling })).expect("reads");
    let mut parameters = scaling.clone();
    parameters["rope_theta"] = json!(5e5);
    let new = with("llama", json!({ "rope_theta": null, "rope_parameters": parameters })).expect("reads");
    assert_eq!(old, new);
    let old = with("gemma3_text", json!({ "rope_scaling": { "rope_type": "linear", "factor": 8.0 } }))
        .expect("reads");
    let new = json!({ "rope_theta": null, "rope_local_base_freq": null, "rope_parameters": {
        "full_attention": { "rope_type": "linear", "factor": 8.0, "rope_theta": 1e6 },
        "sliding_attention": { "rope_type": "default", "rope_theta": 1e4 },
    } });
    assert_eq!(old, with("gemma3_text", new).expect("reads"));
}

#[test]
fn a_stretched_context_is_as_long_as_its_positions_are_good_for() {
    let tokens = |scaling: Value| {
        with("llama", json!({ "max_position_embeddings": 64, "rope_scaling": scaling }))
            .expect("reads")
            .context_tokens
    };
    assert_eq!(tokens(json!(null)), 64);
    assert_eq!(
        tokens(json!({ "type": "linear", "factor": 4.0 })),
        64,
        "the config already says the longer one"
    );
    assert_eq!(tokens(json!({ "type": "dynamic", "factor": 4.0 })), 256);
    assert_eq!(tokens(json!({ "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32 })), 128);
}

#[test]
fn dynamic_positions_of_a_token_depend_on_itself_alone() {
    let scaling = json!({ "type": "dynamic", "factor": 2.0 });
    let design =
        with("llama", json!({ "max_position_embeddings": 64, "rope_scaling": scaling })).expect("reads");
    let rope = &design.ropes[0];
    assert!(matches!(rope.scaling, Scaling::Dynamic { original_tokens: 64, .. }));
    assert_eq!(rope.inverse_frequencies_at(63), rope.inverse_frequencies_at(0));
    let (near, far) = (rope.inverse_frequencies_at(64), rope.inverse_frequencies_at(127));
    assert_eq!(near[0], 1.0, "the fastest pair never changes");
    // At twice the context: a base of 10000 · (2·128/64 − 1)^(16/14), seen through the slowest of eight pairs.
    let base = 10_000.0 * 3.0_f64.powf(16.0 / 14.0);
    assert!((f64::from(far[7]) / base.powf(-14.0 / 16.0) - 1.0).abs() < 1e-6);
    assert!(near[7] > far[7]);
}

#[test]
fn a_token_takes_the_bytes_of_every_layer_that_keeps_keys() {
    let config = read(&config("llama")).expect("reads");
    let expected = 2 * 3 * 2 * 16;
    assert_eq!(config.kv_cache_bytes_per_token(4), expected * 4);
    assert_eq!(config.kv_cache_bytes_per_token(2), expected * 2);
    assert_eq!((config.layers, config.hidden, config.vocab, config.context_tokens), (3, 64, 96, 256));
}

#[test]
fn layers_that_share_keys_take_no_bytes_and_widen_their_mlp() {
    let design = with("gemma4_text", json!({})).expect("reads");
    let sources: Vec<KvSource> = attention(&design).iter().map(|attention| attention.kv).collect();
    let (own, second, third) = (KvSource::Own, KvSource::OfLayer(2), KvSource::OfLayer(3));
    assert_eq!(sources, [own, own, own, own, second, third], "the last earlier layer of the same kind");
    // Two layers of heads 16 wide, two of heads 32 wide, two key heads each, keys and values.
    assert_eq!(design.kv_cache_bytes_per_token(2), (2 * 16 + 2 * 32) * 2 * 2 * 2);
    let widths: Vec<i32> = design
        .layers
        .iter()
        .filter_map(|layer| match &layer.mlp {
            MlpDesign::Gated(gated) => Some(gated.intermediate),
            MlpDesign::Sparse(_) => None,
        })
        .collect();
    assert_eq!(widths, [96, 96, 96, 96, 192, 192]);
    for (changes, word) in [
        (json!({ "num_kv_shared_layers": 6 }), "6 layers cannot share"),
        (json!({ "num_kv_shared_layers": 5 }), "has no layer to share keys with"),
        (json!({ "sliding_window": null }), "sliding_window is missing"),
        (json!({ "layer_types": null }), "layer_types must be"),
        (json!({ "hidden_size_per_layer_input": 16_777_216 }), "hidden_size_per_layer_input"),
    ] {
        let error = with("gemma4_text", changes.clone()).expect_err("is refused").to_string();
        assert!(error.contains(word), "{changes}: {error}");
    }
}

#[test]
fn what_implementations_complete_differently_has_to_be_said() {
    for field in
        ["layer_types", "use_double_wide_mlp", "final_logit_softcapping", "hidden_size_per_layer_input"]
    {
        let mut config = config("gemma4_text");
        decoder(&mut config).remove(field);
        let error = read(&config).expect_err("is refused").to_string();
        assert!(error.contains(&format!("{field} is missing")), "{error}");
    }
}

#[test]
fn sparse_layers_lie_where_the_config_has_them() {
    let is_sparse = |changes: Value| -> Vec<bool> {
        let design = with("qwen3_moe", changes).expect("reads");
        design.layers.iter().map(|layer| matches!(layer.mlp, MlpDesign::Sparse(_))).collect()
    };
    assert_eq!(is_sparse(json!({})), [false, true, false], "every second layer");
    assert_eq!(is_sparse(json!({ "decoder_sparse_step": 1, "mlp_only_layers": [2] })), [true, true, false]);
    for (experts, picked) in [(8, 9), (1 << 24, 8)] {
        let changes = json!({ "num_experts": experts, "num_experts_per_tok": picked });
        let error = with("qwen3_moe", changes).expect_err("is refused").to_string();
        assert!(error.contains(&format!("cannot pick {picked} of {experts} experts")), "{error}");
    }
}

/// Paths to every value of a config but for whole objects.
fn paths(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(entries) => {
            for (name, value) in entries {
                paths(value, &format!("{at}/{name}"), found);
            }
        }
        _ => found.push(at.to_owned()),
    }
}

#[test]
fn extreme_values_are_read_or_refused_and_never_blow_up() {
    let extremes = [
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(1),
        json!(3),
        json!(1024),
        json!(1 << 24),
        json!(u64::MAX),
        json!(1e-300),
        json!(0.5),
        json!(1e300),
        json!("x"),
        json!([]),
        json!([1, null]),
        json!({}),
    ];
    for name in ["llama_yarn", "llama_dynamic", "llama_llama3", "phi3_longrope"]
        .into_iter()
        .chain(ARCHITECTURES.iter().copied())
    {
        let config = config(name);
        let mut all = Vec::new();
        paths(&config, "", &mut all);
        for path in all {
            for extreme in &extremes {
                let mut changed = config.clone();
                *changed.pointer_mut(&path).expect("the path was found") = extreme.clone();
                let Ok(read) = read(&changed) else { continue };
                assert!(read.layers <= 1024, "{name} with {path} = {extreme}");
                let finite = |rope: &RopeDesign| {
                    rope.magnitude.is_finite()
                        && rope.inverse_frequencies.iter().all(|inverse| inverse.is_finite())
                };
                assert!(read.design.ropes.iter().all(finite), "{name} with {path} = {extreme}");
                let widest = attention(&read.design).iter().map(|attention| attention.head_dim).max();
                assert!(widest <= Some(1 << 14), "{name} with {path} = {extreme}");
            }
        }
    }
}
