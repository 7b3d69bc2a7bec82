//! Where things are: the checkout and the folders that setup fills.

use std::{
    cell::OnceCell,
    env,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    error::XtaskError,
    exec::{capture, command},
    stamp::Stamps,
};

/// The checkout that xtask runs in.
pub struct Workspace {
    root: PathBuf,
    /// Asked for once: it takes a third of a second, and nothing that xtask does changes it.
    metadata: OnceCell<Value>,
}

impl Workspace {
    /// Finds the checkout from the manifest that Cargo runs, so a moved checkout is found where it now is.
    ///
    /// # Errors
    /// [`XtaskError::Absent`] if xtask's manifest does not lie in a workspace as expected.
    pub fn locate() -> Result<Self, XtaskError> {
        let manifest = env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").into());
        let root = Path::new(&manifest).ancestors().nth(3).map(Path::to_path_buf).unwrap_or_default();
        if root.join("Cargo.toml").is_file() && root.join("src-tauri").is_dir() {
            return Ok(Self { root, metadata: OnceCell::new() });
        }
        Err(XtaskError::Absent { what: "Cargo.toml".into(), place: root.display().to_string() })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Everything that setup makes and git ignores.
    pub fn mlx_dir(&self) -> PathBuf {
        self.root.join(".mlx")
    }

    pub fn ui_dir(&self) -> PathBuf {
        self.root.join("ui")
    }

    pub fn target_dir(&self) -> PathBuf {
        self.root.join("target")
    }

    pub fn stamps(&self) -> Stamps {
        Stamps::new(self.mlx_dir().join("stamps"))
    }

    /// Cargo in this checkout. The target folder is fixed: programs find libmlx.so relative to it.
    pub fn cargo<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let mut cargo = command(&cargo, args);
        cargo.current_dir(&self.root).env("CARGO_TARGET_DIR", self.target_dir());
        // Cargo sets these for xtask itself; a nested build must not see them change.
        let own = ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_BIN_", "CARGO_CRATE_"];
        for (name, _) in env::vars_os() {
            if own.iter().any(|start| name.to_string_lossy().starts_with(start)) {
                cargo.env_remove(name);
            }
        }
        cargo
    }

    /// `cargo metadata` for this host, with dependencies resolved (and fetched, the first time).
    ///
    /// # Errors
    /// [`XtaskError::CommandFailed`] if Cargo fails, [`XtaskError::Json`] if its answer is not JSON.
    pub fn metadata(&self) -> Result<&Value, XtaskError> {
        if let Some(known) = self.metadata.get() {
            return Ok(known);
        }
        let host = host_triple();
        let args = ["metadata", "--format-version", "1", "--filter-platform", &host];
        let text = capture(&mut self.cargo(args))?;
        let read = serde_json::from_str(&text)
            .map_err(|source| XtaskError::Json { what: "the answer of `cargo metadata`".into(), source })?;
        Ok(self.metadata.get_or_init(|| read))
    }
}

fn host_triple() -> String {
    let system = if cfg!(target_os = "macos") { "apple-darwin" } else { "unknown-linux-gnu" };
    format!("{}-{system}", env::consts::ARCH)
}

/// The package of that name in an answer of `cargo metadata`.
///
/// # Errors
/// [`XtaskError::Absent`] if the workspace does not depend on it.
pub fn package<'a>(metadata: &'a Value, name: &str) -> Result<&'a Value, XtaskError> {
    metadata["packages"]
        .as_array()
        .and_then(|packages| packages.iter().find(|package| package["name"] == name))
        .ok_or_else(|| XtaskError::Absent {
            what: name.into(),
            place: "the dependencies of the workspace".into(),
        })
}

/// The folder of a package's manifest.
pub fn package_dir(package: &Value) -> PathBuf {
    let manifest = package["manifest_path"].as_str().unwrap_or_default();
    Path::new(manifest).parent().map(Path::to_path_buf).unwrap_or_default()
}
