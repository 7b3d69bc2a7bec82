//! Qwen3 against mlx-lm, on models whose weights are a formula: `tests/fixtures/qwen3_logits.py`.

use crate::starter;
use engine::backend::{Backend, RowSampling, StepInput};
use mlx_backend::{LoadOptions, MlxBackend, MlxError};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

#[derive(Deserialize)]
struct Fixture {
    config: Value,
    tensors: Vec<Tensor>,
    prompts: Vec<Prompt>,
}

#[derive(Deserialize)]
struct Tensor {
    name: String,
    shape: Vec<usize>,
}

#[derive(Deserialize)]
struct Prompt {
    tokens: Vec<u32>,
    logits: Vec<f32>,
    greedy: Vec<u32>,
}

fn fixtures() -> Vec<Fixture> {
    serde_json::from_str(include_str!("../fixtures/qwen3_logits.json")).expect("the fixture parses")
}

fn words(name: &str, count: usize) -> Vec<u32> {
    let salt = name.bytes().fold(0_u32, |salt, byte| salt.wrapping_mul(31).wrapping_add(u32::from(byte)));
    let word = |index: u32| {
        let mut h = index.wrapping_mul(2_654_435_761) ^ salt;
        for (shift, factor) in [(16, 0x85EB_CA6B), (13, 0xC2B2_AE35)] {
            h = (h ^ (h >> shift)).wrapping_mul(factor);
        }
        h ^ (h >> 16)
    };
    (0..count as u32).map(word).collect()
}

/// Dtype and bytes of a tensor as a safetensors file holds it.
fn content(name: &str, count: usize, is_packed: bool) -> (&'static str, Vec<u8>) {
    if is_packed {
        return ("U32", words(name, count).into_iter().flat_map(u32::to_le_bytes).collect());
    }
    let source = name.replace(".biases", ".scales");
    let value = |word: u32| {
        let steps = (word >> 24) as f32;
        match name {
            name if name.ends_with(".scales") => (8.0 + steps % 8.0) / 1024.0,
            name if name.ends_with(".biases") => -8.0 * (8.0 + steps % 8.0) / 1024.0,
            name if name.ends_with("norm.weight") => 1.0 + (steps % 16.0 - 8.0) / 32.0,
            _ => (steps - 128.0) / 1024.0,
        }
    };
    // The upper half of an f32 is the bf16: the values are exact in both.
    let bf16 = |word| ((f32::to_bits(value(word)) >> 16) as u16).to_le_bytes();
    ("BF16", words(&source, count).into_iter().flat_map(bf16).collect())
}

/// Writes the fixture's model as a folder.
fn write(fixture: &Fixture, name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    std::fs::write(folder.join("config.json"), fixture.config.to_string()).expect("the config is written");
    let is_quantised = |name: &str| {
        fixture
            .tensors
            .iter()
            .any(|other| other.name == name.replace(".weight", ".scales") && other.name != name)
    };
    let (mut header, mut body) = (Map::new(), Vec::new());
    for tensor in &fixture.tensors {
        let is_packed = tensor.name.ends_with(".weight") && is_quantised(&tensor.name);
        let (dtype, bytes) = content(&tensor.name, tensor.shape.iter().product(), is_packed);
        let offsets = [body.len(), body.len() + bytes.len()];
        header.insert(
            tensor.name.clone(),
            json!({ "dtype": dtype, "shape": tensor.shape, "data_offsets": offsets }),
        );
        body.extend(bytes);
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.bytes().chain(body));
    std::fs::write(folder.join("model.safetensors"), file).expect("the weights are written");
    folder
}

#[test]
fn qwen3_matches_mlx_lm_tied_dense_and_untied_packed() {
    for (fixture, name) in fixtures().iter().zip(["qwen3-dense", "qwen3-packed"]) {
        let options = LoadOptions { max_rows: 2, tokenizer_tokens: 256 };
        let mut backend = MlxBackend::load(&write(fixture, name), options).expect("the model loads");
        let mut inputs: Vec<StepInput> = fixture
            .prompts
            .iter()
            .zip(0..)
            .map(|(prompt, id)| starter::join(&mut backend, id, &prompt.tokens))
            .collect();
        let mut greedy = vec![Vec::new(); inputs.len()];
        for step in 0..fixture.prompts[0].greedy.len() {
            backend.forward(&inputs).expect("forward runs");
            if step == 0 {
                let ours = backend.probe_logits().expect("logits can be read");
                for (ours, prompt) in ours.iter().zip(&fixture.prompts) {
                    let difference = starter::largest_difference(ours, &prompt.logits);
                    assert!(difference < 1e-4, "{name}, {:?}: {difference}", prompt.tokens);
                }
            }
            let sampled = starter::sample_fused(&mut backend, &[0, 1], &[RowSampling::GREEDY; 2]);
            for (row, sampled) in sampled.iter().enumerate() {
                let token = sampled.token.expect("the row is good");
                greedy[row].push(token);
                inputs[row] = StepInput { token, kv_cache_tokens: inputs[row].kv_cache_tokens + 1 };
            }
        }
        for (ours, prompt) in greedy.iter().zip(&fixture.prompts) {
            assert_eq!(ours, &prompt.greedy, "{name}, {:?}", prompt.tokens);
        }
    }
}

#[test]
fn a_qwen3_file_without_head_norms_is_refused() {
    let mut fixture = fixtures().remove(0);
    fixture.tensors.retain(|tensor| !tensor.name.contains("k_norm"));
    let options = LoadOptions { max_rows: 1, tokenizer_tokens: 256 };
    let refused = MlxBackend::load(&write(&fixture, "qwen3-incomplete"), options).err();
    assert!(matches!(refused, Some(MlxError::MissingTensors { count: 2, .. })), "{refused:?}");
}
