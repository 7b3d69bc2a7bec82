//! Picks the architecture of a model.

pub mod decoder;
pub mod experts;
pub mod linear;

use crate::config::ModelConfig;
use crate::error::{MlxError, Result};
use crate::load::Weights;
use decoder::{Decoder, HeadNorms};

/// Loads the decoder that the config names.
///
/// # Errors
/// [`MlxError::UnsupportedArchitecture`], or as [`Decoder::load`].
pub fn load(weights: &mut Weights<'_>) -> Result<Decoder> {
    match weights.config().architecture.as_str() {
        "llama" => Decoder::load(weights, HeadNorms::Absent),
        "qwen3" => Decoder::load(weights, HeadNorms::PerHead),
        other => Err(MlxError::UnsupportedArchitecture(other.into())),
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
