//! Configs as they are published, habits and all: what Braid reads of them.

use mlx_backend::config::ModelConfig;
use mlx_backend::model::design::{AttentionDesign, KvSource, MlpDesign, NormWeight, Shares};
use mlx_backend::model::rope::Scaling;
use serde_json::{Value, json};
use std::path::Path;

fn read(config: &Value) -> ModelConfig {
    ModelConfig::from_json(config.to_string().as_bytes(), Path::new("config.json"))
        .unwrap_or_else(|error| panic!("{}: {error}", config["model_type"]))
}

fn attention(config: &ModelConfig) -> Vec<&AttentionDesign> {
    config.design.layers.iter().map(|layer| &layer.attention).collect()
}

/// `layer_types` in which every `pattern`th layer sees everything.
fn alternating(layers: usize, pattern: usize) -> Vec<&'static str> {
    let kind = |nth: usize| if nth.is_multiple_of(pattern) { "full_attention" } else { "sliding_attention" };
    (1..=layers).map(kind).collect()
}

#[test]
fn llama_3_2_1b() {
    let config = read(&json!({
        "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
        "bos_token_id": 128_000, "eos_token_id": [128_001, 128_008, 128_009], "head_dim": 64, "hidden_act": "silu",
        "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192,
        "max_position_embeddings": 131_072, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32,
        "num_hidden_layers": 16, "num_key_value_heads": 8, "pretraining_tp": 1,
        "quantization": { "group_size": 64, "bits": 4 }, "rms_norm_eps": 1e-05,
        "rope_scaling": { "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                          "original_max_position_embeddings": 8192, "rope_type": "llama3" },
        "rope_theta": 500_000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
        "transformers_version": "4.45.0.dev0", "use_cache": true, "vocab_size": 128_256,
    }));
    assert_eq!(
        (config.context_tokens, config.vocab, config.hidden, config.layers),
        (131_072, 128_256, 2048, 16)
    );
    assert_eq!(config.kv_cache_bytes_per_token(2), 2 * 16 * 8 * 64 * 2);
    let rope = &config.design.ropes[0];
    assert_eq!((rope.turned(), rope.scaling), (64, Scaling::ByFrequency));
    assert_eq!(rope.inverse_frequencies[0], 1.0, "fast pairs stay");
    let plain = 500_000.0_f64.powf(-62.0 / 64.0);
    assert!((f64::from(rope.inverse_frequencies[31]) * 32.0 / plain - 1.0).abs() < 1e-6, "slow ones stretch");
}

#[test]
fn gemma_3_1b_and_the_4b_that_sees_images() {
    let text = json!({
        "architectures": ["Gemma3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
        "attn_logit_softcapping": null, "bos_token_id": 2, "cache_implementation": "hybrid",
        "eos_token_id": [1, 106], "final_logit_softcapping": null, "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152, "initializer_range": 0.02,
        "intermediate_size": 6912, "max_position_embeddings": 32_768, "model_type": "gemma3_text",
        "num_attention_heads": 4, "num_hidden_layers": 26, "num_key_value_heads": 1, "pad_token_id": 0,
        "quantization": { "group_size": 64, "bits": 4 }, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
        "rope_local_base_freq": 10_000, "rope_scaling": null, "rope_theta": 1_000_000, "sliding_window": 512,
        "sliding_window_pattern": 6, "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 262_144,
    });
    let config = read(&text);
    let global: Vec<usize> =
        (0..26).filter(|layer| attention(&config)[*layer].window_tokens.is_none()).collect();
    assert_eq!(global, [5, 11, 17, 23]);
    assert_eq!(attention(&config)[0].scale, 0.0625);
    assert!(config.is_tied && config.design.norm.weight == NormWeight::LessOne);
    let whole = read(&json!({
        "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255_999,
        "eoi_token_index": 256_000, "eos_token_id": [1, 106], "image_token_index": 262_144,
        "initializer_range": 0.02, "mm_tokens_per_image": 256, "model_type": "gemma3",
        "quantization": { "group_size": 64, "bits": 4 },
        "text_config": { "hidden_size": 2560, "intermediate_size": 10_240, "model_type": "gemma3_text",
                         "num_hidden_layers": 34, "rope_scaling": { "factor": 8.0, "rope_type": "linear" },
                         "sliding_window": 1024 },
        "torch_dtype": "bfloat16",
        "vision_config": { "hidden_size": 1152, "image_size": 896, "model_type": "siglip_vision_model" },
    }));
    let AttentionDesign { heads, kv_heads, head_dim, window_tokens, .. } = *attention(&whole)[0];
    assert_eq!((heads, kv_heads, head_dim, window_tokens), (8, 4, 256, Some(1024)));
    assert_eq!((whole.vocab, whole.context_tokens), (262_208, 131_072));
    assert_eq!(whole.design.tensors.prefix, "language_model.");
    let slowest = |rope: usize| f64::from(whole.design.ropes[rope].inverse_frequencies[127]);
    assert!(
        (slowest(0) * 8.0 / 1e6_f64.powf(-254.0 / 256.0) - 1.0).abs() < 1e-6,
        "global layers are stretched"
    );
    assert!((slowest(1) / 1e4_f64.powf(-254.0 / 256.0) - 1.0).abs() < 1e-6, "layers with a window are not");
}

#[test]
fn gemma_2_2b() {
    let config = read(&json!({
        "architectures": ["Gemma2ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
        "attn_logit_softcapping": 50.0, "cache_implementation": "hybrid", "eos_token_id": [1, 107],
        "final_logit_softcapping": 30.0, "head_dim": 256, "hidden_act": "gelu_pytorch_tanh",
        "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304, "intermediate_size": 9216,
        "max_position_embeddings": 8192, "model_type": "gemma2", "num_attention_heads": 8,
        "num_hidden_layers": 26, "num_key_value_heads": 4, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
        "rope_theta": 10_000.0, "sliding_window": 4096, "vocab_size": 256_000,
    }));
    assert_eq!(attention(&config)[0].softcap, Some(50.0));
    assert_eq!(config.design.head.softcap, Some(30.0));
    assert_eq!(config.design.embedding_scale, Some(48.0));
}

#[test]
fn phi_3_5_mini_and_phi_4_mini() {
    let phi = |changes: Value| {
        let mut config = json!({
            "architectures": ["Phi3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
            "embd_pdrop": 0.0, "resid_pdrop": 0.0, "hidden_act": "silu", "hidden_size": 3072,
            "intermediate_size": 8192, "max_position_embeddings": 131_072, "model_type": "phi3",
            "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
            "original_max_position_embeddings": 4096, "rms_norm_eps": 1e-05, "rope_theta": 10_000.0,
            "sliding_window": 262_144, "tie_word_embeddings": false, "vocab_size": 32_064,
            "auto_map": { "AutoConfig": "configuration_phi3.Phi3Config" },
            "rope_scaling": { "long_factor": vec![2.0; 48], "short_factor": vec![1.0; 48], "type": "longrope" },
        });
        let changes = changes.as_object().expect("changes are an object").clone();
        config.as_object_mut().expect("a config is an object").extend(changes);
        read(&config)
    };
    let mini = phi(json!({}));
    let rope = &mini.design.ropes[0];
    assert_eq!((rope.turned(), attention(&mini)[0].head_dim), (96, 96));
    assert!((rope.magnitude - 1.190_238).abs() < 1e-6, "√(1 + ln 32 / ln 4096)");
    let phi4 = phi(json!({
        "full_attn_mod": 1, "interpolate_factor": 1, "lm_head_bias": false, "mlp_bias": false,
        "num_attention_heads": 24, "num_key_value_heads": 8, "partial_rotary_factor": 0.75,
        "tie_word_embeddings": true, "vocab_size": 200_064,
    }));
    assert_eq!((phi4.design.ropes[0].turned(), attention(&phi4)[0].head_dim), (96, 128));
}

#[test]
fn mistral_qwen_and_smollm3() {
    let mistral = json!({
        "architectures": ["MistralForCausalLM"], "attention_dropout": 0.0, "hidden_act": "silu",
        "hidden_size": 4096, "intermediate_size": 14_336, "max_position_embeddings": 32_768,
        "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
        "rms_norm_eps": 1e-05, "rope_theta": 1_000_000.0, "sliding_window": null, "tie_word_embeddings": false,
        "vocab_size": 32_768,
    });
    assert!(attention(&read(&mistral)).iter().all(|attention| attention.window_tokens.is_none()));
    let qwen = read(&json!({
        "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 1536,
        "intermediate_size": 8960, "max_position_embeddings": 131_072, "max_window_layers": 21,
        "model_type": "qwen2", "num_attention_heads": 12, "num_hidden_layers": 28, "num_key_value_heads": 2,
        "rms_norm_eps": 1e-06, "rope_theta": 10_000, "sliding_window": 4096, "tie_word_embeddings": false,
        "use_mrope": false, "use_sliding_window": false, "vocab_size": 151_936,
    }));
    assert!(
        attention(&qwen).iter().all(|attention| attention.window_tokens.is_none() && attention.has_qkv_bias)
    );
    let has_rope: Vec<u32> = (1..=36).map(|number| u32::from(number % 4 != 0)).collect();
    let smol = read(&json!({
        "architectures": ["SmolLM3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
        "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 11_008,
        "layer_types": vec!["full_attention"; 36], "max_position_embeddings": 65_536, "max_window_layers": 28,
        "mlp_bias": false, "model_type": "smollm3", "no_rope_layer_interval": 4, "no_rope_layers": has_rope,
        "num_attention_heads": 16, "num_hidden_layers": 36, "num_key_value_heads": 4, "pretraining_tp": 2,
        "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 5_000_000.0, "sliding_window": null,
        "use_sliding_window": false, "vocab_size": 128_256,
    }));
    let turning = attention(&smol).iter().filter(|attention| attention.rope.is_some()).count();
    assert_eq!((turning, smol.is_tied), (27, true));
}

#[test]
fn gemma_4_e2b() {
    let config = read(&json!({
        "architectures": ["Gemma4ForConditionalGeneration"], "audio_config": { "hidden_size": 1024 },
        "image_token_id": 258_880, "model_type": "gemma4", "tie_word_embeddings": true,
        "text_config": {
            "attention_bias": false, "attention_dropout": 0.0, "attention_k_eq_v": false,
            "enable_moe_block": false, "final_logit_softcapping": 30.0, "global_head_dim": 512,
            "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1536,
            "hidden_size_per_layer_input": 256, "intermediate_size": 6144,
            "layer_types": alternating(35, 5), "max_position_embeddings": 131_072,
            "model_type": "gemma4_text", "moe_intermediate_size": null, "num_attention_heads": 8,
            "num_experts": null, "num_global_key_value_heads": null, "num_hidden_layers": 35,
            "num_key_value_heads": 1, "num_kv_shared_layers": 20, "rms_norm_eps": 1e-6,
            "rope_parameters": {
                "full_attention": { "partial_rotary_factor": 0.25, "rope_theta": 1_000_000.0,
                    "rope_type": "proportional" },
                "sliding_attention": { "rope_theta": 10_000.0, "rope_type": "default" },
            },
            "sliding_window": 512, "tie_word_embeddings": true, "top_k_experts": null,
            "use_bidirectional_attention": null, "use_cache": true, "use_double_wide_mlp": true,
            "vocab_size": 262_144, "vocab_size_per_layer_input": 262_144,
        },
        "vision_config": { "hidden_size": 768 },
    }));
    assert_eq!((config.layers, config.context_tokens), (35, 131_072));
    // Of the first 15 layers three see everything.
    assert_eq!(config.kv_cache_bytes_per_token(2), (12 * 256 + 3 * 512) * 2 * 2);
    let (sliding, full) = (attention(&config)[0], attention(&config)[4]);
    assert_eq!(
        (sliding.head_dim, sliding.window_tokens, full.head_dim, full.window_tokens),
        (256, Some(512), 512, None)
    );
    let shared = attention(&config).iter().filter(|attention| attention.kv != KvSource::Own).count();
    assert_eq!((shared, config.is_tied), (20, true));
    let turning = config.design.ropes[1].inverse_frequencies.iter().filter(|inverse| **inverse > 0.0).count();
    assert_eq!(turning, 64, "a quarter of 256 pairs");
}

#[test]
fn gpt_oss_20b() {
    let config = read(&json!({
        "architectures": ["GptOssForCausalLM"], "attention_bias": true, "attention_dropout": 0.0,
        "eos_token_id": 200_002, "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu",
        "hidden_size": 2880, "initial_context_length": 4096, "initializer_range": 0.02,
        "intermediate_size": 2880, "layer_types": alternating(24, 2), "max_position_embeddings": 131_072,
        "model_type": "gpt_oss", "num_attention_heads": 64, "num_experts_per_tok": 4,
        "num_hidden_layers": 24, "num_key_value_heads": 8, "num_local_experts": 32,
        "output_router_logits": false, "pad_token_id": 199_999,
        "quantization": { "group_size": 32, "bits": 4, "mode": "mxfp4",
            "model.embed_tokens": { "group_size": 64, "bits": 4, "mode": "affine" },
            "lm_head": { "group_size": 64, "bits": 4, "mode": "affine" },
            "model.layers.0.mlp.router": { "group_size": 64, "bits": 8 } },
        "rms_norm_eps": 1e-5,
        "rope_scaling": { "beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
            "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false },
        "rope_theta": 150_000, "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0,
        "tie_word_embeddings": false, "use_cache": true, "vocab_size": 201_088,
    }));
    assert_eq!((config.layers, config.context_tokens), (24, 131_072));
    assert_eq!(config.kv_cache_bytes_per_token(2), 49_152);
    assert!(attention(&config).iter().all(|attention| attention.has_sinks && attention.has_output_bias));
    let MlpDesign::Sparse(sparse) = &config.design.layers[0].mlp else { panic!("its MLPs are sparse") };
    assert_eq!((sparse.experts, sparse.picked, sparse.intermediate), (32, 4, 2880));
    assert!((config.design.ropes[0].magnitude - 1.346_574).abs() < 1e-6, "0.1 · ln 32 + 1");
}

#[test]
fn granite_3_3_2b() {
    let config = read(&json!({
        "architectures": ["GraniteForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
        "attention_multiplier": 0.015_625, "bos_token_id": 0, "embedding_multiplier": 12.0,
        "eos_token_id": 0, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
        "intermediate_size": 8192, "logits_scaling": 8.0, "max_position_embeddings": 131_072,
        "mlp_bias": false, "model_type": "granite", "num_attention_heads": 32, "num_hidden_layers": 40,
        "num_key_value_heads": 8, "pad_token_id": 0, "residual_multiplier": 0.22, "rms_norm_eps": 1e-5,
        "rope_scaling": null, "rope_theta": 10_000_000.0, "tie_word_embeddings": true,
        "use_cache": true, "vocab_size": 49_159,
    }));
    assert_eq!((config.layers, config.context_tokens), (40, 131_072));
    assert_eq!(config.kv_cache_bytes_per_token(2), 81_920);
    assert_eq!((attention(&config)[0].scale, config.design.head.scale), (0.015_625, Some(0.125)));
    assert_eq!(
        (config.design.embedding_scale, config.design.layers[0].residual_scale),
        (Some(12.0), Some(0.22))
    );
}

#[test]
fn olmo_2_1b() {
    let config = read(&json!({
        "architectures": ["Olmo2ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
        "eos_token_id": 100_257, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
        "intermediate_size": 8192, "max_position_embeddings": 4096, "model_type": "olmo2",
        "num_attention_heads": 16, "num_hidden_layers": 16, "num_key_value_heads": 16,
        "pad_token_id": 100_277, "rms_norm_eps": 1e-6, "rope_scaling": null, "rope_theta": 500_000,
        "tie_word_embeddings": false, "use_cache": false, "vocab_size": 100_352,
    }));
    assert_eq!((config.layers, config.context_tokens), (16, 4096));
    assert_eq!(config.kv_cache_bytes_per_token(2), 131_072);
    assert_eq!(config.design.layers[0].norms.before_attention, None);
    assert!(!config.is_tied);
}

#[test]
fn qwen3_30b_a3b() {
    let config = read(&json!({
        "architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
        "decoder_sparse_step": 1, "eos_token_id": 151_645, "head_dim": 128, "hidden_act": "silu",
        "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 6144,
        "max_position_embeddings": 40_960, "max_window_layers": 48, "mlp_only_layers": [],
        "model_type": "qwen3_moe", "moe_intermediate_size": 768, "norm_topk_prob": true,
        "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8,
        "num_hidden_layers": 48, "num_key_value_heads": 4, "output_router_logits": false,
        "quantization": { "group_size": 64, "bits": 4,
            "model.layers.0.mlp.gate": { "group_size": 64, "bits": 8 } },
        "rms_norm_eps": 1e-6, "rope_scaling": null, "rope_theta": 1_000_000.0,
        "router_aux_loss_coef": 0.001, "sliding_window": null, "tie_word_embeddings": false,
        "use_cache": true, "use_sliding_window": false, "vocab_size": 151_936,
    }));
    assert_eq!((config.layers, config.context_tokens), (48, 40_960));
    assert_eq!(config.kv_cache_bytes_per_token(2), 98_304);
    let MlpDesign::Sparse(sparse) = &config.design.layers[0].mlp else { panic!("its MLPs are sparse") };
    assert_eq!((sparse.experts, sparse.picked, sparse.intermediate), (128, 8, 768));
    assert_eq!(sparse.shares, Shares::OfPicked);
}
