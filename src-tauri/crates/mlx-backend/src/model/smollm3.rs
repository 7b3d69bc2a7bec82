//! SmolLM3: Llama in which every fourth layer knows no positions. Bakouch et al. 2025,
//! <https://huggingface.co/blog/smollm3>; layers without positions: Yang et al. 2025, arXiv:2501.18795.

use super::basics::{Basics, TiedByDefault, optional_windows};
use super::design::{Activation, AttentionDesign, Design, GatedDesign};
use crate::config::fields::Fields;
use crate::error::Result;

/// Reads its config.
///
/// # Errors
/// [`crate::MlxError::UnsupportedField`], [`crate::MlxError::Config`].
pub fn design(fields: &Fields<'_>) -> Result<Design> {
    let basics = Basics::read(fields, TiedByDefault::Yes)?;
    let (rope, context_tokens) = basics.rope(fields, 2_000_000.0)?;
    fields.expect_text("hidden_act", "silu")?;
    let has_bias = fields.flag("attention_bias")?;
    let mlp = GatedDesign { has_bias: fields.flag("mlp_bias")?, ..basics.gated(Activation::Silu) };
    let has_rope = rotating_layers(fields, basics.layers)?;
    let windows = optional_windows(fields, basics.layers)?;
    let layers = has_rope.into_iter().zip(windows).map(|(has_rope, window_tokens)| {
        let attention = AttentionDesign {
            rope: has_rope.then_some(0),
            window_tokens,
            has_qkv_bias: has_bias,
            has_output_bias: has_bias,
            ..basics.attention()
        };
        basics.layer(attention, mlp)
    });
    Ok(basics.design(vec![rope], context_tokens, layers.collect()))
}

/// Which layers know positions. `no_rope_layers` says 1 for those that do, in spite of its name.
fn rotating_layers(fields: &Fields<'_>, layers: usize) -> Result<Vec<bool>> {
    let interval = fields.optional_size("no_rope_layer_interval")?.unwrap_or(4) as usize;
    match fields.counts("no_rope_layers")? {
        None => Ok((1..=layers).map(|number| number % interval != 0).collect()),
        Some(own) if own.len() == layers => Ok(own.into_iter().map(|layer| layer != 0).collect()),
        Some(own) => {
            Err(fields.malformed(format!("no_rope_layers has {} entries for {layers} layers", own.len())))
        }
    }
}
