//! What the importers of other programs' files share.

use protocol::SkipReason;

use super::file::{FileConversation, FileMessage, FileRole};
use crate::convert::conversation::title_of;

/// Characters of all messages of a conversation at most: copies for branches must not grow without end.
const MAX_TOTAL_CHARS: usize = 256 << 20;

/// A conversation of another program.
#[derive(Debug)]
pub struct Foreign {
    /// What can be stored of it, without settings.
    pub conversation: FileConversation,
    /// Instructions placed before it; empty for none.
    pub system_prompt: String,
    /// Parts that Braid cannot hold.
    pub left_out_parts: u32,
}

/// Why a conversation is not taken.
#[derive(Debug)]
pub struct Refused {
    /// Its title, if it has one.
    pub title: Option<String>,
    /// Why.
    pub reason: SkipReason,
    /// With place and numbers.
    pub detail: String,
}

/// The tree of a conversation while it is being taken over.
///
/// Other programs write one answer as several messages, with calls of tools between them; here they become one.
#[derive(Debug, Default)]
pub struct Tree {
    messages: Vec<FileMessage>,
    has_children: Vec<bool>,
    left_out_parts: u32,
    total_chars: usize,
}

/// Where a message is to follow: after a message as it was at that moment.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    message: usize,
    text_bytes: usize,
    thinking_bytes: usize,
}

impl Place {
    /// Place of the message in the conversation.
    pub fn message(self) -> usize {
        self.message
    }
}

/// What a message of another program says.
#[derive(Debug, Default)]
pub struct Said {
    /// Text, with notes where parts were left out.
    pub text: String,
    /// Thinking.
    pub thinking: String,
    /// Parts left out.
    pub left_out_parts: u32,
}

impl Said {
    /// Adds a paragraph.
    pub fn add(&mut self, text: &str) {
        add_paragraph(&mut self.text, text);
    }

    /// Adds a paragraph of thinking.
    pub fn think(&mut self, text: &str) {
        add_paragraph(&mut self.thinking, text);
    }

    /// Notes that something is left out.
    pub fn leave_out(&mut self, what: &str) {
        self.left_out_parts += 1;
        self.add(&format!("*[Left out: {what}]*"));
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.thinking.is_empty()
    }
}

impl Tree {
    /// Adds what was said. Returns where the next message follows: `after`, if nothing was said.
    ///
    /// # Errors
    /// [`SkipReason::TooLarge`] with the limit.
    pub fn add(
        &mut self,
        after: Option<Place>,
        role: FileRole,
        at_ms: i64,
        said: Said,
    ) -> Result<Option<Place>, (SkipReason, String)> {
        if said.is_empty() {
            return Ok(after);
        }
        self.left_out_parts = self.left_out_parts.saturating_add(said.left_out_parts);
        let continued = after.filter(|place| {
            role == FileRole::Assistant && self.messages[place.message].role == FileRole::Assistant
        });
        let message = match continued {
            Some(place) if self.is_untouched_since(place) => place.message,
            Some(place) => self.copy(place),
            None => {
                if let Some(place) = after {
                    self.has_children[place.message] = true;
                }
                self.push(FileMessage::new(after.map(Place::message), role, at_ms))
            }
        };
        let target = &mut self.messages[message];
        add_paragraph(&mut target.text, &said.text);
        add_paragraph(&mut target.thinking, &said.thinking);
        if role == FileRole::Assistant {
            target.finished_at_ms = Some(at_ms.max(target.created_at_ms));
        }
        let place = Place { message, text_bytes: target.text.len(), thinking_bytes: target.thinking.len() };
        self.total_chars += said.text.len() + said.thinking.len();
        if self.total_chars > MAX_TOTAL_CHARS {
            let limit = MAX_TOTAL_CHARS >> 20;
            return Err((SkipReason::TooLarge, format!("its branches have more than {limit} MiB of text")));
        }
        Ok(Some(place))
    }

    fn is_untouched_since(&self, place: Place) -> bool {
        let message = &self.messages[place.message];
        !self.has_children[place.message]
            && (message.text.len(), message.thinking.len()) == (place.text_bytes, place.thinking_bytes)
    }

    /// A version beside a message that begins as that one did at `place`.
    fn copy(&mut self, place: Place) -> usize {
        let original = &self.messages[place.message];
        let mut version = FileMessage::new(original.parent, original.role, original.created_at_ms);
        version.text = original.text[..place.text_bytes].to_owned();
        version.thinking = original.thinking[..place.thinking_bytes].to_owned();
        self.total_chars += version.text.len() + version.thinking.len();
        self.push(version)
    }

    fn push(&mut self, message: FileMessage) -> usize {
        self.messages.push(message);
        self.has_children.push(false);
        self.messages.len() - 1
    }

    /// The whole conversation.
    ///
    /// # Errors
    /// [`SkipReason::Empty`] without a message.
    pub fn finish(self, about: About) -> Result<Foreign, Refused> {
        let title = about.title.split_whitespace().collect::<Vec<_>>().join(" ");
        if self.messages.is_empty() {
            let detail = "it has no message of a person or a model".to_owned();
            return Err(Refused { title: shown_title(&title), reason: SkipReason::Empty, detail });
        }
        let first = self.messages.iter().map(|message| message.text.as_str()).find(|text| !text.is_empty());
        let title = if title.is_empty() { title_of(first.unwrap_or_default()) } else { title };
        let latest = self.messages.iter().filter_map(|message| message.finished_at_ms).max();
        let created_at_ms =
            about.created_at_ms.or(self.messages.first().map(|message| message.created_at_ms));
        let created_at_ms = created_at_ms.unwrap_or_default();
        let conversation = FileConversation {
            id: about.id,
            title,
            created_at_ms,
            updated_at_ms: about.updated_at_ms.or(latest).unwrap_or(created_at_ms),
            is_pinned: about.is_pinned,
            settings: None,
            draft: String::new(),
            draft_attachments: Vec::new(),
            active: about.active.map(Place::message),
            messages: self.messages,
        };
        Ok(Foreign { conversation, system_prompt: about.system_prompt, left_out_parts: self.left_out_parts })
    }
}

/// What is known of a conversation besides its messages.
pub struct About {
    pub id: String,
    pub title: String,
    pub created_at_ms: Option<i64>,
    pub updated_at_ms: Option<i64>,
    pub is_pinned: bool,
    pub system_prompt: String,
    pub active: Option<Place>,
}

fn add_paragraph(text: &mut String, paragraph: &str) {
    if paragraph.trim().is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(paragraph);
}

/// A title that can be told.
pub fn shown_title(title: &str) -> Option<String> {
    let line = title_of(title);
    (!line.is_empty()).then_some(line)
}

/// Unix milliseconds within the years 1970 to 9999.
pub fn plausible_ms(ms: f64) -> Option<i64> {
    const YEAR_9999_MS: f64 = 253_402_300_799_999.0;
    (ms.is_finite() && (0.0..=YEAR_9999_MS).contains(&ms)).then_some(ms as i64)
}
