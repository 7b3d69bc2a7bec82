//! One new column per row of a KV cache, written where it is, on the CPU: `cpp/kv_write.cpp`.
//!
//! MLX writes into an array only when nothing else holds its buffer. A forward pass that is still running holds the
//! KV cache, so every write of the pass after it would copy all of it. See ADR 0006.

use crate::error::Result;
use mlx_rs::Array;

/// Whether the write exists on this platform.
pub const IS_SUPPORTED: bool = cfg!(target_os = "linux");

/// Keys and values with one new column per row, in the buffers of the old ones: whoever else holds those sees the
/// new columns.
///
/// `cache`: keys and values `[B, kv_heads, capacity, head_dim]`. `columns`: B elements, i32. `fresh`: the columns,
/// `[B, kv_heads, 1, head_dim]`.
///
/// # Errors
/// [`crate::MlxError::Op`] when the shapes or dtypes do not fit, or on a platform without it. A column past the
/// capacity fails when the graph runs.
#[cfg(target_os = "linux")]
pub fn write_columns(cache: [&Array; 2], columns: &Array, fresh: [&Array; 2]) -> Result<[Array; 2]> {
    use std::ffi::c_int;
    unsafe extern "C" {
        fn braid_kv_write(
            new_keys: *mut mlx_sys::mlx_array,
            new_values: *mut mlx_sys::mlx_array,
            keys: mlx_sys::mlx_array,
            values: mlx_sys::mlx_array,
            columns: mlx_sys::mlx_array,
            fresh_keys: mlx_sys::mlx_array,
            fresh_values: mlx_sys::mlx_array,
            stream: mlx_sys::mlx_stream,
        ) -> c_int;
    }
    // SAFETY: handles are valid for the call, which checks shapes and dtypes and fills both results or neither.
    unsafe {
        let mut values = mlx_sys::mlx_array_new();
        let keys = super::ops::call("KV write", |keys, stream| {
            braid_kv_write(
                keys,
                &mut values,
                cache[0].as_ptr(),
                cache[1].as_ptr(),
                columns.as_ptr(),
                fresh[0].as_ptr(),
                fresh[1].as_ptr(),
                stream,
            )
        });
        let values = Array::from_ptr(values);
        Ok([keys?, values])
    }
}

/// As on Linux.
///
/// # Errors
/// Always: [`IS_SUPPORTED`] says no.
#[cfg(not(target_os = "linux"))]
pub fn write_columns(_: [&Array; 2], _: &Array, _: [&Array; 2]) -> Result<[Array; 2]> {
    Err(crate::MlxError::Op { op: "KV write", what: "not built for this platform".into() })
}
