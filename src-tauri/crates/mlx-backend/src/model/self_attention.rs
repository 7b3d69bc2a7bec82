//! Attention of one layer, run as its design says.

use super::decoder::{Naming, named_norm};
use super::design::{AttentionDesign, HeadNorms, KvSource, LayerDesign, NormDesign, Storage};
use super::linear::{Bias, Linear};
use crate::attention::Pass;
use crate::error::Result;
use crate::load::Weights;
use crate::mx::packed::Input;
use crate::mx::{Array, ops};

/// Matrices and norms of a layer's attention.
pub struct SelfAttention {
    design: AttentionDesign,
    eps: f32,
    /// Queries, keys, values, one after the other; queries alone where another layer has the keys.
    projection: Linear,
    /// `[heads + kv_heads, head_dim]`: one row per head that is turned.
    head_norms: Option<Array>,
    /// `[heads]`.
    sinks: Option<Array>,
    output: Linear,
}

impl SelfAttention {
    /// Takes the tensors of `name.self_attn`.
    ///
    /// # Errors
    /// [`crate::MlxError::Shape`], [`crate::MlxError::Op`].
    pub fn load(
        weights: &mut Weights<'_>,
        naming: &Naming<'_>,
        design: &LayerDesign,
    ) -> Result<SelfAttention> {
        let design = design.attention.clone();
        let name = format!("{}.self_attn", naming.layer);
        let (q, kv) = (design.heads * design.head_dim, design.kv_heads * design.head_dim);
        let bias = Bias::of(design.has_qkv_bias);
        let projection = match (design.kv, design.qkv) {
            (KvSource::OfLayer(_), _) => weights.linear(&format!("{name}.q_proj"), q, naming.hidden, bias)?,
            (KvSource::Own, Storage::Together) => {
                weights.linear(&format!("{name}.qkv_proj"), q + 2 * kv, naming.hidden, bias)?
            }
            (KvSource::Own, Storage::Apart) => weights.merged(
                &name,
                &[("q_proj", q), ("k_proj", kv), ("v_proj", kv)],
                naming.hidden,
                bias,
            )?,
        };
        Ok(SelfAttention {
            eps: naming.norm.eps,
            projection,
            head_norms: match design.head_norms {
                HeadNorms::Absent => None,
                HeadNorms::PerHead => Some(stacked_norms(weights, &name, &design, naming.norm)?),
            },
            sinks: match design.has_sinks {
                true => Some(weights.vector(&format!("{name}.sinks"), design.heads)?),
                false => None,
            },
            output: weights.linear(
                &format!("{name}.o_proj"),
                naming.hidden,
                q,
                Bias::of(design.has_output_bias),
            )?,
            design,
        })
    }

    /// Attends with layer `index` of the pass: `input` `[B, T, hidden]` to `[B, T, H·head_dim]`.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn attend(&self, index: usize, input: Input<'_>, pass: &mut Pass<'_>) -> Result<Array> {
        let AttentionDesign { heads, kv_heads, head_dim, .. } = self.design;
        let (rows, tokens) = input.rows_and_tokens();
        let (turning, all) = match self.design.kv {
            KvSource::Own => (heads + kv_heads, heads + 2 * kv_heads),
            KvSource::OfLayer(_) => (heads, heads),
        };
        let projected = self.projection.apply_to(input, None)?;
        let projected = ops::reshape(&projected, &[rows, tokens, all, head_dim])?;
        // Queries and keys are normed and turned together: one operation each instead of two.
        let mut to_turn = ops::slice_axis(&projected, 2, 0, turning)?;
        if let Some(weights) = &self.head_norms {
            to_turn = ops::multiply(&ops::rms_unit(&to_turn, self.eps)?, weights)?;
        }
        let turned = pass.rotate(index, &ops::transpose_axes(&to_turn, &[0, 2, 1, 3])?)?;
        let sinks = self.sinks.as_ref();
        if self.design.kv != KvSource::Own {
            return pass.attend_again(index, &turned, sinks);
        }
        let projected = ops::transpose_axes(&projected, &[0, 2, 1, 3])?;
        let q = ops::slice_axis(&turned, 1, 0, heads)?;
        let k = ops::slice_axis(&turned, 1, heads, turning)?;
        let v = ops::slice_axis(&projected, 1, turning, all)?;
        pass.attend(index, &q, k, v, sinks)
    }

    /// The matrix that attention's result goes through.
    pub fn output(&self) -> &Linear {
        &self.output
    }

    /// Every array.
    pub fn arrays(&self) -> impl Iterator<Item = &Array> {
        let matrices = [&self.projection, &self.output].into_iter().flat_map(Linear::arrays);
        matrices.chain(&self.head_norms).chain(&self.sinks)
    }
}

/// Norm weights of queries, and of keys where the layer has its own, as one row per head.
fn stacked_norms(
    weights: &mut Weights<'_>,
    name: &str,
    design: &AttentionDesign,
    norm: NormDesign,
) -> Result<Array> {
    let AttentionDesign { heads, kv_heads, head_dim, .. } = *design;
    let of_queries = named_norm(weights, &format!("{name}.q_norm"), head_dim, norm)?;
    let of_queries = ops::broadcast_to(&of_queries, &[heads, head_dim])?;
    if design.kv != KvSource::Own {
        return ops::contiguous(&of_queries);
    }
    let of_keys = named_norm(weights, &format!("{name}.k_norm"), head_dim, norm)?;
    ops::concatenate(&[&of_queries, &ops::broadcast_to(&of_keys, &[kv_heads, head_dim])?], 0)
}
