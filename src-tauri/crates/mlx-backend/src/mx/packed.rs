//! Product with packed weights on the CPU: `cpp/primitive.cpp`.
//!
//! MLX multiplies quantised weights on the CPU one row after another, and f32 ones through a BLAS that copies the
//! matrix before it multiplies. This product reads the packed weights once for up to eight rows, and sums each
//! row in the same order whatever its neighbours. See ADR 0003.

use super::ops::Quantisation;
use crate::error::Result;
use mlx_rs::Array;

/// Whether the product exists for weights packed this way, on this platform.
pub fn supports(quantisation: Quantisation) -> bool {
    cfg!(target_os = "linux") && matches!(quantisation.bits, 4 | 8)
}

/// `x · wᵀ` on the CPU: x f32, `packed` as for [`super::ops::quantized_matmul`] with scales and biases in f32.
///
/// # Errors
/// [`crate::MlxError::Op`] when the shapes or dtypes do not fit, or on a platform without it.
#[cfg(target_os = "linux")]
pub fn matmul(x: &Array, packed: [&Array; 3], quantisation: Quantisation) -> Result<Array> {
    use std::ffi::c_int;
    unsafe extern "C" {
        fn braid_quantized_matmul(
            result: *mut mlx_sys::mlx_array,
            x: mlx_sys::mlx_array,
            weights: mlx_sys::mlx_array,
            scales: mlx_sys::mlx_array,
            offsets: mlx_sys::mlx_array,
            group: c_int,
            bits: c_int,
            stream: mlx_sys::mlx_stream,
        ) -> c_int;
    }
    let [weights, scales, offsets] = packed;
    // SAFETY: handles are valid for the call, which checks shapes and dtypes.
    super::ops::call("packed matmul", |out, stream| unsafe {
        braid_quantized_matmul(
            out,
            x.as_ptr(),
            weights.as_ptr(),
            scales.as_ptr(),
            offsets.as_ptr(),
            quantisation.group_size,
            quantisation.bits,
            stream,
        )
    })
}

/// As on Linux.
///
/// # Errors
/// Always: [`supports`] says no.
#[cfg(not(target_os = "linux"))]
pub fn matmul(_: &Array, _: [&Array; 3], _: Quantisation) -> Result<Array> {
    Err(crate::MlxError::Op { op: "packed matmul", what: "not built for this platform".into() })
}
