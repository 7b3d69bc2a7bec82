use std::{fs, io::Read as _, path::Path};

use serde_json::Value;

use super::CONFIG;
use crate::{ModelHubError, json};

/// A README's first lines say the licence; nothing below is read.
const README_BYTES: u64 = 16 << 10;

/// What a folder says of its model.
pub(super) struct ConfigFacts {
    pub(super) architecture: String,
    pub(super) quantisation: String,
    pub(super) context_tokens: Option<u64>,
    pub(super) licence: Option<String>,
}

impl ConfigFacts {
    pub(super) fn read(folder: &Path) -> Result<Self, ModelHubError> {
        let config: Value = json::read(&folder.join(CONFIG), json::CONFIG_BYTES_MAX)?;
        // Models that also see or hear keep what belongs to the text in here.
        let text = &config["text_config"];
        let architecture =
            config["model_type"].as_str().or(text["model_type"].as_str()).ok_or_else(|| {
                let what = "\"model_type\" in config.json".to_string();
                ModelHubError::Incomplete { path: folder.to_path_buf(), what }
            })?;
        let context = |config: &Value| config["max_position_embeddings"].as_u64();
        let licence = config["license"].as_str().map(str::to_string);
        Ok(Self {
            architecture: architecture.to_string(),
            quantisation: quantisation(&config, text),
            context_tokens: context(&config).or(context(text)),
            licence: licence.or_else(|| readme_licence(folder)),
        })
    }
}

fn quantisation(config: &Value, text: &Value) -> String {
    let quantization = &config["quantization"];
    let mode = quantization["mode"].as_str().filter(|mode| *mode != "affine");
    let (bits, group) = (quantization["bits"].as_u64(), quantization["group_size"].as_u64());
    match (mode, bits, group) {
        (Some(mode), _, _) => return mode.to_string(),
        (None, Some(bits), Some(group)) => return format!("{bits}-bit, group {group}"),
        _ => {}
    }
    let foreign = &config["quantization_config"];
    match (foreign["quant_method"].as_str(), foreign["bits"].as_u64()) {
        (Some(method), Some(bits)) => return format!("{bits}-bit {method}"),
        (Some(method), None) => return method.to_string(),
        (None, _) => {}
    }
    let dtype =
        |config: &Value| config["torch_dtype"].as_str().or(config["dtype"].as_str()).map(str::to_string);
    dtype(config).or_else(|| dtype(text)).unwrap_or_else(|| "unquantised".to_string())
}

/// `license` in the front matter of the README, as pages of the hub have it.
fn readme_licence(folder: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    fs::File::open(folder.join("README.md")).ok()?.take(README_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines();
    if lines.next()?.trim_end() != "---" {
        return None;
    }
    let licence = lines
        .take_while(|line| line.trim_end() != "---")
        .find_map(|line| line.strip_prefix("license:"))?
        .trim()
        .trim_matches(['"', '\'']);
    (!licence.is_empty()).then(|| licence.to_string())
}
