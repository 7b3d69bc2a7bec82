//! Attention of one layer, run as its design says.

use super::decoder::{Naming, named_norm};
use super::design::{AttentionDesign, HeadNorms, KvSource, LayerDesign, NormDesign, Storage, Values};
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
    norms: Norms,
    /// `[heads]`.
    sinks: Option<Array>,
    output: Linear,
}

/// Norms of what is turned.
enum Norms {
    Absent,
    /// `[heads + kv_heads, head_dim]`: one row per head that is turned.
    PerHead(Array),
    /// Of all queries, `[heads·head_dim]`, and of all keys where the layer has its own.
    AllTogether(Vec<Array>),
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
            (KvSource::OfLayer(_), _) => {
                // Some files hold what this layer would have if it did not share.
                for unread in ["k_proj.", "v_proj.", "k_norm."] {
                    weights.skip(&format!("{name}.{unread}"));
                }
                weights.linear(&format!("{name}.q_proj"), q, naming.hidden, bias)?
            }
            (KvSource::Own, Storage::Together) => {
                weights.linear(&format!("{name}.qkv_proj"), q + 2 * kv, naming.hidden, bias)?
            }
            (KvSource::Own, Storage::Apart) => {
                let parts = [("q_proj", q), ("k_proj", kv), ("v_proj", kv)];
                let read = if design.values == Values::NormedKeys { &parts[..2] } else { &parts };
                weights.merged(&name, read, naming.hidden, bias)?
            }
        };
        Ok(SelfAttention {
            eps: naming.norm.eps,
            projection,
            norms: Norms::load(weights, &name, &design, naming.norm)?,
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
        let (turning, all) = match (self.design.kv, self.design.values) {
            (KvSource::Own, Values::NormedKeys) => (heads + kv_heads, heads + kv_heads),
            (KvSource::Own, _) => (heads + kv_heads, heads + 2 * kv_heads),
            (KvSource::OfLayer(_), _) => (heads, heads),
        };
        let projected = self.projection.apply_to(input, None)?;
        let projected = ops::reshape(&projected, &[rows, tokens, all, head_dim])?;
        // Queries and keys are normed and turned together: one operation each instead of two.
        let to_turn = self.norms.apply(ops::slice_axis(&projected, 2, 0, turning)?, self.eps)?;
        let turned = pass.rotate(index, &ops::transpose_axes(&to_turn, &[0, 2, 1, 3])?)?;
        let sinks = self.sinks.as_ref();
        if self.design.kv != KvSource::Own {
            return pass.attend_again(index, &turned, sinks);
        }
        let projected = ops::transpose_axes(&projected, &[0, 2, 1, 3])?;
        let q = ops::slice_axis(&turned, 1, 0, heads)?;
        let k = ops::slice_axis(&turned, 1, heads, turning)?;
        // The last heads, whether they are values or keys that serve as such.
        let v = ops::slice_axis(&projected, 1, all - kv_heads, all)?;
        let v = if self.design.values == Values::Projected { v } else { ops::rms_unit(&v, self.eps)? };
        pass.attend(index, &q, k, v, sinks)
    }

    /// The matrix that attention's result goes through.
    pub fn output(&self) -> &Linear {
        &self.output
    }

    /// Every array.
    pub fn arrays(&self) -> impl Iterator<Item = &Array> {
        let matrices = [&self.projection, &self.output].into_iter().flat_map(Linear::arrays);
        matrices.chain(self.norms.arrays()).chain(&self.sinks)
    }
}

impl Norms {
    /// Takes `q_norm`, and `k_norm` where the layer has its own keys.
    fn load(
        weights: &mut Weights<'_>,
        name: &str,
        design: &AttentionDesign,
        norm: NormDesign,
    ) -> Result<Norms> {
        let AttentionDesign { heads, kv_heads, head_dim, kv, .. } = *design;
        let parts = match kv {
            KvSource::Own => vec![("q_norm", heads), ("k_norm", kv_heads)],
            KvSource::OfLayer(_) => vec![("q_norm", heads)],
        };
        let mut load = |part: &str, width| named_norm(weights, &format!("{name}.{part}"), width, norm);
        match design.head_norms {
            HeadNorms::Absent => Ok(Norms::Absent),
            HeadNorms::PerHead => {
                let of_heads = |(part, heads)| ops::broadcast_to(&load(part, head_dim)?, &[heads, head_dim]);
                let stacked: Result<Vec<Array>> = parts.into_iter().map(of_heads).collect();
                Ok(Norms::PerHead(ops::concatenate(&stacked?.iter().collect::<Vec<_>>(), 0)?))
            }
            HeadNorms::AllTogether => {
                let all = parts.into_iter().map(|(part, heads)| load(part, heads * head_dim));
                Ok(Norms::AllTogether(all.collect::<Result<Vec<Array>>>()?))
            }
        }
    }

    /// Of queries and then keys, `[B, T, heads + kv_heads, head_dim]`.
    fn apply(&self, x: Array, eps: f32) -> Result<Array> {
        match self {
            Norms::Absent => Ok(x),
            Norms::PerHead(weights) => ops::multiply(&ops::rms_unit(&x, eps)?, weights),
            Norms::AllTogether(weights) => {
                let flat = ops::reshape(&x, &[x.dim(0), x.dim(1), -1])?;
                let (mut normed, mut start) = (Vec::new(), 0);
                for weight in weights {
                    let end = start + weight.dim(0);
                    normed.push(ops::rms_norm(&ops::slice_axis(&flat, 2, start, end)?, weight, eps)?);
                    start = end;
                }
                let joined = ops::concatenate(&normed.iter().collect::<Vec<_>>(), 2)?;
                ops::reshape(&joined, x.shape())
            }
        }
    }

    fn arrays(&self) -> &[Array] {
        match self {
            Norms::Absent => &[],
            Norms::PerHead(weights) => std::slice::from_ref(weights),
            Norms::AllTogether(weights) => weights,
        }
    }
}
