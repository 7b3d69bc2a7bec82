//! JSON as Python's `json.dumps` spaces it: models were trained on exactly these characters.

use serde_json::Value;

use super::metering::MAX_TEXT_BYTES;

/// Spacing of `json.dumps`.
pub(super) struct Style {
    indent: Option<usize>,
    item: String,
    key: String,
}

impl Style {
    /// `separators` is Python's pair of item and key separator, if given.
    pub(super) fn new(indent: Option<usize>, separators: Option<Vec<String>>) -> Self {
        let default_item = if indent.is_some() { "," } else { ", " };
        match separators.as_deref() {
            Some([item, key]) => Self { indent, item: item.clone(), key: key.clone() },
            _ => Self { indent, item: default_item.to_string(), key: ": ".to_string() },
        }
    }
}

/// `None` if the text would be longer than a template may make.
pub(super) fn write(value: &Value, sort_keys: bool, style: &Style) -> Option<String> {
    let mut out = String::new();
    append(value, sort_keys, style, 0, &mut out)?;
    Some(out)
}

fn append(value: &Value, sort_keys: bool, style: &Style, depth: usize, out: &mut String) -> Option<()> {
    if out.len() > MAX_TEXT_BYTES {
        return None;
    }
    match value {
        Value::Array(items) if !items.is_empty() => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                separate(index, style, depth + 1, out);
                append(item, sort_keys, style, depth + 1, out)?;
            }
            new_line(style, depth, out);
            out.push(']');
        }
        Value::Object(entries) if !entries.is_empty() => {
            let mut entries: Vec<_> = entries.iter().collect();
            if sort_keys {
                entries.sort_by_key(|(key, _)| *key);
            }
            out.push('{');
            for (index, (key, item)) in entries.into_iter().enumerate() {
                separate(index, style, depth + 1, out);
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push_str(&style.key);
                append(item, sort_keys, style, depth + 1, out)?;
            }
            new_line(style, depth, out);
            out.push('}');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
    Some(())
}

fn separate(index: usize, style: &Style, depth: usize, out: &mut String) {
    if index > 0 {
        out.push_str(&style.item);
    }
    new_line(style, depth, out);
}

fn new_line(style: &Style, depth: usize, out: &mut String) {
    if let Some(indent) = style.indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent * depth));
    }
}
