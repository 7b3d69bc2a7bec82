//! Setup: everything a build, a run and the tests need, made once into `.mlx/` and `ui/node_modules`.
//!
//! Every step is idempotent, stamped by its inputs, and leaves nothing half-made behind.

mod bindings;
mod cargo_override;
mod macos;
mod mlx;
mod mlxc;
mod pip;
mod system;
mod tools;

use std::{fs, time::Instant};

use crate::{
    error::{InStep as _, StepFailure, XtaskError},
    workspace::Workspace,
};

/// Whether finished steps are believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rerun {
    /// Skip a step whose inputs did not change.
    Stale,
    /// Make everything again (`--force`), downloads included.
    Everything,
}

/// Runs every step of setup.
///
/// # Errors
/// The first step that failed.
pub fn run(workspace: &Workspace, rerun: Rerun) -> Result<(), StepFailure> {
    let _lock = lock(workspace).in_step("setup lock")?;
    if rerun == Rerun::Everything {
        forget(workspace).in_step("setup --force")?;
    }
    timed("tools", || tools::check())?;
    timed("system packages", || system::install())?;
    if cfg!(target_os = "macos") {
        timed("Xcode tools", || macos::check())?;
    } else {
        timed("MLX", || mlx::install(workspace))?;
        timed("mlx-c", || mlxc::build(workspace))?;
        timed("mlx-sys bindings", || bindings::generate(workspace))?;
        timed("cargo override", || cargo_override::write(workspace))?;
    }
    Ok(())
}

/// One setup at a time; the second waits, then finds everything done.
fn lock(workspace: &Workspace) -> Result<fs::File, XtaskError> {
    let folder = workspace.mlx_dir();
    fs::create_dir_all(&folder).map_err(XtaskError::io(&folder))?;
    let path = folder.join("setup.lock");
    let file = fs::File::create(&path).map_err(XtaskError::io(&path))?;
    if file.try_lock().is_err() {
        eprintln!("setup: another setup is running here; waiting for it");
        file.lock().map_err(XtaskError::io(&path))?;
    }
    Ok(file)
}

fn forget(workspace: &Workspace) -> Result<(), XtaskError> {
    let stamps = workspace.mlx_dir().join("stamps");
    match fs::remove_dir_all(&stamps) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(XtaskError::Io { path: stamps, source: error })
        }
        _ => Ok(()),
    }
}

/// What a step found.
pub enum Outcome {
    /// Its stamp was current.
    AlreadyDone,
    /// It did its work; a few words on what it made.
    Done(String),
}

/// Runs one step; prints its result with the time it took, unless there was nothing to do.
fn timed(step: &'static str, work: impl FnOnce() -> Result<Outcome, XtaskError>) -> Result<(), StepFailure> {
    let started = Instant::now();
    if let Outcome::Done(made) = work().in_step(step)? {
        eprintln!("setup: {step}: {made} ({:.1} s)", started.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Says what a step that takes a while is about to do.
fn announce(text: &str) {
    eprintln!("setup: {text}");
}
