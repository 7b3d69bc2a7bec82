//! `cargo xtask app`: builds the app and opens it, on the screen or in a virtual display.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    cli::{AppOptions, Profile, Window},
    error::{InStep as _, StepFailure, XtaskError},
    exec::{command, run},
    setup::{self, Purpose, Rerun, starter_model, timed},
    ui,
    virtual_display::{Script, drive},
    workspace::Workspace,
};

/// Sets up, builds and runs the app until its window closes or its script ends.
///
/// # Errors
/// The step that failed.
pub fn run_app(workspace: &Workspace, options: &AppOptions) -> Result<(), StepFailure> {
    let purpose = match &options.window {
        Window::Screen => {
            has_display().in_step("display")?;
            Purpose::App
        }
        Window::Headless { .. } if cfg!(target_os = "macos") => {
            return Err(XtaskError::NoWebDriver).in_step("headless app");
        }
        Window::Headless { .. } => Purpose::Headless,
    };
    setup::run(workspace, purpose, Rerun::Stale)?;
    timed("UI build", || ui::build(workspace))?;
    let app = build(workspace, options.profile).in_step("app build")?;
    match &options.window {
        Window::Screen => run(&mut on_screen(workspace, &app)).in_step("app"),
        Window::Headless { json } => headless(workspace, app, json.as_deref()).in_step("headless app"),
    }
}

fn build(workspace: &Workspace, profile: Profile) -> Result<PathBuf, XtaskError> {
    let mut cargo = workspace.cargo(["build", "--package", "braid", "--bin", "braid"]);
    let folder = match profile {
        Profile::Dev => "debug",
        Profile::Release => {
            cargo.arg("--release");
            "release"
        }
    };
    eprintln!("building Braid ({folder}; minutes the first time)");
    run(&mut cargo)?;
    Ok(workspace.target_dir().join(folder).join("braid"))
}

fn on_screen(workspace: &Workspace, app: &Path) -> Command {
    let mut command = command(&app.to_string_lossy(), [] as [&str; 0]);
    command.env("BRAID_STARTER_MODEL", starter_model(workspace));
    command
}

fn headless(workspace: &Workspace, app: PathBuf, json: Option<&Path>) -> Result<(), XtaskError> {
    // The script runs in ui/; the person named the file from where they are.
    let json = json.map(|path| std::path::absolute(path).map_err(XtaskError::io(path))).transpose()?;
    let out_dir = workspace.target_dir().join("headless");
    let script = Script { path: "e2e/headless.mjs", app, out_dir: out_dir.clone(), json };
    drive(workspace, &script)?;
    eprintln!("screenshots are in {}", out_dir.display());
    Ok(())
}

/// On Linux a window needs an X or Wayland display.
fn has_display() -> Result<(), XtaskError> {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    if cfg!(target_os = "linux") && !is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY") {
        return Err(XtaskError::NoDisplay);
    }
    Ok(())
}
