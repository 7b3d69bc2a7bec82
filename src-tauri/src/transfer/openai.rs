//! The `conversations.json` of ChatGPT's data export: a tree of nodes by id in `mapping`, the shown leaf in
//! `current_node`.
//!
//! Source: public descriptions of the export, which its maker does not describe; every field may be missing or of
//! another type.

use std::collections::{HashMap, HashSet};

use protocol::SkipReason;
use serde_json::{Map, Value};

use super::{
    file::FileRole,
    foreign::{About, Foreign, Place, Refused, Said, Tree, plausible_ms, shown_title},
};

/// Whether a value has the shape of such a conversation.
pub fn is_one(value: &Value) -> bool {
    value.get("mapping").is_some_and(Value::is_object)
}

/// Takes a conversation over.
///
/// # Errors
/// Why it cannot be.
pub fn read(value: &Value) -> Result<Foreign, Refused> {
    let title = text_of(value, "title").unwrap_or_default();
    let refused = |(reason, detail)| Refused { title: shown_title(title), reason, detail };
    let Some(mapping) = value.get("mapping").and_then(Value::as_object) else {
        return Err(refused((SkipReason::Unreadable, "it has no messages by id".into())));
    };
    let created_at_ms = seconds_of(value, "create_time");
    let mut walk = Walk { tree: Tree::default(), places: HashMap::new(), system: Vec::new() };
    walk.all(mapping, created_at_ms.unwrap_or_default()).map_err(refused)?;
    let current = text_of(value, "current_node").unwrap_or_default();
    let active = walk.places.get(current).copied().flatten();
    let id = text_of(value, "conversation_id").or(text_of(value, "id")).unwrap_or_default();
    walk.tree.finish(About {
        id: id.to_owned(),
        title: title.to_owned(),
        created_at_ms,
        updated_at_ms: seconds_of(value, "update_time"),
        is_pinned: value.get("is_starred") == Some(&Value::Bool(true)),
        system_prompt: walk.system.join(
            "

",
        ),
        active,
    })
}

struct Walk<'a> {
    tree: Tree,
    /// Where what follows a node goes.
    places: HashMap<&'a str, Option<Place>>,
    /// Texts of system messages and of the person's own instructions, each once.
    system: Vec<String>,
}

impl<'a> Walk<'a> {
    /// Takes every node over that hangs on a root, parents first. Nodes in a circle hang on none.
    fn all(&mut self, mapping: &'a Map<String, Value>, fallback_ms: i64) -> Result<(), (SkipReason, String)> {
        let (roots, children) = links(mapping);
        let mut seen: HashSet<&str> = HashSet::new();
        let mut open: Vec<(&str, Option<Place>, i64)> =
            roots.into_iter().rev().map(|root| (root, None, fallback_ms)).collect();
        while let Some((id, after, earlier_ms)) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            let message = mapping.get(id).and_then(|node| node.get("message"));
            let at_ms = message.and_then(|message| seconds_of(message, "create_time")).unwrap_or(earlier_ms);
            let place = match message.and_then(|message| self.said(message)) {
                Some((role, said)) => self.tree.add(after, role, at_ms, said)?,
                None => after,
            };
            self.places.insert(id, place);
            let below = children.get(id).map(Vec::as_slice).unwrap_or_default();
            open.extend(below.iter().rev().map(|child| (*child, place, at_ms)));
        }
        Ok(())
    }

    /// What a message says and who says it; `None` if it is not part of the conversation.
    fn said(&mut self, message: &Value) -> Option<(FileRole, Said)> {
        let author = message.get("author")?;
        let content = message.get("content")?;
        let kind = text_of(content, "content_type").unwrap_or("text");
        if kind == "user_editable_context" {
            for field in ["user_profile", "user_instructions"] {
                self.add_system(text_of(content, field).unwrap_or_default());
            }
            return None;
        }
        let metadata = message.get("metadata").unwrap_or(&Value::Null);
        let role = text_of(author, "role")?;
        if role == "system" {
            self.add_system(&plain_parts(content));
            return None;
        }
        if metadata.get("is_visually_hidden_from_conversation") == Some(&Value::Bool(true)) {
            return None;
        }
        let mut said = Said::default();
        let name = text_of(author, "name").unwrap_or("unknown");
        let recipient = text_of(message, "recipient").unwrap_or("all");
        match role {
            "user" => {
                for attachment in metadata.get("attachments").and_then(Value::as_array).into_iter().flatten()
                {
                    let name = text_of(attachment, "name").unwrap_or("without a name");
                    said.leave_out(&format!("the file {name}"));
                }
                add_content(&mut said, kind, content);
                Some((FileRole::User, said))
            }
            "assistant" if recipient != "all" => {
                said.leave_out(&format!("a call of the tool {recipient}"));
                Some((FileRole::Assistant, said))
            }
            "assistant" => {
                add_content(&mut said, kind, content);
                Some((FileRole::Assistant, said))
            }
            "tool" => {
                said.leave_out(&format!("what the tool {name} gave"));
                Some((FileRole::Assistant, said))
            }
            _ => None,
        }
    }

    fn add_system(&mut self, text: &str) {
        let text = text.trim();
        if !text.is_empty() && !self.system.iter().any(|known| known == text) {
            self.system.push(text.to_owned());
        }
    }
}

/// Nodes without a parent that is there, and the children of each node in order.
fn links(mapping: &Map<String, Value>) -> (Vec<&str>, HashMap<&str, Vec<&str>>) {
    let listed = |node: &'_ Value| -> Vec<String> {
        let children = node.get("children").and_then(Value::as_array).into_iter().flatten();
        children.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    // Some exports name only the children.
    let mut parents: HashMap<&str, &str> = HashMap::new();
    let mut order: HashMap<&str, usize> = HashMap::new();
    for (id, node) in mapping {
        for (index, child) in listed(node).iter().enumerate() {
            if let Some((child, _)) = mapping.get_key_value(child) {
                parents.entry(child).or_insert(id);
                order.entry(child).or_insert(index);
            }
        }
    }
    for (id, node) in mapping {
        let named = text_of(node, "parent").and_then(|parent| mapping.get_key_value(parent));
        if let Some((parent, _)) = named {
            parents.insert(id, parent);
        }
    }
    let mut children: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut roots = Vec::new();
    for id in mapping.keys() {
        match parents.get(id.as_str()) {
            Some(parent) => children.entry(parent).or_default().push(id),
            None => roots.push(id.as_str()),
        }
    }
    for siblings in children.values_mut() {
        siblings.sort_by_key(|child| order.get(child).copied().unwrap_or(usize::MAX));
    }
    (roots, children)
}

fn add_content(said: &mut Said, kind: &str, content: &Value) {
    match kind {
        "text" | "multimodal_text" => {
            for part in content.get("parts").and_then(Value::as_array).into_iter().flatten() {
                add_part(said, part);
            }
            if let Some(text) = text_of(content, "text") {
                said.add(text);
            }
        }
        "code" => {
            let text = text_of(content, "text").unwrap_or_default();
            let language = text_of(content, "language").filter(|language| *language != "unknown");
            let fence = crate::attachments::fence_around(text);
            if !text.trim().is_empty() {
                said.add(&format!("{fence}{}\n{text}\n{fence}", language.unwrap_or_default()));
            }
        }
        "thoughts" => {
            for thought in content.get("thoughts").and_then(Value::as_array).into_iter().flatten() {
                said.think(text_of(thought, "summary").unwrap_or_default());
                said.think(text_of(thought, "content").unwrap_or_default());
            }
        }
        // How long it thought.
        "reasoning_recap" | "model_editable_context" => {}
        other => said.leave_out(&format!("a part of the kind {other}")),
    }
}

fn add_part(said: &mut Said, part: &Value) {
    match part {
        Value::String(text) => said.add(text),
        Value::Object(_) => match text_of(part, "content_type").unwrap_or_default() {
            "image_asset_pointer" => said.leave_out("a picture"),
            "audio_transcription" => said.add(text_of(part, "text").unwrap_or_default()),
            "audio_asset_pointer" => said.leave_out("a recording"),
            "real_time_user_audio_video_asset_pointer" => said.leave_out("a recording"),
            "" => said.leave_out("a part of an unknown kind"),
            other => said.leave_out(&format!("a part of the kind {other}")),
        },
        Value::Null => {}
        _ => said.leave_out("a part of an unknown kind"),
    }
}

fn plain_parts(content: &Value) -> String {
    let parts = content.get("parts").and_then(Value::as_array).into_iter().flatten();
    parts.filter_map(Value::as_str).collect::<Vec<_>>().join("\n\n")
}

fn text_of<'v>(value: &'v Value, field: &str) -> Option<&'v str> {
    value.get(field).and_then(Value::as_str)
}

fn seconds_of(value: &Value, field: &str) -> Option<i64> {
    value.get(field).and_then(Value::as_f64).and_then(|seconds| plausible_ms((seconds * 1000.0).round()))
}
