//! `ui/public/licences.json`: names, licences and texts of everything that ships with the app.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    error::XtaskError,
    setup::{Outcome, starter_licence},
    stamp::Fingerprint,
    workspace::{Workspace, package, package_dir},
};

/// Changes when this module writes another file from the same inputs.
const FORMAT: &str = "1";

/// One thing that ships. Ordered as in the file: by kind, then name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Component {
    kind: &'static str,
    name: String,
    version: String,
    license: String,
    text: Option<String>,
}

/// Writes the file, when a lock file changed since the last time.
pub fn write(workspace: &Workspace) -> Result<Outcome, XtaskError> {
    let stamps = workspace.stamps();
    let target = workspace.ui_dir().join("public/licences.json");
    let package_lock = workspace.ui_dir().join("package-lock.json");
    let fingerprint = Fingerprint::default()
        .with("format", FORMAT)
        .with_file(&workspace.root().join("Cargo.lock"))?
        .with_file(&package_lock)?
        .with_file(&starter_licence(workspace))?
        .finish();
    if stamps.is_current("licences", &fingerprint, std::slice::from_ref(&target)) {
        return Ok(Outcome::AlreadyDone);
    }
    let metadata = workspace.metadata()?;
    let mut components = rust_components(metadata)?;
    components.extend(npm_components(&read_json(&package_lock)?, &workspace.ui_dir())?);
    components.extend(native_components(workspace, metadata)?);
    components.push(Component {
        kind: "model",
        name: "SmolLM2-135M-Instruct".into(),
        version: "Q4_1".into(),
        license: "Apache-2.0".into(),
        text: Some(read(&starter_licence(workspace))?),
    });
    let count = components.len();
    let text = serde_json::to_string(&file(components))
        .map_err(|source| XtaskError::Json { what: "licences.json".into(), source })?;
    let folder = workspace.ui_dir().join("public");
    fs::create_dir_all(&folder).map_err(XtaskError::io(&folder))?;
    fs::write(&target, text).map_err(XtaskError::io(&target))?;
    stamps.set("licences", &fingerprint)?;
    Ok(Outcome::Done(format!("licences of {count} components")))
}

/// The file's content; equal texts are stored once.
fn file(mut components: Vec<Component>) -> Value {
    components.sort();
    components.dedup();
    let mut ids = BTreeMap::new();
    let mut texts = Vec::new();
    let listed: Vec<Value> = components
        .into_iter()
        .map(|component| {
            let text_id = component.text.map(|text| {
                *ids.entry(text).or_insert_with_key(|text| {
                    texts.push(text.clone());
                    texts.len() - 1
                })
            });
            json!({
                "name": component.name,
                "version": component.version,
                "license": component.license,
                "kind": component.kind,
                "textId": text_id,
            })
        })
        .collect();
    json!({ "components": listed, "texts": texts })
}

/// The crates that the app links: everything reached from `braid` without build scripts, tests and macros.
fn rust_components(metadata: &Value) -> Result<Vec<Component>, XtaskError> {
    let nodes: BTreeMap<&str, &Value> =
        list(&metadata["resolve"]["nodes"]).filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let packages: BTreeMap<&str, &Value> =
        list(&metadata["packages"]).filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let mut open: Vec<&str> = package(metadata, "braid")?["id"].as_str().into_iter().collect();
    let mut seen = BTreeSet::new();
    let mut components = Vec::new();
    while let Some(id) = open.pop() {
        let Some(package) = packages.get(id).filter(|package| !is_macro(package)) else { continue };
        if !seen.insert(id) {
            continue;
        }
        if !package["source"].is_null() {
            components.push(rust_component(package)?);
        }
        let dependencies = nodes.get(id).map(|node| list(&node["deps"])).into_iter().flatten();
        open.extend(dependencies.filter(|dep| is_linked(dep)).filter_map(|dep| dep["pkg"].as_str()));
    }
    Ok(components)
}

fn rust_component(package: &Value) -> Result<Component, XtaskError> {
    let word = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let license = package["license"].as_str().unwrap_or("see text").to_owned();
    let text = texts_in(&package_dir(package))?;
    Ok(Component { kind: "rust", name: word("name"), version: word("version"), license, text })
}

fn is_macro(package: &Value) -> bool {
    list(&package["targets"]).any(|target| list(&target["kind"]).any(|kind| kind == "proc-macro"))
}

fn is_linked(dependency: &Value) -> bool {
    list(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null())
}

/// The npm packages that Vite bundles: those of the lock file that are not only for development.
fn npm_components(lock: &Value, ui: &Path) -> Result<Vec<Component>, XtaskError> {
    let mut components = Vec::new();
    for (place, package) in lock["packages"].as_object().into_iter().flatten() {
        let Some((_, name)) = place.rsplit_once("node_modules/") else { continue };
        if package["dev"] == true || package["optional"] == true {
            continue;
        }
        components.push(Component {
            kind: "npm",
            name: name.to_owned(),
            version: package["version"].as_str().unwrap_or_default().to_owned(),
            license: package["license"].as_str().unwrap_or("see text").to_owned(),
            text: texts_in(&ui.join(place))?,
        });
    }
    Ok(components)
}

/// The libraries that Cargo and npm know nothing of.
fn native_components(workspace: &Workspace, metadata: &Value) -> Result<Vec<Component>, XtaskError> {
    let mlx_sys = package(metadata, "mlx-sys")?;
    let mlx_c = package_dir(mlx_sys).join("src/mlx-c");
    let version = mlx_sys["version"].as_str().unwrap_or_default().to_owned();
    let native = |name: &str, version: String, license: &str, text| Component {
        kind: "native",
        name: name.into(),
        version,
        license: license.into(),
        text,
    };
    let mut components = vec![native("mlx-c", version, "MIT", texts_in(&mlx_c)?)];
    if cfg!(target_os = "linux") {
        let mlx = workspace.mlx_dir().join("mlx-cpu.dist-info/licenses");
        let openblas = PathBuf::from("/usr/share/doc/libopenblas0-pthread/copyright");
        components.push(native("MLX", "0.32.2".into(), "MIT", texts_in(&mlx)?));
        components.push(native("OpenBLAS", "as packaged".into(), "BSD-3-Clause", read(&openblas).ok()));
    } else {
        components.push(native("MLX", "0.32.2".into(), "MIT", texts_in(&mlx_c)?));
    }
    Ok(components)
}

/// The licence files of a package's folder, joined; `None` if it ships none.
fn texts_in(folder: &Path) -> Result<Option<String>, XtaskError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(XtaskError::Io { path: folder.into(), source }),
    };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.is_file() && path.file_name().is_some_and(|name| is_licence(&name.to_string_lossy()))
        })
        .collect();
    files.sort();
    let texts = files.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    Ok((!texts.is_empty()).then(|| texts.join("\n\n")))
}

fn is_licence(file_name: &str) -> bool {
    let name = file_name.to_ascii_uppercase();
    ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"]
        .iter()
        .any(|stem| name.starts_with(stem))
        && !name.ends_with(".HTML")
}

/// Text with the line ends and outer white space made equal, so the same licence is the same text.
fn read(path: &Path) -> Result<String, XtaskError> {
    let bytes = fs::read(path).map_err(XtaskError::io(path))?;
    Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n").trim().to_owned())
}

fn read_json(path: &Path) -> Result<Value, XtaskError> {
    serde_json::from_str(&read(path)?)
        .map_err(|source| XtaskError::Json { what: path.display().to_string(), source })
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(kind: &'static str, name: &str, text: Option<&str>) -> Component {
        let text = text.map(Into::into);
        Component { kind, name: name.into(), version: "1".into(), license: "MIT".into(), text }
    }

    #[test]
    fn equal_texts_are_stored_once_and_no_text_is_null() {
        let written = file(vec![
            component("rust", "b", Some("same")),
            component("npm", "c", None),
            component("rust", "a", Some("same")),
        ]);
        assert_eq!(written["texts"], json!(["same"]));
        let names: Vec<_> = list(&written["components"]).map(|c| c["name"].clone()).collect();
        assert_eq!(names, ["c", "a", "b"], "by kind, then name");
        assert_eq!(written["components"][0]["textId"], Value::Null);
        assert_eq!(written["components"][2]["textId"], json!(0));
    }

    #[test]
    fn only_what_the_app_links_is_listed() {
        let kind = |kind: &str| json!([{ "kind": [kind] }]);
        let metadata = json!({
            "packages": [
                { "id": "braid", "name": "braid", "source": null, "targets": kind("bin"), "manifest_path": "/x/Cargo.toml" },
                { "id": "serde", "name": "serde", "version": "1", "license": "MIT", "source": "r", "targets": kind("lib"), "manifest_path": "/none/Cargo.toml" },
                { "id": "derive", "name": "derive", "version": "1", "source": "r", "targets": kind("proc-macro"), "manifest_path": "/none/Cargo.toml" },
                { "id": "cc", "name": "cc", "version": "1", "source": "r", "targets": kind("lib"), "manifest_path": "/none/Cargo.toml" },
            ],
            "resolve": { "nodes": [
                { "id": "braid", "deps": [
                    { "pkg": "serde", "dep_kinds": [{ "kind": null }] },
                    { "pkg": "derive", "dep_kinds": [{ "kind": null }] },
                    { "pkg": "cc", "dep_kinds": [{ "kind": "build" }] },
                ] },
                { "id": "serde", "deps": [] },
            ] },
        });
        let names: Vec<_> =
            rust_components(&metadata).expect("braid is there").into_iter().map(|c| c.name).collect();
        assert_eq!(names, ["serde"], "no build script, no macro, not the app itself");
    }

    #[test]
    fn development_packages_do_not_ship() {
        let lock = json!({ "packages": {
            "": { "name": "braid-ui" },
            "node_modules/svelte": { "version": "5.0.0", "license": "MIT" },
            "node_modules/@tauri-apps/api": { "version": "2.12.5", "license": "Apache-2.0 OR MIT" },
            "node_modules/vite": { "version": "8.3.8", "license": "MIT", "dev": true },
        } });
        let mut names: Vec<_> = npm_components(&lock, Path::new("/none"))
            .expect("no files are read")
            .into_iter()
            .map(|c| c.name)
            .collect();
        names.sort();
        assert_eq!(names, ["@tauri-apps/api", "svelte"]);
    }

    #[test]
    fn licence_files_are_known_by_name() {
        for name in ["LICENSE", "LICENSE-MIT", "license.md", "COPYING", "UNLICENSE"] {
            assert!(is_licence(name), "{name}");
        }
        for name in ["README.md", "Cargo.toml", "LICENSE.html"] {
            assert!(!is_licence(name), "{name}");
        }
    }
}
