use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{blocks::GROUP_WEIGHTS, family::Family, hyperparameters::Hyperparameters, rope};
use crate::{Gguf, ModelHubError, TensorInfo, TensorType};

/// One tensor of the source and what it becomes.
#[derive(Debug, Clone)]
pub(super) struct PlannedTensor {
    pub(super) source: TensorInfo,
    /// Parameter it belongs to, for example `model.layers.0.self_attn.q_proj`.
    pub(super) module: String,
    /// `weight` or `bias`.
    pub(super) part: &'static str,
    /// Heads whose rows are to be put back in order; `None` for anything but queries and keys.
    pub(super) permuted_heads: Option<usize>,
}

/// Every tensor of the model, complete and of the right shape.
#[derive(Debug)]
pub(super) struct Plan {
    family: Family,
    pub(super) tensors: Vec<PlannedTensor>,
    has_output_head: bool,
    has_attention_bias: bool,
    has_mlp_bias: bool,
}

impl Plan {
    /// Matches the file's tensors with those of the model, both ways: none missing, none left over.
    pub(super) fn new(gguf: &Gguf, parameters: &Hyperparameters) -> Result<Self, ModelHubError> {
        let mut matcher = Matcher { gguf, used: BTreeSet::new(), tensors: Vec::new() };
        let (hidden, vocab) = (parameters.hidden, parameters.vocab_tokens);
        matcher.required("token_embd", "model.embed_tokens", &[vocab, hidden], None)?;
        matcher.required("output_norm", "model.norm", &[hidden], None)?;
        let has_output_head = gguf.tensor("output.weight").is_some();
        if has_output_head {
            matcher.required("output", "lm_head", &[vocab, hidden], None)?;
        }
        for layer in 0..parameters.layers {
            matcher.layer(layer, parameters)?;
        }
        let is_spoken_for = |name: &str| {
            matcher.used.contains(name) || (name == rope::ROPE_FREQS && parameters.has_rope_divisors)
        };
        if let Some(left_over) = gguf.tensors().find(|tensor| !is_spoken_for(&tensor.name)) {
            return Err(ModelHubError::UnexpectedTensor {
                path: gguf.path().to_path_buf(),
                tensor: left_over.name.clone(),
            });
        }
        let tensors = matcher.tensors;
        let has_bias =
            |infix: &str| tensors.iter().any(|tensor| tensor.part == "bias" && tensor.module.contains(infix));
        let (has_attention_bias, has_mlp_bias) = (has_bias(".self_attn."), has_bias(".mlp."));
        Ok(Self { family: parameters.family, tensors, has_output_head, has_attention_bias, has_mlp_bias })
    }

    /// Adds what `config.json` says about the weights.
    pub(super) fn describe(&self, config: &mut Map<String, Value>) {
        config.insert("tie_word_embeddings".into(), json!(!self.has_output_head));
        if self.family.tells_biases() {
            config.insert("attention_bias".into(), json!(self.has_attention_bias));
            config.insert("mlp_bias".into(), json!(self.has_mlp_bias));
        }
        let quantised: Vec<(&str, u32)> = self
            .tensors
            .iter()
            .filter_map(|tensor| Some((tensor.module.as_str(), tensor.source.tensor_type.quantised_bits()?)))
            .collect();
        let count = |bits: u32| quantised.iter().filter(|(_, each)| *each == bits).count();
        let Some(usual_bits) =
            [4, 8].into_iter().filter(|bits| count(*bits) > 0).max_by_key(|bits| count(*bits))
        else {
            return;
        };
        let mut quantization = Map::new();
        quantization.insert("group_size".into(), json!(GROUP_WEIGHTS));
        quantization.insert("bits".into(), json!(usual_bits));
        for (module, bits) in quantised.into_iter().filter(|(_, bits)| *bits != usual_bits) {
            quantization.insert(module.into(), json!({ "group_size": GROUP_WEIGHTS, "bits": bits }));
        }
        config.insert("quantization".into(), Value::Object(quantization));
    }
}

struct Matcher<'a> {
    gguf: &'a Gguf,
    used: BTreeSet<String>,
    tensors: Vec<PlannedTensor>,
}

impl Matcher<'_> {
    fn layer(&mut self, layer: u64, parameters: &Hyperparameters) -> Result<(), ModelHubError> {
        let Hyperparameters { hidden, intermediate, heads, kv_heads, head_dim, .. } = *parameters;
        let (query_rows, kv_rows) = (heads * head_dim, kv_heads * head_dim);
        let permuted = |heads: u64| parameters.family.has_permuted_heads().then_some(heads);
        let modules = [
            ("attn_norm", "input_layernorm", vec![hidden], None),
            ("attn_q", "self_attn.q_proj", vec![query_rows, hidden], permuted(heads)),
            ("attn_k", "self_attn.k_proj", vec![kv_rows, hidden], permuted(kv_heads)),
            ("attn_v", "self_attn.v_proj", vec![kv_rows, hidden], None),
            ("attn_output", "self_attn.o_proj", vec![hidden, query_rows], None),
            ("ffn_norm", "post_attention_layernorm", vec![hidden], None),
            ("ffn_gate", "mlp.gate_proj", vec![intermediate, hidden], None),
            ("ffn_up", "mlp.up_proj", vec![intermediate, hidden], None),
            ("ffn_down", "mlp.down_proj", vec![hidden, intermediate], None),
        ];
        let head_norms = [
            ("attn_q_norm", "self_attn.q_norm", vec![head_dim], None),
            ("attn_k_norm", "self_attn.k_norm", vec![head_dim], None),
        ];
        let has_head_norms = parameters.family.has_head_norms();
        for (source, target, shape, permuted_heads) in
            modules.into_iter().chain(head_norms.into_iter().filter(|_| has_head_norms))
        {
            self.required(
                &format!("blk.{layer}.{source}"),
                &format!("model.layers.{layer}.{target}"),
                &shape,
                permuted_heads,
            )?;
        }
        Ok(())
    }

    /// Takes a module's weight, which must be there, and its bias, if there is one.
    fn required(
        &mut self,
        source: &str,
        module: &str,
        shape: &[u64],
        permuted_heads: Option<u64>,
    ) -> Result<(), ModelHubError> {
        self.take(&format!("{source}.weight"), module, "weight", shape, permuted_heads)?;
        let bias = format!("{source}.bias");
        if shape.len() == 2 && self.gguf.tensor(&bias).is_some() {
            self.take(&bias, module, "bias", &shape[..1], permuted_heads)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        name: &str,
        module: &str,
        part: &'static str,
        shape: &[u64],
        permuted_heads: Option<u64>,
    ) -> Result<(), ModelHubError> {
        let path = || self.gguf.path().to_path_buf();
        let Some(tensor) = self.gguf.tensor(name) else {
            return Err(ModelHubError::MissingTensor { path: path(), tensor: name.to_string() });
        };
        if let TensorType::Other(_) = tensor.tensor_type {
            return Err(ModelHubError::UnsupportedTensorType {
                path: path(),
                tensor: name.to_string(),
                tensor_type: tensor.tensor_type.name(),
            });
        }
        if tensor.shape != shape || (shape.len() == 1 && tensor.tensor_type.quantised_bits().is_some()) {
            return Err(ModelHubError::WrongShape {
                path: path(),
                tensor: name.to_string(),
                expected: shape.to_vec(),
                found: tensor.shape.clone(),
            });
        }
        self.used.insert(name.to_string());
        self.tensors.push(PlannedTensor {
            source: tensor.clone(),
            module: module.to_string(),
            part,
            permuted_heads: permuted_heads.and_then(|heads| usize::try_from(heads).ok()),
        });
        Ok(())
    }
}
