//! Weights from safetensors with a two-way ledger: every tensor of the files is used, every one needed is there.

mod files;
pub mod header;
mod packing;
mod spelling;

use crate::config::ModelConfig;
use crate::error::{MlxError, Result};
use crate::model::experts::{Experts, Stack};
use crate::model::linear::{Bias, Embedding, Linear, Matrix, Product};
use crate::mx::{Array, Dtype, cuda, ops, packed, quantised};
use files::WeightFiles;
use mlx_rs::error::IoError;
use spelling::Spelling;
use std::collections::HashMap;
use std::path::Path;

/// What the device computes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numerics {
    /// CPU: f32 throughout, since MLX emulates half precision there. Weights that [`packed`] can multiply stay
    /// packed, the others are dequantised at load.
    FullPrecision,
    /// GPU: the checkpoint's own quantisation and dtype.
    Checkpoint,
}

/// A GPU keeps narrower matrices than this unpacked. MLX 0.32.2's product on CUDA is wrong for a matrix of 4 outputs, 64
/// inputs and 8 bits, the router of a small sparse MLP, from two rows on; it is right for 24 outputs of 256 inputs and
/// for 128 of 2,048. They are a few kilobytes.
const LEAST_PACKED_OUTPUTS: i32 = 16;

/// Tensors of a model's files on their way into its layers.
pub struct Weights<'a> {
    config: &'a ModelConfig,
    numerics: Numerics,
    /// What floats are computed in.
    dtype: Dtype,
    files: WeightFiles,
    spelling: Spelling,
    /// By their names in the files.
    tensors: HashMap<String, Array>,
    missing: Vec<String>,
}

fn is_float(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Float16 | Dtype::Bfloat16 | Dtype::Float32)
}

/// The dtype of most float elements; files that mix dtypes are computed in that one.
fn most_common_float(tensors: &HashMap<String, Array>) -> Dtype {
    let elements =
        |dtype| -> usize { tensors.values().filter(|tensor| tensor.dtype() == dtype).map(Array::size).sum() };
    // On a tie the last, which is the widest.
    let dtypes = [Dtype::Float16, Dtype::Bfloat16, Dtype::Float32];
    dtypes.into_iter().max_by_key(|dtype| elements(*dtype)).unwrap_or(Dtype::Float32)
}

/// A config that speaks of quantisation belongs to other files than ones without a single scale.
fn require_scales(tensors: &HashMap<String, Array>, config: &ModelConfig) -> Result<()> {
    if config.quantisation.most().is_none() || tensors.keys().any(|name| name.ends_with(".scales")) {
        return Ok(());
    }
    match tensors.keys().filter(|name| name.ends_with(".weight")).min() {
        Some(name) => Err(MlxError::Quantisation {
            name: name.clone(),
            mismatch: "config.json says that matrices are quantised, but the files hold no scales at all",
        }),
        None => Ok(()),
    }
}

impl<'a> Weights<'a> {
    /// Opens the files of `dir`; data is read when it is evaluated.
    ///
    /// # Errors
    /// [`MlxError::NoWeights`], [`MlxError::File`], [`MlxError::Config`] for a bad index, [`MlxError::Damaged`] for a
    /// file that is not sound, [`MlxError::Quantisation`] when the config speaks of packed weights and none are there.
    pub fn open(dir: &Path, config: &'a ModelConfig, numerics: Numerics) -> Result<Self> {
        let files = WeightFiles::find(dir)?;
        let mut tensors = HashMap::new();
        for path in files.paths() {
            let loaded = Array::load_safetensors(path).map_err(|error| {
                let reason = match error {
                    // Without MLX's own words, which our handler has kept.
                    IoError::Exception(error) => ops::failure("load", Some(error)).to_string(),
                    error => error.to_string(),
                };
                MlxError::Config { path: path.clone(), reason }
            })?;
            tensors.extend(loaded);
        }
        // Some exporters write them and no architecture reads them.
        tensors.retain(|name, _| !name.ends_with("rotary_emb.inv_freq"));
        require_scales(&tensors, config)?;
        let dtype = match numerics {
            Numerics::FullPrecision => Dtype::Float32,
            Numerics::Checkpoint => most_common_float(&tensors),
        };
        let spelling = Spelling::Plain;
        Ok(Weights { config, numerics, dtype, files, spelling, tensors, missing: Vec::new() })
    }

    /// From here on, names are those of a checkpoint of the decoder alone, wherever under `prefix` (with its full stop)
    /// these files keep it. Leaves out tensors whose names start with one of `skipped`, with or without `model.`.
    pub fn find_decoder(&mut self, prefix: &'static str, skipped: &[&str]) {
        self.tensors.retain(|name, _| !spelling::is_skipped(name, skipped));
        self.spelling = Spelling::of(self.tensors.keys().map(String::as_str), prefix);
    }

    /// Leaves out tensors whose names start with `start`: the architecture does not read them.
    pub fn skip(&mut self, start: &str) {
        let start = self.spelling.in_files(start);
        self.tensors.retain(|name, _| !name.starts_with(&start));
    }

    /// Leaves out the matrix `head` of a model whose head is `embedding`: some files hold it twice.
    ///
    /// # Errors
    /// [`MlxError::TiedHead`] if the two differ, [`MlxError::File`].
    pub fn tie_head(&mut self, embedding: &str, head: &str) -> Result<()> {
        for part in ["weight", "scales", "biases"] {
            let name = self.spelling.in_files(&format!("{head}.{part}"));
            let embedding = self.spelling.in_files(&format!("{embedding}.{part}"));
            let is_there = self.tensors.remove(&name).is_some();
            if is_there && self.files.are_equal(&name, &embedding)? != Some(true) {
                return Err(MlxError::TiedHead { name });
            }
        }
        Ok(())
    }

    /// The config these weights belong to.
    pub fn config(&self) -> &'a ModelConfig {
        self.config
    }

    /// Takes a tensor out of the ledger, or notes that it is missing and stands in zeros of `dtype`.
    fn take(&mut self, name: &str, expected: &[i32], dtype: Dtype) -> Result<Array> {
        let name = self.spelling.in_files(name);
        let Some(tensor) = self.tensors.remove(&name) else {
            self.missing.push(name);
            return ops::zeros(expected, dtype);
        };
        if tensor.shape() != expected {
            let found = tensor.shape().to_vec();
            return Err(MlxError::Shape { name, found, expected: expected.to_vec() });
        }
        Ok(tensor)
    }

    fn floats(&mut self, name: &str, expected: &[i32]) -> Result<Array> {
        let tensor = self.take(name, expected, self.dtype)?;
        if !is_float(tensor.dtype()) {
            return Err(self.mismatch(name, "it is not stored as f16, bf16 or f32"));
        }
        ops::cast(&tensor, self.dtype)
    }

    /// A vector such as a norm's weight, `[len]`.
    ///
    /// # Errors
    /// [`MlxError::Shape`].
    pub fn vector(&mut self, name: &str, len: i32) -> Result<Array> {
        self.floats(name, &[len])
    }

    fn matrix(&mut self, prefix: &str, rows: i32, columns: i32) -> Result<Matrix> {
        let shape = [rows, columns];
        let packed = match self.quantisation_of(prefix, columns)? {
            Some(quantisation) => self.packed(prefix, &shape, quantisation)?,
            None => {
                let weight = self.floats(&format!("{prefix}.weight"), &shape)?;
                return Ok(self.dense(weight));
            }
        };
        let quantisation = packed.quantisation;
        let is_cuda = packed.affine().is_some_and(|arrays| cuda::supports(arrays, quantisation));
        match self.numerics {
            Numerics::Checkpoint if rows < LEAST_PACKED_OUTPUTS => {
                Ok(self.dense(quantised::dequantize(&packed, self.dtype)?))
            }
            Numerics::Checkpoint if is_cuda => Ok(Matrix::Quantised { packed, product: Product::Cuda }),
            Numerics::Checkpoint => Ok(Matrix::Quantised { packed, product: Product::Mlx }),
            Numerics::FullPrecision if packed::supports(quantisation) => {
                Ok(Matrix::Quantised { packed, product: Product::Cpu })
            }
            Numerics::FullPrecision => Ok(self.dense(quantised::dequantize(&packed, self.dtype)?)),
        }
    }

    fn dense(&self, weight: Array) -> Matrix {
        let is_cpu = self.numerics == Numerics::FullPrecision && packed::supports_dense(weight.dim(1));
        Matrix::Dense { weight, product: if is_cpu { Product::Cpu } else { Product::Mlx } }
    }

    /// A stack of matrices, `[experts, rows, columns]`. Packed ones stay packed: a pass reads a few of them.
    ///
    /// # Errors
    /// As [`Self::linear`].
    pub fn experts(&mut self, prefix: &str, shape: [i32; 3], bias: Bias) -> Result<Experts> {
        let [experts, rows, columns] = shape;
        let stack = match self.quantisation_of(prefix, columns)? {
            Some(quantisation) => Stack::Packed(self.packed(prefix, &shape, quantisation)?),
            None => Stack::Dense(self.floats(&format!("{prefix}.weight"), &shape)?),
        };
        let bias = match bias {
            Bias::Absent => None,
            Bias::Present => Some(self.floats(&format!("{prefix}.bias"), &[experts, rows])?),
        };
        Ok(Experts::new(stack, bias))
    }

    fn bias(&mut self, prefix: &str, rows: i32, bias: Bias) -> Result<Option<Array>> {
        match bias {
            Bias::Absent => Ok(None),
            Bias::Present => Ok(Some(self.vector(&format!("{prefix}.bias"), rows)?)),
        }
    }

    /// The matrices `prefix.part` stacked along their outputs, so that one product computes them all.
    ///
    /// `parts`: name and output width of each. Input width is `columns`. `bias` is that of every part.
    ///
    /// # Errors
    /// [`MlxError::Shape`], [`MlxError::Op`].
    pub fn merged(
        &mut self,
        prefix: &str,
        parts: &[(&str, i32)],
        columns: i32,
        bias: Bias,
    ) -> Result<Linear> {
        let (mut matrices, mut biases) = (Vec::new(), Vec::new());
        for (part, rows) in parts {
            let name = format!("{prefix}.{part}");
            matrices.push(self.matrix(&name, *rows, columns)?);
            biases.extend(self.bias(&name, *rows, bias)?);
        }
        Linear::merge(matrices, &biases)
    }

    /// One matrix, `[rows, columns]`.
    ///
    /// # Errors
    /// [`MlxError::Shape`] and [`MlxError::Quantisation`] for one that is not stored as the config says,
    /// [`MlxError::Op`].
    pub fn linear(&mut self, prefix: &str, rows: i32, columns: i32, bias: Bias) -> Result<Linear> {
        let matrix = self.matrix(prefix, rows, columns)?;
        Linear::merge(vec![matrix], self.bias(prefix, rows, bias)?.as_slice())
    }

    /// The token embedding, `[rows, columns]`.
    ///
    /// # Errors
    /// [`MlxError::Shape`], [`MlxError::Op`].
    pub fn embedding(&mut self, prefix: &str, rows: i32, columns: i32) -> Result<Embedding> {
        Ok(Embedding::new(self.matrix(prefix, rows, columns)?, self.dtype))
    }

    /// Closes the ledger.
    ///
    /// # Errors
    /// [`MlxError::MissingTensors`] or [`MlxError::UnusedTensors`].
    pub fn finish(mut self) -> Result<()> {
        if let Some(first) = self.missing.first() {
            return Err(MlxError::MissingTensors { count: self.missing.len(), first: first.clone() });
        }
        let mut unused: Vec<String> = self.tensors.drain().map(|(name, _)| name).collect();
        unused.sort();
        match unused.first() {
            Some(first) => Err(MlxError::UnusedTensors { count: unused.len(), first: first.clone() }),
            None => Ok(()),
        }
    }
}
