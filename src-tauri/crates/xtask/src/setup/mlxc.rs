//! mlx-c, MLX's C layer: compiled from the mlx-sys crate's sources against the wheel's headers.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    thread,
};

use super::{Outcome, announce, mlx, mlx::MlxSys};
use crate::{
    error::XtaskError,
    exec::{capture, command},
    stamp::Fingerprint,
    workspace::Workspace,
};

/// Included before each file: what mlx-c takes from newer compilers and from ARM.
const PRELUDE: &str = r#"// Written by `cargo xtask setup`.
#pragma once
#if __has_include(<format>)
#include <format>
#else
#define FMT_HEADER_ONLY
#include <fmt/format.h>
namespace std {
using fmt::format;
}
#endif
#include "mlx/types/half_types.h"
#define HAS_FLOAT16
#define HAS_BFLOAT16
using mlx::core::bfloat16_t;
using mlx::core::float16_t;
"#;

const FLAGS: [&str; 4] = ["-std=c++20", "-O2", "-fPIC", "-w"];

/// Compiles `.mlx/lib/libmlxc.a`.
pub fn build(workspace: &Workspace) -> Result<Outcome, XtaskError> {
    let mlx_sys = MlxSys::find(workspace.metadata()?)?;
    let lib = workspace.mlx_dir().join("lib");
    let stamps = workspace.stamps();
    let archive = lib.join("libmlxc.a");
    let fingerprint = fingerprint(&mlx_sys)?;
    if stamps.is_current("mlxc", &fingerprint, std::slice::from_ref(&archive)) {
        return Ok(Outcome::AlreadyDone);
    }
    let objects = workspace.mlx_dir().join("mlxc-objects");
    fs::create_dir_all(&objects).map_err(XtaskError::io(&objects))?;
    fs::create_dir_all(&lib).map_err(XtaskError::io(&lib))?;
    let prelude = objects.join("prelude.hpp");
    fs::write(&prelude, PRELUDE).map_err(XtaskError::io(&prelude))?;

    let sources = sources(&mlx_sys.mlx_c)?;
    announce(&format!("compiling {} files of mlx-c {}", sources.len(), mlx_sys.version));
    let include = workspace.mlx_dir().join("mlx/include");
    let jobs = sources
        .iter()
        .map(|source| compile(source, &objects, &prelude, &[&mlx_sys.mlx_c, &include]))
        .collect();
    let made = in_parallel(jobs)?;

    // `ar` adds to an archive that is there.
    let partial = lib.join("libmlxc.a.part");
    let _ = fs::remove_file(&partial);
    let mut ar = command("ar", ["crs"]);
    capture(ar.arg(&partial).args(&made))?;
    fs::rename(&partial, &archive).map_err(XtaskError::io(&archive))?;
    fs::remove_dir_all(&objects).map_err(XtaskError::io(&objects))?;
    stamps.set("mlxc", &fingerprint)?;
    Ok(Outcome::Done(format!("{} files of mlx-c {}", sources.len(), mlx_sys.version)))
}

/// What libmlxc.a is made of.
pub fn fingerprint(mlx_sys: &MlxSys) -> Result<String, XtaskError> {
    let compiler = capture(&mut command("c++", ["--version"]))?;
    Ok(Fingerprint::default()
        .with("mlx", &mlx::fingerprint()?)
        .with("mlx-sys", &mlx_sys.version)
        .with("compiler", compiler.lines().next().unwrap_or_default())
        .with("flags", &FLAGS.join(" "))
        .with("prelude", PRELUDE)
        .finish())
}

/// The C++ files, the largest first: the longest compilation then never runs alone at the end.
fn sources(mlx_c: &Path) -> Result<Vec<PathBuf>, XtaskError> {
    let folder = mlx_c.join("mlx/c");
    let mut sources = Vec::new();
    for entry in fs::read_dir(&folder).map_err(XtaskError::io(&folder))? {
        let path = entry.map_err(XtaskError::io(&folder))?.path();
        if path.extension().is_some_and(|extension| extension == "cpp") {
            let bytes = fs::metadata(&path).map_err(XtaskError::io(&path))?.len();
            sources.push((std::cmp::Reverse(bytes), path));
        }
    }
    if sources.is_empty() {
        return Err(XtaskError::Absent { what: "*.cpp".into(), place: folder.display().to_string() });
    }
    sources.sort();
    Ok(sources.into_iter().map(|(_, path)| path).collect())
}

fn compile(source: &Path, objects: &Path, prelude: &Path, includes: &[&Path]) -> (Command, PathBuf) {
    let object = objects.join(source.file_name().unwrap_or_default()).with_extension("o");
    let mut compiler = command("c++", FLAGS);
    compiler.arg("-include").arg(prelude);
    for include in includes {
        compiler.arg("-I").arg(include);
    }
    compiler.arg("-c").arg(source).arg("-o").arg(&object);
    (compiler, object)
}

/// Runs the compilations on every core; the first failure stops the rest.
fn in_parallel(jobs: Vec<(Command, PathBuf)>) -> Result<Vec<PathBuf>, XtaskError> {
    let total = jobs.len();
    let queue = Mutex::new(jobs.into_iter());
    let made = Mutex::new(Vec::with_capacity(total));
    let failure = Mutex::new(None);
    let lanes = thread::available_parallelism().map_or(2, usize::from);
    let lane = || {
        while failure.lock().expect("no lane panics").is_none() {
            let Some((mut compiler, object)) = queue.lock().expect("no lane panics").next() else { return };
            match capture(&mut compiler) {
                Ok(_) => {
                    let mut made = made.lock().expect("no lane panics");
                    made.push(object);
                    eprintln!("setup: mlx-c {}/{total}", made.len());
                }
                Err(error) => *failure.lock().expect("no lane panics") = Some(error),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(lane);
        }
    });
    match failure.into_inner().expect("no lane panics") {
        Some(error) => Err(error),
        None => Ok(made.into_inner().expect("no lane panics")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(script: &str, object: &str) -> (Command, PathBuf) {
        (command("sh", ["-c", script]), object.into())
    }

    #[test]
    fn every_compilation_is_collected() {
        let jobs = (0..9).map(|i| job("true", &format!("{i}.o"))).collect();
        let mut made = in_parallel(jobs).expect("`true` succeeds");
        made.sort();
        assert_eq!(made.len(), 9);
        assert_eq!(made[8], PathBuf::from("8.o"));
    }

    #[test]
    fn one_failed_compilation_fails_the_step_with_its_message() {
        let jobs =
            vec![job("true", "a.o"), job("echo no such header >&2; exit 1", "b.o"), job("true", "c.o")];
        let error = in_parallel(jobs).expect_err("the second one fails");
        assert!(error.to_string().contains("no such header"), "{error}");
    }
}
