//! Pre-norm decoder with grouped-query attention, rotary positions and a gated SiLU MLP.
//!
//! Two architectures share it. Llama: Touvron et al. 2023, arXiv:2307.09288. Qwen3 norms each query and key head
//! before it turns them: Yang et al. 2025, arXiv:2505.09388. Tensor names as Hugging Face's checkpoints have them.

use super::HeadShape;
use super::linear::{Bias, Embedding, Linear};
use crate::attention::Pass;
use crate::error::Result;
use crate::load::Weights;
use crate::mx::packed::Input;
use crate::mx::{Array, Dtype, ops};

/// Whether query and key heads have norms of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadNorms {
    /// Llama.
    Absent,
    /// Qwen3.
    PerHead,
}

struct Layer {
    attention_norm: Array,
    qkv: Linear,
    /// `[heads + kv_heads, head_dim]`: one row per query head, then one per key head.
    head_norms: Option<Array>,
    output: Linear,
    mlp_norm: Array,
    gate_up: Linear,
    down: Linear,
}

/// The whole decoder.
pub struct Decoder {
    heads: HeadShape,
    norm_eps: f32,
    embedding: Embedding,
    layers: Vec<Layer>,
    norm: Array,
    /// `None` when the head is the embedding.
    head: Option<Linear>,
}

impl Decoder {
    /// Takes the tensors of the architecture.
    ///
    /// # Errors
    /// [`crate::MlxError::Shape`], [`crate::MlxError::Op`].
    pub fn load(weights: &mut Weights<'_>, head_norms: HeadNorms) -> Result<Decoder> {
        let config = weights.config();
        let heads = HeadShape::of(config);
        let layers: Result<Vec<Layer>> = (0..config.layers)
            .map(|index| Layer::load(weights, &format!("model.layers.{index}"), head_norms))
            .collect();
        Ok(Decoder {
            heads,
            norm_eps: config.norm_eps,
            embedding: weights.embedding("model.embed_tokens", config.vocab, config.hidden)?,
            layers: layers?,
            norm: weights.vector("model.norm.weight", config.hidden)?,
            head: match config.is_tied {
                true => None,
                false => Some(weights.linear("lm_head", config.vocab, config.hidden, Bias::Absent)?),
            },
        })
    }

    /// Hidden states after the last layer's norm: ids `[B, T]` to `[B, T, hidden]`.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn hidden(&self, ids: &Array, pass: &mut Pass<'_>) -> Result<Array> {
        let mut x = self.embedding.look_up(ids)?;
        for (index, layer) in self.layers.iter().enumerate() {
            x = self.attention(index, layer, &x, pass)?;
            x = self.mlp(layer, &x)?;
        }
        ops::rms_norm(&x, &self.norm, self.norm_eps)
    }

    /// Attention added to its input.
    fn attention(&self, index: usize, layer: &Layer, x: &Array, pass: &mut Pass<'_>) -> Result<Array> {
        let HeadShape { heads, kv_heads, head_dim } = self.heads;
        let (rows, tokens) = (x.dim(0), x.dim(1));
        let normed = Input::Normed { x, weight: &layer.attention_norm, eps: self.norm_eps };
        let qkv = layer.qkv.apply_to(normed, None)?;
        let qkv = ops::reshape(&qkv, &[rows, tokens, heads + 2 * kv_heads, head_dim])?;
        // Queries and keys are normed and turned together: one operation each instead of two.
        let mut turning = ops::slice_axis(&qkv, 2, 0, heads + kv_heads)?;
        if let Some(weights) = &layer.head_norms {
            turning = ops::multiply(&ops::rms_unit(&turning, self.norm_eps)?, weights)?;
        }
        let turned = pass.rotate(&ops::transpose_axes(&turning, &[0, 2, 1, 3])?)?;
        let qkv = ops::transpose_axes(&qkv, &[0, 2, 1, 3])?;
        let q = ops::slice_axis(&turned, 1, 0, heads)?;
        let k = ops::slice_axis(&turned, 1, heads, heads + kv_heads)?;
        let v = ops::slice_axis(&qkv, 1, heads + kv_heads, heads + 2 * kv_heads)?;
        let attended = pass.attend(index, &q, k, v, self.heads.scale())?;
        layer.output.apply_to(Input::Plain(&attended), Some(x))
    }

    /// The MLP added to its input.
    fn mlp(&self, layer: &Layer, x: &Array) -> Result<Array> {
        let normed = Input::Normed { x, weight: &layer.mlp_norm, eps: self.norm_eps };
        let gate_up = layer.gate_up.apply_to(normed, None)?;
        layer.down.apply_to(Input::Gated(&gate_up), Some(x))
    }

    /// Logits of hidden states: `[B, T, hidden]` to `[B, T, vocab]`.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn logits(&self, hidden: &Array) -> Result<Array> {
        match &self.head {
            Some(head) => head.apply(hidden),
            None => self.embedding.project(hidden),
        }
    }

    /// Dtype of activations: that of the norms.
    pub fn compute_dtype(&self) -> Dtype {
        self.norm.dtype()
    }

    /// Every array of the model.
    pub fn arrays(&self) -> Vec<&Array> {
        let layers = self.layers.iter().flat_map(|layer| {
            let matrices = [&layer.qkv, &layer.output, &layer.gate_up, &layer.down];
            let norms = [&layer.attention_norm, &layer.mlp_norm];
            matrices.into_iter().flat_map(Linear::arrays).chain(norms).chain(&layer.head_norms)
        });
        let head = self.head.iter().flat_map(Linear::arrays);
        self.embedding.arrays().into_iter().chain(layers).chain(head).chain([&self.norm]).collect()
    }
}

impl Layer {
    fn load(weights: &mut Weights<'_>, prefix: &str, head_norms: HeadNorms) -> Result<Layer> {
        let config = weights.config();
        let HeadShape { heads, kv_heads, head_dim } = HeadShape::of(config);
        let (hidden, intermediate) = (config.hidden, config.intermediate);
        let (q, kv) = (heads * head_dim, kv_heads * head_dim);
        let attention = format!("{prefix}.self_attn");
        let mlp = format!("{prefix}.mlp");
        Ok(Layer {
            attention_norm: weights.vector(&format!("{prefix}.input_layernorm.weight"), hidden)?,
            qkv: weights.merged(
                &attention,
                &[("q_proj", q), ("k_proj", kv), ("v_proj", kv)],
                hidden,
                Bias::Absent,
            )?,
            head_norms: match head_norms {
                HeadNorms::Absent => None,
                HeadNorms::PerHead => Some(stacked_norms(weights, &attention)?),
            },
            output: weights.linear(&format!("{attention}.o_proj"), hidden, q, Bias::Absent)?,
            mlp_norm: weights.vector(&format!("{prefix}.post_attention_layernorm.weight"), hidden)?,
            gate_up: weights.merged(
                &mlp,
                &[("gate_proj", intermediate), ("up_proj", intermediate)],
                hidden,
                Bias::Absent,
            )?,
            down: weights.linear(&format!("{mlp}.down_proj"), hidden, intermediate, Bias::Absent)?,
        })
    }
}

/// Norm weights of queries and keys as one row per head, `[heads + kv_heads, head_dim]`.
fn stacked_norms(weights: &mut Weights<'_>, attention: &str) -> Result<Array> {
    let HeadShape { heads, kv_heads, head_dim } = HeadShape::of(weights.config());
    let of_queries = weights.vector(&format!("{attention}.q_norm.weight"), head_dim)?;
    let of_keys = weights.vector(&format!("{attention}.k_norm.weight"), head_dim)?;
    let of_queries = ops::broadcast_to(&of_queries, &[heads, head_dim])?;
    ops::concatenate(&[&of_queries, &ops::broadcast_to(&of_keys, &[kv_heads, head_dim])?], 0)
}
