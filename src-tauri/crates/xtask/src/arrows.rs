//! Which crate may depend on which: the fences of the design, held against `cargo metadata`.

use std::collections::BTreeSet;

use serde_json::Value;

/// The arrows allowed between crates of the workspace, in normal, build and development dependencies alike.
const ALLOWED: &[(&str, &[&str])] = &[
    ("braid", &["protocol", "engine", "mlx-backend", "text", "model-hub", "history", "openai-api"]),
    ("mlx-backend", &["engine"]),
    ("engine", &["text"]),
    ("bench", &["engine", "mlx-backend", "text", "model-hub"]),
];

/// Heavy dependencies and the one crate that may name each; a name ending in `*` stands for all that start so.
const FENCED: &[(&str, &str)] = &[
    ("mlx-rs", "mlx-backend"),
    ("mlx-sys", "mlx-backend"),
    ("sqlx*", "history"),
    ("tauri", "braid"),
    ("tauri-*", "braid"),
    ("bindgen", "xtask"),
];

/// Every dependency that crosses a fence, as "from -> to: why"; empty if there is none.
pub fn violations(metadata: &Value) -> Vec<String> {
    let members: BTreeSet<&str> =
        metadata["workspace_members"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let packages: Vec<&Value> = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|package| package["id"].as_str().is_some_and(|id| members.contains(id)))
        .collect();
    let names: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut found = BTreeSet::new();
    for package in packages {
        let from = package["name"].as_str().unwrap_or_default();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let to = dependency["name"].as_str().unwrap_or_default();
            if let Some(reason) = crossed(from, to, names.contains(to)) {
                found.insert(format!("{from} -> {to}: {reason}"));
            }
        }
    }
    found.into_iter().collect()
}

fn crossed(from: &str, to: &str, is_member: bool) -> Option<String> {
    if is_member {
        let allowed = ALLOWED.iter().find(|(name, _)| *name == from).map_or(&[][..], |(_, to)| to);
        // A crate may name itself in its development dependencies, to switch on a feature for its tests.
        return (from != to && !allowed.contains(&to)).then(|| "not an allowed arrow".into());
    }
    let owner = FENCED.iter().find(|(pattern, _)| matches(pattern, to)).map(|(_, owner)| *owner)?;
    (owner != from).then(|| format!("only {owner} may name it"))
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workspace(edges: &[(&str, &[&str])]) -> Value {
        let packages: Vec<Value> = edges
            .iter()
            .map(|(name, to)| {
                let dependencies: Vec<Value> = to.iter().map(|name| json!({ "name": name })).collect();
                json!({ "id": name, "name": name, "dependencies": dependencies })
            })
            .collect();
        let members: Vec<&str> = edges.iter().map(|(name, _)| *name).collect();
        json!({ "packages": packages, "workspace_members": members })
    }

    #[test]
    fn the_designed_arrows_pass() {
        let found = violations(&workspace(&[
            ("braid", &["engine", "history", "protocol", "tauri", "tauri-specta"]),
            ("engine", &["text", "engine"]),
            ("mlx-backend", &["engine", "mlx-rs", "mlx-sys"]),
            ("history", &["sqlx"]),
            ("text", &["tokenizers"]),
            ("protocol", &["serde"]),
        ]));
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn an_arrow_against_the_design_is_named() {
        let found = violations(&workspace(&[
            ("engine", &["mlx-backend"]),
            ("history", &["engine"]),
            ("protocol", &["text"]),
            ("xtask", &["model-hub"]),
            ("mlx-backend", &[]),
            ("text", &[]),
            ("model-hub", &[]),
        ]));
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found.iter().any(|line| line.starts_with("engine -> mlx-backend")));
    }

    #[test]
    fn a_heavy_dependency_outside_its_fence_is_named_with_its_owner() {
        let found = violations(&workspace(&[
            ("engine", &["mlx-rs"]),
            ("braid", &["sqlx"]),
            ("text", &["tauri-build"]),
        ]));
        assert_eq!(
            found,
            [
                "braid -> sqlx: only history may name it",
                "engine -> mlx-rs: only mlx-backend may name it",
                "text -> tauri-build: only braid may name it",
            ]
        );
    }

    #[test]
    fn this_workspace_keeps_its_fences() {
        let workspace = crate::workspace::Workspace::locate().expect("the tests run in the workspace");
        let metadata = workspace.metadata().expect("cargo metadata answers");
        let found = violations(metadata);
        assert!(found.is_empty(), "{found:#?}");
    }
}
