//! Methods of Python's values where `minijinja-contrib` lacks them or counts bytes instead of characters.

use minijinja::{
    Error, ErrorKind, State, Value,
    value::{Kwargs, ValueKind, from_args},
};

use super::{metering, python_values};

/// Whether Python's `str.isspace` holds.
pub(super) fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1C}'..='\u{1F}').contains(&character)
}

/// The filter `trim`, and `str.strip`.
pub(super) fn strip<'a>(text: &'a str, characters: Option<&str>) -> &'a str {
    text.trim_matches(|character| is_stripped(character, characters))
}

/// Calls a method; hands on to `minijinja-contrib` what is not known here.
pub(super) fn call(state: &State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let found = match value.as_str() {
        Some(text) => of_string(state, text, method, args)?,
        None if matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) => of_list(value, method, args)?,
        None => None,
    };
    found.map_or_else(|| minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args), Ok)
}

fn of_string(state: &State, text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let value = match method {
        "strip" | "lstrip" | "rstrip" => {
            let (characters,): (Option<&str>,) = from_args(args)?;
            Value::from(match method {
                "lstrip" => text.trim_start_matches(|character| is_stripped(character, characters)),
                "rstrip" => text.trim_end_matches(|character| is_stripped(character, characters)),
                _ => strip(text, characters),
            })
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "find" | "rfind" | "index" | "rindex" => {
            let (what,): (&str,) = from_args(args)?;
            let at = if method.starts_with('r') { text.rfind(what) } else { text.find(what) };
            match at {
                Some(at) => Value::from(text[..at].chars().count()),
                None if method.ends_with("index") => return Err(invalid("substring not found")),
                None => Value::from(-1),
            }
        }
        "partition" | "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            let (is_last, parts) =
                (method == "rpartition", separated(text, separator, method == "rpartition"));
            let whole = if is_last { ["", "", text] } else { [text, "", ""] };
            Value::from_iter(parts.unwrap_or(whole))
        }
        "split" | "rsplit" => split(text, method == "rsplit", args)?,
        "splitlines" => {
            let (keep_ends, options): (Option<bool>, Kwargs) = from_args(args)?;
            let keep_ends = keep_ends.or(options.get("keepends")?).unwrap_or(false);
            options.assert_all_used()?;
            Value::from_iter(lines(text, keep_ends))
        }
        "join" => {
            let (items,): (Value,) = from_args(args)?;
            Value::from(join(state, items, text)?)
        }
        "replace" => {
            let (old, new, most): (&str, &str, Option<i64>) = from_args(args)?;
            Value::from(replace(state, text, old, new, most)?)
        }
        "format" => {
            check_widths(text)?;
            return Ok(None);
        }
        "isspace" => Value::from(!text.is_empty() && text.chars().all(is_space)),
        "zfill" => {
            let (width,): (usize,) = from_args(args)?;
            if width > 1000 {
                return Err(invalid("zfill: too wide"));
            }
            let (sign, digits) = match text.strip_prefix(['-', '+']) {
                Some(digits) => text.split_at(text.len() - digits.len()),
                None => ("", text),
            };
            let zeros = width.saturating_sub(text.chars().count());
            Value::from(format!("{sign}{}{digits}", "0".repeat(zeros)))
        }
        _ => return Ok(None),
    };
    Ok(Some(value))
}

fn of_list(value: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    match method {
        "index" => {
            let (what,): (&Value,) = from_args(args)?;
            let at = value.try_iter()?.position(|item| &item == what);
            at.map(|at| Some(Value::from(at))).ok_or_else(|| invalid("the value is not in the list"))
        }
        _ => Ok(None),
    }
}

/// The items as text with `separator` between them.
pub(super) fn join(state: &State, items: Value, separator: &str) -> Result<String, Error> {
    let mut out = String::new();
    for (index, item) in items.try_iter()?.enumerate() {
        let separator = if index > 0 { separator } else { "" };
        metering::charge(state, separator.len())?;
        out.push_str(separator);
        out.push_str(&python_values::display(state, &item)?);
    }
    Ok(out)
}

/// The filter and the method `replace`: at most `most` times if given and not negative.
pub(super) fn replace(
    state: &State,
    text: &str,
    old: &str,
    new: &str,
    most: Option<i64>,
) -> Result<String, Error> {
    let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    let found = text.matches(old).count().min(most);
    metering::charge(state, text.len().saturating_add(found.saturating_mul(new.len())))?;
    Ok(text.replacen(old, new, most))
}

fn is_stripped(character: char, characters: Option<&str>) -> bool {
    characters.map_or_else(|| is_space(character), |characters| characters.contains(character))
}

fn separated<'a>(text: &'a str, separator: &'a str, is_last: bool) -> Option<[&'a str; 3]> {
    let parts = if is_last { text.rsplit_once(separator) } else { text.split_once(separator) };
    parts.map(|(before, after)| [before, separator, after])
}

fn split(text: &str, from_end: bool, args: &[Value]) -> Result<Value, Error> {
    let (separator, most, options): (Option<&str>, Option<i64>, Kwargs) = from_args(args)?;
    let most = most.or(options.get("maxsplit")?).and_then(|most| usize::try_from(most).ok());
    let separator = separator.or(options.get("sep")?);
    options.assert_all_used()?;
    let limit = most.map_or(usize::MAX, |most| most.saturating_add(1));
    let mut parts: Vec<&str> = match separator {
        Some("") => return Err(invalid("empty separator")),
        Some(separator) if from_end => text.rsplitn(limit, separator).collect(),
        Some(separator) => text.splitn(limit, separator).collect(),
        None => words(text, from_end, limit),
    };
    if from_end {
        parts.reverse();
    }
    Ok(Value::from_iter(parts))
}

/// Splits at runs of space, at most into `limit` words; the last one keeps the space within it.
fn words(text: &str, from_end: bool, limit: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim_matches(is_space);
    while !rest.is_empty() {
        let at = if from_end { rest.rfind(is_space) } else { rest.find(is_space) };
        let Some(at) = at.filter(|_| parts.len() + 1 < limit) else {
            parts.push(rest);
            break;
        };
        let (left, right) = (rest[..at].trim_end_matches(is_space), rest[at..].trim_start_matches(is_space));
        let (part, remaining) = if from_end { (right, left) } else { (left, right) };
        parts.push(part);
        rest = remaining;
    }
    parts
}

fn lines(text: &str, keep_ends: bool) -> Vec<&str> {
    const ENDS: [char; 10] =
        ['\n', '\r', '\u{B}', '\u{C}', '\u{1C}', '\u{1D}', '\u{1E}', '\u{85}', '\u{2028}', '\u{2029}'];
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(ENDS) {
        let end = rest[at..].chars().next().map_or(0, char::len_utf8);
        let end = if rest[at..].starts_with("\r\n") { 2 } else { end };
        lines.push(&rest[..if keep_ends { at + end } else { at }]);
        rest = &rest[at + end..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// Refuses a format that could ask for very wide fields.
pub(super) fn check_widths(format: &str) -> Result<(), Error> {
    let digits = format.split(|character: char| !character.is_ascii_digit()).map(str::len).max();
    let takes_width_from_arguments = format.contains('*') || format.contains(":{") || format.contains("}}");
    if digits.is_some_and(|digits| digits > 3) || takes_width_from_arguments {
        return Err(invalid("this format is not supported"));
    }
    Ok(())
}

fn invalid(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, what)
}
