//! Mistral: Llama with a sliding window. Jiang et al. 2023, arXiv:2310.06825.

use super::basics::{Basics, TiedByDefault, sliding_layers};
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
    let window = fields.optional_size("sliding_window")?;
    let is_sliding = sliding_layers(fields, basics.layers)?.unwrap_or_else(|| vec![true; basics.layers]);
    let layers = is_sliding.into_iter().map(|is_sliding| {
        let attention =
            AttentionDesign { window_tokens: window.filter(|_| is_sliding), ..basics.attention() };
        basics.layer(attention, basics.gated(Activation::Silu))
    });
    Ok(basics.design(vec![rope], context_tokens, layers.collect()))
}
