//! Phi-3, Phi-3.5 and Phi-4: Llama with merged matrices. Abdin et al. 2024, arXiv:2404.14219.

use super::basics::{Basics, TiedByDefault};
use super::design::{Activation, AttentionDesign, Design, GatedDesign, Storage};
use super::rope::{self, Positions};
use crate::config::fields::Fields;
use crate::error::Result;

/// Reads its config.
///
/// # Errors
/// [`crate::MlxError::UnsupportedField`], [`crate::MlxError::Config`].
pub fn design(fields: &Fields<'_>) -> Result<Design> {
    let basics = Basics::read(fields, TiedByDefault::No)?;
    let positions = Positions { part: rope::part(fields)?, ..basics.positions(10_000.0) };
    let (rope, context_tokens) = rope::read(fields, positions)?;
    fields.expect_text("hidden_act", "silu")?;
    let attention = AttentionDesign {
        window_tokens: fields.optional_size("sliding_window")?,
        qkv: Storage::Together,
        ..basics.attention()
    };
    let mlp = GatedDesign { gate_up: Storage::Together, ..basics.gated(Activation::Silu) };
    let layers = (0..basics.layers).map(|_| basics.layer(attention.clone(), mlp));
    Ok(basics.design(vec![rope], context_tokens, layers.collect()))
}
