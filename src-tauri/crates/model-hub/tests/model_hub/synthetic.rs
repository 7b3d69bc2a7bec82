//! Builds the smallest GGUF file that imports, with every part open to change.

use std::path::{Path, PathBuf};

pub const F32: u32 = 0;
pub const Q4_0: u32 = 2;

/// A value of the metadata.
#[derive(Clone)]
pub enum Meta {
    Count(u32),
    Float(f32),
    Text(String),
    Texts(Vec<String>),
    Integers(Vec<i32>),
}

#[derive(Clone)]
pub struct Tensor {
    pub name: String,
    pub shape: Vec<u64>,
    pub kind: u32,
    pub data: Vec<u8>,
}

/// A GGUF file in parts.
#[derive(Clone)]
pub struct GgufFile {
    pub version: u32,
    pub metadata: Vec<(String, Meta)>,
    pub tensors: Vec<Tensor>,
}

fn text(value: &str) -> Vec<u8> {
    [(value.len() as u64).to_le_bytes().as_slice(), value.as_bytes()].concat()
}

impl GgufFile {
    /// One layer, width 32, two heads, three tokens.
    pub fn small() -> Self {
        let texts = |values: &[&str]| Meta::Texts(values.iter().map(ToString::to_string).collect());
        let metadata = [
            ("general.architecture", Meta::Text("llama".into())),
            ("general.license", Meta::Text("mit".into())),
            ("llama.block_count", Meta::Count(1)),
            ("llama.context_length", Meta::Count(64)),
            ("llama.embedding_length", Meta::Count(32)),
            ("llama.feed_forward_length", Meta::Count(32)),
            ("llama.attention.head_count", Meta::Count(2)),
            ("llama.attention.head_count_kv", Meta::Count(1)),
            ("llama.attention.layer_norm_rms_epsilon", Meta::Float(1e-5)),
            ("tokenizer.ggml.model", Meta::Text("gpt2".into())),
            ("tokenizer.ggml.pre", Meta::Text("smollm".into())),
            ("tokenizer.ggml.tokens", texts(&["a", "b", "ab"])),
            ("tokenizer.ggml.token_type", Meta::Integers(vec![1, 1, 1])),
            ("tokenizer.ggml.merges", texts(&["a b"])),
            ("tokenizer.ggml.eos_token_id", Meta::Count(2)),
        ];
        let mut tensors = vec![norm("output_norm"), norm("blk.0.attn_norm"), norm("blk.0.ffn_norm")];
        let modules = ["attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
        tensors.extend(modules.map(|module| matrix(&format!("blk.0.{module}"), 32)));
        tensors.extend(["attn_k", "attn_v"].map(|module| matrix(&format!("blk.0.{module}"), 16)));
        tensors.push(matrix("token_embd", 3));
        Self { version: 3, metadata: metadata.map(|(key, value)| (key.to_string(), value)).into(), tensors }
    }

    /// The same of another architecture.
    pub fn of_family(family: &str) -> Self {
        let mut file = Self::small();
        for (key, _) in &mut file.metadata {
            if let Some(name) = key.strip_prefix("llama.") {
                *key = format!("{family}.{name}");
            }
        }
        file.set("general.architecture", Meta::Text(family.into()));
        if family == "qwen3" {
            file.add_floats("blk.0.attn_q_norm.weight", vec![1.0; 16]);
            file.add_floats("blk.0.attn_k_norm.weight", vec![1.0; 16]);
        }
        if family == "qwen2" {
            for (module, rows) in [("attn_q", 32), ("attn_k", 16), ("attn_v", 16)] {
                file.add_floats(&format!("blk.0.{module}.bias"), (0..rows).map(|i| i as f32).collect());
            }
        }
        file
    }

    pub fn add_floats(&mut self, name: &str, values: Vec<f32>) {
        let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensors.push(Tensor { name: name.into(), shape: vec![values.len() as u64], kind: F32, data });
    }

    pub fn set(&mut self, key: &str, value: Meta) {
        self.metadata.retain(|(existing, _)| existing != key);
        self.metadata.push((key.to_string(), value));
    }

    pub fn remove(&mut self, key: &str) {
        self.metadata.retain(|(existing, _)| existing != key);
    }

    pub fn tensor(&mut self, name: &str) -> &mut Tensor {
        self.tensors.iter_mut().find(|tensor| tensor.name == name).expect("a tensor of the small model")
    }

    /// The bytes of the file, without padding after the last tensor.
    pub fn bytes(&self) -> Vec<u8> {
        let mut head = b"GGUF".to_vec();
        head.extend(self.version.to_le_bytes());
        head.extend((self.tensors.len() as u64).to_le_bytes());
        head.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, value) in &self.metadata {
            head.extend(text(key));
            head.extend(encoded(value));
        }
        let mut payload = Vec::new();
        for tensor in &self.tensors {
            payload.resize(payload.len().next_multiple_of(32), 0);
            head.extend(text(&tensor.name));
            head.extend((tensor.shape.len() as u32).to_le_bytes());
            tensor.shape.iter().rev().for_each(|dimension| head.extend(dimension.to_le_bytes()));
            head.extend(tensor.kind.to_le_bytes());
            head.extend((payload.len() as u64).to_le_bytes());
            payload.extend(&tensor.data);
        }
        head.resize(head.len().next_multiple_of(32), 0);
        [head, payload].concat()
    }

    pub fn write(&self, folder: &Path) -> PathBuf {
        let path = folder.join("model.gguf");
        std::fs::write(&path, self.bytes()).unwrap();
        path
    }
}

fn encoded(value: &Meta) -> Vec<u8> {
    let tagged = |tag: u32, bytes: Vec<u8>| [tag.to_le_bytes().to_vec(), bytes].concat();
    let array = |tag: u32, count: usize, items: Vec<u8>| {
        tagged(9, [tag.to_le_bytes().to_vec(), (count as u64).to_le_bytes().to_vec(), items].concat())
    };
    match value {
        Meta::Count(count) => tagged(4, count.to_le_bytes().to_vec()),
        Meta::Float(number) => tagged(6, number.to_le_bytes().to_vec()),
        Meta::Text(value) => tagged(8, text(value)),
        Meta::Texts(values) => array(8, values.len(), values.iter().flat_map(|value| text(value)).collect()),
        Meta::Integers(values) => {
            array(5, values.len(), values.iter().flat_map(|value| value.to_le_bytes()).collect())
        }
    }
}

fn norm(module: &str) -> Tensor {
    let data = (0..32).flat_map(|i| (i as f32 / 8.0).to_le_bytes()).collect();
    Tensor { name: format!("{module}.weight"), shape: vec![32], kind: F32, data }
}

fn matrix(module: &str, rows: u64) -> Tensor {
    let data = (0..rows * 18).map(|i| (i % 60) as u8).collect();
    Tensor { name: format!("{module}.weight"), shape: vec![rows, 32], kind: Q4_0, data }
}
