//! What can go wrong on the way to a logit.

use crate::load::header::HeaderError;
use engine::backend::OutOfMemory;
use std::path::PathBuf;

/// Errors of loading and running a model.
#[derive(Debug, thiserror::Error)]
pub enum MlxError {
    /// MLX refused an operation or failed to run it.
    #[error("MLX failed in {op}: {what}")]
    Op {
        /// Operation that raised it.
        op: &'static str,
        /// MLX's own words.
        what: String,
    },
    /// MLX could not get the memory for an operation.
    #[error("MLX ran out of memory in {op}: {what}")]
    OutOfMemory {
        /// Operation that raised it.
        op: &'static str,
        /// MLX's own words.
        what: String,
        /// Tells the engine.
        source: OutOfMemory,
    },
    /// An array had another dtype or layout than its reader expects.
    #[error("cannot read an array as {expected}: it is {found}")]
    Read {
        /// Dtype that the reader asked for.
        expected: &'static str,
        /// What it found.
        found: String,
    },
    /// A file of the model folder is missing or unreadable.
    #[error("cannot read {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A JSON file of the model folder is not what it should be.
    #[error("cannot use {path}: {reason}")]
    Config {
        /// The file.
        path: PathBuf,
        /// Which field, and what is wrong with it.
        reason: String,
    },
    /// The folder holds no weights that are ever opened.
    #[error("no model*.safetensors in {dir}; weights in other formats (.bin, .pt, .pth) are never opened")]
    NoWeights {
        /// The folder.
        dir: PathBuf,
    },
    /// A weights file is not sound.
    #[error("{path} is damaged or no safetensors file")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: HeaderError,
    },
    /// The files hold another output head than the one that the config says.
    #[error("config.json says that the output head is the token embedding, but {name} differs from it")]
    TiedHead {
        /// Name of the tensor.
        name: String,
    },
    /// The architecture is not one that Braid runs.
    #[error("model type {0:?} is not supported; Braid runs {supported}", supported = crate::config::ARCHITECTURES.join(", "))]
    UnsupportedArchitecture(String),
    /// The config asks for mathematics that Braid does not have.
    #[error("config field {field} = {value} is not supported for this architecture")]
    UnsupportedField {
        /// Name in `config.json`, after the names of the objects it lies in.
        field: String,
        /// Its value.
        value: String,
    },
    /// The weights are packed by a method that is not MLX's.
    #[error(
        "weights quantised with {0} are not supported; use the model's MLX version (mlx-community) or its original"
    )]
    UnsupportedQuantisation(String),
    /// A matrix is not stored as `config.json` says.
    #[error("tensor {name}: {mismatch}")]
    Quantisation {
        /// Name of the tensor.
        name: String,
        /// What the file holds and what the config says.
        mismatch: &'static str,
    },
    /// Tensors that the architecture needs and no file holds.
    #[error("{} tensors are missing from the model's files, first {first}", .count)]
    MissingTensors {
        /// How many.
        count: usize,
        /// Name of the first.
        first: String,
    },
    /// Tensors in the files that the architecture does not use: the model is not what its config says.
    #[error("{count} tensors of the model's files are not used by its architecture, first {first}")]
    UnusedTensors {
        /// How many.
        count: usize,
        /// Name of the first.
        first: String,
    },
    /// A tensor's shape does not follow from the config.
    #[error("tensor {name} has shape {found:?}, but the config says {expected:?}")]
    Shape {
        /// Name of the tensor.
        name: String,
        /// Shape in the file.
        found: Vec<i32>,
        /// Shape by the config.
        expected: Vec<i32>,
    },
    /// The batch is full.
    #[error("the batch holds {max_rows} rows and all are taken")]
    BatchFull {
        /// Rows it can hold.
        max_rows: usize,
    },
    /// A call does not fit the batch as it is.
    #[error("{what}: the batch has {rows} rows")]
    Misuse {
        /// What was asked.
        what: &'static str,
        /// Rows in the batch.
        rows: usize,
    },
}

/// Result with [`MlxError`].
pub type Result<T, E = MlxError> = std::result::Result<T, E>;

impl MlxError {
    /// What MLX said of an operation that failed.
    pub(crate) fn of_mlx(op: &'static str, what: String) -> MlxError {
        if speaks_of_memory(&what) {
            MlxError::OutOfMemory { op, what, source: OutOfMemory }
        } else {
            MlxError::Op { op, what }
        }
    }
}

/// Whether a message of MLX tells a lack of memory. MLX has no other sign: these are the words of its allocators, of
/// Metal's command buffers and of CUDA.
fn speaks_of_memory(what: &str) -> bool {
    const WORDS: [&str; 6] = [
        "unable to allocate",
        "maximum allowed buffer size",
        "out of memory",
        "outofmemory",
        "insufficient memory",
        "cudaerrormemoryallocation",
    ];
    let what = what.to_lowercase();
    WORDS.iter().any(|words| what.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;

    #[test]
    fn a_lack_of_memory_is_told_from_other_failures() {
        for what in [
            "[malloc] Unable to allocate 68719476736 bytes.",
            "[metal::malloc] Attempting to allocate 9 bytes which is greater than the maximum allowed buffer size of 8 bytes.",
            "[METAL] Command buffer execution failed: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
            "cudaMallocAsync(&data, size, stream) failed: out of memory",
        ] {
            let error = MlxError::of_mlx("eval", what.into());
            let source = error.source().expect("the engine looks for it");
            assert!(source.is::<OutOfMemory>(), "{what}");
        }
        let other = MlxError::of_mlx("matmul", "[matmul] shapes (2,3) and (4,5) do not fit".into());
        assert!(matches!(other, MlxError::Op { .. }));
    }
}
