//! Conversations that leave the app as files, and those that come in.

use serde::{Deserialize, Serialize};
use specta::Type;

/// How a conversation is written to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum ExportFormat {
    /// Everything, with all versions, to be imported again.
    Json,
    /// What is read on screen.
    Markdown,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct ExportReport {
    /// The file, or the folder of one file per conversation.
    pub path: String,
    /// Conversations written.
    pub conversations: u32,
    /// Conversations that could not be read because the history is damaged there.
    pub unreadable: u32,
}

/// Whose files were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum ImportSource {
    /// Braid's own export.
    Braid,
    /// The `conversations.json` of ChatGPT's data export, or the archive with it.
    OpenAi,
    /// LM Studio's conversation files.
    LmStudio,
}

/// What an import brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct ConversationImportReport {
    /// New conversations, in order.
    pub imported: Vec<ImportedConversation>,
    /// What was left out, and why.
    pub skipped: Vec<SkippedImport>,
}

/// A conversation that came from a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct ImportedConversation {
    /// Row id in the database.
    pub conversation_id: String,
    /// Whose file it came from.
    pub source: ImportSource,
    /// Messages in all branches.
    pub messages: u32,
    /// Parts that Braid cannot hold, such as pictures; a note stands in their place.
    pub left_out_parts: u32,
}

/// Something in a file that was not imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct SkippedImport {
    /// Name of the file.
    pub file: String,
    /// Title of the conversation; `None` if it is the file as a whole.
    pub title: Option<String>,
    /// Why it was left out.
    pub reason: SkipReason,
    /// Detail with place and numbers; never matched on.
    pub detail: String,
}

/// Why something was not imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum SkipReason {
    /// No format that Braid knows.
    UnknownFormat,
    /// It cannot be read.
    Unreadable,
    /// It has no message.
    Empty,
    /// It was imported before, and has not changed since.
    AlreadyHere,
    /// It is larger than Braid takes.
    TooLarge,
}
