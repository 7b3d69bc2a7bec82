use serde_json::{Map, Value, json};

use crate::{Gguf, MetadataArray, MetadataValue, ModelHubError, gguf::describe};

/// The shape of a Llama model, from GGUF metadata.
#[derive(Debug, Clone)]
pub(super) struct Hyperparameters {
    pub(super) hidden: u64,
    pub(super) layers: u64,
    pub(super) intermediate: u64,
    pub(super) heads: u64,
    pub(super) kv_heads: u64,
    pub(super) head_dim: u64,
    pub(super) vocab_tokens: u64,
    context_tokens: u64,
    rms_norm_eps: f64,
    rope_theta: f64,
    linear_rope_factor: Option<f64>,
}

impl Hyperparameters {
    /// Reads and cross-checks the metadata of a Llama file.
    pub(super) fn read(gguf: &Gguf) -> Result<Self, ModelHubError> {
        let architecture =
            gguf.text("general.architecture").ok_or_else(|| gguf.missing("general.architecture"))?;
        if architecture != "llama" {
            return Err(ModelHubError::UnsupportedArchitecture {
                path: gguf.path().to_path_buf(),
                architecture: architecture.to_string(),
            });
        }
        refuse_experts(gguf)?;
        let hidden = gguf.count("llama.embedding_length")?;
        let heads = gguf.count("llama.attention.head_count")?;
        let kv_heads = gguf.optional_count("llama.attention.head_count_kv")?.unwrap_or(heads);
        if heads % kv_heads != 0 {
            return Err(
                gguf.unusable("llama.attention.head_count_kv", format!("= {kv_heads} for {heads} heads"))
            );
        }
        let parameters = Self {
            hidden,
            layers: gguf.count("llama.block_count")?,
            intermediate: gguf.count("llama.feed_forward_length")?,
            heads,
            kv_heads,
            head_dim: head_dim(gguf, hidden, heads)?,
            vocab_tokens: vocab_tokens(gguf)?,
            context_tokens: gguf.count("llama.context_length")?,
            rms_norm_eps: float(gguf, "llama.attention.layer_norm_rms_epsilon")?
                .ok_or_else(|| gguf.missing("llama.attention.layer_norm_rms_epsilon"))?,
            rope_theta: float(gguf, "llama.rope.freq_base")?.unwrap_or(10_000.0),
            linear_rope_factor: linear_rope_factor(gguf)?,
        };
        if parameters.layers > 1024 {
            return Err(
                gguf.unusable("llama.block_count", format!("= {}, more than any model", parameters.layers))
            );
        }
        Ok(parameters)
    }

    /// The entries of `config.json` that follow from the metadata alone.
    pub(super) fn config(&self, gguf: &Gguf) -> Map<String, Value> {
        let mut config = Map::new();
        let mut set = |key: &str, value: Value| {
            config.insert(key.to_string(), value);
        };
        set("model_type", json!("llama"));
        set("architectures", json!(["LlamaForCausalLM"]));
        set("hidden_size", json!(self.hidden));
        set("num_hidden_layers", json!(self.layers));
        set("intermediate_size", json!(self.intermediate));
        set("num_attention_heads", json!(self.heads));
        set("num_key_value_heads", json!(self.kv_heads));
        set("head_dim", json!(self.head_dim));
        set("rms_norm_eps", json!(self.rms_norm_eps));
        set("vocab_size", json!(self.vocab_tokens));
        set("rope_theta", json!(self.rope_theta));
        if let Some(factor) = self.linear_rope_factor {
            set("rope_scaling", json!({ "type": "linear", "factor": factor }));
        }
        set("max_position_embeddings", json!(self.context_tokens));
        set("hidden_act", json!("silu"));
        set("torch_dtype", json!("float16"));
        for (key, source) in [
            ("bos_token_id", "bos_token_id"),
            ("eos_token_id", "eos_token_id"),
            ("pad_token_id", "padding_token_id"),
        ] {
            if let Some(MetadataValue::Integer(id)) = gguf.metadata(&format!("tokenizer.ggml.{source}")) {
                set(key, json!(id));
            }
        }
        for (key, source) in [
            ("name", "general.name"),
            ("license", "general.license"),
            ("organization", "general.organization"),
        ] {
            if let Some(text) = gguf.text(source) {
                set(key, json!(text));
            }
        }
        config
    }
}

fn refuse_experts(gguf: &Gguf) -> Result<(), ModelHubError> {
    match gguf.metadata("llama.expert_count") {
        None | Some(MetadataValue::Integer(0)) => Ok(()),
        Some(other) => {
            Err(gguf
                .unusable("llama.expert_count", format!("= {}: mixtures are not supported", describe(other))))
        }
    }
}

fn head_dim(gguf: &Gguf, hidden: u64, heads: u64) -> Result<u64, ModelHubError> {
    let head_dim = match gguf.optional_count("llama.attention.key_length")? {
        Some(given) => given,
        None if hidden.is_multiple_of(heads) => hidden / heads,
        None => {
            return Err(
                gguf.unusable("llama.attention.head_count", format!("= {heads} for a width of {hidden}"))
            );
        }
    };
    if head_dim % 2 != 0 {
        return Err(
            gguf.unusable("llama.attention.head_count", format!("= {heads}: heads would be {head_dim} wide"))
        );
    }
    for key in ["llama.rope.dimension_count", "llama.attention.value_length"] {
        let given = gguf.optional_count(key)?.unwrap_or(head_dim);
        if given != head_dim {
            return Err(gguf.unusable(key, format!("= {given} where heads are {head_dim} wide")));
        }
    }
    Ok(head_dim)
}

fn vocab_tokens(gguf: &Gguf) -> Result<u64, ModelHubError> {
    match gguf.metadata("tokenizer.ggml.tokens") {
        Some(MetadataValue::Array(MetadataArray::Texts(tokens))) if !tokens.is_empty() => {
            Ok(tokens.len() as u64)
        }
        Some(_) => Err(gguf.unusable("tokenizer.ggml.tokens", "that is not a list of tokens")),
        None => Err(gguf.missing("tokenizer.ggml.tokens")),
    }
}

fn linear_rope_factor(gguf: &Gguf) -> Result<Option<f64>, ModelHubError> {
    match gguf.text("llama.rope.scaling.type") {
        None | Some("none") => Ok(None),
        Some("linear") => float(gguf, "llama.rope.scaling.factor"),
        Some(other) => {
            Err(gguf.unusable("llama.rope.scaling.type", format!("= \"{other}\", which is not supported")))
        }
    }
}

/// A positive finite number, or `None` if the key is absent.
fn float(gguf: &Gguf, key: &str) -> Result<Option<f64>, ModelHubError> {
    let value = match gguf.metadata(key) {
        None => return Ok(None),
        // The shortest decimal that gives this f32: 1e-5, not 9.99999974738e-6.
        Some(MetadataValue::F32(value)) => value.to_string().parse().unwrap_or(f64::NAN),
        Some(MetadataValue::F64(value)) => *value,
        Some(_) => f64::NAN,
    };
    if value.is_finite() && value > 0.0 {
        return Ok(Some(value));
    }
    Err(gguf.unusable(key, "that is not a positive number"))
}
