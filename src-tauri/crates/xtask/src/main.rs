//! `cargo xtask`: the only commands a person types. Sets up a machine, runs the app, runs the tests, measures.
//!
//! Compiles first on a fresh machine, so it depends on little and on no other crate of the workspace.
//! [`setup`] fills `.mlx/`; [`app`], [`test`] and [`bench`] start from there; [`virtual_display`] holds the contract
//! with the scripts that drive the app. Every failure names its step, its cause and the next move.

mod app;
mod arrows;
mod bench;
mod cli;
mod error;
mod exec;
mod licences;
mod setup;
mod stamp;
mod test;
mod ui;
mod virtual_display;
mod workspace;

use std::{env, process::ExitCode};

use cli::Command;
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
    let command = cli::parse(env::args_os().skip(1)).in_step("command line")?;
    let workspace = Workspace::locate().in_step("start")?;
    match command {
        Command::Help => {
            print!("{}", cli::HELP);
            Ok(())
        }
        Command::Setup(rerun) => {
            setup::run(&workspace, setup::Purpose::Tests, rerun)?;
            eprintln!("setup: everything is in place");
            Ok(())
        }
        Command::App(options) => app::run_app(&workspace, &options),
        Command::Test(options) => test::run_tests(&workspace, &options),
        Command::Bench(args) => bench::run_bench(&workspace, &args),
    }
}
