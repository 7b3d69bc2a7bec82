//! The device that MLX computes on: what it is, how much memory it has, and giving memory back.

mod host_memory;

use crate::error::Result;
use crate::load::Numerics;
use crate::mx::device_facts::DeviceFacts;
use crate::mx::ops;
pub use host_memory::HostMemory;
use mlx_rs::{Device, DeviceType, memory};

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
        let (facts, memory) = (DeviceFacts::of_default()?, memory_now()?);
        let (numerics, kind) = match default_type()? {
            DeviceType::Cpu => (Numerics::FullPrecision, "cpu"),
            DeviceType::Gpu => (Numerics::Checkpoint, "gpu"),
        };
        memory::set_cache_limit(BUFFER_CACHE_BYTES)
            .map_err(|error| ops::failure("cache limit", Some(error)))?;
        let names = [c"device_name", c"architecture"].map(|key| facts.text(key));
        let words = [Some(kind.to_owned())].into_iter().chain(names).flatten().collect::<Vec<_>>().join(", ");
        Ok(ComputeDevice { numerics, words, memory_limit_bytes: memory.limit_bytes })
    }
}

fn default_type() -> Result<DeviceType> {
    let device = Device::try_default().map_err(|error| ops::failure("default device", Some(error)))?;
    device.get_type().map_err(|error| ops::failure("default device", Some(error)))
}

/// Whether the device keeps weights in f32, apart from those that it can multiply packed: the CPU does, GPUs keep them
/// as they are stored.
///
/// # Errors
/// [`crate::MlxError::Op`].
pub fn keeps_full_precision() -> Result<bool> {
    Ok(matches!(default_type()?, DeviceType::Cpu))
}

/// What kind of memory a device computes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceMemoryKind {
    /// Main memory, by the CPU.
    Host,
    /// Main memory, by a GPU that shares it.
    Unified,
    /// A GPU's own.
    Discrete,
}

/// Memory of the device at one moment, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceMemoryNow {
    /// Whose memory it is.
    pub kind: DeviceMemoryKind,
    /// In all.
    pub total_bytes: u64,
    /// What the process can still take; buffers that MLX keeps for reuse are counted as free.
    pub free_bytes: u64,
    /// What the process may use, with what it uses already.
    pub limit_bytes: u64,
}

/// Asks the device, from any thread and before anything is loaded.
///
/// Metal recommends a working set. CUDA says what nobody uses, of which a twentieth is left for the driver. On the CPU the
/// system, the window and the page cache need a quarter of main memory.
///
/// # Errors
/// [`crate::MlxError::Op`].
pub fn memory_now() -> Result<DeviceMemoryNow> {
    let facts = DeviceFacts::of_default()?;
    let (active_bytes, kept_bytes) = (active_bytes(), memory::cache_memory().unwrap_or(0) as u64);
    let host = host_memory::host_memory().unwrap_or_else(|| {
        tracing::warn!("cannot read the size of main memory: nothing is limited by it");
        HostMemory { total_bytes: u64::MAX, free_bytes: u64::MAX }
    });
    if keeps_full_precision()? {
        let limit_bytes = host.total_bytes / 4 * 3;
        let free_bytes = host.free_bytes.saturating_add(kept_bytes);
        return Ok(DeviceMemoryNow {
            kind: DeviceMemoryKind::Host,
            total_bytes: host.total_bytes,
            free_bytes: free_bytes.min(limit_bytes.saturating_sub(active_bytes)),
            limit_bytes,
        });
    }
    let size = facts.bytes(c"memory_size");
    if let Some(limit_bytes) = facts.bytes(c"max_recommended_working_set_size") {
        let free_bytes = host.free_bytes.saturating_add(kept_bytes);
        return Ok(DeviceMemoryNow {
            kind: DeviceMemoryKind::Unified,
            total_bytes: size.unwrap_or(host.total_bytes),
            free_bytes: free_bytes.min(limit_bytes.saturating_sub(active_bytes)),
            limit_bytes,
        });
    }
    let idle_bytes =
        facts.bytes(c"free_memory").or(size).unwrap_or(host.free_bytes).saturating_add(kept_bytes);
    let limit_bytes = idle_bytes.saturating_add(active_bytes) / 20 * 19;
    Ok(DeviceMemoryNow {
        kind: DeviceMemoryKind::Discrete,
        total_bytes: facts.bytes(c"total_memory").or(size).unwrap_or(limit_bytes),
        free_bytes: limit_bytes.saturating_sub(active_bytes),
        limit_bytes,
    })
}

/// Memory that arrays hold, in bytes; buffers kept for reuse are not counted.
pub fn active_bytes() -> u64 {
    memory::active_memory().unwrap_or(0) as u64
}

/// Gives freed buffers back to the system.
pub fn give_back_memory() {
    if let Err(error) = memory::clear_cache() {
        tracing::warn!(%error, "MLX keeps its freed buffers");
    }
}

/// Settles what MLX reads from the environment. Values that are set already stay.
///
/// On NVIDIA, MLX keeps kernels by the shapes they were made for and fails for good once it has met twice as many as it
/// keeps: the prompts of one afternoon. Without that check it drops the oldest, as caches do.
///
/// # Safety
/// No other thread of the process may run: it could be reading the environment.
pub unsafe fn prepare_environment() {
    const SETTINGS: [(&str, &str); 2] =
        [("MLX_ENABLE_CACHE_THRASHING_CHECK", "0"), ("MLX_CUDA_SDPA_CACHE_SIZE", "1024")];
    for (name, value) in SETTINGS {
        if std::env::var_os(name).is_none() {
            // SAFETY: the caller's promise.
            unsafe { std::env::set_var(name, value) };
        }
    }
}
