//! The device that MLX computes on: what it is, how much memory it has, and giving memory back.

use crate::error::Result;
use crate::load::Numerics;
use crate::mx::device_facts::DeviceFacts;
use crate::mx::ops;
use mlx_rs::{Device, DeviceType, memory};
use std::ffi::CStr;

/// Freed buffers that MLX may keep for reuse, in bytes.
const BUFFER_CACHE_BYTES: usize = 1 << 30;

/// MLX's default device.
#[derive(Debug, Clone)]
pub struct ComputeDevice {
    /// What is computed in on it.
    pub numerics: Numerics,
    /// "cpu" or "gpu", then the device's name and architecture where MLX knows them.
    pub words: String,
    /// Memory that the process may use, in bytes.
    pub memory_limit_bytes: u64,
}

impl ComputeDevice {
    /// Asks MLX, and bounds the memory that it keeps for reuse.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn open() -> Result<ComputeDevice> {
        let device = Device::try_default().map_err(|error| ops::failure("default device", Some(error)))?;
        let kind = device.get_type().map_err(|error| ops::failure("default device", Some(error)))?;
        let facts = DeviceFacts::of_default()?;
        let (numerics, kind, memory_limit_bytes) = match kind {
            DeviceType::Cpu => (Numerics::FullPrecision, "cpu", share_of_main_memory()),
            DeviceType::Gpu => (Numerics::Checkpoint, "gpu", gpu_memory(&facts)),
        };
        memory::set_cache_limit(BUFFER_CACHE_BYTES)
            .map_err(|error| ops::failure("cache limit", Some(error)))?;
        let names = [c"device_name", c"architecture"].map(|key| facts.text(key));
        let words = [Some(kind.to_owned())].into_iter().chain(names).flatten().collect::<Vec<_>>().join(", ");
        Ok(ComputeDevice { numerics, words, memory_limit_bytes })
    }
}

/// Gives freed buffers back to the system.
pub fn give_back_memory() {
    if let Err(error) = memory::clear_cache() {
        tracing::warn!(%error, "MLX keeps its freed buffers");
    }
}

/// Metal says what it recommends. CUDA says what nobody uses yet, of which a twentieth is left for the driver.
fn gpu_memory(facts: &DeviceFacts) -> u64 {
    let bytes = |key: &CStr| facts.bytes(key);
    bytes(c"max_recommended_working_set_size")
        .or(bytes(c"free_memory").map(|free| free / 20 * 19))
        .or(bytes(c"memory_size"))
        .unwrap_or_else(share_of_main_memory)
}

/// Three quarters of main memory: the system, the window and the page cache need the rest. All of the address space
/// when the size cannot be read.
fn share_of_main_memory() -> u64 {
    match main_memory_bytes() {
        Some(bytes) => bytes / 4 * 3,
        None => {
            tracing::warn!("cannot read the size of main memory: the KV cache is not limited by it");
            u64::MAX
        }
    }
}

#[cfg(target_os = "linux")]
fn main_memory_bytes() -> Option<u64> {
    total_of_meminfo(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

/// `MemTotal` in bytes; the file counts in KiB.
#[cfg(any(target_os = "linux", test))]
fn total_of_meminfo(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(not(target_os = "linux"))]
fn main_memory_bytes() -> Option<u64> {
    let output = std::process::Command::new("sysctl").args(["-n", "hw.memsize"]).output().ok()?;
    std::str::from_utf8(&output.stdout).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{share_of_main_memory, total_of_meminfo};

    #[test]
    fn main_memory_is_read_in_kib() {
        let meminfo = "MemFree: 1 kB\nMemTotal:       24609812 kB\n";
        assert_eq!(total_of_meminfo(meminfo), Some(24_609_812 * 1024));
        assert_eq!(total_of_meminfo("MemFree: 1 kB"), None);
    }

    #[test]
    fn the_share_of_this_machine_is_known() {
        let bytes = share_of_main_memory();
        assert!((1 << 28..u64::MAX).contains(&bytes), "{bytes} bytes");
    }
}
