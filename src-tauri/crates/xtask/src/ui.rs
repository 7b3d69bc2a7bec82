//! The interface: its npm packages and its build.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    error::XtaskError,
    exec::{capture, command, run},
    setup::{Outcome, announce},
    stamp::Fingerprint,
    workspace::Workspace,
};

/// What the build reads, below `ui/`.
const SOURCES: [&str; 8] = [
    "src",
    "public",
    "index.html",
    "package.json",
    "package-lock.json",
    "vite.config.ts",
    "svelte.config.js",
    "tsconfig.json",
];

/// `npm ci`, when the lock file changed since the last one.
pub fn install(workspace: &Workspace) -> Result<Outcome, XtaskError> {
    let ui = workspace.ui_dir();
    let stamps = workspace.stamps();
    let node = capture(&mut command("node", ["--version"]))?;
    let fingerprint = Fingerprint::default()
        .with("place", &ui.to_string_lossy())
        .with("node", node.trim())
        .with_file(&ui.join("package-lock.json"))?
        .finish();
    if stamps.is_current("ui-packages", &fingerprint, &[ui.join("node_modules/.package-lock.json")]) {
        return Ok(Outcome::AlreadyDone);
    }
    announce("installing the UI's npm packages");
    run(&mut npm(workspace, ["ci", "--no-audit", "--no-fund"]))?;
    stamps.set("ui-packages", &fingerprint)?;
    Ok(Outcome::Done("npm packages in ui/node_modules".into()))
}

/// `npm run build` into `ui/dist`, when a source changed: the app embeds it, so a new one rebuilds the app.
pub fn build(workspace: &Workspace) -> Result<Outcome, XtaskError> {
    let ui = workspace.ui_dir();
    let stamps = workspace.stamps();
    let mut fingerprint = Fingerprint::default();
    for file in files_below(&ui, &SOURCES)? {
        let name = file.strip_prefix(&ui).unwrap_or(&file).to_string_lossy().into_owned();
        fingerprint = fingerprint.with("name", &name).with_file(&file)?;
    }
    let fingerprint = fingerprint.finish();
    let index = ui.join("dist/index.html");
    let made = Made { sources: &fingerprint, index: &index };
    if made.is_current(&stamps.get("ui-build"))? {
        return Ok(Outcome::AlreadyDone);
    }
    run(&mut npm(workspace, ["run", "build"]))?;
    stamps.set("ui-build", &made.stamp()?)?;
    Ok(Outcome::Done("UI in ui/dist".into()))
}

/// npm in `ui/`.
pub fn npm<'a>(workspace: &Workspace, args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut npm = command("npm", args);
    npm.current_dir(workspace.ui_dir());
    npm
}

/// A build of the UI: its sources and its entry page, whose script names change with every other build.
struct Made<'a> {
    sources: &'a str,
    index: &'a Path,
}

impl Made<'_> {
    fn stamp(&self) -> Result<String, XtaskError> {
        Ok(Fingerprint::default().with("sources", self.sources).with_file(self.index)?.finish())
    }

    /// False too when another build (of the tests, say) wrote the same folder since.
    fn is_current(&self, stamp: &str) -> Result<bool, XtaskError> {
        Ok(self.index.is_file() && self.stamp()? == stamp)
    }
}

/// The files at and below the given names that exist, sorted.
fn files_below(folder: &Path, names: &[&str]) -> Result<Vec<PathBuf>, XtaskError> {
    let mut files = Vec::new();
    let mut open: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
    while let Some(path) = open.pop() {
        if path.is_file() {
            files.push(path);
        } else if path.is_dir() {
            for entry in fs::read_dir(&path).map_err(XtaskError::io(&path))? {
                open.push(entry.map_err(XtaskError::io(&path))?.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ui_build_is_stale_once_a_source_or_the_result_changes() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let index = folder.path().join("index.html");
        fs::write(&index, "one").expect("a writable folder");
        let made = Made { sources: "a", index: &index };
        let stamp = made.stamp().expect("readable");
        assert!(made.is_current(&stamp).expect("readable"));
        assert!(!Made { sources: "b", index: &index }.is_current(&stamp).expect("readable"));
        fs::write(&index, "two").expect("a writable folder");
        assert!(!made.is_current(&stamp).expect("readable"), "another build wrote the folder");
    }

    #[test]
    fn sources_are_found_at_any_depth_and_in_order() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir_all(folder.path().join("src/b")).expect("a writable folder");
        for name in ["src/b/c.ts", "src/a.ts", "other.ts", "index.html"] {
            fs::write(folder.path().join(name), "x").expect("a writable folder");
        }
        let found = files_below(folder.path(), &["src", "index.html", "absent"]).expect("readable");
        let names: Vec<_> =
            found.iter().map(|file| file.strip_prefix(folder.path()).expect("below")).collect();
        assert_eq!(names, ["index.html", "src/a.ts", "src/b/c.ts"].map(Path::new));
    }
}
