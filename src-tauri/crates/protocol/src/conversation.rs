//! Conversations and their messages, as the UI shows them.

use crate::{AttachmentView, ErrorCode, FinishReason, Receipt, SamplingSettings};
use serde::{Deserialize, Serialize};
use specta::Type;
use specta_typescript::Number;

/// A line of the sidebar.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct ConversationSummary {
    /// Row id in the database.
    pub id: String,
    /// Given by the user, or taken from the first message; may be empty for a new one.
    pub title: String,
    /// Start of the latest message's text, one line.
    pub preview: String,
    /// Messages in all branches.
    pub message_count: u32,
    /// Unix time of the latest change.
    #[specta(type = Number)]
    pub updated_at_ms: i64,
    /// Kept at hand by the user.
    pub is_pinned: bool,
}

/// A run of a text in which a search looked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct SearchedText {
    /// The characters.
    pub text: String,
    /// Whether the search found them.
    pub is_match: bool,
}

/// A conversation that a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct SearchHit {
    /// Row id of the conversation.
    pub conversation_id: String,
    /// Its title in runs; none if it has no title.
    pub title: Vec<SearchedText>,
    /// Row id of the newest message that matches; `None` if only the title does.
    pub message_id: Option<String>,
    /// That message around its first match, one line, in runs; none without a message.
    pub snippet: Vec<SearchedText>,
    /// Unix time of that message; without one, of the conversation's latest change.
    #[specta(type = Number)]
    pub at_ms: i64,
}

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// Where a message is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum MessageState {
    /// Whole.
    Complete,
    /// Being generated now.
    Streaming,
    /// Stopped by the user; what was generated is kept.
    Stopped,
    /// The app ended while it was generated; what was on disk is kept.
    Interrupted,
    /// Generation failed; what was generated is kept.
    Failed,
}

/// One message on the active path of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct MessageView {
    /// Row id in the database.
    pub id: String,
    /// Message that this one follows; `None` for the first.
    pub parent_id: Option<String>,
    /// Who wrote it.
    pub role: Role,
    /// Every version at this place, this one included, oldest first.
    pub version_ids: Vec<String>,
    /// Markdown as written.
    pub text: String,
    /// What the model thought before the text; empty for none.
    pub thinking: String,
    /// Tokens of the thinking.
    pub thinking_tokens: u32,
    /// Where it is in its life.
    pub state: MessageState,
    /// Unix time of creation.
    #[specta(type = Number)]
    pub created_at_ms: i64,
    /// Why the answer ended; `None` for user messages and while streaming.
    pub finish_reason: Option<FinishReason>,
    /// What the engine measured; `None` for user messages and for answers without one.
    pub receipt: Option<Receipt>,
    /// What was attached to a user message, in the order in which it was.
    pub attachments: Vec<AttachmentView>,
    /// Why a failed answer failed; looked up in the UI's wording table.
    #[specta(optional)]
    pub failure: Option<ErrorCode>,
}

/// An opened conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct ConversationView {
    /// Its line in the sidebar.
    pub summary: ConversationSummary,
    /// Messages of the active path, oldest first.
    pub messages: Vec<MessageView>,
    /// Text that was typed and not sent.
    pub draft: String,
    /// Settings for the next answer.
    pub settings: SamplingSettings,
    /// What is attached to that text.
    pub draft_attachments: Vec<AttachmentView>,
    /// Requests that are filling answers now; several after a fan-out.
    pub active_requests: Vec<ActiveRequest>,
    /// Where the reader was; `None` at the end.
    pub scroll: Option<ScrollPlace>,
}

/// A request that is filling an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct ActiveRequest {
    /// The UI's request id.
    pub request_id: String,
    /// The answer that it fills.
    pub answer_id: String,
}

/// Where a reader is in a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct ScrollPlace {
    /// The first message in sight.
    pub message_id: String,
    /// How far its top lies above the top of the view, in CSS pixels.
    pub above_px: i32,
}
