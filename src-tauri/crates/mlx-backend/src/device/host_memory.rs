//! Main memory: how much there is and how much of it is free, under the limits of the process's control groups.

use std::path::{Path, PathBuf};

/// Main memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostMemory {
    /// In all: the machine's, or what the process may have if that is less.
    pub total_bytes: u64,
    /// What can still be taken without pushing anything out that is needed.
    pub free_bytes: u64,
}

/// Reads it; `None` where the system does not say.
#[cfg(target_os = "linux")]
pub fn host_memory() -> Option<HostMemory> {
    let machine = of_meminfo(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = group_folders(&groups, Path::new("/sys/fs/cgroup"));
    Some(limits.iter().filter_map(|folder| of_group(folder)).fold(machine, HostMemory::within))
}

/// Reads it; `None` where the system does not say. What the system would free for others counts as free.
#[cfg(not(target_os = "linux"))]
pub fn host_memory() -> Option<HostMemory> {
    let read = |program: &str, arguments: &[&str]| {
        let output = std::process::Command::new(program).args(arguments).output().ok()?;
        String::from_utf8(output.stdout).ok()
    };
    let total_bytes = read("sysctl", &["-n", "hw.memsize"])?.trim().parse().ok()?;
    let free_bytes = read("vm_stat", &[]).and_then(|pages| of_vm_stat(&pages));
    Some(HostMemory { total_bytes, free_bytes: free_bytes.unwrap_or(total_bytes / 2).min(total_bytes) })
}

impl HostMemory {
    #[cfg(any(target_os = "linux", test))]
    fn within(self, group: HostMemory) -> HostMemory {
        HostMemory {
            total_bytes: self.total_bytes.min(group.total_bytes),
            free_bytes: self.free_bytes.min(group.free_bytes),
        }
    }
}

/// `MemTotal` and `MemAvailable`; the file counts in KiB.
#[cfg(any(target_os = "linux", test))]
fn of_meminfo(meminfo: &str) -> Option<HostMemory> {
    let bytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    };
    let total_bytes = bytes("MemTotal:")?;
    // Kernels before 3.14 do not say what is available.
    let free_bytes = bytes("MemAvailable:").or_else(|| bytes("MemFree:"))?;
    Some(HostMemory { total_bytes, free_bytes })
}

/// Folders of the control groups that bound the process, its own and those around it. `groups`: `/proc/self/cgroup`.
#[cfg(any(target_os = "linux", test))]
fn group_folders(groups: &str, root: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let mount = match controllers {
            "" => root.to_owned(),
            _ if controllers.split(',').any(|name| name == "memory") => root.join("memory"),
            _ => continue,
        };
        // In a container the path may be that of the host, which is not mounted; the mount itself is always there.
        let own = path.trim_start_matches('/');
        folders.extend(Path::new(own).ancestors().map(|group| mount.join(group)));
    }
    folders
}

/// Limit of one control group of either version and what is left of it; `None` if it has no limit. Files that are only
/// cached make room.
#[cfg(any(target_os = "linux", test))]
fn of_group(folder: &Path) -> Option<HostMemory> {
    // Version 1 writes the largest number of pages for "no limit".
    const UNLIMITED_BYTES: u64 = 1 << 62;
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let (total_bytes, used_bytes, cached) = match number("memory.max") {
        Some(limit) => (limit, number("memory.current")?, "inactive_file "),
        None => (number("memory.limit_in_bytes")?, number("memory.usage_in_bytes")?, "total_inactive_file "),
    };
    if total_bytes >= UNLIMITED_BYTES {
        return None;
    }
    let stat = read("memory.stat").unwrap_or_default();
    let cached_bytes = stat.lines().find_map(|line| line.strip_prefix(cached)?.trim().parse::<u64>().ok());
    let used_bytes = used_bytes.saturating_sub(cached_bytes.unwrap_or(0));
    Some(HostMemory { total_bytes, free_bytes: total_bytes.saturating_sub(used_bytes) })
}

/// Free, inactive, purgeable and speculative pages of `vm_stat`, in bytes.
#[cfg(any(not(target_os = "linux"), test))]
fn of_vm_stat(pages: &str) -> Option<u64> {
    let size = pages.lines().next()?.split("page size of ").nth(1)?.split(' ').next()?.parse::<u64>().ok()?;
    let count = |name: &str| {
        let line = pages.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches('.').parse::<u64>().ok()
    };
    let others = ["Pages inactive:", "Pages purgeable:", "Pages speculative:"];
    let others: u64 = others.iter().filter_map(|name| count(name)).sum();
    Some((count("Pages free:")? + others) * size)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn main_memory_is_read_in_kib() {
        let meminfo = "MemTotal:       24609812 kB\nMemFree: 7 kB\nMemAvailable:   1048576 kB\n";
        let read = of_meminfo(meminfo);
        assert_eq!(read, Some(HostMemory { total_bytes: 24_609_812 * 1024, free_bytes: GIB }));
        let old = of_meminfo("MemTotal: 9 kB\nMemFree: 7 kB\n").expect("without MemAvailable");
        assert_eq!(old.free_bytes, 7 * 1024);
        assert_eq!(of_meminfo("MemFree: 1 kB"), None);
    }

    #[test]
    fn groups_of_both_versions_are_found_with_those_around_them() {
        let root = Path::new("/groups");
        let two = group_folders("0::/user.slice/braid.scope\n", root);
        assert_eq!(two, ["user.slice/braid.scope", "user.slice", ""].map(|path| root.join(path)));
        let one = group_folders("9:name=systemd:/x\n4:memory:/jobs/a\n1:cpu,cpuacct:/\n", root);
        assert_eq!(one, ["memory/jobs/a", "memory/jobs", "memory"].map(|path| root.join(path)));
    }

    #[test]
    fn a_group_lowers_what_there_is_and_its_cached_files_make_room() {
        let write = |folder: &Path, name: &str, text: &str| {
            std::fs::write(folder.join(name), text).expect("a writable folder");
        };
        let folder = std::env::temp_dir().join(format!("braid-groups-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a writable folder");
        write(&folder, "memory.max", "max\n");
        assert_eq!(of_group(&folder), None, "no limit");
        write(&folder, "memory.max", &format!("{}\n", 4 * GIB));
        write(&folder, "memory.current", &format!("{}\n", 3 * GIB));
        write(&folder, "memory.stat", &format!("anon 1\ninactive_file {}\n", 2 * GIB));
        let two = of_group(&folder).expect("a limit");
        assert_eq!(two, HostMemory { total_bytes: 4 * GIB, free_bytes: 3 * GIB });
        let machine = HostMemory { total_bytes: 8 * GIB, free_bytes: 2 * GIB };
        assert_eq!(machine.within(two), HostMemory { total_bytes: 4 * GIB, free_bytes: 2 * GIB });
        std::fs::remove_file(folder.join("memory.max")).expect("just written");
        write(&folder, "memory.limit_in_bytes", "9223372036854771712\n");
        write(&folder, "memory.usage_in_bytes", "1\n");
        assert_eq!(of_group(&folder), None, "version 1, no limit");
        write(&folder, "memory.limit_in_bytes", &format!("{GIB}\n"));
        assert_eq!(of_group(&folder).map(|group| group.total_bytes), Some(GIB));
        std::fs::remove_dir_all(&folder).expect("just made");
    }

    #[test]
    fn pages_that_macos_would_give_away_are_free() {
        let pages = "Mach Virtual Memory Statistics: (page size of 16384 bytes)\nPages free:   10.\n\
                     Pages active:  500.\nPages inactive:  4.\nPages speculative: 2.\nPages purgeable: 1.\n";
        assert_eq!(of_vm_stat(pages), Some(17 * 16_384));
        assert_eq!(of_vm_stat("nothing"), None);
    }

    #[test]
    fn the_memory_of_this_machine_is_known() {
        let HostMemory { total_bytes, free_bytes } = host_memory().expect("the system says");
        assert!(total_bytes > 1 << 28 && free_bytes <= total_bytes, "{free_bytes} of {total_bytes}");
    }
}
