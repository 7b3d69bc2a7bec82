//! What a JSON Schema asks for that cannot be enforced, and where.

use serde_json::{Map, Value};

use super::{compile::Fault, places::Place};

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

/// Keywords that are enforced, but for those that hold schemas.
const ENFORCED: [&str; 18] = [
    "$ref",
    "const",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "required",
    "type",
];
/// Keywords that are not meant to restrict anything.
const ANNOTATIONS: [&str; 16] = [
    "$anchor",
    "$comment",
    "$dynamicAnchor",
    "$id",
    "$recursiveAnchor",
    "$schema",
    "$vocabulary",
    "default",
    "deprecated",
    "description",
    "example",
    "examples",
    "id",
    "readOnly",
    "title",
    "writeOnly",
];

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

impl Part<'_> {
    fn keyword(&self, keyword: &str) -> Place {
        Place::Pointer(format!("{}/{}", self.at, escape(keyword)))
    }
}

/// Refuses keywords and formats that cannot be enforced.
///
/// # Errors
/// [`Fault`] with the JSON pointer of the first one.
pub(super) fn check(schema: &Value) -> Result<(), Fault> {
    faults(schema).into_iter().next().map_or(Ok(()), Err)
}

/// Every keyword and format that cannot be enforced.
pub(super) fn faults(schema: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    for part in parts(schema) {
        let mut refuse = |keyword: &str, reason: String| {
            faults.push(Fault { at: part.keyword(keyword), reason });
        };
        let keywords = match part.schema {
            Value::Object(keywords) => keywords,
            Value::Bool(_) => continue,
            _ => {
                faults.push(Fault { at: Place::Pointer(part.at), reason: "this is no schema".into() });
                continue;
            }
        };
        for keyword in NOT_ENFORCED.iter().filter(|keyword| keywords.contains_key(**keyword)) {
            refuse(keyword, format!("\"{keyword}\" cannot be enforced"));
        }
        if let Some(Value::String(format)) = keywords.get("format").filter(|_| may_be_string(keywords))
            && !FORMATS.contains(&format.as_str())
        {
            refuse("format", format!("the format \"{format}\" cannot be enforced"));
        }
    }
    faults
}

/// Every keyword that has no effect on an answer although it looks as if it had.
pub(super) fn ignored(schema: &Value) -> Vec<Fault> {
    let mut ignored = Vec::new();
    for part in parts(schema) {
        for keyword in part.schema.as_object().into_iter().flat_map(Map::keys) {
            let reason = match keyword.as_str() {
                "contentEncoding" | "contentMediaType" | "contentSchema" => {
                    format!("\"{keyword}\" is not enforced")
                }
                known if is_known(known) => continue,
                _ => format!("\"{keyword}\" is no keyword of JSON Schema and has no effect"),
            };
            ignored.push(Fault { at: part.keyword(keyword), reason });
        }
    }
    ignored
}

fn is_known(keyword: &str) -> bool {
    [&ENFORCED[..], &NOT_ENFORCED, &ANNOTATIONS, &OF_SCHEMA, &OF_LIST, &OF_MAP]
        .iter()
        .any(|keywords| keywords.contains(&keyword))
}

/// Takes out what `at` points to. Returns whether it was there.
pub(super) fn remove(schema: &mut Value, at: &Place) -> bool {
    let Place::Pointer(pointer) = at else { return false };
    let Some((parent, name)) = pointer.rsplit_once('/') else { return false };
    match schema.pointer_mut(parent) {
        Some(Value::Object(entries)) => entries.remove(&unescape(name)).is_some(),
        Some(Value::Array(items)) => {
            let item = name.parse::<usize>().ok().and_then(|index| items.get_mut(index));
            item.is_some_and(|item| std::mem::replace(item, Value::Bool(true)) != Value::Bool(true))
        }
        _ => false,
    }
}

/// Why `schema`, of which the library said `reason`, does not compile: the keyword at fault, or the smallest part around
/// it that can be told.
pub(super) fn blame(schema: &Value, reason: String, compile: &dyn Fn(&Value) -> Result<(), String>) -> Fault {
    let parts = parts(schema);
    let whole = |reason| Fault { at: Place::Pointer(String::new()), reason };
    if parts.len() > MAX_TRIALS {
        return whole(reason);
    }
    // From the inside out: a part lists after the part that holds it.
    let at_fault = parts.iter().rev().find_map(|part| {
        let reason = compile(&alone(part.schema, schema)).err()?;
        Some((part, reason))
    });
    let Some((part, reason)) = at_fault else { return whole(reason) };
    let without = |keyword: &String| {
        let mut rest = part.schema.clone();
        rest.as_object_mut().is_some_and(|keywords| keywords.remove(keyword).is_some())
            && compile(&alone(&rest, schema)).is_ok()
    };
    // Without its type a part restricts so little that it may compile whatever is wrong with it.
    let (types, others): (Vec<_>, Vec<_>) =
        part.schema.as_object().into_iter().flat_map(Map::keys).partition(|keyword| *keyword == "type");
    let keyword = others.into_iter().chain(types).find(|keyword| without(keyword));
    let at = keyword.map_or_else(|| Place::Pointer(part.at.clone()), |keyword| part.keyword(keyword));
    Fault { at, reason }
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

pub(super) fn unescape(name: &str) -> String {
    name.replace("~1", "/").replace("~0", "~")
}
