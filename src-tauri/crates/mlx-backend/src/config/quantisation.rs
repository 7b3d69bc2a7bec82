//! The `quantization` entry of `config.json`.

use crate::mx::ops::Quantisation;
use std::collections::HashMap;

/// Quantisation by tensor prefix; `None` for a matrix that is not quantised.
pub(super) type Overrides = HashMap<String, Option<Quantisation>>;

/// Reads the `quantization` entry: the quantisation of most matrices, and the matrices that differ.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn parse(
    fields: &serde_json::Map<String, serde_json::Value>,
) -> Result<(Option<Quantisation>, Overrides), String> {
    if let Some(mode) = fields.get("mode").and_then(|mode| mode.as_str()).filter(|mode| *mode != "affine") {
        return Err(format!("quantization mode {mode:?} is not supported; only affine is"));
    }
    let default = parse_entry("quantization", fields)?;
    let mut overrides = HashMap::new();
    for (name, value) in fields {
        match value {
            serde_json::Value::Object(entry) => {
                overrides.insert(name.clone(), Some(parse_entry(name, entry)?));
            }
            serde_json::Value::Bool(false) => {
                overrides.insert(name.clone(), None);
            }
            _ => {}
        }
    }
    Ok((Some(default), overrides))
}

fn parse_entry(
    name: &str,
    fields: &serde_json::Map<String, serde_json::Value>,
) -> Result<Quantisation, String> {
    let field = |key: &str| {
        fields
            .get(key)
            .and_then(serde_json::Value::as_i64)
            .ok_or_else(|| format!("{name} has no whole number {key}"))
    };
    let (group_size, bits) = (field("group_size")?, field("bits")?);
    if ![32, 64, 128].contains(&group_size) || ![2, 3, 4, 5, 6, 8].contains(&bits) {
        return Err(format!("{name}: {bits} bits in groups of {group_size} is not supported"));
    }
    Ok(Quantisation { group_size: group_size as i32, bits: bits as i32 })
}
