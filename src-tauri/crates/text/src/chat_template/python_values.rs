//! Values as Python writes them: `True`, `None`, `['a', 1.5]`.

use std::fmt::Write as _;

use minijinja::{Error, State, Value, value::ValueKind};

use super::metering::{self, Exceeded, MAX_TEXT_BYTES};

/// Containers within containers that are written; a template can build a container that holds itself.
const MAX_DEPTH: usize = 64;

/// Text of a value, as `str()` has it.
pub(super) fn display(state: &State, value: &Value) -> Result<String, Error> {
    let text = match value.as_str() {
        Some(text) => text.to_owned(),
        None if value.is_undefined() => String::new(),
        None => {
            let mut out = String::new();
            append(value, 0, &mut out)?;
            out
        }
    };
    metering::charge(state, text.len())?;
    Ok(text)
}

/// Appends a value as `repr()` has it.
fn append(value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
    if depth > MAX_DEPTH || out.len() > MAX_TEXT_BYTES {
        return Err(Exceeded::Memory.into());
    }
    match value.kind() {
        ValueKind::None => out.push_str("None"),
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::String => append_string(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (index, item) in value.try_iter()?.enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                append(&item, depth + 1, out)?;
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (index, key) in value.try_iter()?.enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                append(&key, depth + 1, out)?;
                out.push_str(": ");
                append(&value.get_item(&key)?, depth + 1, out)?;
            }
            out.push('}');
        }
        _ => {
            // Writing to a string cannot fail.
            let _ = write!(out, "{value}");
        }
    }
    Ok(())
}

fn append_string(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            other if other == quote => out.extend(['\\', other]),
            other
                if u32::from(other) < 0x20
                    || (0x7F..=0xA0).contains(&u32::from(other))
                    || other == '\u{AD}' =>
            {
                let _ = write!(out, "\\x{:02x}", u32::from(other));
            }
            other => out.push(other),
        }
    }
    out.push(quote);
}
