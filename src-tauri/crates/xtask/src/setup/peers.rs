//! The peers of benchmark and tests: a Python environment with mlx-lm on the same MLX and the same BLAS as Braid, and
//! OpenAI's client.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{Outcome, announce, mlx, pip::remove_dir_if_there};
use crate::{
    error::XtaskError,
    exec::{command, run},
    stamp::Fingerprint,
    workspace::Workspace,
};

const REQUIREMENTS: &str = include_str!("peers.txt");

/// The environment's interpreter.
pub fn python(workspace: &Workspace) -> PathBuf {
    workspace.mlx_dir().join("peers/bin/python")
}

/// Makes `.mlx/peers`.
pub fn install(workspace: &Workspace) -> Result<Outcome, XtaskError> {
    let stamps = workspace.stamps();
    let folder = workspace.mlx_dir().join("peers");
    let python = python(workspace);
    let mut fingerprint =
        Fingerprint::default().with("requirements", REQUIREMENTS).with("place", &folder.to_string_lossy());
    if cfg!(target_os = "linux") {
        fingerprint = fingerprint.with("mlx", &mlx::fingerprint()?);
    }
    let fingerprint = fingerprint.finish();
    if stamps.is_current("peers", &fingerprint, std::slice::from_ref(&python)) {
        return Ok(Outcome::AlreadyDone);
    }
    announce("installing mlx-lm, OpenAI's client and what they need (200 MB)");
    remove_dir_if_there(&folder)?;
    // Without pip of its own: Debian keeps ensurepip in another package, and the machine's pip can serve it.
    run(command("python3", ["-m", "venv", "--without-pip"]).arg(&folder))?;
    let requirements = folder.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS).map_err(XtaskError::io(&requirements))?;
    let mut pip = command("python3", ["-m", "pip", "--python"]);
    run(pip.arg(&python).args(["install", "--requirement"]).arg(&requirements))?;
    if cfg!(target_os = "linux") {
        mlx::use_openblas(&site_packages(&folder)?.join("mlx_cpu.libs"))?;
    }
    stamps.set("peers", &fingerprint)?;
    Ok(Outcome::Done("mlx-lm and OpenAI's client in .mlx/peers".into()))
}

/// `lib/python3.X/site-packages` of an environment.
fn site_packages(environment: &Path) -> Result<PathBuf, XtaskError> {
    let lib = environment.join("lib");
    for entry in fs::read_dir(&lib).map_err(XtaskError::io(&lib))? {
        let path = entry.map_err(XtaskError::io(&lib))?.path().join("site-packages");
        if path.is_dir() {
            return Ok(path);
        }
    }
    Err(XtaskError::Absent { what: "site-packages".into(), place: lib.display().to_string() })
}
