//! macOS: stock mlx-rs builds MLX with Metal itself; it needs Xcode's tools and CMake.

use super::Outcome;
use crate::{
    error::XtaskError,
    exec::{capture, command},
};

/// Checks for the Metal compiler and CMake.
pub fn check() -> Result<Outcome, XtaskError> {
    let metal = XtaskError::MissingTool {
        tool: "Xcode's Metal compiler",
        install: "install Xcode, open it once, then run `xcodebuild -downloadComponent MetalToolchain`",
    };
    capture(&mut command("xcrun", ["-sdk", "macosx", "metal", "--version"])).map_err(|_| metal)?;
    let cmake =
        XtaskError::MissingTool { tool: "CMake", install: "install CMake, for example `brew install cmake`" };
    capture(&mut command("cmake", ["--version"])).map_err(|_| cmake)?;
    Ok(Outcome::AlreadyDone)
}
