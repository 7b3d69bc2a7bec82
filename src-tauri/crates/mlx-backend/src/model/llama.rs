//! Llama. Touvron et al. 2023, arXiv:2307.09288; Grattafiori et al. 2024, arXiv:2407.21783.

use super::basics::{Basics, TiedByDefault, sliding_layers};
use super::design::{Activation, AttentionDesign, Design, GatedDesign};
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
    let attention =
        AttentionDesign { has_qkv_bias: has_bias, has_output_bias: has_bias, ..basics.attention() };
    let mlp = GatedDesign { has_bias: fields.flag("mlp_bias")?, ..basics.gated(Activation::Silu) };
    // Without `layer_types` the original has no window at all: a `sliding_window` then stays unread, and is refused.
    let is_sliding = sliding_layers(fields, basics.layers)?.unwrap_or_else(|| vec![false; basics.layers]);
    let window = match is_sliding.contains(&true) {
        true => Some(fields.size("sliding_window")?),
        false => None,
    };
    let layers = is_sliding.into_iter().map(|is_sliding| {
        let window_tokens = window.filter(|_| is_sliding);
        basics.layer(AttentionDesign { window_tokens, ..attention.clone() }, mlp)
    });
    Ok(basics.design(vec![rope], context_tokens, layers.collect()))
}
