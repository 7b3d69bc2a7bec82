//! tauri-driver: WebDriver for the app's window.

use std::path::PathBuf;

use super::{Outcome, announce};
use crate::{error::XtaskError, exec::run, stamp::Fingerprint, workspace::Workspace};

const VERSION: &str = "2.1.0";

/// Where the program lies.
pub fn tauri_driver(workspace: &Workspace) -> PathBuf {
    workspace.mlx_dir().join("tools/bin/tauri-driver")
}

/// Builds and installs tauri-driver into `.mlx/tools`.
pub fn install(workspace: &Workspace) -> Result<Outcome, XtaskError> {
    let stamps = workspace.stamps();
    let program = tauri_driver(workspace);
    let fingerprint = Fingerprint::default().with("tauri-driver", VERSION).finish();
    if stamps.is_current("tauri-driver", &fingerprint, std::slice::from_ref(&program)) {
        return Ok(Outcome::AlreadyDone);
    }
    announce("building tauri-driver (1 minute on 2 cores)");
    let mut cargo = workspace.cargo(["install", "tauri-driver", "--version", VERSION, "--locked", "--force"]);
    // In a folder of its own: its dependencies are not those of the workspace.
    cargo.env_remove("CARGO_TARGET_DIR");
    run(cargo.arg("--root").arg(workspace.mlx_dir().join("tools")))?;
    stamps.set("tauri-driver", &fingerprint)?;
    Ok(Outcome::Done(format!("tauri-driver {VERSION}")))
}
