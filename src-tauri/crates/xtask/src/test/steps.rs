//! The steps of `cargo xtask test`.

use std::process::Command;

use super::plan::{Platform, Step};
use crate::{
    arrows,
    error::{InStep as _, StepFailure, XtaskError},
    exec::{capture, run},
    setup::{self, Purpose, Rerun, timed},
    ui::{self, npm},
    virtual_display::{Script, drive},
    workspace::Workspace,
};

/// In the order they run: cheap ones first, then those that share one build of everything.
pub const STEPS: &[Step] = &[
    Step { name: "setup", claim: "the machine is ready", needs: &[], platform: Platform::Any, work: set_up },
    Step { name: "fmt", claim: "the Rust code is formatted", needs: &[], platform: Platform::Any, work: fmt },
    Step {
        name: "arrows",
        claim: "crates depend only on what the design allows",
        needs: &[],
        platform: Platform::Any,
        work: arrows,
    },
    Step {
        name: "ui-check",
        claim: "the UI's types hold (svelte-check)",
        needs: &["setup"],
        platform: Platform::Any,
        work: |w| npm_step(w, "ui-check", "check"),
    },
    Step {
        name: "ui-lint",
        claim: "the UI is linted and formatted (eslint, prettier)",
        needs: &["setup"],
        platform: Platform::Any,
        work: |w| npm_step(w, "ui-lint", "lint"),
    },
    Step {
        name: "vitest",
        claim: "the UI's own tests pass",
        needs: &["setup"],
        platform: Platform::Any,
        work: |w| npm_step(w, "vitest", "test"),
    },
    Step {
        name: "ui-e2e",
        claim: "the UI works in Chromium on the scripted backend (Playwright)",
        needs: &["setup"],
        platform: Platform::Any,
        work: |w| npm_step(w, "ui-e2e", "e2e"),
    },
    Step {
        name: "ui-build",
        claim: "the UI builds for the app",
        needs: &["setup"],
        platform: Platform::Any,
        work: ui_build,
    },
    Step {
        name: "clippy",
        claim: "no lint in any Rust target",
        needs: &["ui-build"],
        platform: Platform::Any,
        work: clippy,
    },
    Step {
        name: "build",
        claim: "every Rust target builds",
        needs: &["ui-build"],
        platform: Platform::Any,
        work: build,
    },
    Step {
        name: "rust-tests",
        claim: "the Rust tests pass",
        needs: &["build"],
        platform: Platform::Any,
        work: rust_tests,
    },
    Step {
        name: "bindings",
        claim: "the generated TypeScript types are those of the Rust code",
        needs: &["build"],
        platform: Platform::Any,
        work: bindings,
    },
    Step {
        name: "peers",
        claim: "mlx-lm's server answers a tab, and OpenAI's own client the local server",
        needs: &["build"],
        platform: Platform::Any,
        work: peers,
    },
    Step {
        name: "real-app",
        claim: "the real app answers with the real model in a virtual display (WebDriver)",
        needs: &["build"],
        platform: Platform::Linux,
        work: real_app,
    },
];

fn set_up(workspace: &Workspace) -> Result<(), StepFailure> {
    setup::run(workspace, Purpose::Tests, Rerun::Stale)
}

fn fmt(workspace: &Workspace) -> Result<(), StepFailure> {
    run(&mut workspace.cargo(["fmt", "--all", "--check"])).in_step("fmt")
}

fn arrows(workspace: &Workspace) -> Result<(), StepFailure> {
    let metadata = workspace.metadata().in_step("arrows")?;
    let crossed = arrows::violations(metadata);
    if crossed.is_empty() {
        return Ok(());
    }
    Err(XtaskError::Arrows { crossed }).in_step("arrows")
}

fn npm_step(workspace: &Workspace, step: &'static str, script: &str) -> Result<(), StepFailure> {
    run(&mut npm(workspace, ["run", script])).in_step(step)
}

fn ui_build(workspace: &Workspace) -> Result<(), StepFailure> {
    timed("ui-build", || ui::build(workspace))
}

fn clippy(workspace: &Workspace) -> Result<(), StepFailure> {
    let args = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
    run(&mut workspace.cargo(args)).in_step("clippy")
}

/// Builds the tests and the programs in one selection, so their dependencies are built once with the same features.
fn build(workspace: &Workspace) -> Result<(), StepFailure> {
    run(&mut workspace.cargo(["build", "--workspace", "--all-targets"])).in_step("build")
}

fn rust_tests(workspace: &Workspace) -> Result<(), StepFailure> {
    let mut cargo = workspace.cargo(["test", "--workspace", "--all-targets", "--no-fail-fast"]);
    cargo.env("BRAID_STARTER_MODEL", setup::starter_model(workspace));
    // MLX's arrays and streams belong to one thread at a time; the engine's own tests are quick.
    cargo.env("RUST_TEST_THREADS", "1");
    run(&mut cargo).in_step("rust-tests")
}

fn bindings(workspace: &Workspace) -> Result<(), StepFailure> {
    let mut cargo = workspace.cargo(["test", "--workspace", "--all-targets", "bindings_are_current"]);
    passing(&mut cargo, &["bindings_are_current"]).in_step("bindings")
}

fn peers(workspace: &Workspace) -> Result<(), StepFailure> {
    setup::install_peers(workspace)?;
    let mut cargo = workspace.cargo(["test", "--workspace", "--all-targets", "peers_", "--", "--ignored"]);
    cargo.env("BRAID_STARTER_MODEL", setup::starter_model(workspace));
    cargo.env("BRAID_PEER_PYTHON", setup::peer_python(workspace)).env("RUST_TEST_THREADS", "1");
    passing(&mut cargo, &["peers_mlx_lms_server", "peers_openais_client"]).in_step("peers")
}

/// Runs tests. Also fails when one of those named is not there: a filter that matches nothing would pass.
fn passing(cargo: &mut Command, tests: &[&str]) -> Result<(), XtaskError> {
    let said = capture(cargo)?;
    for test in tests {
        if !said.lines().any(|line| line.contains(test) && line.ends_with("... ok")) {
            return Err(XtaskError::Absent {
                what: format!("the test {test}"),
                place: "the workspace".into(),
            });
        }
    }
    Ok(())
}

fn real_app(workspace: &Workspace) -> Result<(), StepFailure> {
    let script = Script {
        path: "e2e/real-app.mjs",
        app: workspace.target_dir().join("debug/braid"),
        out_dir: workspace.target_dir().join("real-app"),
        json: None,
    };
    drive(workspace, &script).in_step("real-app")
}
