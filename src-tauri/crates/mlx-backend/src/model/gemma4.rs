//! Gemma 4, the text decoder: alone as `gemma4_text`, or as a part of `gemma4`. Google DeepMind 2026, model card.
//!
//! Layers look through a window or at everything; those have heads of another width. The last layers share the keys of
//! earlier ones, and each layer may get an embedding of its own for every token. As mlx-lm 0.32.2 computes it.

use super::basics::{Basics, TiedByDefault, expect_width, sliding_layers};
use super::design::{
    Activation, AttentionDesign, BlockNorms, Design, GatedDesign, HeadNorms, KvSource, LayerDesign,
    LayerInputs, MlpDesign, TensorNames, Values,
};
use super::gemma2::expect_gelu;
use super::rope::RopeDesign;
use crate::config::fields::Fields;
use crate::error::Result;

/// Places of the rotary embeddings in [`Design::ropes`].
const SLIDING: usize = 0;
const FULL: usize = 1;

/// Most elements of the inputs of all layers together.
const MAX_INPUTS: usize = 1 << 24;

/// Parts of a checkpoint that see and hear.
const OTHER_PARTS: &[&str] = &[
    "vision_tower.",
    "vision_embedder.",
    "embed_vision.",
    "audio_tower.",
    "embed_audio.",
    "multi_modal_projector.",
];

/// Reads the config of a checkpoint with other parts; only its text part is run.
///
/// # Errors
/// [`crate::MlxError::UnsupportedField`], [`crate::MlxError::Config`].
pub fn design(fields: &Fields<'_>) -> Result<Design> {
    let text =
        fields.object("text_config")?.ok_or_else(|| fields.malformed("text_config is missing".into()))?;
    let design = text_design(&text)?;
    text.finish()?;
    Ok(Design { tensors: TensorNames { prefix: "language_model.", skipped: OTHER_PARTS }, ..design })
}

/// Reads the config of the decoder alone.
///
/// # Errors
/// As [`design`].
pub fn text_design(fields: &Fields<'_>) -> Result<Design> {
    let basics = Basics::read(fields, TiedByDefault::Yes)?;
    expect_gelu(fields)?;
    // Tokens of an image would see each other; text does not change.
    fields.expect_text("use_bidirectional_attention", "vision")?;
    let kinds = Kinds::read(fields, &basics)?;
    // Where the config leaves one of these out, implementations do not agree on what it means.
    for decisive in
        ["layer_types", "use_double_wide_mlp", "final_logit_softcapping", "hidden_size_per_layer_input"]
    {
        if !fields.has(decisive) {
            return Err(fields.malformed(format!("{decisive} is missing")));
        }
    }
    let is_sliding = sliding_layers(fields, basics.layers)?
        .ok_or_else(|| fields.malformed("layer_types must be a list".into()))?;
    let shared = fields.count("num_kv_shared_layers")?.unwrap_or(0);
    let first_shared = match basics.layers.checked_sub(shared) {
        Some(first) if first > 0 => first,
        _ => return Err(fields.malformed(format!("{shared} layers cannot share the keys of others"))),
    };
    let is_double_wide = fields.flag("use_double_wide_mlp")?;
    let layer = |index: usize| {
        let is_shared = index >= first_shared;
        let source = match is_shared {
            false => KvSource::Own,
            true => match (0..first_shared).rev().find(|earlier| is_sliding[*earlier] == is_sliding[index]) {
                Some(earlier) => KvSource::OfLayer(earlier),
                None => {
                    return Err(fields.malformed(format!("layer {index} has no layer to share keys with")));
                }
            },
        };
        let attention = AttentionDesign { kv: source, ..kinds.attention(&basics, is_sliding[index]) };
        let widening = if is_shared && is_double_wide { 2 } else { 1 };
        let mlp = GatedDesign {
            intermediate: basics.intermediate * widening,
            ..basics.gated(Activation::GeluTanh)
        };
        Ok(LayerDesign {
            attention,
            mlp: MlpDesign::Gated(mlp),
            norms: BlockNorms::AROUND,
            has_scalar: true,
            ..basics.layer(basics.attention(), mlp)
        })
    };
    let layers: Result<Vec<LayerDesign>> = (0..basics.layers).map(layer).collect();
    let mut design = basics.design(kinds.ropes, basics.context_tokens, layers?);
    design.embedding_scale = Some((basics.hidden as f32).sqrt());
    design.head.softcap = fields.positive("final_logit_softcapping")?;
    design.layer_inputs = match fields.count("hidden_size_per_layer_input")?.unwrap_or(0) {
        0 => None,
        width if width > MAX_INPUTS / basics.layers => {
            return Err(fields.unsupported("hidden_size_per_layer_input"));
        }
        width => Some(LayerInputs {
            width: width as i32,
            vocab: fields.optional_size("vocab_size_per_layer_input")?.unwrap_or(basics.vocab),
        }),
    };
    Ok(design)
}

/// What the two kinds of layers differ in.
struct Kinds {
    ropes: Vec<RopeDesign>,
    window: i32,
    full_head_dim: i32,
    full_kv_heads: i32,
    full_values: Values,
}

impl Kinds {
    fn read(fields: &Fields<'_>, basics: &Basics) -> Result<Kinds> {
        let full_head_dim = fields.optional_size("global_head_dim")?.unwrap_or(512);
        expect_width(fields, full_head_dim)?;
        let own_kv_heads = fields.optional_size("num_global_key_value_heads")?;
        let (full_values, full_kv_heads) = match fields.flag("attention_k_eq_v")? {
            true => (Values::NormedKeys, own_kv_heads.unwrap_or(basics.kv_heads)),
            false => (Values::Normed, basics.kv_heads),
        };
        Ok(Kinds {
            ropes: ropes(fields, basics.head_dim, full_head_dim)?,
            window: fields.size("sliding_window")?,
            full_head_dim,
            full_kv_heads,
            full_values,
        })
    }

    fn attention(&self, basics: &Basics, is_sliding: bool) -> AttentionDesign {
        let shared = AttentionDesign { scale: 1.0, head_norms: HeadNorms::PerHead, ..basics.attention() };
        match is_sliding {
            true => AttentionDesign {
                window_tokens: Some(self.window),
                rope: Some(SLIDING),
                values: Values::Normed,
                ..shared
            },
            false => AttentionDesign {
                head_dim: self.full_head_dim,
                kv_heads: self.full_kv_heads,
                rope: Some(FULL),
                values: self.full_values,
                ..shared
            },
        }
    }
}

/// The rotary embeddings of sliding layers and of full ones, which turn a part of their heads.
fn ropes(fields: &Fields<'_>, head_dim: i32, full_head_dim: i32) -> Result<Vec<RopeDesign>> {
    let (mut sliding, mut full) =
        (RopeDesign::plain(10_000.0, head_dim), RopeDesign::proportional(1e6, full_head_dim, 0.25, 1.0));
    let Some(parameters) = fields.object("rope_parameters")? else { return Ok(vec![sliding, full]) };
    if let Some(own) = parameters.object("sliding_attention")? {
        own.expect_text("rope_type", "default")?;
        sliding = RopeDesign::plain(own.positive("rope_theta")?.unwrap_or(10_000.0), head_dim);
        if own.positive("partial_rotary_factor")?.is_some_and(|part| part != 1.0) {
            return Err(own.unsupported("partial_rotary_factor"));
        }
        own.finish_strictly(&[])?;
    }
    if let Some(own) = parameters.object("full_attention")? {
        own.expect_text("rope_type", "proportional")?;
        let part = own.positive("partial_rotary_factor")?.unwrap_or(1.0);
        let factor = own.positive("factor")?.unwrap_or(1.0);
        full = RopeDesign::proportional(
            own.positive("rope_theta")?.unwrap_or(10_000.0),
            full_head_dim,
            part,
            factor,
        );
        own.finish_strictly(&[])?;
    }
    parameters.finish_strictly(&[])?;
    Ok(vec![sliding, full])
}
