//! gpt-oss: sparse MLPs with clamped gates, a sink in the softmax of every head, windows in every other layer.
//! OpenAI 2025, arXiv:2508.10925.

use super::basics::{Basics, TiedByDefault, sliding_layers};
use super::design::{Activation, AttentionDesign, Design, LayerDesign, MlpDesign, Shares, SparseDesign};
use crate::config::fields::Fields;
use crate::error::Result;

/// Reads its config.
///
/// # Errors
/// [`crate::MlxError::UnsupportedField`], [`crate::MlxError::Config`].
pub fn design(fields: &Fields<'_>) -> Result<Design> {
    let basics = Basics::read(fields, TiedByDefault::No)?;
    let (rope, context_tokens) = basics.rope(fields, 150_000.0)?;
    fields.expect_text("hidden_act", "silu")?;
    let has_bias = fields.optional_flag("attention_bias")?.unwrap_or(true);
    let sparse = SparseDesign {
        experts: fields.size("num_local_experts")?,
        picked: fields.size("num_experts_per_tok")?,
        intermediate: basics.intermediate,
        activation: Activation::SiluClamped { limit: fields.positive("swiglu_limit")?.unwrap_or(7.0) },
        shares: Shares::OfPicked,
        router: "router",
        stack: "experts",
        has_bias: true,
    };
    let window = fields.size("sliding_window")?;
    let is_sliding = sliding_layers(fields, basics.layers)?
        .unwrap_or_else(|| (0..basics.layers).map(|index| index % 2 == 0).collect());
    let layers = is_sliding.into_iter().map(|is_sliding| {
        let attention = AttentionDesign {
            window_tokens: is_sliding.then_some(window),
            has_sinks: true,
            has_qkv_bias: has_bias,
            has_output_bias: has_bias,
            ..basics.attention()
        };
        let dense = basics.layer(attention, basics.gated(Activation::Silu));
        LayerDesign { mlp: MlpDesign::Sparse(sparse), ..dense }
    });
    Ok(basics.design(vec![rope], context_tokens, layers.collect()))
}
