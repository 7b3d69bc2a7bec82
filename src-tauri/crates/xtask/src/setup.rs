//! Setup: everything a build, a run and the tests need, made once into `.mlx/` and `ui/node_modules`.
//!
//! Every step is idempotent, stamped by its inputs, and leaves nothing half-made behind.

mod bindings;
mod cargo_override;
mod drivers;
mod macos;
mod mlx;
mod mlxc;
mod peers;
mod pip;
mod starter;
mod system;
mod tools;

use std::{fs, time::Instant};

pub use drivers::tauri_driver;
pub use peers::python as peer_python;
pub use pip::remove_dir_if_there;
pub use starter::{licence as starter_licence, model as starter_model};

use crate::{
    error::{InStep as _, StepFailure, XtaskError},
    licences, ui,
    workspace::Workspace,
};

/// What the machine is set up for; each needs what the ones before it need, and more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Purpose {
    /// The engine and its model, without a window.
    Bench,
    /// The app on a screen.
    App,
    /// The app in a virtual display, driven by a script.
    Headless,
    /// Every test.
    Tests,
}

/// Whether finished steps are believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rerun {
    /// Skip a step whose inputs did not change.
    Stale,
    /// Make everything again (`--force`), downloads included.
    Everything,
}

/// Runs the steps of setup that the purpose needs.
///
/// # Errors
/// The first step that failed.
pub fn run(workspace: &Workspace, purpose: Purpose, rerun: Rerun) -> Result<(), StepFailure> {
    let _lock = lock(workspace).in_step("setup lock")?;
    if rerun == Rerun::Everything {
        remove_dir_if_there(&workspace.mlx_dir().join("stamps")).in_step("setup --force")?;
    }
    timed("tools", tools::check)?;
    timed("system packages", || system::install(purpose))?;
    if cfg!(target_os = "macos") {
        timed("Xcode tools", macos::check)?;
    } else {
        timed("MLX", || mlx::install(workspace))?;
        timed("mlx-c", || mlxc::build(workspace))?;
        timed("mlx-sys bindings", || bindings::generate(workspace))?;
        timed("cargo override", || cargo_override::write(workspace))?;
    }
    timed("starter model download", || starter::fetch(workspace))?;
    timed("starter model import", || starter::import(workspace))?;
    if purpose >= Purpose::App {
        timed("UI packages", || ui::install(workspace))?;
        timed("licences", || licences::write(workspace))?;
    }
    if purpose >= Purpose::Headless && cfg!(target_os = "linux") {
        timed("tauri-driver", || drivers::install(workspace))?;
    }
    Ok(())
}

/// Makes the Python environment of the peers that benchmark and tests need.
///
/// # Errors
/// The step that failed.
pub fn install_peers(workspace: &Workspace) -> Result<(), StepFailure> {
    let _lock = lock(workspace).in_step("setup lock")?;
    timed("peers", || peers::install(workspace))
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

/// What a step found.
pub enum Outcome {
    /// Its stamp was current.
    AlreadyDone,
    /// It did its work; a few words on what it made.
    Done(String),
}

/// Runs one step; prints its result with the time it took, unless there was nothing to do.
pub fn timed(
    step: &'static str,
    work: impl FnOnce() -> Result<Outcome, XtaskError>,
) -> Result<(), StepFailure> {
    let started = Instant::now();
    if let Outcome::Done(made) = work().in_step(step)? {
        eprintln!("setup: {step}: {made} ({:.1} s)", started.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Says what a step that takes a while is about to do.
pub fn announce(text: &str) {
    eprintln!("setup: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_purpose_needs_what_the_smaller_ones_need() {
        assert!(Purpose::Bench < Purpose::App);
        assert!(Purpose::App < Purpose::Headless);
        assert!(Purpose::Headless < Purpose::Tests);
    }
}
