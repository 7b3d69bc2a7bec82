use serde_json::{Map, Value, json};

use super::{family::Family, rope};
use crate::{Gguf, MetadataArray, MetadataValue, ModelHubError, gguf::describe};

/// The shape of a model, from GGUF metadata.
#[derive(Debug, Clone)]
pub(super) struct Hyperparameters {
    pub(super) family: Family,
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
    rope_scaling: Option<Value>,
    /// Whether [`rope::ROPE_FREQS`] is what `rope_scaling` comes from.
    pub(super) has_rope_divisors: bool,
}

impl Hyperparameters {
    /// Reads and cross-checks the metadata.
    pub(super) fn read(gguf: &Gguf) -> Result<Self, ModelHubError> {
        let family = Family::of(gguf)?;
        refuse_experts(gguf, family)?;
        let count = |name: &str| gguf.count(&family.key(name));
        let (hidden, heads) = (count("embedding_length")?, count("attention.head_count")?);
        let kv_heads_key = family.key("attention.head_count_kv");
        let kv_heads = gguf.optional_count(&kv_heads_key)?.unwrap_or(heads);
        if heads % kv_heads != 0 {
            return Err(gguf.unusable(&kv_heads_key, format!("= {kv_heads} for {heads} heads")));
        }
        let head_dim = head_dim(gguf, family, hidden, heads)?;
        let rope_theta = float(gguf, &family.key("rope.freq_base"))?.unwrap_or(10_000.0);
        let has_rope_divisors = family == Family::Llama
            && matches!(gguf.text(&family.key("rope.scaling.type")), None | Some("none"))
            && gguf.tensor(rope::ROPE_FREQS).is_some();
        let rope_scaling = if has_rope_divisors {
            Some(rope::llama3_scaling(gguf, rope_theta, head_dim)?)
        } else {
            rope_scaling(gguf, family)?
        };
        let eps_key = family.key("attention.layer_norm_rms_epsilon");
        let parameters = Self {
            family,
            hidden,
            layers: count("block_count")?,
            intermediate: count("feed_forward_length")?,
            heads,
            kv_heads,
            head_dim,
            vocab_tokens: vocab_tokens(gguf)?,
            context_tokens: count("context_length")?,
            rms_norm_eps: float(gguf, &eps_key)?.ok_or_else(|| gguf.missing(&eps_key))?,
            rope_theta,
            rope_scaling,
            has_rope_divisors,
        };
        if parameters.layers > 1024 {
            return Err(gguf.unusable(
                &family.key("block_count"),
                format!("= {}, more than any model", parameters.layers),
            ));
        }
        Ok(parameters)
    }

    /// The entries of `config.json` that follow from the metadata alone.
    pub(super) fn config(&self, gguf: &Gguf) -> Map<String, Value> {
        let mut config = Map::new();
        let mut set = |key: &str, value: Value| {
            config.insert(key.to_string(), value);
        };
        set("model_type", json!(self.family.model_type()));
        set("architectures", json!([self.family.class()]));
        set("hidden_size", json!(self.hidden));
        set("num_hidden_layers", json!(self.layers));
        set("intermediate_size", json!(self.intermediate));
        set("num_attention_heads", json!(self.heads));
        set("num_key_value_heads", json!(self.kv_heads));
        set("head_dim", json!(self.head_dim));
        set("rms_norm_eps", json!(self.rms_norm_eps));
        set("vocab_size", json!(self.vocab_tokens));
        set("rope_theta", json!(self.rope_theta));
        if let Some(scaling) = &self.rope_scaling {
            set("rope_scaling", scaling.clone());
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

fn refuse_experts(gguf: &Gguf, family: Family) -> Result<(), ModelHubError> {
    let key = family.key("expert_count");
    match gguf.metadata(&key) {
        None | Some(MetadataValue::Integer(0)) => Ok(()),
        Some(other) => Err(gguf.unusable(&key, format!("= {}: mixtures are not supported", describe(other)))),
    }
}

fn head_dim(gguf: &Gguf, family: Family, hidden: u64, heads: u64) -> Result<u64, ModelHubError> {
    let heads_key = family.key("attention.head_count");
    let head_dim = match gguf.optional_count(&family.key("attention.key_length"))? {
        Some(given) => given,
        None if hidden.is_multiple_of(heads) => hidden / heads,
        None => return Err(gguf.unusable(&heads_key, format!("= {heads} for a width of {hidden}"))),
    };
    if head_dim % 2 != 0 {
        return Err(gguf.unusable(&heads_key, format!("= {heads}: heads would be {head_dim} wide")));
    }
    for name in ["rope.dimension_count", "attention.value_length"] {
        let key = family.key(name);
        let given = gguf.optional_count(&key)?.unwrap_or(head_dim);
        if given != head_dim {
            return Err(gguf.unusable(&key, format!("= {given} where heads are {head_dim} wide")));
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

fn rope_scaling(gguf: &Gguf, family: Family) -> Result<Option<Value>, ModelHubError> {
    let key = family.key("rope.scaling.type");
    match gguf.text(&key) {
        None | Some("none") => Ok(None),
        Some("linear") => {
            let key = family.key("rope.scaling.factor");
            let factor = float(gguf, &key)?.ok_or_else(|| gguf.missing(&key))?;
            Ok(Some(json!({ "type": "linear", "factor": factor })))
        }
        Some(other) => Err(gguf.unusable(&key, format!("= \"{other}\", which is not supported"))),
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
