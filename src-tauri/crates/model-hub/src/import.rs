mod blocks;
mod disk;
mod family;
mod folder;
mod hyperparameters;
mod part_folder;
mod plan;
mod rope;
mod tokenizer;
mod weights;

use std::{ops::ControlFlow, path::Path};

use serde_json::Value;

use crate::{Gguf, ModelHubError};
pub use folder::{How, free_name, import_folder};
use hyperparameters::Hyperparameters;
use part_folder::PartFolder;
use plan::Plan;

/// How far an import is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes written.
    pub done_bytes: u64,
    /// Bytes to write.
    pub total_bytes: u64,
}

/// Hears how far an import is and says whether it goes on.
pub type Watch<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

fn go_on(watch: Watch<'_>, progress: Progress) -> Result<(), ModelHubError> {
    match watch(progress) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(ModelHubError::Cancelled),
    }
}

/// What an import wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportSummary {
    /// Tensors read from the GGUF file.
    pub tensors: usize,
    /// Layers of the model.
    pub layers: u64,
    /// Size of `model.safetensors`.
    pub weights_bytes: u64,
}

/// Converts a GGUF file of the architecture `llama`, `qwen2` or `qwen3` into an MLX folder at `target`.
///
/// Weights keep their quantisation: Q4_0 and Q4_1 become 4-bit, Q8_0 8-bit, groups of 32; F32 becomes f16. The folder
/// appears under its name only when it is complete; until then it is `<target>.part`, removed on any error. Holds one
/// tensor in memory at a time.
///
/// # Errors
/// [`ModelHubError::OutputExists`] before anything is read; an `Unsupported`, `Missing`, `Damaged`, `Truncated` or
/// `Wrong` variant before anything is written; [`ModelHubError::Read`], `Write` or `NotRepresentable` while writing.
pub fn import_gguf(source: &Path, target: &Path) -> Result<ImportSummary, ModelHubError> {
    import_gguf_with(source, target, &mut |_| ControlFlow::Continue(()))
}

/// As [`import_gguf`]; `watch` hears of every tensor and may end the import.
///
/// # Errors
/// As [`import_gguf`], `DiskFull`, and [`ModelHubError::Cancelled`] when `watch` breaks; nothing stays behind.
pub fn import_gguf_with(
    source: &Path,
    target: &Path,
    watch: Watch<'_>,
) -> Result<ImportSummary, ModelHubError> {
    if target.symlink_metadata().is_ok() {
        return Err(ModelHubError::OutputExists { path: target.to_path_buf() });
    }
    let gguf = Gguf::open(source)?;
    let parameters = Hyperparameters::read(&gguf)?;
    let plan = Plan::new(&gguf, &parameters)?;
    let tokenizer = tokenizer::read(&gguf, parameters.family)?;
    let mut config = parameters.config(&gguf);
    plan.describe(&mut config);

    let folder = PartFolder::create(target)?;
    let weights = folder.file("model.safetensors");
    weights::write(&gguf, &plan.tensors, &weights, watch)?;
    let weights_bytes =
        weights.metadata().map_err(|source| ModelHubError::Read { path: weights.clone(), source })?.len();
    folder.write("config.json", &pretty(&Value::Object(config)))?;
    folder.write("tokenizer.json", tokenizer.tokenizer.to_string().as_bytes())?;
    folder.write("tokenizer_config.json", &pretty(&tokenizer.config))?;
    folder.finish()?;
    Ok(ImportSummary { tensors: plan.tensors.len(), layers: parameters.layers, weights_bytes })
}

fn pretty(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}
