//! Product with packed or f32 weights on the CPU: `cpp/primitive.cpp`.
//!
//! MLX multiplies quantised weights on the CPU one row after another, and f32 ones through a BLAS that copies the
//! matrix before it multiplies. This product reads the packed weights once for up to eight rows, and sums each
//! row in the same order whatever its neighbours. What a decoder does right before and after a product it does too,
//! since MLX spends more on handing an operation to its thread than such an operation takes. See ADR 0003 and 0005.

use super::cuda;
use super::ops;
use super::quantised::{Mode, Quantisation};
use crate::error::Result;
use mlx_rs::Array;

/// Activations that go into a product with what they gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// x·sigmoid(x).
    Silu,
    /// x·sigmoid(2·√(2/π)·(x + 0.044715·x³)), which is x/2·(1 + tanh(…)): Hendrycks and Gimpel 2016, arXiv:1606.08415.
    GeluTanh,
}

impl Gate {
    /// The activation of `x`, by MLX's operations.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn of(self, x: &Array) -> Result<Array> {
        let number = |value: f32| ops::cast(&Array::from_f32(value), x.dtype());
        let inner = match self {
            Gate::Silu => x.clone(),
            Gate::GeluTanh => {
                let cubic = ops::multiply(&ops::multiply(&ops::square(x)?, x)?, &number(0.044_715)?)?;
                ops::multiply(&ops::add(x, &cubic)?, &number(2.0 * (2.0 / std::f32::consts::PI).sqrt())?)?
            }
        };
        ops::multiply(x, &ops::sigmoid(&inner)?)
    }
}

/// What a product is taken of.
#[derive(Clone, Copy)]
pub enum Input<'a> {
    /// `[…, in]`.
    Plain(&'a Array),
    /// `[…, in]` through an RMS norm with `weight` `[in]`.
    Normed {
        /// The input.
        x: &'a Array,
        /// Weights of the norm.
        weight: &'a Array,
        /// Added to the mean square.
        eps: f32,
    },
    /// `[…, 2·in]`, gate before up: activation of the gate, times up.
    Gated(&'a Array, Gate),
}

impl Input<'_> {
    /// Rows and tokens, of an input `[B, T, …]`.
    pub fn rows_and_tokens(&self) -> (i32, i32) {
        let (Input::Plain(x) | Input::Normed { x, .. } | Input::Gated(x, _)) = self;
        (x.dim(0), x.dim(1))
    }

    /// The input as an array of its own, by MLX's operations.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn computed(self) -> Result<Array> {
        match self {
            Input::Plain(x) => Ok(x.clone()),
            Input::Normed { x, weight, eps } => ops::rms_norm(x, weight, eps),
            Input::Gated(x, gate) if cuda::is_available() => cuda::gate(x, gate),
            Input::Gated(x, activation) => {
                let (axis, both) = (x.ndim() - 1, x.dim(-1));
                let gate = ops::slice_axis(x, axis, 0, both / 2)?;
                let up = ops::slice_axis(x, axis, both / 2, both)?;
                ops::multiply(&activation.of(&gate)?, &up)
            }
        }
    }
}

/// Whether the product exists for weights packed this way, on this platform.
pub fn supports(quantisation: Quantisation) -> bool {
    cfg!(target_os = "linux") && quantisation.mode == Mode::Affine && matches!(quantisation.bits, 4 | 8)
}

/// Whether the product exists for f32 weights of that many inputs, on this platform.
pub fn supports_dense(inputs: i32) -> bool {
    cfg!(target_os = "linux") && inputs % 32 == 0
}

/// What the product is taken of, as the C functions want it.
#[cfg(target_os = "linux")]
struct Handles {
    x: mlx_sys::mlx_array,
    norm: mlx_sys::mlx_array,
    residual: mlx_sys::mlx_array,
    form: std::ffi::c_int,
    eps: f32,
}

#[cfg(target_os = "linux")]
impl Handles {
    /// Null handles stand for "none".
    fn of(input: Input<'_>, residual: Option<&Array>) -> Handles {
        let none = mlx_sys::mlx_array { ctx: std::ptr::null_mut() };
        let residual = residual.map_or(none, Array::as_ptr);
        let (x, norm, form, eps) = match input {
            Input::Plain(x) => (x, none, 0, 0.0),
            Input::Normed { x, weight, eps } => (x, weight.as_ptr(), 1, eps),
            Input::Gated(x, Gate::Silu) => (x, none, 2, 0.0),
            Input::Gated(x, Gate::GeluTanh) => (x, none, 3, 0.0),
        };
        Handles { x: x.as_ptr(), norm, residual, form, eps }
    }
}

/// `input · wᵀ`, plus `residual` `[…, out]`, on the CPU: all f32 but the weights of `packed`: those of
/// [`super::quantised::Packed::affine`].
///
/// # Errors
/// [`crate::MlxError::Op`] when the shapes or dtypes do not fit, or on a platform without it.
#[cfg(target_os = "linux")]
pub fn matmul(
    input: Input<'_>,
    residual: Option<&Array>,
    packed: [&Array; 3],
    quantisation: Quantisation,
) -> Result<Array> {
    use mlx_sys::{mlx_array, mlx_stream};
    use std::ffi::c_int;
    unsafe extern "C" {
        fn braid_quantized_matmul(
            result: *mut mlx_array,
            x: mlx_array,
            weights: mlx_array,
            scales: mlx_array,
            offsets: mlx_array,
            norm: mlx_array,
            residual: mlx_array,
            form: c_int,
            eps: f32,
            group: c_int,
            bits: c_int,
            stream: mlx_stream,
        ) -> c_int;
    }
    let Handles { x, norm, residual, form, eps } = Handles::of(input, residual);
    let [weights, scales, offsets] = packed.map(Array::as_ptr);
    let Quantisation { group_size, bits, .. } = quantisation;
    // SAFETY: handles are valid for the call, which checks shapes and dtypes.
    ops::call("packed matmul", |out, stream| unsafe {
        braid_quantized_matmul(
            out, x, weights, scales, offsets, norm, residual, form, eps, group_size, bits, stream,
        )
    })
}

/// As [`matmul`], with `weights` `[out, in]` f32 in row order.
///
/// # Errors
/// As [`matmul`].
#[cfg(target_os = "linux")]
pub fn dense_matmul(input: Input<'_>, residual: Option<&Array>, weights: &Array) -> Result<Array> {
    use mlx_sys::{mlx_array, mlx_stream};
    use std::ffi::c_int;
    unsafe extern "C" {
        fn braid_dense_matmul(
            result: *mut mlx_array,
            x: mlx_array,
            weights: mlx_array,
            norm: mlx_array,
            residual: mlx_array,
            form: c_int,
            eps: f32,
            stream: mlx_stream,
        ) -> c_int;
    }
    let Handles { x, norm, residual, form, eps } = Handles::of(input, residual);
    // SAFETY: as for `matmul`.
    ops::call("dense matmul", |out, stream| unsafe {
        braid_dense_matmul(out, x, weights.as_ptr(), norm, residual, form, eps, stream)
    })
}

/// As on Linux.
///
/// # Errors
/// Always: [`supports`] says no.
#[cfg(not(target_os = "linux"))]
pub fn matmul(_: Input<'_>, _: Option<&Array>, _: [&Array; 3], _: Quantisation) -> Result<Array> {
    Err(crate::MlxError::Op { op: "packed matmul", what: "not built for this platform".into() })
}

/// As on Linux.
///
/// # Errors
/// Always: [`supports_dense`] says no.
#[cfg(not(target_os = "linux"))]
pub fn dense_matmul(_: Input<'_>, _: Option<&Array>, _: &Array) -> Result<Array> {
    Err(crate::MlxError::Op { op: "dense matmul", what: "not built for this platform".into() })
}
