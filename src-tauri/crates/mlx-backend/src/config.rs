//! `config.json` of a model folder, parsed once: what the architecture needs, or why it cannot run.

pub mod quantisation;

use crate::error::{MlxError, Result};
use quantisation::Quantisations;
use serde::Deserialize;
use std::path::Path;

/// Shape of a decoder and of its tensors.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// `model_type`.
    pub architecture: String,
    /// Width of the residual stream.
    pub hidden: i32,
    /// Decoder layers.
    pub layers: usize,
    /// Width of the MLP.
    pub intermediate: i32,
    /// Query heads.
    pub heads: i32,
    /// Key and value heads; divides `heads`.
    pub kv_heads: i32,
    /// Width of a head.
    pub head_dim: i32,
    /// Width of the logits.
    pub vocab: i32,
    /// Added inside the RMS norm's root.
    pub norm_eps: f32,
    /// Base of the rotary frequencies.
    pub rope_base: f32,
    /// Context window in tokens.
    pub context_tokens: u32,
    /// Whether the output head is the embedding.
    pub is_tied: bool,
    /// How matrices are packed.
    pub quantisation: Quantisations,
}

#[derive(Deserialize)]
struct Raw {
    model_type: String,
    hidden_size: i32,
    num_hidden_layers: usize,
    intermediate_size: i32,
    num_attention_heads: i32,
    num_key_value_heads: Option<i32>,
    head_dim: Option<i32>,
    vocab_size: i32,
    rms_norm_eps: f32,
    rope_theta: Option<f32>,
    rope_parameters: Option<RopeParameters>,
    max_position_embeddings: Option<u32>,
    tie_word_embeddings: Option<bool>,
    rope_scaling: Option<serde_json::Value>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    hidden_act: Option<String>,
    sliding_window: Option<i64>,
    use_sliding_window: Option<bool>,
}

/// Where newer configs keep `rope_theta` and `rope_scaling`.
#[derive(Deserialize)]
struct RopeParameters {
    rope_theta: Option<f32>,
    rope_type: Option<String>,
}

impl ModelConfig {
    /// Reads and checks `config.json` in `dir`.
    ///
    /// # Errors
    /// [`MlxError::File`], [`MlxError::Config`] for malformed or impossible values, and
    /// [`MlxError::UnsupportedField`] for one that changes the mathematics in a way Braid does not have.
    pub fn from_dir(dir: &Path) -> Result<ModelConfig> {
        let path = dir.join("config.json");
        let bytes = std::fs::read(&path).map_err(|source| MlxError::File { path: path.clone(), source })?;
        let malformed =
            |error: serde_json::Error| MlxError::Config { path: path.clone(), reason: error.to_string() };
        let json: serde_json::Value = serde_json::from_slice(&bytes).map_err(malformed)?;
        let quantisation = Quantisations::of_config(&json, &path)?;
        let raw: Raw = serde_json::from_value(json).map_err(malformed)?;
        raw.refuse_unsupported()?;
        let config = raw
            .into_config(quantisation)
            .map_err(|reason| MlxError::Config { path: path.clone(), reason })?;
        config.check().map_err(|reason| MlxError::Config { path, reason })?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        let positive = [
            ("hidden_size", self.hidden),
            ("intermediate_size", self.intermediate),
            ("num_attention_heads", self.heads),
            ("num_key_value_heads", self.kv_heads),
            ("head_dim", self.head_dim),
            ("vocab_size", self.vocab),
        ];
        for (field, value) in positive {
            if !(1..=1 << 24).contains(&value) {
                return Err(format!("{field} must be 1 to 16777216, but is {value}"));
            }
        }
        if !(1..=1024).contains(&self.layers) {
            return Err(format!("num_hidden_layers must be 1 to 1024, but is {}", self.layers));
        }
        if self.heads % self.kv_heads != 0 || self.head_dim % 2 != 0 {
            return Err(format!(
                "{} heads of width {} cannot share {} key heads",
                self.heads, self.head_dim, self.kv_heads
            ));
        }
        Ok(())
    }
}

impl Raw {
    fn refuse_unsupported(&self) -> Result<()> {
        let refuse = |field, value: String| Err(MlxError::UnsupportedField { field, value });
        if let Some(scaling) = self.rope_scaling.as_ref().filter(|value| !value.is_null()) {
            return refuse("rope_scaling", scaling.to_string());
        }
        let rope_type = self.rope_parameters.as_ref().and_then(|rope| rope.rope_type.as_ref());
        if let Some(kind) = rope_type.filter(|kind| *kind != "default") {
            return refuse("rope_parameters.rope_type", kind.clone());
        }
        if self.attention_bias == Some(true) {
            return refuse("attention_bias", "true".into());
        }
        if self.mlp_bias == Some(true) {
            return refuse("mlp_bias", "true".into());
        }
        if let Some(act) = self.hidden_act.as_ref().filter(|act| *act != "silu") {
            return refuse("hidden_act", act.clone());
        }
        match self.sliding_window {
            Some(window) if self.use_sliding_window != Some(false) => {
                refuse("sliding_window", window.to_string())
            }
            _ => Ok(()),
        }
    }

    fn into_config(self, quantisation: Quantisations) -> Result<ModelConfig, String> {
        let head_dim = match self.head_dim {
            Some(width) => width,
            None if self.num_attention_heads > 0 => self.hidden_size / self.num_attention_heads,
            None => return Err("num_attention_heads must be positive".into()),
        };
        Ok(ModelConfig {
            architecture: self.model_type,
            hidden: self.hidden_size,
            layers: self.num_hidden_layers,
            intermediate: self.intermediate_size,
            heads: self.num_attention_heads,
            kv_heads: self.num_key_value_heads.unwrap_or(self.num_attention_heads),
            head_dim,
            vocab: self.vocab_size,
            norm_eps: self.rms_norm_eps,
            rope_base: self
                .rope_theta
                .or(self.rope_parameters.and_then(|rope| rope.rope_theta))
                .unwrap_or(10_000.0),
            context_tokens: self.max_position_embeddings.unwrap_or(2048),
            is_tied: self.tie_word_embeddings.unwrap_or(false),
            quantisation,
        })
    }
}
