//! What a model folder says about text outside `tokenizer.json`.

use std::{io, path::Path};

use serde::Deserialize;
use serde_json::Value;

use crate::{TextError, TokenId};

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, TextError> {
    std::fs::read(path).map_err(|source| TextError::Read { path: path.to_path_buf(), source })
}

/// Reads a file that a model folder may lack.
pub(crate) fn read_optional(path: &Path) -> Result<Option<Vec<u8>>, TextError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(TextError::Read { path: path.to_path_buf(), source }),
    }
}

/// Reads a JSON file that a model folder may lack; [`Value::Null`] if it does.
pub(crate) fn read_json(path: &Path) -> Result<Value, TextError> {
    let Some(bytes) = read_optional(path)? else { return Ok(Value::Null) };
    serde_json::from_slice(&bytes).map_err(|source| TextError::Json { path: path.to_path_buf(), source })
}

/// Longest added token; those in use are shorter than a hundred bytes.
const MAX_ADDED_TOKEN_BYTES: usize = 256;

/// Refuses a `tokenizer.json` with an added token that is a text: the library's search for them takes the square of
/// the length of one to build.
pub(crate) fn check_added_tokens(json: &[u8]) -> Result<(), tokenizers::Error> {
    #[derive(Deserialize)]
    struct Added {
        #[serde(default)]
        added_tokens: Value,
    }
    let Added { added_tokens } = serde_json::from_slice(json)?;
    let contents =
        added_tokens.as_array().into_iter().flatten().filter_map(|token| token["content"].as_str());
    match contents.map(str::len).max() {
        Some(bytes) if bytes > MAX_ADDED_TOKEN_BYTES => {
            Err(format!("an added token of {bytes} bytes").into())
        }
        _ => Ok(()),
    }
}

/// End-of-sequence ids from all three files that may name them: models differ in which one is complete.
pub(crate) fn eos_ids(dir: &Path, hf: &tokenizers::Tokenizer) -> Result<Vec<TokenId>, TextError> {
    let mut ids = Vec::new();
    for name in ["generation_config.json", "config.json"] {
        match &read_json(&dir.join(name))?["eos_token_id"] {
            Value::Array(many) => ids.extend(many.iter().filter_map(token_id)),
            one => ids.extend(token_id(one)),
        }
    }
    let config = read_json(&dir.join("tokenizer_config.json"))?;
    ids.extend(token_text(&config["eos_token"]).and_then(|text| hf.token_to_id(text)));
    let mut unique = Vec::new();
    for id in ids {
        if !unique.contains(&id) {
            unique.push(id);
        }
    }
    Ok(unique)
}

/// A token in `tokenizer_config.json`: its text, or an object with the text as `content`.
pub(crate) fn token_text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value["content"].as_str())
}

fn token_id(value: &Value) -> Option<TokenId> {
    value.as_u64().and_then(|id| TokenId::try_from(id).ok())
}
