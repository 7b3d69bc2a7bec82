//! Imports against what MLX's GGUF reader and Hugging Face's tokenizer make of the same files
//! (`tests/fixtures/make_fixtures.py`).

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use model_hub::{
    WeightHeaders,
    fit::{KvFacts, WeightStorage, needs},
    import_gguf,
};
use safetensors::SafeTensors;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn fixture_json(name: &str) -> Value {
    serde_json::from_slice(&fs::read(fixture(name)).unwrap()).unwrap()
}

/// The starter model's GGUF, which `cargo xtask setup` fetches.
fn starter() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../.mlx/starter");
    let files = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let found = files.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "gguf"));
    found.unwrap_or_else(|| panic!("no .gguf file in {}: run `cargo xtask setup` first", folder.display()))
}

fn written_tensors(folder: &Path) -> BTreeMap<String, Value> {
    let bytes = fs::read(folder.join("model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let digest =
        |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    tensors
        .iter()
        .map(|(name, view)| {
            let dtype = format!("{:?}", view.dtype());
            (
                name.to_string(),
                json!({ "dtype": dtype, "shape": view.shape(), "sha256": digest(view.data()) }),
            )
        })
        .collect()
}

fn assert_same_tensors(folder: &Path, expected: &str) {
    let expected = fixture_json(expected);
    let written = written_tensors(folder);
    for (name, tensor) in expected.as_object().unwrap() {
        assert_eq!(written.get(name), Some(tensor), "{name} must equal MLX's own conversion, bit for bit");
    }
    assert_eq!(written.len(), expected.as_object().unwrap().len(), "no tensor beyond those");
}

#[test]
fn the_starter_models_weights_and_token_ids_equal_the_reference() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("starter");
    let summary = import_gguf(&starter(), &folder).unwrap();
    assert_eq!((summary.tensors, summary.layers), (272, 30));
    assert_same_tensors(&folder, "starter_tensors.json");

    let headers = WeightHeaders::read(&folder).unwrap();
    let facts = KvFacts { bytes_per_token: 1, context_tokens: 8192, layers: 30, vocab: 49_152, hidden: 576 };
    let weights_bytes = |storage| needs(&headers, facts, storage).weights_bytes;
    assert_eq!(weights_bytes(WeightStorage::AsStored), 98_275_968, "as MLX's own conversion stores it");
    assert_eq!(weights_bytes(WeightStorage::FullPrecision), 115_156_224, "as measured once loaded on a CPU");

    let tokenizer = tokenizers::Tokenizer::from_file(folder.join("tokenizer.json")).unwrap();
    let lines = fixture_json("starter_tokens.json");
    let lines = lines.as_array().unwrap();
    assert!(lines.len() >= 200);
    for line in lines {
        let text = line["text"].as_str().unwrap();
        let encoding = tokenizer.encode_fast(text, false).unwrap();
        assert_eq!(json!(encoding.get_ids()), line["ids"], "{text:?}");
    }

    let config: Value = serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap();
    let wanted = json!({
        "model_type": "llama", "hidden_size": 576, "num_hidden_layers": 30, "intermediate_size": 1536,
        "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64, "rms_norm_eps": 1e-5, "vocab_size": 49152,
        "rope_theta": 100_000.0, "max_position_embeddings": 8192, "tie_word_embeddings": true, "bos_token_id": 1,
        "eos_token_id": 2, "hidden_act": "silu", "torch_dtype": "float16", "license": "apache-2.0",
        "quantization": { "group_size": 32, "bits": 4, "model.embed_tokens": { "group_size": 32, "bits": 8 } },
    });
    for (key, value) in wanted.as_object().unwrap() {
        assert_eq!(&config[key], value, "{key} in config.json");
    }
    let tokenizer_config: Value =
        serde_json::from_slice(&fs::read(folder.join("tokenizer_config.json")).unwrap()).unwrap();
    assert_eq!(tokenizer_config["eos_token"], "<|im_end|>");
    assert!(tokenizer_config["chat_template"].as_str().unwrap().contains("<|im_start|>assistant"));
}

#[test]
fn every_packing_is_repacked_as_mlx_does_it() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("tiny");
    import_gguf(&fixture("tiny.gguf"), &folder).unwrap();
    assert_same_tensors(&folder, "tiny_tensors.json");
    let config: Value = serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap();
    assert_eq!(config["tie_word_embeddings"], false, "tiny.gguf has its own output head");
    assert_eq!(config["quantization"]["bits"], 4);
    assert_eq!(config["quantization"]["lm_head"]["bits"], 8);
    assert_eq!(config["quantization"]["model.layers.0.self_attn.k_proj"]["bits"], 8);
    assert_eq!(
        config["quantization"].get("model.layers.0.self_attn.v_proj"),
        None,
        "f16 weights have no entry"
    );
}
