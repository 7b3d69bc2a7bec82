//! The one decoder: loads the blocks that a design describes and runs them.
//!
//! Tensor names as Hugging Face's checkpoints have them.

use super::design::{Design, LayerDesign, LayerInputs, NormDesign, NormWeight};
use super::layer_inputs::{LayerInput, TokenInputs};
use super::linear::{Bias, Embedding, Linear};
use super::mlp::Mlp;
use super::self_attention::SelfAttention;
use crate::attention::Pass;
use crate::error::Result;
use crate::load::Weights;
use crate::mx::packed::Input;
use crate::mx::{Array, Dtype, ops};

const EMBEDDING: &str = "model.embed_tokens";
const HEAD: &str = "lm_head";

/// What every part of a layer needs to know to find its tensors.
pub struct Naming<'a> {
    /// Name of the layer, without a full stop at its end.
    pub layer: &'a str,
    /// Width of the residual stream.
    pub hidden: i32,
    /// How norms are computed.
    pub norm: NormDesign,
    /// Embeddings of the layer's own.
    pub inputs: Option<LayerInputs>,
}

/// The residual stream and what has to happen to an addition to it.
pub struct Addition<'a> {
    x: &'a Array,
    norm: Option<&'a Array>,
    eps: f32,
    scale: Option<f32>,
}

impl Addition<'_> {
    /// The stream plus `matrix` times `input`, normed and scaled first where the design says so.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn of(&self, matrix: &Linear, input: Input<'_>) -> Result<Array> {
        match (self.norm, self.scale) {
            (None, None) => matrix.apply_to(input, Some(self.x)),
            _ => self.of_array(matrix.apply_to(input, None)?),
        }
    }

    /// The stream plus an array `[B, T, hidden]`, treated alike.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn of_array(&self, mut added: Array) -> Result<Array> {
        if let Some(weight) = self.norm {
            added = ops::rms_norm(&added, weight, self.eps)?;
        }
        if let Some(scale) = self.scale {
            added = scaled(&added, scale)?;
        }
        ops::add(self.x, &added)
    }
}

struct Layer {
    before_attention: Option<Array>,
    attention: SelfAttention,
    after_attention: Option<Array>,
    before_mlp: Option<Array>,
    mlp: Mlp,
    after_mlp: Option<Array>,
    residual_scale: Option<f32>,
    input: Option<LayerInput>,
    /// `[1]`.
    scalar: Option<Array>,
}

/// The whole decoder.
pub struct Decoder {
    norm_eps: f32,
    embedding: Embedding,
    embedding_scale: Option<f32>,
    inputs: Option<TokenInputs>,
    layers: Vec<Layer>,
    norm: Array,
    /// `None` when the head is the embedding.
    head: Option<Linear>,
    logit_scale: Option<f32>,
    logit_softcap: Option<f32>,
}

/// `x` times a number, in the dtype of `x`.
///
/// # Errors
/// [`crate::MlxError::Op`].
pub(super) fn scaled(x: &Array, factor: f32) -> Result<Array> {
    ops::multiply(x, &ops::cast(&Array::from_f32(factor), x.dtype())?)
}

/// The factor of the norm `name`, `[width]`.
///
/// # Errors
/// [`crate::MlxError::Shape`], [`crate::MlxError::Op`].
pub(super) fn named_norm(
    weights: &mut Weights<'_>,
    name: &str,
    width: i32,
    norm: NormDesign,
) -> Result<Array> {
    let weight = weights.vector(&format!("{name}.weight"), width)?;
    match norm.weight {
        NormWeight::AsStored => Ok(weight),
        NormWeight::LessOne => ops::add(&weight, &ops::cast(&Array::from_f32(1.0), weight.dtype())?),
    }
}

impl Decoder {
    /// Takes the tensors that the design of the weights' config names.
    ///
    /// # Errors
    /// [`crate::MlxError::Shape`], [`crate::MlxError::Op`].
    pub fn load(weights: &mut Weights<'_>) -> Result<Decoder> {
        let design: &Design = &weights.config().design;
        let Design { hidden, vocab, norm, head, .. } = *design;
        weights.find_decoder(design.tensors.prefix, design.tensors.skipped);
        let layers: Result<Vec<Layer>> = (0..)
            .zip(&design.layers)
            .map(|(index, layer): (usize, _)| {
                let name = format!("model.layers.{index}");
                Layer::load(
                    weights,
                    &Naming { layer: &name, hidden, norm, inputs: design.layer_inputs },
                    layer,
                )
            })
            .collect();
        Ok(Decoder {
            norm_eps: norm.eps,
            embedding: weights.embedding(EMBEDDING, vocab, hidden)?,
            embedding_scale: design.embedding_scale,
            inputs: design
                .layer_inputs
                .map(|inputs| TokenInputs::load(weights, design, inputs))
                .transpose()?,
            layers: layers?,
            norm: named_norm(weights, "model.norm", hidden, norm)?,
            head: match head.is_tied {
                true => {
                    weights.tie_head(EMBEDDING, HEAD)?;
                    None
                }
                false => Some(weights.linear(HEAD, vocab, hidden, Bias::Absent)?),
            },
            logit_scale: head.scale,
            logit_softcap: head.softcap,
        })
    }

    /// Hidden states after the last layer's norm: ids `[B, T]` to `[B, T, hidden]`.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn hidden(&self, ids: &Array, pass: &mut Pass<'_>) -> Result<Array> {
        let mut x = self.embedding.look_up(ids)?;
        if let Some(scale) = self.embedding_scale {
            x = scaled(&x, scale)?;
        }
        let inputs = self.inputs.as_ref().map(|inputs| inputs.of(ids, &x)).transpose()?.unwrap_or_default();
        for (index, layer) in self.layers.iter().enumerate() {
            x = layer.run(index, x, pass, self.norm_eps)?;
            x = layer.finish(x, inputs.get(index))?;
        }
        ops::rms_norm(&x, &self.norm, self.norm_eps)
    }

    /// Logits of hidden states: `[B, T, hidden]` to `[B, T, vocab]`.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn logits(&self, hidden: &Array) -> Result<Array> {
        let mut logits = match &self.head {
            Some(head) => head.apply(hidden),
            None => self.embedding.project(hidden),
        }?;
        if let Some(scale) = self.logit_scale {
            logits = scaled(&logits, scale)?;
        }
        if let Some(cap) = self.logit_softcap {
            logits = scaled(&ops::tanh(&scaled(&logits, cap.recip())?)?, cap)?;
        }
        Ok(logits)
    }

    /// Dtype of activations: that of the norms.
    pub fn compute_dtype(&self) -> Dtype {
        self.norm.dtype()
    }

    /// Every array of the model.
    pub fn arrays(&self) -> Vec<&Array> {
        let layers = self.layers.iter().flat_map(|layer| {
            let norms =
                [&layer.before_attention, &layer.after_attention, &layer.before_mlp, &layer.after_mlp];
            let input = layer.input.iter().flat_map(LayerInput::arrays);
            let own = layer.attention.arrays().chain(layer.mlp.arrays()).chain(norms.into_iter().flatten());
            own.chain(input).chain(&layer.scalar)
        });
        let inputs = self.inputs.iter().flat_map(TokenInputs::arrays);
        let head = self.head.iter().flat_map(Linear::arrays);
        self.embedding
            .arrays()
            .into_iter()
            .chain(inputs)
            .chain(layers)
            .chain(head)
            .chain([&self.norm])
            .collect()
    }
}

impl Layer {
    fn load(weights: &mut Weights<'_>, naming: &Naming<'_>, design: &LayerDesign) -> Result<Layer> {
        let norm = |weights: &mut Weights<'_>, name: Option<&str>| {
            name.map(|name| {
                named_norm(weights, &format!("{}.{name}", naming.layer), naming.hidden, naming.norm)
            })
            .transpose()
        };
        let norms = design.norms;
        Ok(Layer {
            before_attention: norm(weights, norms.before_attention)?,
            attention: SelfAttention::load(weights, naming, design)?,
            after_attention: norm(weights, norms.after_attention)?,
            before_mlp: norm(weights, norms.before_mlp)?,
            mlp: Mlp::load(weights, naming, &design.mlp)?,
            after_mlp: norm(weights, norms.after_mlp)?,
            residual_scale: design.residual_scale,
            input: naming.inputs.map(|inputs| LayerInput::load(weights, naming, inputs)).transpose()?,
            scalar: match design.has_scalar {
                true => Some(weights.vector(&format!("{}.layer_scalar", naming.layer), 1)?),
                false => None,
            },
        })
    }

    /// `[B, T, hidden]` to the same.
    fn run(&self, index: usize, x: Array, pass: &mut Pass<'_>, eps: f32) -> Result<Array> {
        let scale = self.residual_scale;
        let attended = self.attention.attend(index, normed(&x, &self.before_attention, eps), pass)?;
        let addition = Addition { x: &x, norm: self.after_attention.as_ref(), eps, scale };
        let x = addition.of(self.attention.output(), Input::Plain(&attended))?;
        let addition = Addition { x: &x, norm: self.after_mlp.as_ref(), eps, scale };
        self.mlp.add_to(addition, normed(&x, &self.before_mlp, eps))
    }

    /// What comes after the MLP: the layer's own embedding, `[B, T, width]`, and the layer's factor.
    fn finish(&self, mut x: Array, input: Option<&Array>) -> Result<Array> {
        if let (Some(layer), Some(input)) = (&self.input, input) {
            x = layer.add_to(&x, input)?;
        }
        match &self.scalar {
            Some(scalar) => ops::multiply(&x, scalar),
            None => Ok(x),
        }
    }
}

/// `x` through a norm, if there is one, on its way into a product.
fn normed<'a>(x: &'a Array, weight: &'a Option<Array>, eps: f32) -> Input<'a> {
    match weight {
        Some(weight) => Input::Normed { x, weight, eps },
        None => Input::Plain(x),
    }
}
