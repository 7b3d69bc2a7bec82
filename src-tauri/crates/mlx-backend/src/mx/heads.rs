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

/// Rotates `x` `[B, H, T, D]` f32 by tables `[B, 1, T, R]`, R ≤ D even: the first R elements become `x·cos` plus their
/// halves swapped times `sin`, whose first half is negated; the rest stays.
///
/// # Errors
/// [`crate::MlxError::Op`] when shapes or dtypes do not fit, or on a platform without it.
pub fn turn(x: &Array, cos: &Array, sin: &Array) -> Result<Array> {
    // SAFETY: handles are valid for the call, which checks shapes and dtypes.
    ops::call("turn", |out, stream| unsafe {
        ffi::braid_turn(out, x.as_ptr(), cos.as_ptr(), sin.as_ptr(), stream)
    })
}

/// What happens to scores between the product with the keys and the one with the values.
#[derive(Clone, Copy)]
pub struct Scores<'a> {
    /// Factor of the products of queries and keys.
    pub scale: f32,
    /// Cap c of c·tanh(score/c), positive.
    pub softcap: Option<f32>,
    /// One score per query head, `[H]`, that takes part in its softmax and has no value.
    pub sinks: Option<&'a Array>,
}

/// softmax(scores of q·kᵀ)·v for one token per row: q `[B, H, 1, D]`, keys and values `[B, Hkv, capacity, D]`, f32;
/// row `i` sees the columns from `spans[i][0]` to `spans[i][1]`, `[B, 2]` i32, and its bits depend on nothing else.
/// Returns `[B, 1, H·D]`.
///
/// # Errors
/// As [`turn`].
pub fn attend(q: &Array, keys: &Array, values: &Array, spans: &Array, scores: Scores<'_>) -> Result<Array> {
    let [q, keys, values, spans] = [q, keys, values, spans].map(Array::as_ptr);
    let sinks = scores.sinks.map_or(mlx_sys::mlx_array { ctx: std::ptr::null_mut() }, Array::as_ptr);
    let softcap = scores.softcap.unwrap_or(0.0);
    // SAFETY: handles are valid for the call, which checks shapes and dtypes; a null one stands for "no sinks".
    ops::call("attend", |out, stream| unsafe {
        ffi::braid_attend(out, q, keys, values, spans, sinks, scores.scale, softcap, stream)
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
            spans: mlx_array,
            sinks: mlx_array,
            scale: f32,
            softcap: f32,
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
        _: mlx_array,
        _: f32,
        _: f32,
        _: mlx_stream,
    ) -> c_int {
        1
    }
}
