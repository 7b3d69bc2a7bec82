//! Weights from safetensors with a two-way ledger: every tensor of the files is used, every one needed is there.

use crate::config::ModelConfig;
use crate::config::quantisation::Stated;
use crate::error::{MlxError, Result};
use crate::model::experts::{Experts, Stack};
use crate::model::linear::{Bias, Embedding, Linear, Matrix, Product};
use crate::mx::quantised::{self, Mode, Packed, Quantisation};
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
    /// What floats are computed in.
    dtype: Dtype,
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
        require_scales(&tensors, config)?;
        let dtype = match numerics {
            Numerics::FullPrecision => Dtype::Float32,
            Numerics::Checkpoint => most_common_float(&tensors),
        };
        Ok(Weights { config, numerics, dtype, tensors, missing: Vec::new() })
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

    fn floats(&mut self, name: &str, expected: &[i32]) -> Result<Array> {
        let tensor = self.take(name, expected)?;
        if !is_float(tensor.dtype()) {
            let mismatch = "it is not stored as f16, bf16 or f32";
            return Err(MlxError::Quantisation { name: name.into(), mismatch });
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

    /// How the matrix `prefix` is packed, `None` for floats, by the config and by what the files hold.
    fn quantisation_of(&self, prefix: &str, columns: i32) -> Result<Option<Quantisation>> {
        let weight = format!("{prefix}.weight");
        let has_scales = self.tensors.contains_key(&format!("{prefix}.scales"));
        let has_weight = self.tensors.contains_key(&weight);
        let mismatch = |mismatch| Err(MlxError::Quantisation { name: weight, mismatch });
        match (self.config.quantisation.of(prefix), has_scales) {
            (Stated::ByName(Some(_)), false) if has_weight => {
                mismatch("config.json says that it is quantised, but the files hold no scales of it")
            }
            (Stated::ByName(Some(own)), _) => Ok(Some(own)),
            (Stated::AsMost(most), true) => Ok(Some(self.evident(prefix, columns).unwrap_or(most))),
            (Stated::ByName(None), true) => {
                mismatch("config.json says that it is not quantised, but the files hold scales of it")
            }
            (Stated::Floats, true) => {
                mismatch("the files hold scales of it, but config.json has no quantization entry")
            }
            (_, false) => Ok(None),
        }
    }

    /// What the shapes of a packed matrix say by themselves. Converters give some matrices more bits than most, and not
    /// all of them write that down.
    fn evident(&self, prefix: &str, columns: i32) -> Option<Quantisation> {
        let last = |part: &str| {
            let tensor = self.tensors.get(&format!("{prefix}.{part}"))?;
            Some((tensor.shape().last().copied().filter(|width| *width > 0)?, tensor.dtype()))
        };
        let ((words, _), (groups, scales)) = (last("weight")?, last("scales")?);
        let bits = i32::try_from(i64::from(words) * 32 / i64::from(columns.max(1))).ok()?;
        let group_size = columns / groups;
        let mode = match (scales, bits, group_size) {
            (Dtype::Uint8, 8, _) => Mode::Mxfp8,
            (Dtype::Uint8, _, 16) => Mode::Nvfp4,
            (Dtype::Uint8, ..) => Mode::Mxfp4,
            _ => Mode::Affine,
        };
        Some(Quantisation { mode, group_size, bits }).filter(|found| found.exists())
    }

    /// `shape`: that of the matrix, or of a stack of them, with inputs last.
    fn packed(&mut self, prefix: &str, shape: &[i32], quantisation: Quantisation) -> Result<Packed> {
        let weight = format!("{prefix}.weight");
        let refuse = |mismatch| Err(MlxError::Quantisation { name: weight.clone(), mismatch });
        let columns = shape.last().copied().unwrap_or_default();
        if columns % quantisation.group_size != 0 {
            return refuse("its inputs do not divide into groups");
        }
        let of_width = |width: i32| {
            let mut shape = shape.to_vec();
            shape.pop();
            shape.push(width);
            shape
        };
        let groups = of_width(columns / quantisation.group_size);
        let packed = Packed {
            weight: self.take(&weight, &of_width(quantisation.words_of(columns)))?,
            scales: self.take(&format!("{prefix}.scales"), &groups)?,
            biases: match quantisation.mode {
                Mode::Affine => Some(self.take(&format!("{prefix}.biases"), &groups)?),
                Mode::Mxfp4 | Mode::Mxfp8 | Mode::Nvfp4 => None,
            },
            quantisation,
        };
        let is_sound = match quantisation.mode {
            Mode::Affine => packed.scales_and_biases().all(|array| is_float(array.dtype())),
            Mode::Mxfp4 | Mode::Mxfp8 | Mode::Nvfp4 => packed.scales.dtype() == Dtype::Uint8,
        };
        // Stand-ins of missing tensors are floats; the ledger tells of them.
        if self.missing.is_empty() && !(is_sound && packed.weight.dtype() == Dtype::Uint32) {
            return refuse("its codes or scales are not of the dtype that its quantisation has");
        }
        match quantisation.mode {
            // Before anything is computed: MLX computes in the dtype of the scales, and f16 would round.
            Mode::Affine => packed.with_scales_as(self.dtype),
            Mode::Mxfp4 | Mode::Mxfp8 | Mode::Nvfp4 => Ok(packed),
        }
    }

    fn matrix(&mut self, prefix: &str, rows: i32, columns: i32) -> Result<Matrix> {
        let shape = [rows, columns];
        let Some(quantisation) = self.quantisation_of(prefix, columns)? else {
            let weight = self.floats(&format!("{prefix}.weight"), &shape)?;
            return Ok(self.dense(weight));
        };
        let packed = self.packed(prefix, &shape, quantisation)?;
        let is_cuda = packed.affine().is_some_and(|arrays| cuda::supports(arrays, quantisation));
        match self.numerics {
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
