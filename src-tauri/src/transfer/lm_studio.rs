//! LM Studio's `*.conversation.json`: messages in a row, each with `versions`, of which one is shown; an answer is made
//! of `steps`, some of them thinking.
//!
//! Source: public programs that read these files, which their maker calls internal; every field may be missing or of
//! another type.

use protocol::SkipReason;
use serde_json::Value;

use super::{
    file::FileRole,
    foreign::{About, Foreign, Place, Refused, Said, Tree, plausible_ms, shown_title},
};

/// The field of a chat's own settings that holds its system prompt.
const SYSTEM_PROMPT: &str = "llm.prediction.systemPrompt";

/// Whether a value has the shape of such a conversation.
pub fn is_one(value: &Value) -> bool {
    let messages = value.get("messages").and_then(Value::as_array);
    let has_name = value.get("name").is_some() || value.get("createdAt").is_some();
    messages.is_some_and(|messages| match messages.first() {
        Some(first) => first.get("versions").is_some_and(Value::is_array),
        None => has_name,
    })
}

/// Takes a conversation over.
///
/// # Errors
/// Why it cannot be.
pub fn read(value: &Value) -> Result<Foreign, Refused> {
    let title = text_of(value, "name").unwrap_or_default();
    let refused = |(reason, detail)| Refused { title: shown_title(title), reason, detail };
    let created_at_ms = value.get("createdAt").and_then(Value::as_f64).and_then(plausible_ms);
    let mut tree = Tree::default();
    let mut after: Option<Place> = None;
    for message in value.get("messages").and_then(Value::as_array).into_iter().flatten() {
        after = add_message(&mut tree, after, message, created_at_ms.unwrap_or_default()).map_err(refused)?;
    }
    tree.finish(About {
        // Its name is the moment at which it began, also as a file.
        id: created_at_ms.map(|ms| ms.to_string()).unwrap_or_default(),
        title: title.to_owned(),
        created_at_ms,
        updated_at_ms: ["assistantLastMessagedAt", "userLastMessagedAt"]
            .iter()
            .filter_map(|field| value.get(field).and_then(Value::as_f64).and_then(plausible_ms))
            .max(),
        is_pinned: value.get("pinned") == Some(&Value::Bool(true)),
        system_prompt: system_prompt(value).to_owned(),
        active: after,
    })
}

/// Adds every version of a message. Returns where the next message follows: after the one that is shown.
fn add_message(
    tree: &mut Tree,
    after: Option<Place>,
    message: &Value,
    at_ms: i64,
) -> Result<Option<Place>, (SkipReason, String)> {
    let versions = message.get("versions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let selected = message.get("currentlySelected").and_then(Value::as_u64).unwrap_or(0);
    let selected = usize::try_from(selected).unwrap_or(0).min(versions.len().saturating_sub(1));
    let mut shown = after;
    for (index, version) in versions.iter().enumerate() {
        let role = match text_of(version, "role") {
            Some("user") => FileRole::User,
            Some("assistant") => FileRole::Assistant,
            _ => continue,
        };
        let place = tree.add(after, role, at_ms, said(version))?;
        if index == selected {
            shown = place;
        }
    }
    Ok(shown)
}

fn said(version: &Value) -> Said {
    let mut said = Said::default();
    add_content(&mut said, version.get("content"), Part::Answer);
    for step in version.get("steps").and_then(Value::as_array).into_iter().flatten() {
        match text_of(step, "type") {
            Some("contentBlock") => {
                let style = step.get("style").and_then(|style| text_of(style, "type"));
                let part = if style == Some("thinking") { Part::Thinking } else { Part::Answer };
                add_content(&mut said, step.get("content"), part);
            }
            Some("toolStatus") => said.leave_out("a call of a tool"),
            // What the program says about its own work.
            _ => {}
        }
    }
    said
}

#[derive(Clone, Copy)]
enum Part {
    Answer,
    Thinking,
}

fn add_content(said: &mut Said, content: Option<&Value>, part: Part) {
    let add = |said: &mut Said, text: &str| match part {
        Part::Thinking => said.think(text),
        Part::Answer => {
            let (thinking, answer) = without_thinking(text);
            said.think(thinking);
            said.add(answer);
        }
    };
    match content {
        Some(Value::String(text)) => add(said, text),
        Some(Value::Array(items)) => {
            for item in items {
                match (text_of(item, "type"), text_of(item, "text")) {
                    (Some("text") | None, Some(text)) => add(said, text),
                    (Some("file"), _) => {
                        let name = text_of(item, "name").or(text_of(item, "fileIdentifier"));
                        said.leave_out(&format!("the file {}", name.unwrap_or("without a name")));
                    }
                    (Some("toolCallRequest"), _) => {
                        let name = text_of(item, "name").unwrap_or("without a name");
                        said.leave_out(&format!("a call of the tool {name}"));
                    }
                    (Some("toolCallResult"), _) => said.leave_out("what a tool gave"),
                    (kind, _) => said.leave_out(&format!("a part of the kind {}", kind.unwrap_or("unknown"))),
                }
            }
        }
        _ => {}
    }
}

/// Files of earlier versions have the thinking within the text, in tags.
fn without_thinking(text: &str) -> (&str, &str) {
    let tagged = text.trim_start().strip_prefix("<think>").and_then(|rest| rest.split_once("</think>"));
    tagged.map_or(("", text), |(thinking, answer)| (thinking.trim(), answer.trim_start()))
}

fn system_prompt(value: &Value) -> &str {
    let own = value.get("perChatPredictionConfig").and_then(|config| config.get("fields"));
    let own = own.and_then(Value::as_array).into_iter().flatten();
    let own = own.filter(|field| text_of(field, "key") == Some(SYSTEM_PROMPT));
    let own = own.filter_map(|field| text_of(field, "value")).next_back();
    own.filter(|text| !text.trim().is_empty()).or(text_of(value, "systemPrompt")).unwrap_or_default()
}

fn text_of<'v>(value: &'v Value, field: &str) -> Option<&'v str> {
    value.get(field).and_then(Value::as_str)
}
