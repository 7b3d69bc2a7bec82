//! Files that go along with a message.

use serde::{Deserialize, Serialize};
use specta::Type;

/// What an attachment was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum AttachmentKind {
    /// Plain text, pasted text included.
    Text,
    /// Markdown.
    Markdown,
    /// Source code, or data in a text format.
    Code,
    /// The text of a PDF.
    Pdf,
}

/// A file whose text the model reads along with a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct AttachmentView {
    /// Row id in the database.
    pub id: String,
    /// Name of the file, without its folder.
    pub name: String,
    /// What it was made from.
    pub kind: AttachmentKind,
    /// Characters of its text.
    pub chars: u32,
    /// Tokens of its text for the loaded model; `None` without a model, and until they are counted. Attaching counts
    /// them; opening a conversation waits a moment for what is not counted yet and goes on counting in the background,
    /// for the next time it is opened.
    pub tokens: Option<u32>,
    /// Pages of a PDF.
    pub pages: Option<u32>,
}
