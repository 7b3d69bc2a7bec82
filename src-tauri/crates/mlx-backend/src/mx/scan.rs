//! Scans of rows of logits on the CPU: `cpp/scan.cpp`.
//!
//! On the CPU, MLX's logsumexp, argsort and logarithms cost more than a tenth of a small model's step. These give the
//! same numbers, tokens included, for a fraction of it. GPUs have the operations, which are also what these are
//! tested against.

use crate::error::Result;
use mlx_rs::{Array, Device, DeviceType};

/// Whether the scans exist on this platform and the default device is the CPU.
pub fn is_available() -> bool {
    let device = Device::try_default().and_then(|device| device.get_type());
    cfg!(target_os = "linux") && matches!(device, Ok(DeviceType::Cpu))
}

/// What [`draw`] needs of each row; `[b, 1]` each.
pub struct Draws<'a> {
    /// f32, above 0.
    pub temperatures: &'a Array,
    /// f32: least scaled logit that may be drawn.
    pub floors: &'a Array,
    /// f32: largest scaled logit that may be drawn.
    pub ceilings: &'a Array,
    /// u32: the row's part of the noise hash.
    pub bases: &'a Array,
}

#[cfg(target_os = "linux")]
mod native {
    use super::{Array, Draws, Result};
    use crate::mx::ops::call;
    use mlx_sys::{mlx_array, mlx_stream};
    use std::ffi::c_int;

    unsafe extern "C" {
        fn braid_log_mass(
            result: *mut mlx_array,
            x: mlx_array,
            temperatures: mlx_array,
            stream: mlx_stream,
        ) -> c_int;
        fn braid_shortlist(
            values: *mut mlx_array,
            ids: *mut mlx_array,
            x: mlx_array,
            width: c_int,
            stream: mlx_stream,
        ) -> c_int;
        fn braid_mask(result: *mut mlx_array, x: mlx_array, words: mlx_array, stream: mlx_stream) -> c_int;
        fn braid_draw(
            result: *mut mlx_array,
            x: mlx_array,
            mixed: mlx_array,
            temperatures: mlx_array,
            floors: mlx_array,
            ceilings: mlx_array,
            bases: mlx_array,
            stream: mlx_stream,
        ) -> c_int;
    }

    /// ln Σ e^(x / temperature) of each row: x `[b, n]` f32, `temperatures` and result `[b, 1]` f32.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`] when shapes or dtypes do not fit, or on a platform without it.
    pub fn log_mass(x: &Array, temperatures: &Array) -> Result<Array> {
        // SAFETY: handles are valid for the call, which checks shapes and dtypes.
        call("log mass", |out, stream| unsafe {
            braid_log_mass(out, x.as_ptr(), temperatures.as_ptr(), stream)
        })
    }

    /// The `width` largest values of each row of `x` `[b, n]` f32, descending, lowest id first among equals: values
    /// `[b, width]` f32 and ids `[b, width]` u32.
    ///
    /// # Errors
    /// As [`log_mass`].
    pub fn shortlist(x: &Array, width: i32) -> Result<[Array; 2]> {
        // SAFETY: an empty handle, written by the call below and owned by the Array.
        let mut ids = unsafe { Array::from_ptr(mlx_sys::mlx_array_new()) };
        // SAFETY: handles are valid for the call, which checks shapes and dtypes and writes both results or none.
        let values = call("shortlist", |out, stream| unsafe {
            let mut handle = mlx_sys::mlx_array_new();
            let status = braid_shortlist(out, &mut handle, x.as_ptr(), width, stream);
            ids = Array::from_ptr(handle);
            status
        })?;
        Ok([values, ids])
    }

    /// `x` `[b, n]` f32 with negative infinity wherever the bit of `words` `[b, ⌈n / 32⌉]` u32 is not set, lowest bits
    /// first.
    ///
    /// # Errors
    /// As [`log_mass`].
    pub fn mask(x: &Array, words: &Array) -> Result<Array> {
        // SAFETY: handles are valid for the call, which checks shapes and dtypes.
        call("mask", |out, stream| unsafe { braid_mask(out, x.as_ptr(), words.as_ptr(), stream) })
    }

    /// Draws one id of each row of `x` `[b, n]` f32, as `cpp/scan.h` has it: `[b, 1]` u32. `mixed_ids`: n u32.
    ///
    /// # Errors
    /// As [`log_mass`].
    pub fn draw(x: &Array, mixed_ids: &Array, rows: &Draws<'_>) -> Result<Array> {
        // SAFETY: handles are valid for the call, which checks shapes and dtypes.
        call("draw", |out, stream| unsafe {
            braid_draw(
                out,
                x.as_ptr(),
                mixed_ids.as_ptr(),
                rows.temperatures.as_ptr(),
                rows.floors.as_ptr(),
                rows.ceilings.as_ptr(),
                rows.bases.as_ptr(),
                stream,
            )
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod native {
    use super::{Array, Draws, Result};
    use crate::MlxError;

    fn missing<T>(op: &'static str) -> Result<T> {
        Err(MlxError::Op { op, what: "not built for this platform".into() })
    }

    /// As on Linux.
    ///
    /// # Errors
    /// Always: [`super::is_available`] says no.
    pub fn log_mass(_: &Array, _: &Array) -> Result<Array> {
        missing("log mass")
    }

    /// As [`log_mass`].
    ///
    /// # Errors
    /// As [`log_mass`].
    pub fn shortlist(_: &Array, _: i32) -> Result<[Array; 2]> {
        missing("shortlist")
    }

    /// As [`log_mass`].
    ///
    /// # Errors
    /// As [`log_mass`].
    pub fn mask(_: &Array, _: &Array) -> Result<Array> {
        missing("mask")
    }

    /// As [`log_mass`].
    ///
    /// # Errors
    /// As [`log_mass`].
    pub fn draw(_: &Array, _: &Array, _: &Draws<'_>) -> Result<Array> {
        missing("draw")
    }
}

pub use native::{draw, log_mass, mask, shortlist};
