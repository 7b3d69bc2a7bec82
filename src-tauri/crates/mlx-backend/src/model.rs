//! The architectures that Braid runs: a file each, which reads a config into a [`design::Design`].

pub mod basics;
pub mod decoder;
pub mod design;
pub mod experts;
mod gemma2;
mod gemma3;
mod gemma4;
mod gpt_oss;
mod granite;
mod layer_inputs;
pub mod linear;
mod llama;
mod mistral;
mod mlp;
mod olmo2;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen3_moe;
pub mod rope;
mod self_attention;
mod smollm3;
mod sparse;

use crate::config::fields::Fields;
use crate::error::{MlxError, Result};
use crate::load::Weights;
use decoder::Decoder;
use design::{Design, Reader};

/// Every architecture by its `model_type`, in the order of the alphabet.
const TABLE: &[(&str, Reader)] = &[
    ("gemma2", gemma2::design),
    ("gemma3", gemma3::with_vision),
    ("gemma3_text", gemma3::text),
    ("gemma4", gemma4::design),
    ("gemma4_text", gemma4::text_design),
    ("gpt_oss", gpt_oss::design),
    ("granite", granite::design),
    ("llama", llama::design),
    ("mistral", mistral::design),
    ("olmo2", olmo2::design),
    ("phi3", phi3::design),
    ("qwen2", qwen2::design),
    ("qwen3", qwen3::design),
    ("qwen3_moe", qwen3_moe::design),
    ("smollm3", smollm3::design),
];

/// Supported values of `model_type`.
pub const ARCHITECTURES: &[&str] = &{
    let mut names = [""; TABLE.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = TABLE[index].0;
        index += 1;
    }
    names
};

/// Reads the config of an architecture; every field that changes the mathematics is used or refused.
///
/// # Errors
/// [`MlxError::UnsupportedArchitecture`], [`MlxError::UnsupportedField`], [`MlxError::Config`].
pub fn design(architecture: &str, fields: &Fields<'_>) -> Result<Design> {
    let reader = TABLE.iter().find(|(name, _)| *name == architecture).map(|(_, reader)| reader);
    let reader = reader.ok_or_else(|| MlxError::UnsupportedArchitecture(architecture.into()))?;
    let design = reader(fields)?;
    fields.finish()?;
    Ok(design)
}

/// Loads the decoder that the config describes.
///
/// # Errors
/// As [`Decoder::load`].
pub fn load(weights: &mut Weights<'_>) -> Result<Decoder> {
    Decoder::load(weights)
}
