//! What MLX knows about the device it computes on.

use super::ops::{failure, install_error_handler};
use crate::error::Result;
use mlx_sys as sys;
use std::ffi::CStr;

/// Facts by MLX's own keys, which differ from device to device.
pub struct DeviceFacts(sys::mlx_device_info);

impl DeviceFacts {
    /// Of the default device.
    ///
    /// # Errors
    /// [`MlxError::Op`].
    pub fn of_default() -> Result<DeviceFacts> {
        install_error_handler();
        // SAFETY: both handles are made here; the device's is freed, the facts' is owned by the result.
        unsafe {
            let mut device = sys::mlx_device_new();
            let mut facts = DeviceFacts(sys::mlx_device_info_new());
            let known = sys::mlx_get_default_device(&mut device) == 0
                && sys::mlx_device_info_get(&mut facts.0, device) == 0;
            sys::mlx_device_free(device);
            if known { Ok(facts) } else { Err(failure("device info", None)) }
        }
    }

    fn has(&self, key: &CStr) -> bool {
        let mut exists = false;
        // SAFETY: handle and key are valid for the call.
        unsafe { sys::mlx_device_info_has_key(&mut exists, self.0, key.as_ptr()) == 0 && exists }
    }

    /// A size, if the device has it.
    pub fn bytes(&self, key: &CStr) -> Option<u64> {
        let mut value = 0;
        // SAFETY: handle and key are valid for the call.
        let is_read =
            self.has(key) && unsafe { sys::mlx_device_info_get_size(&mut value, self.0, key.as_ptr()) } == 0;
        is_read.then_some(value as u64)
    }

    /// A text, if the device has it.
    pub fn text(&self, key: &CStr) -> Option<String> {
        let mut value = std::ptr::null();
        // SAFETY: handle and key are valid for the call; the text lives as long as the facts.
        unsafe {
            let is_read =
                self.has(key) && sys::mlx_device_info_get_string(&mut value, self.0, key.as_ptr()) == 0;
            (is_read && !value.is_null()).then(|| CStr::from_ptr(value).to_string_lossy().into_owned())
        }
    }
}

impl Drop for DeviceFacts {
    fn drop(&mut self) {
        // SAFETY: the handle is owned and freed once.
        unsafe { sys::mlx_device_info_free(self.0) };
    }
}
