//! Embeddings that every layer gets for itself: looked up and projected once per pass, added after each layer's MLP.

use super::decoder::{Naming, named_norm, scaled};
use super::design::{Design, LayerInputs};
use super::linear::{Bias, Embedding, Linear};
use crate::error::Result;
use crate::load::Weights;
use crate::mx::packed::Gate;
use crate::mx::{Array, ops};

/// What makes the inputs of all layers from tokens.
pub struct TokenInputs {
    width: i32,
    layers: i32,
    embedding: Embedding,
    projection: Linear,
    norm: Array,
    eps: f32,
}

impl TokenInputs {
    /// Takes the tensors of the decoder's own level.
    ///
    /// # Errors
    /// As [`Weights::linear`].
    pub fn load(weights: &mut Weights<'_>, design: &Design, inputs: LayerInputs) -> Result<TokenInputs> {
        let LayerInputs { width, vocab } = inputs;
        let layers = design.layers.len() as i32;
        let name = |part: &str| format!("model.{part}");
        Ok(TokenInputs {
            width,
            layers,
            embedding: weights.embedding(&name("embed_tokens_per_layer"), vocab, layers * width)?,
            projection: weights.linear(
                &name("per_layer_model_projection"),
                layers * width,
                design.hidden,
                Bias::Absent,
            )?,
            norm: named_norm(weights, &name("per_layer_projection_norm"), width, design.norm)?,
            eps: design.norm.eps,
        })
    }

    /// The input of each layer, `[B, T, width]`, for ids `[B, T]` and their scaled embeddings `x` `[B, T, hidden]`.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn of(&self, ids: &Array, x: &Array) -> Result<Vec<Array>> {
        let shape = [x.dim(0), x.dim(1), self.layers, self.width];
        let embedded = scaled(&self.embedding.look_up(ids)?, (self.width as f32).sqrt())?;
        let projected = scaled(&self.projection.apply(x)?, (x.dim(2) as f32).sqrt().recip())?;
        let projected = ops::rms_norm(&ops::reshape(&projected, &shape)?, &self.norm, self.eps)?;
        let both = ops::add(&projected, &ops::reshape(&embedded, &shape)?)?;
        let mixed = scaled(&both, std::f32::consts::FRAC_1_SQRT_2)?;
        let of_layer = |layer| {
            ops::reshape(&ops::slice_axis(&mixed, 2, layer, layer + 1)?, &[shape[0], shape[1], self.width])
        };
        (0..self.layers).map(of_layer).collect()
    }

    /// Every array.
    pub fn arrays(&self) -> impl Iterator<Item = &Array> {
        self.embedding.arrays().into_iter().chain(self.projection.arrays()).chain([&self.norm])
    }
}

/// How one layer adds its input to the residual stream.
pub struct LayerInput {
    gate: Linear,
    projection: Linear,
    norm: Array,
    eps: f32,
}

impl LayerInput {
    /// Takes the tensors of the layer.
    ///
    /// # Errors
    /// As [`Weights::linear`].
    pub fn load(weights: &mut Weights<'_>, naming: &Naming<'_>, inputs: LayerInputs) -> Result<LayerInput> {
        let name = |part: &str| format!("{}.{part}", naming.layer);
        let (hidden, width) = (naming.hidden, inputs.width);
        Ok(LayerInput {
            gate: weights.linear(&name("per_layer_input_gate"), width, hidden, Bias::Absent)?,
            projection: weights.linear(&name("per_layer_projection"), hidden, width, Bias::Absent)?,
            norm: named_norm(weights, &name("post_per_layer_input_norm"), hidden, naming.norm)?,
            eps: naming.norm.eps,
        })
    }

    /// The stream `x` `[B, T, hidden]` with the layer's input `[B, T, width]` added.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn add_to(&self, x: &Array, input: &Array) -> Result<Array> {
        let gated = ops::multiply(&Gate::GeluTanh.of(&self.gate.apply(x)?)?, input)?;
        ops::add(x, &ops::rms_norm(&self.projection.apply(&gated)?, &self.norm, self.eps)?)
    }

    /// Every array.
    pub fn arrays(&self) -> impl Iterator<Item = &Array> {
        [&self.gate, &self.projection].into_iter().flat_map(Linear::arrays).chain([&self.norm])
    }
}
