//! MLX's own library and headers, from its CPU wheel, with OpenBLAS in place of the reference BLAS.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    Outcome,
    pip::{Wheel, remove_dir_if_there},
};
use crate::{
    error::XtaskError,
    stamp::Fingerprint,
    workspace::{Workspace, package, package_dir},
};

/// The MLX that setup installs. mlx-sys's mlx-c must be written for exactly this one ([`MlxSys::find`] checks).
const WHEEL: Wheel = Wheel {
    name: "mlx-cpu",
    version: "0.32.2",
    file_name: "mlx_cpu-0.32.2-py3-none-manylinux_2_35_x86_64.whl",
    sha256: "fc5d31b90fc4f457b2f9614ed45651a567d22a6a11a03d114a90a4e10bdd8878",
    megabytes: 10,
};

/// Debian's OpenBLAS, threaded build, under the BLAS name.
const OPENBLAS: &str = "/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3";

/// Where the parts of the wheel lie below `.mlx/`. The library finds `mlx_cpu.libs` relative to itself.
const PARTS: [(&str, &str); 3] =
    [("mlx", "mlx"), ("mlx_cpu.libs", "mlx_cpu.libs"), ("mlx_cpu-0.32.2.dist-info", "mlx-cpu.dist-info")];

/// Unpacks the wheel into `.mlx/` and swaps its BLAS.
pub fn install(workspace: &Workspace) -> Result<Outcome, XtaskError> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        let (system, architecture) = (std::env::consts::OS, std::env::consts::ARCH);
        return Err(XtaskError::UnsupportedPlatform { system, architecture });
    }
    let folder = workspace.mlx_dir();
    let stamps = workspace.stamps();
    let fingerprint = fingerprint()?;
    let products: Vec<PathBuf> = PARTS.iter().map(|(_, to)| folder.join(to)).collect();
    if stamps.is_current("mlx", &fingerprint, &products) {
        return Ok(Outcome::AlreadyDone);
    }
    let unpacked = folder.join("unpacking");
    WHEEL.unpack_into(&folder.join("downloads"), &unpacked)?;
    use_openblas(&unpacked.join("mlx_cpu.libs"))?;
    for (from, to) in PARTS {
        remove_dir_if_there(&folder.join(to))?;
        fs::rename(unpacked.join(from), folder.join(to)).map_err(XtaskError::io(folder.join(to)))?;
    }
    remove_dir_if_there(&unpacked)?;
    stamps.set("mlx", &fingerprint)?;
    Ok(Outcome::Done(format!("MLX {} with OpenBLAS", WHEEL.version)))
}

/// What the installed library is made of; everything built on it depends on this.
pub fn fingerprint() -> Result<String, XtaskError> {
    Ok(Fingerprint::default().with("wheel", WHEEL.sha256).with_file(Path::new(OPENBLAS))?.finish())
}

/// Overwrites each reference BLAS in a wheel's library folder with OpenBLAS, 10 to 60 times as fast in prefill.
pub fn use_openblas(libraries: &Path) -> Result<(), XtaskError> {
    let mut replaced = 0;
    for entry in fs::read_dir(libraries).map_err(XtaskError::io(libraries))? {
        let entry = entry.map_err(XtaskError::io(libraries))?;
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("libblas") {
            // Removed first: a program that has the old file mapped keeps it.
            fs::remove_file(entry.path()).map_err(XtaskError::io(entry.path()))?;
            fs::copy(OPENBLAS, entry.path()).map_err(XtaskError::io(OPENBLAS))?;
            replaced += 1;
        }
    }
    if replaced == 0 {
        return Err(XtaskError::Absent { what: "libblas".into(), place: libraries.display().to_string() });
    }
    Ok(())
}

/// The mlx-sys crate as Cargo resolved it: the source of mlx-c.
pub struct MlxSys {
    pub version: String,
    /// The folder that holds `mlx/c/*.h` and `mlx/c/*.cpp`.
    pub mlx_c: PathBuf,
}

impl MlxSys {
    /// Finds the crate and checks that its mlx-c is written for the MLX that setup installs.
    ///
    /// # Errors
    /// [`XtaskError::MlxVersion`] if it is written for another MLX.
    pub fn find(metadata: &Value) -> Result<Self, XtaskError> {
        let package = package(metadata, "mlx-sys")?;
        let version = package["version"].as_str().unwrap_or_default().to_owned();
        let mlx_c = package_dir(package).join("src/mlx-c");
        let cmake = mlx_c.join("CMakeLists.txt");
        let text = fs::read_to_string(&cmake).map_err(XtaskError::io(&cmake))?;
        let wanted = mlx_version_in(&text).unwrap_or("an unknown version").to_owned();
        if wanted != WHEEL.version {
            return Err(XtaskError::MlxVersion { crate_version: version, wanted, installed: WHEEL.version });
        }
        Ok(Self { version, mlx_c })
    }
}

/// The MLX release that an mlx-c's CMakeLists.txt fetches.
fn mlx_version_in(cmake: &str) -> Option<&str> {
    let tag = cmake.split("GIT_TAG v").nth(1)?;
    tag.split(|c: char| c == ')' || c.is_whitespace()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mlx_release_is_read_from_cmake() {
        let cmake = "FetchContent_Declare(\n    mlx\n    GIT_REPOSITORY \"x\"\n    GIT_TAG v0.32.2)\n";
        assert_eq!(mlx_version_in(cmake), Some("0.32.2"));
        assert_eq!(mlx_version_in("find_package(MLX)"), None);
    }

    #[test]
    fn the_wheel_file_carries_the_pinned_version() {
        assert!(WHEEL.file_name.contains(WHEEL.version));
        assert!(PARTS.iter().any(|(from, _)| from.contains(WHEEL.version)));
    }
}
