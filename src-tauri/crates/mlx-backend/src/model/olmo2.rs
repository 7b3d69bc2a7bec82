//! OLMo 2: norms of what attention and the MLP add instead of their inputs, and of all query and key heads together.
//! Team OLMo 2025, arXiv:2501.00656.

use super::basics::{Basics, TiedByDefault};
use super::design::{Activation, AttentionDesign, BlockNorms, Design, HeadNorms, LayerDesign};
use crate::config::fields::Fields;
use crate::error::Result;

const NORMS: BlockNorms = BlockNorms {
    before_attention: None,
    after_attention: Some("post_attention_layernorm"),
    before_mlp: None,
    after_mlp: Some("post_feedforward_layernorm"),
};

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
        head_norms: HeadNorms::AllTogether,
        has_qkv_bias: has_bias,
        has_output_bias: has_bias,
        ..basics.attention()
    };
    let layer = LayerDesign { norms: NORMS, ..basics.layer(attention, basics.gated(Activation::Silu)) };
    Ok(basics.design(vec![rope], context_tokens, vec![layer; basics.layers]))
}
