//! `cargo xtask bench`: builds the benchmark and its peers and runs it.

use std::ffi::OsString;

use crate::{
    error::{InStep as _, StepFailure},
    exec::{command, run},
    setup::{self, Purpose, Rerun, peer_python, starter_model},
    workspace::Workspace,
};

/// Sets up, builds the benchmark in release and runs it where the person stands, with their arguments.
///
/// It gets `BRAID_STARTER_MODEL` (the model's folder) and `BRAID_PEER_PYTHON` (a Python with mlx-lm on the same MLX).
///
/// # Errors
/// The step that failed.
pub fn run_bench(workspace: &Workspace, args: &[OsString]) -> Result<(), StepFailure> {
    setup::run(workspace, Purpose::Bench, Rerun::Stale)?;
    setup::install_peers(workspace)?;
    run(&mut workspace.cargo(["build", "--release", "--package", "bench"])).in_step("benchmark build")?;
    let program = workspace.target_dir().join("release/bench");
    let mut bench = command(&program.to_string_lossy(), args);
    bench
        .env("BRAID_STARTER_MODEL", starter_model(workspace))
        .env("BRAID_PEER_PYTHON", peer_python(workspace));
    if cfg!(target_os = "linux") {
        // MLX's compiler calls g++ at run time on the CPU, in the peers too.
        bench.env("MLX_DISABLE_COMPILE", "1");
    }
    run(&mut bench).in_step("benchmark")
}
