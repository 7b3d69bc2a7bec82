//! What can go wrong in a step, why, and what to do next.

use std::{fmt, io, path::PathBuf, process::ExitStatus};

/// Why a step failed. [`XtaskError::next_move`] says what the person can do about it.
#[derive(Debug, thiserror::Error)]
pub enum XtaskError {
    #[error("cannot start `{program}`: {source}")]
    Spawn { program: String, source: io::Error },
    #[error("`{command}` ended with {status}{tail}")]
    CommandFailed { command: String, status: ExitStatus, tail: String },
    #[error("{path}: {source}", path = path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("these system packages are missing: {}", packages.join(" "))]
    MissingPackages { packages: Vec<String>, install_line: String },
    #[error("this system has no dpkg, and its packages are not known here (needed: {})", needed.join(" "))]
    UnknownSystem { needed: Vec<String> },
    #[error("{system} on {architecture} is not supported")]
    UnsupportedPlatform { system: &'static str, architecture: &'static str },
    #[error("{tool} {minimum} or newer is needed, found {found}")]
    OldTool { tool: &'static str, minimum: String, found: String, install: &'static str },
    #[error("{tool} was not found on PATH")]
    MissingTool { tool: &'static str, install: &'static str },
    #[error("{path}: sha256 is {found}, expected {expected}", path = path.display())]
    Checksum { path: PathBuf, found: String, expected: &'static str },
    #[error("mlx-sys {crate_version} is written for MLX {wanted}, setup installs MLX {installed}")]
    MlxVersion { crate_version: String, wanted: String, installed: &'static str },
    #[error("{what} is missing from {place}")]
    Absent { what: String, place: String },
    #[error("{what} could not be read as JSON: {source}")]
    Json { what: String, source: serde_json::Error },
    #[error("bindgen: {0}")]
    Bindgen(#[from] bindgen::BindgenError),
    #[error("no display to open a window on (DISPLAY and WAYLAND_DISPLAY are unset)")]
    NoDisplay,
    #[error("macOS has no WebDriver for the webview of a Tauri app")]
    NoWebDriver,
    #[error("{program} did not answer on {what} within {seconds} s{tail}")]
    NotListening { program: &'static str, what: String, seconds: u64, tail: String },
    #[error("dependencies that the design forbids:\n    {}", crossed.join("\n    "))]
    Arrows { crossed: Vec<String> },
    #[error("{failed} of {total} steps failed")]
    StepsFailed { failed: usize, total: usize },
    #[error("{0}")]
    Usage(String),
}

impl XtaskError {
    /// Wraps an I/O error with the path it happened on.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }

    /// One sentence: the next thing to try.
    pub fn next_move(&self) -> String {
        match self {
            Self::Spawn { program, .. } => {
                format!("install `{program}` or put it on PATH, then run the same command again")
            }
            Self::CommandFailed { .. } => {
                "read the output above, mend what it names, then run the same command again".into()
            }
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free some disk space (setup and a build need about 12 GB), then run the same command again"
                    .into()
            }
            Self::Io { path, .. } => format!("check that {} can be read and written", path.display()),
            Self::MissingPackages { install_line, .. } => {
                format!("run this line once, then the same command again:\n    {install_line}")
            }
            Self::UnknownSystem { .. } => {
                "use Debian 12 or newer, a current Ubuntu, or macOS; on another Linux install what these \
                 packages hold and set BRAID_SKIP_SYSTEM_PACKAGES=1"
                    .into()
            }
            Self::UnsupportedPlatform { .. } => "use Linux on x86-64, or macOS on Apple silicon".into(),
            Self::OldTool { install, .. } | Self::MissingTool { install, .. } => (*install).into(),
            Self::Checksum { path, .. } => format!(
                "the download is damaged or was replaced upstream: delete {} and run the same command again; \
                 if it repeats, do not use the file",
                path.display()
            ),
            Self::MlxVersion { .. } => {
                "pin mlx-sys and the wheel in src-tauri/crates/xtask/src/setup/mlx.rs to the same MLX".into()
            }
            Self::Absent { .. } | Self::Json { .. } => {
                "run `cargo xtask setup --force` to rebuild what setup made".into()
            }
            Self::Bindgen(_) => "check that libclang-dev is installed, then run `cargo xtask setup`".into(),
            Self::NoDisplay => {
                "run `cargo xtask app --headless`: the same app in a virtual display, driven by a script"
                    .into()
            }
            Self::NoWebDriver => "run `cargo xtask app`: the app opens on the screen".into(),
            Self::NotListening { .. } => {
                "run the same command again; if it repeats, look at the logs under target/headless".into()
            }
            Self::Arrows { .. } => {
                "move the code to the crate that may depend on it; the allowed arrows are in \
                 src-tauri/crates/xtask/src/arrows.rs"
                    .into()
            }
            Self::StepsFailed { .. } => {
                "start with the first step that failed: `cargo xtask test --only STEP` runs it alone".into()
            }
            Self::Usage(_) => "`cargo xtask help` lists the commands".into(),
        }
    }
}

/// A failed step, as a person reads it: step, cause, next move.
#[derive(Debug)]
pub struct StepFailure {
    pub step: &'static str,
    pub error: XtaskError,
}

impl fmt::Display for StepFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "failed: {}", self.step)?;
        writeln!(f, " cause: {}", self.error)?;
        write!(f, "  next: {}", self.error.next_move())
    }
}

/// Names the step that an error ended.
pub trait InStep<T> {
    fn in_step(self, step: &'static str) -> Result<T, StepFailure>;
}

impl<T> InStep<T> for Result<T, XtaskError> {
    fn in_step(self, step: &'static str) -> Result<T, StepFailure> {
        self.map_err(|error| StepFailure { step, error })
    }
}
