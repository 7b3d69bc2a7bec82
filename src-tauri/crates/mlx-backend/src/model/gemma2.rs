//! Gemma 2: capped scores and logits, norms on both sides of each part, every other layer with a sliding window. Riviere
//! et al. 2024, arXiv:2408.00118.

use super::basics::{Basics, Defaults, TiedByDefault, sliding_layers};
use super::design::{
    Activation, AttentionDesign, BlockNorms, Design, HeadDesign, LayerDesign, NormDesign, NormWeight,
};
use crate::config::fields::Fields;
use crate::error::Result;

/// What published configs leave out, as transformers 5.24 completes them.
const DEFAULTS: Defaults = Defaults {
    heads: Some(8),
    kv_heads: Some(4),
    head_dim: Some(256),
    vocab: Some(256_000),
    norm_eps: Some(1e-6),
    context_tokens: 8192,
    tied: TiedByDefault::Yes,
};

/// Reads its config.
///
/// # Errors
/// [`crate::MlxError::UnsupportedField`], [`crate::MlxError::Config`].
pub fn design(fields: &Fields<'_>) -> Result<Design> {
    let basics = Basics::read_with(fields, DEFAULTS)?;
    let (rope, context_tokens) = basics.rope(fields, 10_000.0)?;
    expect_gelu(fields)?;
    let has_bias = fields.flag("attention_bias")?;
    let attention = AttentionDesign {
        scale: fields.positive("query_pre_attn_scalar")?.unwrap_or(256.0).sqrt().recip(),
        softcap: fields.positive_unless_null("attn_logit_softcapping", 50.0)?,
        has_qkv_bias: has_bias,
        has_output_bias: has_bias,
        ..basics.attention()
    };
    let window = fields.optional_size("sliding_window")?.unwrap_or(4096);
    let types = sliding_layers(fields, basics.layers)?;
    let is_sliding = types.unwrap_or_else(|| (0..basics.layers).map(|layer| layer % 2 == 0).collect());
    let layers = is_sliding.into_iter().map(|is_sliding| LayerDesign {
        norms: BlockNorms::AROUND,
        ..basics.layer(
            AttentionDesign { window_tokens: is_sliding.then_some(window), ..attention.clone() },
            basics.gated(Activation::GeluTanh),
        )
    });
    let plain = basics.design(vec![rope], context_tokens, layers.collect());
    Ok(Design {
        norm: NormDesign { weight: NormWeight::LessOne, ..plain.norm },
        embedding_scale: Some((basics.hidden as f32).sqrt()),
        head: HeadDesign {
            softcap: fields.positive_unless_null("final_logit_softcapping", 30.0)?,
            ..plain.head
        },
        ..plain
    })
}

/// Older configs say `hidden_act`, and what it says is not what runs once there is a `hidden_activation`.
///
/// # Errors
/// [`crate::MlxError::UnsupportedField`] for another activation.
pub(super) fn expect_gelu(fields: &Fields<'_>) -> Result<()> {
    fields.expect_text("hidden_activation", "gelu_pytorch_tanh")?;
    match (fields.text("hidden_activation")?, fields.text("hidden_act")?) {
        // Published beside models that were trained with the other: the name came before the distinction.
        (None, Some("gelu")) | (Some(_), _) => Ok(()),
        (None, _) => fields.expect_text("hidden_act", "gelu_pytorch_tanh"),
    }
}
