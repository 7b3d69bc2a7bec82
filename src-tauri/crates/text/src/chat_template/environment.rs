//! What `transformers` adds to plain Jinja for chat templates.
//!
//! Source: `transformers` `utils/chat_template_utils.py` (`_compile_jinja_template`): `trim_blocks`, `lstrip_blocks`,
//! loop controls, `raise_exception`, `strftime_now`, and a `tojson` without HTML escapes.

use std::{borrow::Cow, error::Error as _, fmt};

use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Value,
    value::{Kwargs, ValueKind},
};

use super::{python_json, python_methods, python_values};

/// What a template passed to `raise_exception`.
#[derive(Debug)]
struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

pub(super) fn new() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(python_methods::call);
    environment.set_formatter(|out, _, value| match value.as_str() {
        Some(text) => Ok(out.write_str(text)?),
        None => Ok(out.write_str(&python_values::display(value)?)?),
    });
    environment.add_function("raise_exception", raise_exception);
    environment.add_filter("tojson", to_json);
    environment.add_filter("string", |value: &Value| python_values::display(value));
    environment.add_filter("trim", |text: Cow<'_, str>, characters: Option<Cow<'_, str>>| {
        python_methods::strip(&text, characters.as_deref()).to_owned()
    });
    environment.add_filter("join", join);
    // Everything with a length and an order of items, as Jinja has it.
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map)
    });
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    environment
}

/// The words of `raise_exception`, wherever in the chain of causes they are.
pub(super) fn refusal(error: &Error) -> Option<String> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(Refusal(message)) = error.downcast_ref() {
            return Some(message.clone());
        }
        cause = error.source();
    }
    None
}

/// Replaces `{% generation %}` blocks, which mark text for training only, by blocks that always render.
pub(super) fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(open) = rest.find("{%") {
        let (before, tag_on) = rest.split_at(open);
        out.push_str(before);
        let Some(close) = tag_on.find("%}") else { break };
        let (tag, after) = tag_on.split_at(close + 2);
        let replacement = match tag.trim_matches(['{', '%', '}', '-', '+']).trim() {
            "generation" => Some("if true"),
            "endgeneration" => Some("endif"),
            _ => None,
        };
        match replacement {
            Some(word) => {
                out.push_str(&tag.replace("endgeneration", "generation").replace("generation", word))
            }
            None => out.push_str(tag),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, "the template raised an exception")
        .with_source(Refusal(message)))
}

fn join(items: Value, separator: Option<Cow<'_, str>>, options: Kwargs) -> Result<String, Error> {
    let attribute: Option<String> = options.get("attribute")?;
    let separator =
        separator.map_or_else(|| options.get::<Option<String>>("d"), |given| Ok(Some(given.into_owned())))?;
    options.assert_all_used()?;
    let separator = separator.unwrap_or_default();
    match attribute {
        None => python_methods::join(items, &separator),
        Some(name) => {
            let values = items.try_iter()?.map(|item| item.get_attr(&name)).collect::<Result<Vec<_>, _>>()?;
            python_methods::join(Value::from(values), &separator)
        }
    }
}

fn to_json(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let sort_keys = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    let separators: Option<Vec<String>> = options.get("separators")?;
    // Accepted and ignored: text is never escaped to ASCII here, as in `transformers`.
    let _: Option<bool> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    let bad = |error| Error::new(ErrorKind::BadSerialization, "tojson: not a JSON value").with_source(error);
    let json = serde_json::to_value(value).map_err(bad)?;
    let style = python_json::Style::new(indent, separators);
    Ok(Value::from_safe_string(python_json::write(&json, sort_keys, style)))
}
