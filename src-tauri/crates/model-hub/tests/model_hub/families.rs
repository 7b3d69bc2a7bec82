//! Families beyond plain Llama: Qwen2, Qwen3, Llama 3's scaled RoPE, and their tokenizers.

use std::{f64::consts::TAU, fs, path::Path};

use model_hub::{ModelHubError, import_gguf};
use safetensors::SafeTensors;
use serde_json::{Value, json};
use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer as _, Tokenizer};

use crate::synthetic::{GgufFile, Meta};

struct Imported(tempfile::TempDir);

impl Imported {
    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.folder().join(name)).unwrap()).unwrap()
    }

    fn folder(&self) -> std::path::PathBuf {
        self.0.path().join("out")
    }

    fn tensor(&self, name: &str) -> Option<Vec<u8>> {
        let bytes = fs::read(self.folder().join("model.safetensors")).unwrap();
        SafeTensors::deserialize(&bytes).unwrap().tensor(name).ok().map(|view| view.data().to_vec())
    }
}

fn import(file: &GgufFile) -> Result<Imported, ModelHubError> {
    let place = tempfile::tempdir().unwrap();
    let source = file.write(place.path());
    import_gguf(&source, &place.path().join("out"))?;
    Ok(Imported(place))
}

const KEYS: &str = "model.layers.0.self_attn.k_proj.weight";
const VALUES: &str = "model.layers.0.self_attn.v_proj.weight";

#[test]
fn only_llamas_queries_and_keys_are_put_back_in_order() {
    // Keys and values of the small model are equal as they are stored.
    for (family, is_reordered) in [("llama", true), ("qwen2", false), ("qwen3", false)] {
        let model = import(&GgufFile::of_family(family)).unwrap();
        assert_eq!(model.tensor(KEYS) != model.tensor(VALUES), is_reordered, "{family}");
    }
}

#[test]
fn qwen3_has_norms_of_heads() {
    let model = import(&GgufFile::of_family("qwen3")).unwrap();
    let config = model.json("config.json");
    assert_eq!((&config["model_type"], &config["head_dim"]), (&json!("qwen3"), &json!(16)));
    assert_eq!(config["attention_bias"], false);
    for part in ["q_norm", "k_norm"] {
        let norm = model.tensor(&format!("model.layers.0.self_attn.{part}.weight")).unwrap();
        assert_eq!(norm, [0x00, 0x3C].repeat(16), "sixteen ones in half precision");
    }
    let mut without = GgufFile::of_family("qwen3");
    without.tensors.retain(|tensor| tensor.name != "blk.0.attn_k_norm.weight");
    let error = import(&without).err().unwrap();
    assert!(
        matches!(&error, ModelHubError::MissingTensor { tensor, .. } if tensor == "blk.0.attn_k_norm.weight"),
        "{error:?}"
    );
    let mut llama = GgufFile::small();
    llama.add_floats("blk.0.attn_k_norm.weight", vec![1.0; 16]);
    let error = import(&llama).err().unwrap();
    assert!(matches!(error, ModelHubError::UnexpectedTensor { .. }), "{error:?}");
}

#[test]
fn qwen2_has_its_biases_in_the_order_of_its_rows_and_says_nothing_of_them() {
    let model = import(&GgufFile::of_family("qwen2")).unwrap();
    let config = model.json("config.json");
    assert_eq!((config.get("attention_bias"), config.get("mlp_bias")), (None, None));
    let bias = model.tensor("model.layers.0.self_attn.q_proj.bias").unwrap();
    let expected: Vec<u8> = (0..32).flat_map(|i| half::f16::from_f32(i as f32).to_le_bytes()).collect();
    assert_eq!(bias, expected);
}

#[test]
fn the_context_is_read_by_the_familys_own_key() {
    let mut file = GgufFile::of_family("qwen3");
    file.set("qwen3.context_length", Meta::Count(4096));
    file.set("llama.context_length", Meta::Count(1));
    let model = import(&file).unwrap();
    assert_eq!(model.json("config.json")["max_position_embeddings"], 4096);
    assert_eq!(model.json("tokenizer_config.json")["model_max_length"], 4096);
}

/// What llama.cpp's converter writes for Llama 3's scaling, by the definition in the model card: wavelengths in tokens,
/// compared with the original context divided by both factors.
fn divisors(theta: f64, head_dim: usize, factor: f64) -> Vec<f32> {
    let (long, short) = (8192.0 / 1.0, 8192.0 / 4.0);
    let divisor = |pair: usize| {
        let wavelength = TAU * theta.powf(2.0 * pair as f64 / head_dim as f64);
        if wavelength < short {
            1.0
        } else if wavelength > long {
            factor
        } else {
            let smooth = (8192.0 / wavelength - 1.0) / (4.0 - 1.0);
            1.0 / ((1.0 - smooth) / factor + smooth)
        }
    };
    (0..head_dim / 2).map(|pair| divisor(pair) as f32).collect()
}

fn with_divisors(divisors: Vec<f32>) -> GgufFile {
    let mut file = GgufFile::small();
    file.set("llama.rope.freq_base", Meta::Float(500_000.0));
    file.add_floats("rope_freqs.weight", divisors);
    file
}

#[test]
fn llama_3s_divisors_become_its_rope_scaling() {
    for factor in [8.0, 32.0] {
        let model = import(&with_divisors(divisors(500_000.0, 16, factor))).unwrap();
        let expected = json!({
            "rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        });
        assert_eq!(model.json("config.json")["rope_scaling"], expected);
        assert_eq!(model.tensor("rope_freqs.weight"), None, "it is in the config");
    }
    assert_eq!(import(&GgufFile::small()).unwrap().json("config.json").get("rope_scaling"), None);
}

#[test]
fn divisors_of_no_published_scaling_are_refused() {
    let mut bent = divisors(500_000.0, 16, 8.0);
    bent[7] *= 1.01;
    let mut linear = with_divisors(divisors(500_000.0, 16, 8.0));
    linear.set("llama.rope.scaling.type", Meta::Text("linear".into()));
    linear.set("llama.rope.scaling.factor", Meta::Float(2.0));
    let short = with_divisors(vec![1.0; 7]);
    let none = with_divisors(vec![f32::NAN; 8]);
    for file in [with_divisors(bent), linear, short, none] {
        let error = import(&file).err().unwrap();
        assert!(
            matches!(&error, ModelHubError::UnexpectedTensor { tensor, .. } if tensor == "rope_freqs.weight"),
            "{error:?}"
        );
    }
}

fn tokenizer(pre: &str, tokens: &[&str], merges: &[&str]) -> Tokenizer {
    let texts = |texts: &[&str]| Meta::Texts(texts.iter().map(ToString::to_string).collect());
    let mut file = GgufFile::small();
    file.set("tokenizer.ggml.pre", Meta::Text(pre.into()));
    file.set("tokenizer.ggml.tokens", texts(tokens));
    file.set("tokenizer.ggml.merges", texts(merges));
    file.set("tokenizer.ggml.token_type", Meta::Integers(vec![1; tokens.len()]));
    file.set("tokenizer.ggml.eos_token_id", Meta::Count(0));
    let rows = tokens.len() as u64;
    let embedding = file.tensor("token_embd.weight");
    embedding.shape[0] = rows;
    embedding.data.resize(rows as usize * 18, 0);
    let model = import(&file).unwrap();
    Tokenizer::from_file(Path::new(&model.folder()).join("tokenizer.json")).unwrap()
}

fn pieces(tokenizer: &Tokenizer, text: &str) -> Vec<String> {
    let mut split = PreTokenizedString::from(text);
    tokenizer.get_pre_tokenizer().unwrap().pre_tokenize(&mut split).unwrap();
    let pieces = split.get_splits(OffsetReferential::Original, OffsetType::Byte);
    pieces.into_iter().map(|(_, (start, end), _)| text[start..end].to_string()).collect()
}

#[test]
fn llama_3_and_qwen_2_split_words_alike_and_numbers_differently() {
    let text = "I'll  pay 12345€ (now)\n\nDON'T ask";
    let words = ["I", "'ll", " ", " pay", " "];
    let rest = ["€", " (", "now", ")\n\n", "DON", "'T", " ask"];
    let llama = tokenizer("llama-bpe", &["a", "b", "ab"], &["a b"]);
    assert_eq!(pieces(&llama, text), [&words[..], &["123", "45"], &rest].concat());
    let qwen = tokenizer("qwen2", &["a", "b", "ab"], &["a b"]);
    assert_eq!(pieces(&qwen, text), [&words[..], &["1", "2", "3", "4", "5"], &rest].concat());
}

#[test]
fn llama_3_takes_whole_tokens_without_merging() {
    // "abc" cannot be merged: no merge makes "ab".
    let tokens = ["a", "b", "c", "bc", "abc"];
    let ids = |pre| tokenizer(pre, &tokens, &["b c"]).encode_fast("abc", false).unwrap().get_ids().to_vec();
    assert_eq!(ids("llama-bpe"), [4]);
    assert_eq!(ids("qwen2"), [0, 3]);
}

#[test]
fn qwen_2_composes_characters_first() {
    // é in the alphabet of bytes, as one character and as e with an accent.
    let tokens = ["e", "Ã", "©", "Ã©", "Ì", "ģ"];
    let ids = |pre| {
        let tokenizer = tokenizer(pre, &tokens, &["Ã ©"]);
        tokenizer.encode_fast("e\u{301}", false).unwrap().get_ids().to_vec()
    };
    assert_eq!(ids("qwen2"), [3]);
    assert_eq!(ids("llama-bpe"), [0, 4, 5]);
}
