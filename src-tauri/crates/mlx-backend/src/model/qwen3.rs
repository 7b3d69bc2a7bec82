//! Qwen3: Llama with a norm on each query and key head. Yang et al. 2025, arXiv:2505.09388.

use super::basics::{Basics, TiedByDefault, optional_windows};
use super::design::{Activation, AttentionDesign, Design, HeadNorms};
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
    let windows = optional_windows(fields, basics.layers)?;
    let layers = windows.into_iter().map(|window_tokens| {
        let attention = AttentionDesign {
            window_tokens,
            head_norms: HeadNorms::PerHead,
            has_qkv_bias: has_bias,
            has_output_bias: has_bias,
            ..basics.attention()
        };
        basics.layer(attention, basics.gated(Activation::Silu))
    });
    Ok(basics.design(vec![rope], context_tokens, layers.collect()))
}
