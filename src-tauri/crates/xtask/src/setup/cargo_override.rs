//! `.mlx/cargo.toml`: tells Cargo what mlx-sys's build script would have told it, so the script never runs.

use std::{fs, path::Path};

use super::{Outcome, bindings, mlx::MlxSys, mlxc};
use crate::{error::XtaskError, stamp::Fingerprint, workspace::Workspace};

/// Writes the override with this checkout's absolute paths; a moved or copied checkout gets a new one.
pub fn write(workspace: &Workspace) -> Result<Outcome, XtaskError> {
    let mlx_sys = MlxSys::find(workspace.metadata()?)?;
    let made_of = Fingerprint::default()
        .with("mlxc", &mlxc::fingerprint(&mlx_sys)?)
        .with("bindings", &bindings::fingerprint(&mlx_sys))
        .finish();
    let text = override_text(&workspace.mlx_dir(), &mlx_sys.mlx_c, &made_of);
    let path = workspace.mlx_dir().join("cargo.toml");
    // Compared by content: rewriting it would not rebuild anything, a changed path must.
    if fs::read_to_string(&path).is_ok_and(|found| found == text) {
        return Ok(Outcome::AlreadyDone);
    }
    fs::write(&path, text).map_err(XtaskError::io(&path))?;
    Ok(Outcome::Done(format!("wrote {}", path.display())))
}

/// `made_of` changes whenever libmlxc.a or bindings.rs does: Cargo then builds mlx-sys again.
///
/// `include` reaches crates that depend on mlx-sys as `DEP_MLX_INCLUDE`, as with the stock build script.
fn override_text(mlx: &Path, mlx_c: &Path, made_of: &str) -> String {
    let lib = mlx.join("lib");
    let include = format!("{}:{}", mlx.join("mlx/include").display(), mlx_c.display());
    format!(
        "# Written by `cargo xtask setup`; made again when this checkout moves.\n\
         [target.x86_64-unknown-linux-gnu.mlx]\n\
         rustc-link-search = [{native_lib}, {native_mlx}]\n\
         rustc-link-lib = [\"static=mlxc\", \"dylib=mlx\", \"dylib=stdc++\"]\n\
         rustc-env = {{ OUT_DIR = {lib} }}\n\
         include = {include}\n\
         made_of = {made_of}\n",
        native_lib = toml_string(&format!("native={}", lib.display())),
        native_mlx = toml_string(&format!("native={}", mlx.join("mlx/lib").display())),
        lib = toml_string(&lib.to_string_lossy()),
        include = toml_string(&include),
        made_of = toml_string(made_of),
    )
}

fn toml_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_override_follows_the_checkout() {
        let here = override_text(Path::new("/one/.mlx"), Path::new("/crate/mlx-c"), "abc");
        let there = override_text(Path::new("/two/.mlx"), Path::new("/crate/mlx-c"), "abc");
        assert_ne!(here, there, "a moved checkout must get a new override");
        assert!(
            here.contains("rustc-link-search = [\"native=/one/.mlx/lib\", \"native=/one/.mlx/mlx/lib\"]")
        );
        assert!(here.contains("rustc-env = { OUT_DIR = \"/one/.mlx/lib\" }"));
        assert!(here.contains("include = \"/one/.mlx/mlx/include:/crate/mlx-c\""));
    }

    #[test]
    fn a_quote_in_the_path_stays_inside_its_string() {
        assert_eq!(toml_string(r#"/a "b"/c"#), r#""/a \"b\"/c""#);
    }
}
