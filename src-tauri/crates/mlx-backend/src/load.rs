//! Weights from safetensors with a two-way ledger: every tensor of the files is used, every one needed is there.

use crate::config::ModelConfig;
use crate::error::{MlxError, Result};
use crate::model::linear::{Bias, Embedding, Linear, Matrix, Product};
use crate::mx::ops::Quantisation;
use crate::mx::{Array, Dtype, cuda, ops, packed};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// What the device computes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numerics {
    /// CPU: f32 throughout, since MLX emulates half precision there. Weights that [`packed`] can multiply stay
    /// packed, the others are dequantised at load.
    FullPrecision,
    /// GPU: the checkpoint's own quantisation and dtype.
    Checkpoint,
}

/// Tensors of a model's files on their way into its layers.
pub struct Weights<'a> {
    config: &'a ModelConfig,
    numerics: Numerics,
    tensors: HashMap<String, Array>,
    missing: Vec<String>,
}

/// Tensors that some exporters write and no architecture reads.
fn is_redundant(name: &str, config: &ModelConfig) -> bool {
    name.ends_with("rotary_emb.inv_freq") || (config.is_tied && name.starts_with("lm_head."))
}

fn weight_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let index_path = dir.join("model.safetensors.index.json");
    if !index_path.exists() {
        return Ok(vec![dir.join("model.safetensors")]);
    }
    let malformed = |reason: String| MlxError::Config { path: index_path.clone(), reason };
    let bytes =
        std::fs::read(&index_path).map_err(|source| MlxError::File { path: index_path.clone(), source })?;
    let index: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|error| malformed(error.to_string()))?;
    let map = index["weight_map"].as_object().ok_or_else(|| malformed("no weight_map".into()))?;
    let mut names = HashSet::new();
    for file in map.values() {
        let name = file.as_str().ok_or_else(|| malformed("a file name is not text".into()))?;
        if name.contains(['/', '\\']) {
            return Err(malformed(format!("{name:?} lies outside the model's folder")));
        }
        names.insert(name.to_owned());
    }
    Ok(names.into_iter().map(|name| dir.join(name)).collect())
}

impl<'a> Weights<'a> {
    /// Opens the files of `dir`; data is read when it is evaluated.
    ///
    /// # Errors
    /// [`MlxError::File`], [`MlxError::Config`] for a bad index, [`MlxError::Op`] when MLX cannot read a file.
    pub fn open(dir: &Path, config: &'a ModelConfig, numerics: Numerics) -> Result<Self> {
        let mut tensors = HashMap::new();
        for path in weight_files(dir)? {
            // MLX's own error for a missing file has no path in it.
            std::fs::metadata(&path).map_err(|source| MlxError::File { path: path.clone(), source })?;
            let loaded = Array::load_safetensors(&path)
                .map_err(|error| MlxError::Config { path: path.clone(), reason: error.to_string() })?;
            tensors.extend(loaded);
        }
        tensors.retain(|name, _| !is_redundant(name, config));
        Ok(Weights { config, numerics, tensors, missing: Vec::new() })
    }

    /// The config these weights belong to.
    pub fn config(&self) -> &'a ModelConfig {
        self.config
    }

    fn take(&mut self, name: &str, expected: &[i32]) -> Result<Array> {
        let Some(tensor) = self.tensors.remove(name) else {
            self.missing.push(name.to_owned());
            return ops::zeros(expected, Dtype::Float32);
        };
        if tensor.shape() != expected {
            let found = tensor.shape().to_vec();
            return Err(MlxError::Shape { name: name.into(), found, expected: expected.to_vec() });
        }
        Ok(tensor)
    }

    fn numeric(&self, tensor: Array) -> Result<Array> {
        match self.numerics {
            Numerics::FullPrecision => ops::cast(&tensor, Dtype::Float32),
            Numerics::Checkpoint => Ok(tensor),
        }
    }

    /// A vector such as a norm's weight, `[len]`.
    ///
    /// # Errors
    /// [`MlxError::Shape`].
    pub fn vector(&mut self, name: &str, len: i32) -> Result<Array> {
        let tensor = self.take(name, &[len])?;
        self.numeric(tensor)
    }

    fn packed(&mut self, prefix: &str, rows: i32, columns: i32, q: Quantisation) -> Result<[Array; 3]> {
        let groups = [rows, columns / q.group_size];
        Ok([
            self.take(&format!("{prefix}.weight"), &[rows, columns * q.bits / 32])?,
            self.take(&format!("{prefix}.scales"), &groups)?,
            self.take(&format!("{prefix}.biases"), &groups)?,
        ])
    }

    fn matrix(&mut self, prefix: &str, rows: i32, columns: i32) -> Result<Matrix> {
        let Some(quantisation) = self.config.quantisation_of(prefix) else {
            let weight = self.take(&format!("{prefix}.weight"), &[rows, columns])?;
            return Ok(Matrix::Dense { weight: self.numeric(weight)? });
        };
        let packed = self.packed(prefix, rows, columns, quantisation)?;
        match self.numerics {
            Numerics::Checkpoint => {
                let [weight, scales, biases] = &packed;
                let is_cuda = cuda::supports([weight, scales, biases], quantisation);
                let product = if is_cuda { Product::Cuda } else { Product::Mlx };
                Ok(Matrix::Quantised { packed, quantisation, product })
            }
            Numerics::FullPrecision => {
                let [weight, scales, biases] = packed;
                // Scales first: MLX dequantises in their dtype, and f16 rounding would differ from f32.
                let scales = ops::cast(&scales, Dtype::Float32)?;
                let biases = ops::cast(&biases, Dtype::Float32)?;
                if packed::supports(quantisation) {
                    let packed = [weight, scales, biases];
                    return Ok(Matrix::Quantised { packed, quantisation, product: Product::Packed });
                }
                Ok(Matrix::Dense { weight: ops::dequantize([&weight, &scales, &biases], quantisation)? })
            }
        }
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
    /// [`MlxError::Shape`], [`MlxError::Op`].
    pub fn linear(&mut self, prefix: &str, rows: i32, columns: i32, bias: Bias) -> Result<Linear> {
        let matrix = self.matrix(prefix, rows, columns)?;
        Linear::merge(vec![matrix], self.bias(prefix, rows, bias)?.as_slice())
    }

    /// The token embedding, `[rows, columns]`.
    ///
    /// # Errors
    /// [`MlxError::Shape`], [`MlxError::Op`].
    pub fn embedding(&mut self, prefix: &str, rows: i32, columns: i32) -> Result<Embedding> {
        Ok(Embedding::new(self.matrix(prefix, rows, columns)?))
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
