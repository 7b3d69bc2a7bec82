//! Model folders written tensor by tensor, sound or broken on purpose.

use crate::formula::words;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// A tensor as a file holds it.
#[derive(Clone)]
pub struct Tensor {
    pub name: String,
    pub dtype: &'static str,
    pub shape: Vec<i32>,
    pub bytes: Vec<u8>,
}

fn count(shape: &[i32]) -> usize {
    shape.iter().product::<i32>() as usize
}

impl Tensor {
    /// Codes of any bits, u32.
    pub fn codes(name: &str, shape: &[i32]) -> Tensor {
        let bytes = words(name, count(shape)).flat_map(u32::to_le_bytes).collect();
        Tensor { name: name.into(), dtype: "U32", shape: shape.into(), bytes }
    }

    /// Bytes from `least` on, `span` of them.
    pub fn bytes(name: &str, shape: &[i32], least: u8, span: u8) -> Tensor {
        let bytes = words(name, count(shape)).map(|word| least + (word >> 24) as u8 % span).collect();
        Tensor { name: name.into(), dtype: "U8", shape: shape.into(), bytes }
    }

    /// Multiples of 1/512 in -1/4..1/4: exact in f16, bf16 and f32.
    pub fn floats(name: &str, dtype: &'static str, shape: &[i32]) -> Tensor {
        let bytes = values(name, count(shape)).into_iter().flat_map(|value| encoded(value, dtype)).collect();
        Tensor { name: name.into(), dtype, shape: shape.into(), bytes }
    }

    /// The content of [`Tensor::floats`].
    pub fn values(&self) -> Vec<f32> {
        values(&self.name, count(&self.shape))
    }
}

fn values(name: &str, count: usize) -> Vec<f32> {
    words(name, count).map(|word| ((word >> 24) as f32 - 128.0) / 512.0).collect()
}

/// Bytes of a value that the dtype holds exactly.
fn encoded(value: f32, dtype: &str) -> Vec<u8> {
    let bits = value.to_bits();
    match dtype {
        "F32" => bits.to_le_bytes().to_vec(),
        "BF16" => ((bits >> 16) as u16).to_le_bytes().to_vec(),
        "F16" if value == 0.0 => vec![0, 0],
        "F16" => {
            let exponent = (bits >> 23 & 0xff) + 15 - 127;
            let half = bits >> 16 & 0x8000 | exponent << 10 | bits >> 13 & 0x3ff;
            (half as u16).to_le_bytes().to_vec()
        }
        other => panic!("no floats of dtype {other}"),
    }
}

/// A safetensors file of these tensors.
pub fn file(tensors: &[Tensor]) -> Vec<u8> {
    let (mut header, mut body) = (Map::new(), Vec::new());
    for tensor in tensors {
        let offsets = [body.len(), body.len() + tensor.bytes.len()];
        let entry = json!({ "dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": offsets });
        header.insert(tensor.name.clone(), entry);
        body.extend(&tensor.bytes);
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.bytes().chain(body));
    file
}

/// An empty folder of that name.
pub fn empty(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    folder
}

/// Writes a file of the folder.
pub fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    std::fs::write(folder.join(name), content).expect("the file is written");
}

/// A config of a one-layer llama with `extra` entries over it.
pub fn config(extra: Value) -> Value {
    let mut config = json!({
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1, "intermediate_size": 96,
        "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 64, "vocab_size": 48,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 64, "tie_word_embeddings": true
    });
    let (Value::Object(config), Value::Object(extra)) = (&mut config, extra) else {
        panic!("entries over a config are an object");
    };
    config.extend(extra);
    Value::Object(config.clone())
}

/// The tensors of [`config`]'s model, floats in `dtype`, with a head of its own or without.
pub fn llama(dtype: &'static str, head: Option<&str>) -> Vec<Tensor> {
    let layer = "model.layers.0";
    let matrices = [
        ("self_attn.q_proj", [64, 64]),
        ("self_attn.k_proj", [64, 64]),
        ("self_attn.v_proj", [64, 64]),
        ("self_attn.o_proj", [64, 64]),
        ("mlp.gate_proj", [96, 64]),
        ("mlp.up_proj", [96, 64]),
        ("mlp.down_proj", [64, 96]),
    ];
    let mut tensors: Vec<Tensor> = matrices
        .iter()
        .map(|(name, shape)| Tensor::floats(&format!("{layer}.{name}.weight"), dtype, shape))
        .collect();
    for norm in ["model.norm", "model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm"] {
        tensors.push(Tensor::floats(&format!("{norm}.weight"), dtype, &[64]));
    }
    tensors.push(Tensor::floats("model.embed_tokens.weight", dtype, &[48, 64]));
    tensors.extend(head.map(|name| Tensor::floats(name, dtype, &[48, 64])));
    tensors
}
