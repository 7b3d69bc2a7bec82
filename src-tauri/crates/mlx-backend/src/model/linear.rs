//! Matrices of a model: dense or quantised, alone or stacked.

use crate::error::Result;
use crate::mx::packed::{self, Input};
use crate::mx::quantised::{self, Packed};
use crate::mx::{Array, Dtype, cuda, ops};

/// What multiplies a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// MLX's own kernels.
    Mlx,
    /// Braid's CUDA kernel for as many rows as it is faster at, MLX's own kernels for others.
    Cuda,
    /// Braid's CPU kernel: f32 weights, or packed ones with scales and biases in f32.
    Cpu,
}

/// Whether a design adds a vector to the outputs of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bias {
    /// No vector; one in the files is an error.
    Absent,
    /// `[out]`.
    Present,
}

impl Bias {
    /// Of a claim.
    pub fn of(has_bias: bool) -> Bias {
        if has_bias { Bias::Present } else { Bias::Absent }
    }
}

/// A matrix `[out, in]` as its product needs it.
pub enum Matrix {
    /// As loaded, `[out, in]`.
    Dense {
        /// The weights.
        weight: Array,
        /// What multiplies them.
        product: Product,
    },
    /// Ready to multiply: `[in, out]`, a view of the loaded weights.
    Transposed {
        /// The view.
        weight: Array,
    },
    /// Packed weights, scales and biases.
    Quantised {
        /// `[out, in]` as it is packed.
        packed: Packed,
        /// What multiplies them.
        product: Product,
    },
    /// Matrices of different kinds whose outputs are joined.
    Several(Vec<Matrix>),
}

impl Matrix {
    /// Stacks matrices of one input width along their outputs.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    fn merge(mut parts: Vec<Matrix>) -> Result<Matrix> {
        if let Some(dense) = Matrix::merge_dense(&parts)? {
            return Ok(dense);
        }
        if parts.len() == 1 {
            return Ok(parts.remove(0));
        }
        if let Some(alike) = Matrix::merge_packed(&parts)? {
            return Ok(alike);
        }
        let parts: Result<Vec<Matrix>> = parts.into_iter().map(|part| Matrix::merge(vec![part])).collect();
        Ok(Matrix::Several(parts?))
    }

    /// One matrix of floats of many, if all are floats.
    fn merge_dense(parts: &[Matrix]) -> Result<Option<Matrix>> {
        let mut weights = Vec::new();
        let mut is_cpu = true;
        for part in parts {
            let Matrix::Dense { weight, product } = part else { return Ok(None) };
            weights.push(weight);
            is_cpu &= *product == Product::Cpu;
        }
        let weight = ops::concatenate(&weights, 0)?;
        Ok(Some(match is_cpu {
            true => Matrix::Dense { weight, product: Product::Cpu },
            false => Matrix::Transposed { weight: ops::transpose(&weight)? },
        }))
    }

    /// One packed matrix of many, if all are packed in the same way.
    fn merge_packed(parts: &[Matrix]) -> Result<Option<Matrix>> {
        let mut all = Vec::new();
        let mut kinds = Vec::new();
        for part in parts {
            let Matrix::Quantised { packed, product } = part else { return Ok(None) };
            all.push(packed);
            kinds.push((packed.quantisation, *product, packed.scales.dtype()));
        }
        let Some(&kind) = kinds.first().filter(|first| kinds.iter().all(|kind| kind == *first)) else {
            return Ok(None);
        };
        let stacked = |arrays: Vec<&Array>| ops::concatenate(&arrays, 0);
        let biases: Option<Vec<&Array>> = all.iter().map(|packed| packed.biases.as_ref()).collect();
        let packed = Packed {
            weight: stacked(all.iter().map(|packed| &packed.weight).collect())?,
            scales: stacked(all.iter().map(|packed| &packed.scales).collect())?,
            biases: biases.map(stacked).transpose()?,
            quantisation: kind.0,
        };
        Ok(Some(Matrix::Quantised { packed, product: kind.1 }))
    }

    fn apply_to(&self, input: Input<'_>, residual: Option<&Array>) -> Result<Array> {
        let product = match self {
            Matrix::Quantised { packed, product } => match (product, packed.affine()) {
                (Product::Cpu, Some(arrays)) => {
                    return packed::matmul(input, residual, arrays, packed.quantisation);
                }
                (Product::Cuda, Some(arrays)) => {
                    let x = input.computed()?;
                    let rows = (x.size() / x.dim(-1) as usize) as i32;
                    if cuda::pays(arrays, rows) {
                        return cuda::rows_matmul(&x, residual, arrays, packed.quantisation);
                    }
                    quantised::matmul(&x, packed)
                }
                _ => quantised::matmul(&input.computed()?, packed),
            },
            Matrix::Dense { weight, product: Product::Cpu } => {
                return packed::dense_matmul(input, residual, weight);
            }
            Matrix::Dense { weight, .. } => ops::matmul(&input.computed()?, &ops::transpose(weight)?),
            Matrix::Transposed { weight } => ops::matmul(&input.computed()?, weight),
            Matrix::Several(parts) => {
                let x = input.computed()?;
                let outputs: Result<Vec<Array>> =
                    parts.iter().map(|part| part.apply_to(Input::Plain(&x), None)).collect();
                let outputs = outputs?;
                ops::concatenate(&outputs.iter().collect::<Vec<_>>(), -1)
            }
        }?;
        match residual {
            Some(residual) => ops::add(residual, &product),
            None => Ok(product),
        }
    }

    fn arrays(&self) -> Vec<&Array> {
        match self {
            Matrix::Dense { weight, .. } | Matrix::Transposed { weight } => vec![weight],
            Matrix::Quantised { packed, .. } => packed.arrays().collect(),
            Matrix::Several(parts) => parts.iter().flat_map(Matrix::arrays).collect(),
        }
    }
}

/// A matrix `[out, in]` that inputs are multiplied with from the right, and what is added to its outputs.
pub struct Linear {
    matrix: Matrix,
    /// `[out]`.
    bias: Option<Array>,
}

impl Linear {
    /// Stacks matrices of one input width, and their bias vectors, along their outputs. Either every matrix has a
    /// vector or none has.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn merge(parts: Vec<Matrix>, biases: &[Array]) -> Result<Linear> {
        let bias = match biases {
            [] => None,
            [only] => Some(only.clone()),
            several => Some(ops::concatenate(&several.iter().collect::<Vec<_>>(), 0)?),
        };
        Ok(Linear { matrix: Matrix::merge(parts)?, bias })
    }

    /// `x · wᵀ + bias`: `[…, in]` to `[…, out]`.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn apply(&self, x: &Array) -> Result<Array> {
        self.apply_to(Input::Plain(x), None)
    }

    /// `input · wᵀ + bias`, then plus `residual` `[…, out]`.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn apply_to(&self, input: Input<'_>, residual: Option<&Array>) -> Result<Array> {
        let Some(bias) = &self.bias else {
            return self.matrix.apply_to(input, residual);
        };
        let moved = ops::add(&self.matrix.apply_to(input, None)?, bias)?;
        match residual {
            Some(residual) => ops::add(residual, &moved),
            None => Ok(moved),
        }
    }

    /// Every array of the matrix.
    pub fn arrays(&self) -> Vec<&Array> {
        self.matrix.arrays().into_iter().chain(&self.bias).collect()
    }
}

/// Token embedding, which may serve as the output head too.
pub struct Embedding {
    table: Matrix,
    dtype: Dtype,
}

impl Embedding {
    /// Wraps a matrix `[vocab, hidden]` as loaded, whose rows are looked up as `dtype`.
    pub fn new(table: Matrix, dtype: Dtype) -> Embedding {
        Embedding { table, dtype }
    }

    /// Rows of the table: ids `[B, T]` to `[B, T, hidden]`.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn look_up(&self, ids: &Array) -> Result<Array> {
        match &self.table {
            Matrix::Quantised { packed, .. } => {
                let rows = packed.map(|array| ops::take_axis(array, ids, 0))?;
                quantised::dequantize(&rows, self.dtype)
            }
            other => ops::take_axis(other.arrays()[0], ids, 0),
        }
    }

    /// `x · tableᵀ`: the tied output head.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn project(&self, x: &Array) -> Result<Array> {
        self.table.apply_to(Input::Plain(x), None)
    }

    /// Every array of the table.
    pub fn arrays(&self) -> Vec<&Array> {
        self.table.arrays()
    }
}
