//! What the configs of dense decoders say in the same words.

use super::design::{
    Activation, AttentionDesign, BlockNorms, Design, GatedDesign, HeadDesign, HeadNorms, KvSource,
    LayerDesign, MlpDesign, NormDesign, NormWeight, Storage, TensorNames, Values,
};
use super::rope::{self, Positions, RopeDesign};
use crate::config::fields::Fields;
use crate::error::Result;

/// Context window of a config that names none.
const DEFAULT_CONTEXT_TOKENS: i32 = 2048;

/// Widest head.
const MAX_HEAD_WIDTH: i32 = 1 << 14;

/// Most layers of a decoder.
const MAX_LAYERS: usize = 1024;

/// Sizes and habits that nearly every decoder has.
#[derive(Debug, Clone, Copy)]
pub struct Basics {
    /// `hidden_size`.
    pub hidden: i32,
    /// `num_hidden_layers`.
    pub layers: usize,
    /// `intermediate_size`.
    pub intermediate: i32,
    /// `num_attention_heads`.
    pub heads: i32,
    /// `num_key_value_heads`, or as many as query heads.
    pub kv_heads: i32,
    /// `head_dim`, or what is left of `hidden_size` for each head.
    pub head_dim: i32,
    /// `vocab_size`.
    pub vocab: i32,
    /// `rms_norm_eps`.
    pub norm_eps: f32,
    /// `max_position_embeddings`.
    pub context_tokens: u32,
    /// `tie_word_embeddings`.
    pub is_tied: bool,
}

/// Whether an architecture ties its head to the embedding when the config does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TiedByDefault {
    /// It does.
    Yes,
    /// It does not.
    No,
}

/// What an architecture takes for fields that a config leaves out; `None` where a config has to say it.
#[derive(Debug, Clone, Copy)]
pub struct Defaults {
    /// For `num_attention_heads`.
    pub heads: Option<i32>,
    /// For `num_key_value_heads`; otherwise as many as query heads.
    pub kv_heads: Option<i32>,
    /// For `head_dim`; otherwise what is left of `hidden_size` for each head.
    pub head_dim: Option<i32>,
    /// For `vocab_size`.
    pub vocab: Option<i32>,
    /// For `rms_norm_eps`.
    pub norm_eps: Option<f32>,
    /// For `max_position_embeddings`.
    pub context_tokens: i32,
    /// For `tie_word_embeddings`.
    pub tied: TiedByDefault,
}

impl Defaults {
    /// Of an architecture whose configs say everything but whether the head is tied.
    pub const fn none(tied: TiedByDefault) -> Defaults {
        Defaults {
            heads: None,
            kv_heads: None,
            head_dim: None,
            vocab: None,
            norm_eps: None,
            context_tokens: DEFAULT_CONTEXT_TOKENS,
            tied,
        }
    }
}

impl Basics {
    /// Reads them from a config that says all of them.
    ///
    /// # Errors
    /// [`crate::MlxError::Config`].
    pub fn read(fields: &Fields<'_>, tied: TiedByDefault) -> Result<Basics> {
        Basics::read_with(fields, Defaults::none(tied))
    }

    /// Reads them, with `defaults` for what the config does not say.
    ///
    /// # Errors
    /// [`crate::MlxError::Config`].
    pub fn read_with(fields: &Fields<'_>, defaults: Defaults) -> Result<Basics> {
        let size = |name: &str, default: Option<i32>| match (fields.optional_size(name)?, default) {
            (Some(own), _) => Ok(own),
            (None, Some(default)) => Ok(default),
            (None, None) => fields.size(name),
        };
        let (hidden, heads) = (fields.size("hidden_size")?, size("num_attention_heads", defaults.heads)?);
        let head_dim = match fields.optional_size("head_dim")?.or(defaults.head_dim) {
            Some(width) => width,
            None if hidden % heads == 0 => hidden / heads,
            None => return Err(fields.malformed(format!("{heads} heads do not divide hidden_size {hidden}"))),
        };
        expect_width(fields, head_dim)?;
        // Before anything is made for each of them.
        let layers = fields.size("num_hidden_layers")? as usize;
        if layers > MAX_LAYERS {
            let reason = format!("num_hidden_layers must be 1 to {MAX_LAYERS}, but is {layers}");
            return Err(fields.malformed(reason));
        }
        let context = fields.optional_size("max_position_embeddings")?.unwrap_or(defaults.context_tokens);
        Ok(Basics {
            hidden,
            layers,
            intermediate: fields.size("intermediate_size")?,
            heads,
            kv_heads: size("num_key_value_heads", defaults.kv_heads.or(Some(heads)))?,
            head_dim,
            vocab: size("vocab_size", defaults.vocab)?,
            norm_eps: match (fields.positive("rms_norm_eps")?, defaults.norm_eps) {
                (Some(eps), _) | (None, Some(eps)) => eps,
                (None, None) => fields.required_positive("rms_norm_eps")?,
            },
            context_tokens: context as u32,
            is_tied: fields
                .optional_flag("tie_word_embeddings")?
                .unwrap_or(defaults.tied == TiedByDefault::Yes),
        })
    }

    /// Reads the rotary embedding of whole heads, and the context window that it is good for.
    ///
    /// # Errors
    /// As [`rope::read`].
    pub fn rope(&self, fields: &Fields<'_>, default_base: f32) -> Result<(RopeDesign, u32)> {
        rope::read(fields, self.positions(default_base))
    }

    /// Positions of whole heads.
    pub fn positions(&self, default_base: f32) -> Positions {
        let Basics { head_dim, context_tokens, .. } = *self;
        Positions { head_dim, part: 1.0, default_base, context_tokens }
    }

    /// Attention to everything, by 1/√head_dim, turned by the first rotary embedding, without biases.
    pub fn attention(&self) -> AttentionDesign {
        AttentionDesign {
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            scale: (self.head_dim as f32).sqrt().recip(),
            window_tokens: None,
            softcap: None,
            has_sinks: false,
            rope: Some(0),
            head_norms: HeadNorms::Absent,
            kv: KvSource::Own,
            values: Values::Projected,
            qkv: Storage::Apart,
            has_qkv_bias: false,
            has_output_bias: false,
        }
    }

    /// A gated MLP without biases.
    pub fn gated(&self, activation: Activation) -> GatedDesign {
        GatedDesign { intermediate: self.intermediate, activation, gate_up: Storage::Apart, has_bias: false }
    }

    /// A layer with norms of its inputs.
    pub fn layer(&self, attention: AttentionDesign, mlp: GatedDesign) -> LayerDesign {
        LayerDesign {
            attention,
            mlp: MlpDesign::Gated(mlp),
            norms: BlockNorms::BEFORE,
            residual_scale: None,
            has_scalar: false,
        }
    }

    /// The decoder, with everything else as plain as can be.
    pub fn design(&self, ropes: Vec<RopeDesign>, context_tokens: u32, layers: Vec<LayerDesign>) -> Design {
        Design {
            hidden: self.hidden,
            vocab: self.vocab,
            context_tokens,
            norm: NormDesign { eps: self.norm_eps, weight: NormWeight::AsStored },
            embedding_scale: None,
            layer_inputs: None,
            ropes,
            layers,
            head: HeadDesign { is_tied: self.is_tied, scale: None, softcap: None },
            tensors: TensorNames::PLAIN,
        }
    }
}

/// Refuses heads so wide that their frequencies alone would take long to compute.
///
/// # Errors
/// [`crate::MlxError::Config`].
pub fn expect_width(fields: &Fields<'_>, head_dim: i32) -> Result<()> {
    match head_dim {
        ..=MAX_HEAD_WIDTH => Ok(()),
        wider => Err(fields.malformed(format!("heads must be 2 to {MAX_HEAD_WIDTH} wide, but are {wider}"))),
    }
}

/// Which layers look through the sliding window, one claim each, by `layer_types`; `None` where the config has none.
///
/// # Errors
/// [`crate::MlxError::UnsupportedField`] for another kind of layer, [`crate::MlxError::Config`] for another number.
pub fn sliding_layers(fields: &Fields<'_>, layers: usize) -> Result<Option<Vec<bool>>> {
    let Some(types) = fields.texts("layer_types")? else { return Ok(None) };
    if types.len() != layers {
        return Err(fields.malformed(format!("layer_types has {} entries for {layers} layers", types.len())));
    }
    let is_sliding = |kind: &str| match kind {
        "sliding_attention" => Ok(true),
        "full_attention" => Ok(false),
        _ => Err(fields.unsupported("layer_types")),
    };
    types.into_iter().map(is_sliding).collect::<Result<Vec<bool>>>().map(Some)
}

/// Window of each layer in the words of Qwen: `use_sliding_window` lets the layers from `max_window_layers` on look
/// through `sliding_window`, unless `layer_types` names them.
///
/// # Errors
/// As [`sliding_layers`].
pub fn optional_windows(fields: &Fields<'_>, layers: usize) -> Result<Vec<Option<i32>>> {
    let types = sliding_layers(fields, layers)?;
    let first = fields.count("max_window_layers")?.unwrap_or(0);
    let is_used = fields.flag("use_sliding_window")?;
    // Zero counts as none: some exporters write it.
    let window =
        fields.count("sliding_window")?.filter(|window| is_used && *window > 0).map(|window| window as i32);
    let is_sliding = types.unwrap_or_else(|| (0..layers).map(|layer| layer >= first).collect());
    if window.is_none() && is_used && is_sliding.contains(&true) {
        return Err(fields.malformed("use_sliding_window needs a sliding_window".into()));
    }
    Ok(is_sliding.into_iter().map(|is_sliding| window.filter(|_| is_sliding)).collect())
}
