//! `cargo xtask`: the only commands a person types. Sets up a machine, runs the app, runs the tests, measures.
//!
//! Compiles first on a fresh machine, so it depends on little and on no other crate of the workspace.

mod error;
mod exec;
mod setup;
mod stamp;
mod workspace;

use std::process::ExitCode;

use error::{InStep as _, StepFailure};
use workspace::Workspace;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\n{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), StepFailure> {
    let workspace = Workspace::locate().in_step("start")?;
    setup::run(&workspace, setup::Rerun::Stale)
}
