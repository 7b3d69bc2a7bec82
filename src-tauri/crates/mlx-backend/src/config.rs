//! `config.json` of a model folder, parsed once: what the architecture needs, or why it cannot run.
//!
//! Pure Rust on any thread: nothing here asks MLX.

pub mod fields;
pub mod quantisation;

pub use crate::model::ARCHITECTURES;

use crate::error::{MlxError, Result};
use crate::model::{self, design::Design};
use fields::Fields;
use quantisation::Quantisations;
use std::path::Path;

/// A model as its config describes it.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// `model_type`, one of [`ARCHITECTURES`].
    pub architecture: String,
    /// What it computes.
    pub design: Design,
    /// Width of the residual stream.
    pub hidden: i32,
    /// Decoder layers.
    pub layers: usize,
    /// Width of the logits.
    pub vocab: i32,
    /// Context window in tokens.
    pub context_tokens: u32,
    /// Whether the output head is the embedding.
    pub is_tied: bool,
    /// How matrices are packed.
    pub quantisation: Quantisations,
}

impl ModelConfig {
    /// Reads and checks `config.json` in `dir`.
    ///
    /// # Errors
    /// [`MlxError::File`], and as [`Self::from_json`].
    pub fn from_dir(dir: &Path) -> Result<ModelConfig> {
        let path = dir.join("config.json");
        let bytes = std::fs::read(&path).map_err(|source| MlxError::File { path: path.clone(), source })?;
        ModelConfig::from_json(&bytes, &path)
    }

    /// Parses and checks the config at `path`, whose content is `bytes`.
    ///
    /// # Errors
    /// [`MlxError::UnsupportedArchitecture`]; [`MlxError::UnsupportedField`] for a field that changes the mathematics in
    /// a way that Braid does not have; [`MlxError::Config`] for malformed or impossible values.
    pub fn from_json(bytes: &[u8], path: &Path) -> Result<ModelConfig> {
        let malformed = |reason: String| MlxError::Config { path: path.into(), reason };
        let json: serde_json::Value =
            serde_json::from_slice(bytes).map_err(|error| malformed(error.to_string()))?;
        let entries = json.as_object().ok_or_else(|| malformed("it is not an object".into()))?;
        let fields = Fields::new(entries, path);
        let architecture =
            fields.text("model_type")?.ok_or_else(|| malformed("model_type is missing".into()))?;
        let design = model::design(architecture, &fields)?;
        design.check().map_err(malformed)?;
        Ok(ModelConfig {
            architecture: architecture.into(),
            hidden: design.hidden,
            layers: design.layers.len(),
            vocab: design.vocab,
            context_tokens: design.context_tokens,
            is_tied: design.head.is_tied,
            quantisation: Quantisations::of_config(&json, path)?,
            design,
        })
    }

    /// Bytes that the keys and values of one token take in one row, at `entry_bytes` an entry.
    pub fn kv_cache_bytes_per_token(&self, entry_bytes: u64) -> u64 {
        self.design.kv_cache_bytes_per_token(entry_bytes)
    }
}
