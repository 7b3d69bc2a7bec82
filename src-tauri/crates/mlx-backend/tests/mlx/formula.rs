//! Tiny models whose weights are a formula over tensor name and element index, as `tests/fixtures/formula.py`.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// A model of `tests/fixtures/architectures`, and what it must compute.
#[derive(Deserialize)]
pub struct Fixture {
    /// `config.json` of the model.
    pub config: Value,
    /// Name, kind of content and shape of every tensor.
    pub tensors: Vec<(String, String, Vec<usize>)>,
    /// Prompts, each computed alone.
    pub prompts: Vec<Prompt>,
}

/// A prompt and the logits that follow it.
#[derive(Deserialize)]
pub struct Prompt {
    /// Tokens of the prompt.
    pub tokens: Vec<u32>,
    /// Logits after the last of them, `[vocab]`.
    pub logits: Vec<f32>,
    /// What comes next, token by token.
    pub decode: Vec<Step>,
}

/// A token and the logits after it.
#[derive(Deserialize)]
pub struct Step {
    /// The likeliest token of the logits before.
    pub token: u32,
    /// `[vocab]`.
    pub logits: Vec<f32>,
}

impl Fixture {
    /// Reads `tests/fixtures/architectures/{name}.json`.
    pub fn read(name: &str) -> Fixture {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/architectures");
        let path = folder.join(format!("{name}.json"));
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{path:?}: {error}"))
    }

    /// Writes the model as a folder of that name and returns its path.
    pub fn write(&self, name: &str) -> PathBuf {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).expect("the folder can be made");
        std::fs::write(folder.join("config.json"), self.config.to_string()).expect("the config is written");
        let (mut header, mut body) = (Map::new(), Vec::new());
        for (name, kind, shape) in &self.tensors {
            let (dtype, bytes) = content(name, kind, shape.iter().product());
            let offsets = [body.len(), body.len() + bytes.len()];
            header.insert(name.clone(), json!({ "dtype": dtype, "shape": shape, "data_offsets": offsets }));
            body.extend(bytes);
        }
        let header = Value::Object(header).to_string();
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.bytes().chain(body));
        std::fs::write(folder.join("model.safetensors"), file).expect("the weights are written");
        folder
    }
}

/// Words that depend on a tensor's name and the place in it.
pub fn words(name: &str, count: usize) -> impl Iterator<Item = u32> {
    let salt = name.bytes().fold(0_u32, |salt, byte| salt.wrapping_mul(31).wrapping_add(u32::from(byte)));
    (0..count as u32).map(move |index| {
        let mut h = index.wrapping_mul(2_654_435_761) ^ salt;
        for (shift, factor) in [(16, 0x85EB_CA6B), (13, 0xC2B2_AE35)] {
            h = (h ^ (h >> shift)).wrapping_mul(factor);
        }
        h ^ (h >> 16)
    })
}

/// Dtype and bytes of a tensor as a safetensors file holds it.
fn content(name: &str, kind: &str, count: usize) -> (&'static str, Vec<u8>) {
    let value: fn(f32) -> f32 = match kind {
        "packed" => return ("U32", words(name, count).flat_map(u32::to_le_bytes).collect()),
        "exponents" => return ("U8", words(name, count).map(|word| 122 + (word >> 24) as u8 % 2).collect()),
        "norm" => |steps| 1.0 + (steps % 16.0 - 8.0) / 32.0,
        "scales4" => |steps| (8.0 + steps % 8.0) / 512.0,
        "biases4" => |steps| (8.0 + steps % 8.0) / 512.0 * -7.5,
        "scales8" => |steps| (8.0 + steps % 8.0) / 8192.0,
        "biases8" => |steps| (8.0 + steps % 8.0) / 8192.0 * -128.0,
        "wide" => |steps| (steps - 128.0) / 16.0,
        "matrix" => |steps| (steps - 128.0) / 512.0,
        other => panic!("{name} has content of an unknown kind, {other}"),
    };
    let source = name.strip_suffix("biases").map_or(name.to_owned(), |prefix| format!("{prefix}scales"));
    // The values are exact in bf16 too, but a GPU computes in the dtype that it finds.
    let f32 = |word: u32| value((word >> 24) as f32).to_le_bytes();
    ("F32", words(&source, count).flat_map(f32).collect())
}
