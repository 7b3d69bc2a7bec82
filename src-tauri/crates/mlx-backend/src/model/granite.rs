//! Granite 3: Llama with factors of embeddings, scores, additions and logits. IBM Granite team 2024; the factors are
//! those of Yang et al. 2022, arXiv:2203.03466.

use super::basics::{Basics, TiedByDefault};
use super::design::{Activation, AttentionDesign, Design, GatedDesign, LayerDesign};
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
    let attention = AttentionDesign {
        scale: fields.positive("attention_multiplier")?.unwrap_or(1.0),
        has_qkv_bias: has_bias,
        has_output_bias: has_bias,
        ..basics.attention()
    };
    let mlp = GatedDesign { has_bias: fields.flag("mlp_bias")?, ..basics.gated(Activation::Silu) };
    let layer = LayerDesign {
        residual_scale: fields.positive("residual_multiplier")?,
        ..basics.layer(attention, mlp)
    };
    let mut design = basics.design(vec![rope], context_tokens, vec![layer; basics.layers]);
    design.embedding_scale = fields.positive("embedding_multiplier")?;
    design.head.scale = fields.positive("logits_scaling")?.map(f32::recip);
    Ok(design)
}
