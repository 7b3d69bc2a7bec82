//! What `transformers` adds to plain Jinja for chat templates.
//!
//! Source: `transformers` `utils/chat_template_utils.py` (`_compile_jinja_template`): `trim_blocks`, `lstrip_blocks`,
//! loop controls, `raise_exception`, `strftime_now`, and a `tojson` without HTML escapes.

use std::{borrow::Cow, error::Error as _, fmt};

use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, State, Value, filters,
    value::{Kwargs, Rest, ValueKind, from_args},
};

use super::{metering, python_json, python_methods, python_values};

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
    // Every value is text by now: see the meter.
    environment.set_formatter(|out, _, value| Ok(out.write_str(value.as_str().unwrap_or_default())?));
    metering::install(&mut environment);
    environment.add_function("raise_exception", raise_exception);
    environment.add_filter("tojson", to_json);
    environment.add_filter("string", |state: &State, value: &Value| python_values::display(state, value));
    environment.add_filter("pprint", |state: &State, value: &Value| python_values::display(state, value));
    environment.add_filter(
        "replace",
        |state: &State, text: Cow<'_, str>, old: &str, new: &str, most: Option<i64>| {
            python_methods::replace(state, &text, old, new, most)
        },
    );
    environment.add_filter("indent", indent);
    environment.add_filter("format", |state: &State, format: &Value, given: Rest<Value>| {
        python_methods::check_widths(format.as_str().unwrap_or_default())?;
        filters::format(state, format, given)
    });
    environment.add_filter("batch", |state: &State, items: Value, count: usize, fill: Option<Value>| {
        filters::batch(state, items, at_most(count)?, fill)
    });
    environment.add_filter("slice", |state: &State, items: Value, count: usize, fill: Option<Value>| {
        filters::slice(state, items, at_most(count)?, fill)
    });
    // Jinja has none of these.
    for name in ["split", "lines", "zip", "chain", "bool"] {
        environment.remove_filter(name);
    }
    environment.remove_global("debug");
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
    cause(error, |error| error.downcast_ref().map(|Refusal(message)| message.clone()))
}

/// What the meter refused, wherever in the chain of causes it is.
pub(super) fn exceeded(error: &Error) -> Option<metering::Exceeded> {
    cause(error, |error| error.downcast_ref().copied())
}

fn cause<T>(error: &Error, find: impl Fn(&(dyn std::error::Error + 'static)) -> Option<T>) -> Option<T> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(found) = find(error) {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, "the template raised an exception")
        .with_source(Refusal(message)))
}

/// A number of pieces that is not too large to make.
fn at_most(count: usize) -> Result<usize, Error> {
    if count <= 100_000 { Ok(count) } else { Err(metering::Exceeded::Memory.into()) }
}

fn indent(state: &State, text: Cow<'_, str>, given: Rest<Value>) -> Result<String, Error> {
    let (width, first, blank, options): (Option<Value>, Option<bool>, Option<bool>, Kwargs) =
        from_args(&given)?;
    let width = width.map_or_else(|| options.get::<Option<Value>>("width"), |given| Ok(Some(given)))?;
    let first = first.or(options.get("first")?).unwrap_or(false);
    let blank = blank.or(options.get("blank")?).unwrap_or(false);
    options.assert_all_used()?;
    let margin = match width {
        None => " ".repeat(4),
        Some(width) => match (width.as_str(), width.as_usize()) {
            (Some(margin), _) => margin.to_owned(),
            (None, width) => " ".repeat(at_most(width.unwrap_or(0))?),
        },
    };
    let lines = text.split('\n').count();
    metering::charge(state, text.len().saturating_add(lines.saturating_mul(margin.len())))?;
    let mut out = String::with_capacity(text.len());
    for (index, line) in text.split('\n').enumerate() {
        out.push_str(if index > 0 { "\n" } else { "" });
        let is_indented = if index == 0 { first } else { blank || !line.is_empty() };
        out.push_str(if is_indented { &margin } else { "" });
        out.push_str(line);
    }
    Ok(out)
}

fn join(
    state: &State,
    items: Value,
    separator: Option<Cow<'_, str>>,
    options: Kwargs,
) -> Result<String, Error> {
    let attribute: Option<String> = options.get("attribute")?;
    let separator =
        separator.map_or_else(|| options.get::<Option<String>>("d"), |given| Ok(Some(given.into_owned())))?;
    options.assert_all_used()?;
    let separator = separator.unwrap_or_default();
    match attribute {
        None => python_methods::join(state, items, &separator),
        Some(name) => {
            let values = items.try_iter()?.map(|item| item.get_attr(&name)).collect::<Result<Vec<_>, _>>()?;
            python_methods::join(state, Value::from(values), &separator)
        }
    }
}

fn to_json(state: &State, value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let sort_keys = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    let separators: Option<Vec<String>> = options.get("separators")?;
    // Accepted and ignored: text is never escaped to ASCII here, as in `transformers`.
    let _: Option<bool> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    let bad = |error| Error::new(ErrorKind::BadSerialization, "tojson: not a JSON value").with_source(error);
    let json = serde_json::to_value(value).map_err(bad)?;
    let style = python_json::Style::new(indent.map(at_most).transpose()?, separators);
    let text = python_json::write(&json, sort_keys, &style).ok_or(metering::Exceeded::Memory)?;
    metering::charge(state, text.len())?;
    Ok(Value::from_safe_string(text))
}
