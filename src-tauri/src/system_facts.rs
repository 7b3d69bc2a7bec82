//! What this computer is, for reports.

use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

/// The computer in words and figures.
#[derive(Debug, Clone)]
pub struct SystemFacts {
    /// Name and version of the system.
    pub os: String,
    /// Name of the processor.
    pub cpu: String,
    /// Cores that programs see.
    pub logical_cores: usize,
    /// Memory in all.
    pub memory_bytes: u64,
    /// Memory that programs may still take.
    pub available_bytes: u64,
}

impl SystemFacts {
    /// Asks the system; what it does not say is said to be unknown.
    pub fn read() -> Self {
        let asked = RefreshKind::nothing()
            .with_cpu(CpuRefreshKind::nothing())
            .with_memory(MemoryRefreshKind::nothing().with_ram());
        let unknown = || "unknown".to_owned();
        let os = System::long_os_version().unwrap_or_else(|_| unknown());
        let Ok(system) = System::new_with_specifics(asked) else {
            return Self { os, cpu: unknown(), logical_cores: 0, memory_bytes: 0, available_bytes: 0 };
        };
        let cpu = system.cpus().first().map(|cpu| cpu.brand().trim().to_owned());
        Self {
            os,
            cpu: cpu.filter(|brand| !brand.is_empty()).unwrap_or_else(unknown),
            logical_cores: system.cpus().len(),
            memory_bytes: system.total_memory(),
            available_bytes: system.available_memory(),
        }
    }
}

/// Bytes in GiB with one decimal.
pub fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_computer_has_cores_and_memory() {
        let facts = SystemFacts::read();
        assert!(facts.logical_cores > 0 && facts.memory_bytes > 0, "{facts:?}");
        assert!(facts.available_bytes <= facts.memory_bytes, "{facts:?}");
    }
}
