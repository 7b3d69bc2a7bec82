//! Picks the architecture of a model and runs it.

pub mod linear;
pub mod llama;

use crate::attention::Pass;
use crate::config::ModelConfig;
use crate::error::{MlxError, Result};
use crate::load::Weights;
use crate::mx::{Array, Dtype};
use llama::Llama;

/// A loaded decoder.
pub enum Model {
    /// Llama and what shares its mathematics.
    Llama(Llama),
}

impl Model {
    /// Takes the weights that the architecture needs.
    ///
    /// # Errors
    /// [`MlxError::UnsupportedArchitecture`], or as the architecture's own loader.
    pub fn load(weights: &mut Weights<'_>) -> Result<Model> {
        match weights.config().architecture.as_str() {
            "llama" => Ok(Model::Llama(Llama::load(weights)?)),
            other => Err(MlxError::UnsupportedArchitecture(other.into())),
        }
    }

    /// Hidden states after the last layer's norm: ids `[B, T]` to `[B, T, hidden]`.
    ///
    /// # Errors
    /// [`MlxError::Op`].
    pub fn hidden(&self, ids: &Array, pass: &mut Pass<'_>) -> Result<Array> {
        match self {
            Model::Llama(model) => model.hidden(ids, pass),
        }
    }

    /// Logits of hidden states: `[B, T, hidden]` to `[B, T, vocab]`.
    ///
    /// # Errors
    /// [`MlxError::Op`].
    pub fn logits(&self, hidden: &Array) -> Result<Array> {
        match self {
            Model::Llama(model) => model.logits(hidden),
        }
    }

    /// Dtype of activations.
    pub fn compute_dtype(&self) -> Dtype {
        match self {
            Model::Llama(model) => model.norm_dtype(),
        }
    }

    /// Every array of the model.
    pub fn arrays(&self) -> Vec<&Array> {
        match self {
            Model::Llama(model) => model.arrays(),
        }
    }
}

/// Query and key heads, and the scale of their products: what attention needs of a config.
#[derive(Debug, Clone, Copy)]
pub struct HeadShape {
    /// Query heads.
    pub heads: i32,
    /// Key and value heads.
    pub kv_heads: i32,
    /// Width of a head.
    pub head_dim: i32,
}

impl HeadShape {
    /// Of a config.
    pub fn of(config: &ModelConfig) -> HeadShape {
        HeadShape { heads: config.heads, kv_heads: config.kv_heads, head_dim: config.head_dim }
    }

    /// 1/√head_dim.
    pub fn scale(&self) -> f32 {
        (self.head_dim as f32).sqrt().recip()
    }
}
