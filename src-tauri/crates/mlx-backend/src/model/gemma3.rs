//! Gemma 3, as text or as the text part of a checkpoint that also sees images: five layers with a sliding window and
//! positions of their own to each one without. Kamath et al. 2025, arXiv:2503.19786.

use super::basics::{Basics, Defaults, TiedByDefault, sliding_layers};
use super::design::{
    Activation, AttentionDesign, BlockNorms, Design, HeadDesign, HeadNorms, LayerDesign, NormDesign,
    NormWeight, TensorNames,
};
use super::gemma2::expect_gelu;
use super::rope::{self, RopeDesign};
use crate::config::fields::Fields;
use crate::error::Result;

/// What published configs leave out, as transformers 5.24 completes them.
const DEFAULTS: Defaults = Defaults {
    heads: Some(8),
    kv_heads: Some(4),
    head_dim: Some(256),
    vocab: Some(262_208),
    norm_eps: Some(1e-6),
    context_tokens: 131_072,
    tied: TiedByDefault::Yes,
};

/// Index of the rotary embedding of layers without a window, and of those with one.
const GLOBAL: usize = 0;
const LOCAL: usize = 1;

/// Reads the config of a text model.
///
/// # Errors
/// [`crate::MlxError::UnsupportedField`], [`crate::MlxError::Config`].
pub fn text(fields: &Fields<'_>) -> Result<Design> {
    read(fields, DEFAULTS)
}

/// Reads the text part of the config of a checkpoint that also sees images.
///
/// # Errors
/// As [`text`].
pub fn with_vision(fields: &Fields<'_>) -> Result<Design> {
    let whole = fields.optional_size("vocab_size")?;
    let part = fields.object("text_config")?;
    let part = part.ok_or_else(|| fields.malformed("text_config is missing".into()))?;
    let design = read(&part, Defaults { vocab: whole.or(DEFAULTS.vocab), ..DEFAULTS })?;
    part.finish()?;
    let tensors =
        TensorNames { prefix: "language_model.", skipped: &["vision_tower.", "multi_modal_projector."] };
    Ok(Design { tensors, ..design })
}

fn read(fields: &Fields<'_>, defaults: Defaults) -> Result<Design> {
    let basics = Basics::read_with(fields, defaults)?;
    let (global, local, context_tokens) = ropes(fields, &basics)?;
    expect_gelu(fields)?;
    let has_bias = fields.flag("attention_bias")?;
    let attention = AttentionDesign {
        scale: fields.positive("query_pre_attn_scalar")?.unwrap_or(256.0).sqrt().recip(),
        softcap: fields.positive("attn_logit_softcapping")?,
        head_norms: HeadNorms::PerHead,
        has_qkv_bias: has_bias,
        has_output_bias: has_bias,
        ..basics.attention()
    };
    let window = fields.optional_size("sliding_window")?.unwrap_or(4096);
    let pattern = fields.optional_size("sliding_window_pattern")?.unwrap_or(6) as usize;
    let types = sliding_layers(fields, basics.layers)?;
    let is_sliding =
        types.unwrap_or_else(|| (1..=basics.layers).map(|number| number % pattern != 0).collect());
    let layers = is_sliding.into_iter().map(|is_sliding| LayerDesign {
        norms: BlockNorms::AROUND,
        ..basics.layer(
            AttentionDesign {
                window_tokens: is_sliding.then_some(window),
                rope: Some(if is_sliding { LOCAL } else { GLOBAL }),
                ..attention.clone()
            },
            basics.gated(Activation::GeluTanh),
        )
    });
    let plain = basics.design(vec![global, local], context_tokens, layers.collect());
    Ok(Design {
        norm: NormDesign { weight: NormWeight::LessOne, ..plain.norm },
        embedding_scale: Some(as_bf16((basics.hidden as f32).sqrt())),
        head: HeadDesign { softcap: fields.positive("final_logit_softcapping")?, ..plain.head },
        ..plain
    })
}

/// Rotary embeddings of layers without and with a window, and the context window. Newer configs have an entry for each
/// type of layer.
fn ropes(fields: &Fields<'_>, basics: &Basics) -> Result<(RopeDesign, RopeDesign, u32)> {
    const GLOBAL_BASE: f32 = 1_000_000.0;
    const LOCAL_BASE: f32 = 10_000.0;
    let of_type = |name: &str, base: f32| rope::of_layer_type(fields, name, basics.positions(base));
    match (of_type("full_attention", GLOBAL_BASE)?, of_type("sliding_attention", LOCAL_BASE)?) {
        (Some((global, context_tokens)), Some((local, _))) => Ok((global, local, context_tokens)),
        (None, None) => {
            let (global, context_tokens) = basics.rope(fields, GLOBAL_BASE)?;
            let base = fields.positive("rope_local_base_freq")?.unwrap_or(LOCAL_BASE);
            Ok((global, RopeDesign::plain(base, basics.head_dim), context_tokens))
        }
        _ => Err(fields.malformed("rope_parameters must have an entry for both types of layers".into())),
    }
}

/// The nearest bf16: the factor was one when the models were trained, and stays it in f32.
fn as_bf16(value: f32) -> f32 {
    let bits = value.to_bits();
    f32::from_bits((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF_0000)
}
