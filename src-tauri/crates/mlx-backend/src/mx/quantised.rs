//! Quantised weights as MLX stores them: how they are packed, and MLX's own operations on them.

use super::ops::{self, PickOrder, call};
use super::{Array, Dtype};
use crate::error::Result;
use mlx_sys as sys;
use std::ffi::CStr;

/// What the codes of a group stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// scale · code + bias, a scale and a bias per group.
    Affine,
    /// e2m1 codes times a power of two per 32 weights (OCP Microscaling Formats 1.0).
    Mxfp4,
    /// e4m3 codes times a power of two per 32 weights (the same).
    Mxfp8,
    /// e2m1 codes times an e4m3 scale per 16 weights.
    Nvfp4,
}

impl Mode {
    /// The mode that MLX and `config.json` call `name`.
    pub fn of_name(name: &str) -> Option<Mode> {
        [Mode::Affine, Mode::Mxfp4, Mode::Mxfp8, Mode::Nvfp4].into_iter().find(|mode| mode.name() == name)
    }

    /// MLX's name of it.
    pub fn name(self) -> &'static str {
        // The C strings below are ASCII.
        self.c_name().to_str().unwrap_or_default()
    }

    fn c_name(self) -> &'static CStr {
        match self {
            Mode::Affine => c"affine",
            Mode::Mxfp4 => c"mxfp4",
            Mode::Mxfp8 => c"mxfp8",
            Mode::Nvfp4 => c"nvfp4",
        }
    }

    /// Group size and bits where nobody says otherwise: MLX's own.
    pub fn usual(self) -> Quantisation {
        let (group_size, bits) = match self {
            Mode::Affine => (64, 4),
            Mode::Mxfp4 => (32, 4),
            Mode::Mxfp8 => (32, 8),
            Mode::Nvfp4 => (16, 4),
        };
        Quantisation { mode: self, group_size, bits }
    }
}

/// How the weights of one matrix are quantised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantisation {
    /// What codes stand for.
    pub mode: Mode,
    /// Weights that share a scale.
    pub group_size: i32,
    /// Bits of a weight.
    pub bits: i32,
}

impl Quantisation {
    /// Scales and biases.
    pub const fn affine(group_size: i32, bits: i32) -> Quantisation {
        Quantisation { mode: Mode::Affine, group_size, bits }
    }

    /// Whether MLX has it: affine with 2, 3, 4, 5, 6 or 8 bits in groups of 32, 64 or 128; the others in one form.
    pub fn exists(self) -> bool {
        match self.mode {
            Mode::Affine => {
                [32, 64, 128].contains(&self.group_size) && [2, 3, 4, 5, 6, 8].contains(&self.bits)
            }
            mode => self == mode.usual(),
        }
    }

    /// Short words for people, such as "4-bit" or "mxfp4".
    pub fn words(self) -> String {
        match self.mode {
            Mode::Affine => format!("{}-bit", self.bits),
            mode => mode.name().into(),
        }
    }

    /// u32 words that hold `columns` weights.
    pub fn words_of(self, columns: i32) -> i32 {
        columns / 32 * self.bits + columns % 32 * self.bits / 32
    }
}

/// The arrays of a quantised matrix, or of a stack of them.
#[derive(Clone)]
pub struct Packed {
    /// `[…, out, in·bits/32]` u32, lowest bits first.
    pub weight: Array,
    /// `[…, out, in/group]`: floats for affine, else u8 codes.
    pub scales: Array,
    /// As `scales`; for affine alone.
    pub biases: Option<Array>,
    /// How they are packed.
    pub quantisation: Quantisation,
}

impl Packed {
    /// Weights, scales and biases of affine packing; `None` of another.
    pub fn affine(&self) -> Option<[&Array; 3]> {
        Some([&self.weight, &self.scales, self.biases.as_ref()?])
    }

    /// Scales, and biases where there are any.
    pub fn scales_and_biases(&self) -> impl Iterator<Item = &Array> {
        [&self.scales].into_iter().chain(&self.biases)
    }

    /// The same codes with scales and biases of another dtype.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn with_scales_as(self, dtype: Dtype) -> Result<Packed> {
        Ok(Packed {
            scales: ops::cast(&self.scales, dtype)?,
            biases: self.biases.as_ref().map(|biases| ops::cast(biases, dtype)).transpose()?,
            ..self
        })
    }

    /// Every array.
    pub fn arrays(&self) -> impl Iterator<Item = &Array> {
        [&self.weight, &self.scales].into_iter().chain(&self.biases)
    }

    /// The same matrix of changed arrays.
    ///
    /// # Errors
    /// Those of `change`.
    pub fn map(&self, mut change: impl FnMut(&Array) -> Result<Array>) -> Result<Packed> {
        Ok(Packed {
            weight: change(&self.weight)?,
            scales: change(&self.scales)?,
            biases: self.biases.as_ref().map(change).transpose()?,
            quantisation: self.quantisation,
        })
    }

    fn biases_handle(&self) -> sys::mlx_array {
        // A null handle stands for "no biases".
        self.biases.as_ref().map_or(sys::mlx_array { ctx: std::ptr::null_mut() }, Array::as_ptr)
    }
}

fn some(value: i32) -> sys::mlx_optional_int {
    sys::mlx_optional_int { value, has_value: true }
}

/// `x · wᵀ`: x `[…, in]` to `[…, out]`.
///
/// # Errors
/// [`crate::MlxError::Op`].
pub fn matmul(x: &Array, packed: &Packed) -> Result<Array> {
    let Quantisation { mode, group_size, bits } = packed.quantisation;
    // SAFETY: handles are valid for the call; a null one stands for "none".
    call("quantized_matmul", |out, stream| unsafe {
        sys::mlx_quantized_matmul(
            out,
            x.as_ptr(),
            packed.weight.as_ptr(),
            packed.scales.as_ptr(),
            packed.biases_handle(),
            true,
            some(group_size),
            some(bits),
            mode.c_name().as_ptr(),
            stream,
        )
    })
}

/// Products with matrices picked from a stack `[experts, out, in]`: x `[…, 1, T, in]` and `experts` `[…, n]` u32, which
/// broadcast over the leading axes, to `[…, n, T, out]`.
///
/// # Errors
/// [`crate::MlxError::Op`].
pub fn gather_matmul(x: &Array, packed: &Packed, experts: &Array, order: PickOrder) -> Result<Array> {
    let Quantisation { mode, group_size, bits } = packed.quantisation;
    let none = sys::mlx_array { ctx: std::ptr::null_mut() };
    // SAFETY: as for `matmul`.
    call("gather_qmm", |out, stream| unsafe {
        sys::mlx_gather_qmm(
            out,
            x.as_ptr(),
            packed.weight.as_ptr(),
            packed.scales.as_ptr(),
            packed.biases_handle(),
            none,
            experts.as_ptr(),
            true,
            some(group_size),
            some(bits),
            mode.c_name().as_ptr(),
            order == PickOrder::Ascending,
            stream,
        )
    })
}

/// The weights as `dtype`, which for affine packing is that of the scales.
///
/// # Errors
/// [`crate::MlxError::Op`].
pub fn dequantize(packed: &Packed, dtype: Dtype) -> Result<Array> {
    let Quantisation { mode, group_size, bits } = packed.quantisation;
    // SAFETY: handles are valid for the call; null ones stand for "no biases" and "no global scale".
    call("dequantize", |out, stream| unsafe {
        sys::mlx_dequantize(
            out,
            packed.weight.as_ptr(),
            packed.scales.as_ptr(),
            packed.biases_handle(),
            some(group_size),
            some(bits),
            mode.c_name().as_ptr(),
            sys::mlx_array { ctx: std::ptr::null_mut() },
            sys::mlx_optional_dtype { value: dtype as sys::mlx_dtype, has_value: true },
            stream,
        )
    })
}
