//! bindings.rs: what mlx-sys's own build script would make of mlx-c's headers.

use std::{fs, path::Path};

use super::{Outcome, mlx::MlxSys};
use crate::{error::XtaskError, stamp::Fingerprint, workspace::Workspace};

/// mlx-rs expects the half types of ARM: `float16_t` as bindgen's one-field struct, `bfloat16_t` as `u16`.
const PRELUDE: &str = "// Written by `cargo xtask setup`.
#include <stdint.h>
#define HAS_FLOAT16
#define HAS_BFLOAT16
typedef __fp16 float16_t;
typedef uint16_t bfloat16_t;
";

/// As in mlx-sys's build script; its crate compiles from this Rust on.
const RUST_TARGET: &str = "1.73.0";

/// Generates `.mlx/lib/bindings.rs`.
pub fn generate(workspace: &Workspace) -> Result<Outcome, XtaskError> {
    let mlx_sys = MlxSys::find(workspace.metadata()?)?;
    let lib = workspace.mlx_dir().join("lib");
    let stamps = workspace.stamps();
    let bindings = lib.join("bindings.rs");
    let fingerprint = fingerprint(&mlx_sys);
    if stamps.is_current("bindings", &fingerprint, std::slice::from_ref(&bindings)) {
        return Ok(Outcome::AlreadyDone);
    }
    let prelude = lib.join("half_types.h");
    fs::write(&prelude, PRELUDE).map_err(XtaskError::io(&prelude))?;
    let headers = headers(&mlx_sys.mlx_c)?;
    let text = builder(&mlx_sys.mlx_c, &prelude, &headers)?.generate()?.to_string();
    fs::write(&bindings, text).map_err(XtaskError::io(&bindings))?;
    stamps.set("bindings", &fingerprint)?;
    Ok(Outcome::Done(format!("bindings of {} headers", headers.len())))
}

/// What bindings.rs is made of.
pub fn fingerprint(mlx_sys: &MlxSys) -> String {
    Fingerprint::default()
        .with("mlx-sys", &mlx_sys.version)
        .with("rust target", RUST_TARGET)
        .with("prelude", PRELUDE)
        .finish()
}

fn headers(mlx_c: &Path) -> Result<Vec<String>, XtaskError> {
    let folder = mlx_c.join("mlx/c");
    let mut headers = Vec::new();
    for entry in fs::read_dir(&folder).map_err(XtaskError::io(&folder))? {
        let path = entry.map_err(XtaskError::io(&folder))?.path();
        if path.extension().is_some_and(|extension| extension == "h") {
            headers.push(path.to_string_lossy().into_owned());
        }
    }
    headers.sort();
    Ok(headers)
}

fn builder(mlx_c: &Path, prelude: &Path, headers: &[String]) -> Result<bindgen::Builder, XtaskError> {
    let rust_target =
        RUST_TARGET.parse().map_err(|_| XtaskError::Usage(format!("bad Rust target {RUST_TARGET}")))?;
    Ok(bindgen::Builder::default()
        .rust_target(rust_target)
        .clang_arg(format!("-I{}", mlx_c.display()))
        .clang_args(["-include", &prelude.to_string_lossy()])
        .blocklist_function("malloc")
        .blocklist_function("realloc")
        .formatter(bindgen::Formatter::None)
        .headers(headers.iter().cloned()))
}
