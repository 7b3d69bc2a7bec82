//! What a JSON Schema asks for that cannot be enforced, and where.

use serde_json::{Map, Value};

use crate::EngineError;

/// Keywords of any draft that restrict an answer and are not enforced. Ignoring them would let wrong answers pass.
const NOT_ENFORCED: [&str; 17] = [
    "$dynamicRef",
    "$recursiveRef",
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "maxContains",
    "minContains",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    // Not of any draft: it would change the options that the schema is compiled with.
    "x-guidance",
];
/// Formats of strings that are enforced.
const FORMATS: [&str; 10] =
    ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"];

/// Keywords whose value is a schema, a list of schemas, or schemas by name.
const OF_SCHEMA: [&str; 3] = ["additionalItems", "additionalProperties", "items"];
const OF_LIST: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];
const OF_MAP: [&str; 4] = ["$defs", "definitions", "patternProperties", "properties"];

/// Most parts of a schema that are tried one by one to find the one at fault.
const MAX_TRIALS: usize = 256;

/// A schema within a schema, and the JSON pointer to it.
struct Part<'a> {
    at: String,
    schema: &'a Value,
}

/// Refuses keywords and formats that cannot be enforced.
///
/// # Errors
/// [`EngineError::Grammar`] with the JSON pointer of the first one.
pub(super) fn check(schema: &Value) -> Result<(), EngineError> {
    for part in parts(schema) {
        let refuse = |keyword: &str, reason: String| {
            Err(EngineError::Grammar { at: format!("{}/{}", part.at, escape(keyword)), reason })
        };
        let keywords = match part.schema {
            Value::Object(keywords) => keywords,
            Value::Bool(_) => continue,
            _ => return Err(EngineError::Grammar { at: part.at, reason: "this is no schema".into() }),
        };
        if let Some(keyword) = NOT_ENFORCED.iter().find(|keyword| keywords.contains_key(**keyword)) {
            return refuse(keyword, format!("\"{keyword}\" cannot be enforced"));
        }
        if let Some(Value::String(format)) = keywords.get("format").filter(|_| may_be_string(keywords))
            && !FORMATS.contains(&format.as_str())
        {
            return refuse("format", format!("the format \"{format}\" cannot be enforced"));
        }
    }
    Ok(())
}

/// The JSON pointer of the keyword because of which `schema` does not compile, or of the smallest part around it that
/// can be told.
pub(super) fn blame(schema: &Value, compiles: impl Fn(&Value) -> bool) -> String {
    let parts = parts(schema);
    if parts.len() > MAX_TRIALS {
        return String::new();
    }
    // From the inside out: a part lists after the part that holds it.
    let at_fault = parts.iter().rev().find(|part| !compiles(&alone(part.schema, schema)));
    let Some(part) = at_fault else { return String::new() };
    let without = |keyword: &String| {
        let mut rest = part.schema.clone();
        rest.as_object_mut().is_some_and(|keywords| keywords.remove(keyword).is_some())
            && compiles(&alone(&rest, schema))
    };
    // Without its type a part restricts so little that it may compile whatever is wrong with it.
    let (types, others): (Vec<_>, Vec<_>) =
        part.schema.as_object().into_iter().flat_map(Map::keys).partition(|keyword| *keyword == "type");
    let keyword = others.into_iter().chain(types).find(|keyword| without(keyword));
    keyword.map_or(part.at.clone(), |keyword| format!("{}/{}", part.at, escape(keyword)))
}

/// A part as a schema of its own, with the definitions that it may refer to.
fn alone(part: &Value, root: &Value) -> Value {
    let Value::Object(keywords) = part else { return part.clone() };
    let mut alone = keywords.clone();
    for definitions in ["$defs", "definitions"] {
        if let Some(named) = root.get(definitions) {
            alone.entry(definitions).or_insert_with(|| named.clone());
        }
    }
    Value::Object(alone)
}

/// `schema` and every schema in it, each after the one that holds it.
fn parts(schema: &Value) -> Vec<Part<'_>> {
    let mut parts = vec![Part { at: String::new(), schema }];
    let mut next = 0;
    while next < parts.len() {
        let (at, schema) = (parts[next].at.clone(), parts[next].schema);
        next += 1;
        let Value::Object(keywords) = schema else { continue };
        for (keyword, value) in keywords {
            let at = format!("{at}/{}", escape(keyword));
            match value {
                Value::Array(list) if OF_LIST.contains(&keyword.as_str()) => {
                    parts.extend(
                        list.iter().enumerate().map(|(i, schema)| Part { at: format!("{at}/{i}"), schema }),
                    );
                }
                Value::Object(named) if OF_MAP.contains(&keyword.as_str()) => {
                    let part =
                        |(name, schema): (&String, _)| Part { at: format!("{at}/{}", escape(name)), schema };
                    parts.extend(named.iter().map(part));
                }
                _ if OF_SCHEMA.contains(&keyword.as_str()) => parts.push(Part { at, schema: value }),
                _ => {}
            }
        }
    }
    parts
}

fn may_be_string(keywords: &Map<String, Value>) -> bool {
    match keywords.get("type") {
        None => true,
        Some(Value::Array(types)) => types.iter().any(|name| name == "string"),
        Some(name) => name == "string",
    }
}

/// A name within a JSON pointer.
fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
