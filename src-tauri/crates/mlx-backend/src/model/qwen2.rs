//! Qwen2 and Qwen2.5: Llama with biases on queries, keys and values. Yang et al. 2024, arXiv:2407.10671.

use super::basics::{Basics, TiedByDefault, optional_windows};
use super::design::{Activation, AttentionDesign, Design};
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
    let windows = optional_windows(fields, basics.layers)?;
    let layers = windows.into_iter().map(|window_tokens| {
        let attention = AttentionDesign { window_tokens, has_qkv_bias: true, ..basics.attention() };
        basics.layer(attention, basics.gated(Activation::Silu))
    });
    Ok(basics.design(vec![rope], context_tokens, layers.collect()))
}
