//! Qwen3 with sparse MLPs. Yang et al. 2025, arXiv:2505.09388.

use super::basics::{Basics, TiedByDefault, optional_windows};
use super::design::{
    Activation, AttentionDesign, Design, HeadNorms, LayerDesign, MlpDesign, Shares, SparseDesign,
};
use crate::config::fields::Fields;
use crate::error::Result;

/// Reads its config.
///
/// # Errors
/// [`crate::MlxError::UnsupportedField`], [`crate::MlxError::Config`].
pub fn design(fields: &Fields<'_>) -> Result<Design> {
    let basics = Basics::read(fields, TiedByDefault::No)?;
    let (rope, context_tokens) = basics.rope(fields, 10_000.0)?;
    fields.expect_text("hidden_act", "silu")?;
    let has_bias = fields.flag("attention_bias")?;
    let sparse = SparseDesign {
        experts: fields.size("num_experts")?,
        picked: fields.size("num_experts_per_tok")?,
        intermediate: fields.size("moe_intermediate_size")?,
        activation: Activation::Silu,
        shares: if fields.flag("norm_topk_prob")? { Shares::OfPicked } else { Shares::OfAll },
        router: "gate",
        stack: "switch_mlp",
        has_bias: false,
    };
    let step = fields.optional_size("decoder_sparse_step")?.unwrap_or(1) as usize;
    let dense_layers = fields.counts("mlp_only_layers")?.unwrap_or_default();
    let windows = optional_windows(fields, basics.layers)?;
    let layers = windows.into_iter().enumerate().map(|(index, window_tokens)| {
        let attention = AttentionDesign {
            window_tokens,
            head_norms: HeadNorms::PerHead,
            has_qkv_bias: has_bias,
            has_output_bias: has_bias,
            ..basics.attention()
        };
        let is_sparse = (index + 1) % step == 0 && !dense_layers.contains(&index);
        let dense = basics.layer(attention, basics.gated(Activation::Silu));
        match is_sparse {
            true => LayerDesign { mlp: MlpDesign::Sparse(sparse), ..dense },
            false => dense,
        }
    });
    Ok(basics.design(vec![rope], context_tokens, layers.collect()))
}
