//! What happens between the products of an attention layer, on the CPU: `cpp/attention_primitive.cpp`.
//!
//! MLX has these as chains of small operations whose hand-over costs more than they do, and its grouped products of
//! one query token go through a BLAS that copies keys and values first. See ADR 0005.

use super::{Array, ops};
use crate::error::Result;

/// Whether heads `width` wide can be attended to here, on this platform.
pub fn supports(width: i32) -> bool {
    cfg!(target_os = "linux") && width % 16 == 0
}

/// Rotates `x` `[B, H, T, D]` f32 by tables `[B, 1, T, D]`: `x·cos` plus its halves swapped times `sin`, whose first
/// half is negated.
///
/// # Errors
/// [`crate::MlxError::Op`] when shapes or dtypes do not fit, or on a platform without it.
pub fn turn(x: &Array, cos: &Array, sin: &Array) -> Result<Array> {
    // SAFETY: handles are valid for the call, which checks shapes and dtypes.
    ops::call("turn", |out, stream| unsafe {
        ffi::braid_turn(out, x.as_ptr(), cos.as_ptr(), sin.as_ptr(), stream)
    })
}

/// softmax(q·kᵀ·scale)·v for one token per row: q `[B, H, 1, D]`, keys and values `[B, Hkv, capacity, D]`, f32;
/// row `i` sees the columns up to and including `columns[i]`, `[B]` i32, and its bits depend on nothing else.
/// Returns `[B, 1, H·D]`.
///
/// # Errors
/// As [`turn`].
pub fn attend(q: &Array, keys: &Array, values: &Array, columns: &Array, scale: f32) -> Result<Array> {
    let [q, keys, values, columns] = [q, keys, values, columns].map(Array::as_ptr);
    // SAFETY: handles are valid for the call, which checks shapes and dtypes.
    ops::call("attend", |out, stream| unsafe {
        ffi::braid_attend(out, q, keys, values, columns, scale, stream)
    })
}

#[cfg(target_os = "linux")]
mod ffi {
    use mlx_sys::{mlx_array, mlx_stream};
    use std::ffi::c_int;

    unsafe extern "C" {
        pub fn braid_turn(
            result: *mut mlx_array,
            x: mlx_array,
            cos: mlx_array,
            sin: mlx_array,
            stream: mlx_stream,
        ) -> c_int;
        pub fn braid_attend(
            result: *mut mlx_array,
            q: mlx_array,
            keys: mlx_array,
            values: mlx_array,
            columns: mlx_array,
            scale: f32,
            stream: mlx_stream,
        ) -> c_int;
    }
}

/// Never called: [`supports`] says no. A status other than 0 is an error.
#[cfg(not(target_os = "linux"))]
mod ffi {
    use mlx_sys::{mlx_array, mlx_stream};
    use std::ffi::c_int;

    pub unsafe fn braid_turn(
        _: *mut mlx_array,
        _: mlx_array,
        _: mlx_array,
        _: mlx_array,
        _: mlx_stream,
    ) -> c_int {
        1
    }

    pub unsafe fn braid_attend(
        _: *mut mlx_array,
        _: mlx_array,
        _: mlx_array,
        _: mlx_array,
        _: mlx_array,
        _: f32,
        _: mlx_stream,
    ) -> c_int {
        1
    }
}
