//! Lists model folders by their headers, without reading weights.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    ModelHubError, WeightHeaders,
    headers::{WEIGHTS, WEIGHTS_INDEX},
    json,
};

const CONFIG: &str = "config.json";

/// A model that can be loaded, as far as its headers tell.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFolder {
    /// Name of the folder: unique under its root and stable.
    pub id: String,
    /// Name to show: `name` in `config.json`, else the folder's.
    pub name: String,
    /// The folder.
    pub path: PathBuf,
    /// Size of all weight files, in bytes.
    pub bytes: u64,
    /// `model_type` in `config.json`, for example `llama`.
    pub architecture: String,
    /// How weights are stored, in words, for example `4-bit, group 32` or `float16`.
    pub quantisation: String,
    /// Longest context that the model was made for, in tokens, if the folder says.
    pub context_tokens: Option<u64>,
    /// Licence identifier, if the folder says.
    pub licence: Option<String>,
}

/// One folder under a root: a model, or what is left of one.
#[derive(Debug)]
pub enum CatalogEntry {
    /// Headers are sound and files have their full length.
    Usable(ModelFolder),
    /// Looks like a model but cannot be loaded.
    Broken {
        /// Name of the folder.
        id: String,
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: ModelHubError,
    },
}

/// Lists the model folders directly under each root, by id. Folders without a model file and `.part` folders are no
/// models; roots that do not exist are empty.
///
/// # Errors
/// [`ModelHubError::Read`] if a root exists but cannot be listed.
pub fn list_models(roots: &[PathBuf]) -> Result<Vec<CatalogEntry>, ModelHubError> {
    let mut entries = Vec::new();
    for root in roots {
        let failed = |source| ModelHubError::Read { path: root.clone(), source };
        let folders = match fs::read_dir(root) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            listing => listing.map_err(failed)?,
        };
        for folder in folders {
            let path = folder.map_err(failed)?.path();
            let Some(id) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if !path.is_dir() || id.ends_with(".part") || !looks_like_a_model(&path) {
                continue;
            }
            let id = id.to_string();
            entries.push(match read_folder(&id, &path) {
                Ok(model) => CatalogEntry::Usable(model),
                Err(reason) => CatalogEntry::Broken { id, path, reason },
            });
        }
    }
    entries.sort_by(|a, b| entry_path(a).cmp(entry_path(b)));
    Ok(entries)
}

fn entry_path(entry: &CatalogEntry) -> &Path {
    match entry {
        CatalogEntry::Usable(model) => &model.path,
        CatalogEntry::Broken { path, .. } => path,
    }
}

fn looks_like_a_model(folder: &Path) -> bool {
    [CONFIG, WEIGHTS, WEIGHTS_INDEX, "tokenizer.json"].iter().any(|name| folder.join(name).exists())
}

fn read_folder(id: &str, path: &Path) -> Result<ModelFolder, ModelHubError> {
    let incomplete =
        |what: &str| ModelHubError::Incomplete { path: path.to_path_buf(), what: what.to_string() };
    for name in [CONFIG, "tokenizer.json"] {
        if !path.join(name).exists() {
            return Err(incomplete(name));
        }
    }
    let config: Value = json::read(&path.join(CONFIG), json::CONFIG_BYTES_MAX)?;
    let architecture =
        config["model_type"].as_str().ok_or_else(|| incomplete("\"model_type\" in config.json"))?;
    let headers = WeightHeaders::read(path)?;
    Ok(ModelFolder {
        id: id.to_string(),
        name: config["name"].as_str().unwrap_or(id).to_string(),
        path: path.to_path_buf(),
        bytes: headers.file_bytes,
        architecture: architecture.to_string(),
        quantisation: quantisation(&config),
        context_tokens: config["max_position_embeddings"].as_u64(),
        licence: config["license"].as_str().map(str::to_string),
    })
}

fn quantisation(config: &Value) -> String {
    let quantization = &config["quantization"];
    match (quantization["bits"].as_u64(), quantization["group_size"].as_u64()) {
        (Some(bits), Some(group)) => format!("{bits}-bit, group {group}"),
        _ => config["torch_dtype"].as_str().or(config["dtype"].as_str()).unwrap_or("unquantised").to_string(),
    }
}
