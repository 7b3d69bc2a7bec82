//! Braid's own file of conversations, as `docs/export-format.md` describes it; also what every other file becomes
//! before it is stored.

use history::{
    AttachmentKind, FinishState, History, NewAttachment, NewConversation, NewMessage, Origin, Role,
    WholeConversation,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::error::AppError;

/// Value of `format` in the file.
pub const FORMAT: &str = "braid-conversations";

/// Version of the format that is written; all up to it are read.
pub const VERSION: u32 = 1;

/// A conversation of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileConversation {
    /// The same for the same conversation in every file.
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub title: String,
    pub created_at_ms: i64,
    pub updated_at_ms: i64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_pinned: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub draft: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub draft_attachments: Vec<FileAttachment>,
    /// Place of the last message of the path that is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<usize>,
    pub messages: Vec<FileMessage>,
}

/// A message of the file. Fields at their default are left out.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileMessage {
    /// Place of the message that it follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<usize>,
    pub role: FileRole,
    #[serde(default, skip_serializing_if = "is_default")]
    pub state: FileState,
    pub created_at_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at_ms: Option<i64>,
    pub text: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub thinking: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub answer_tokens: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub thinking_tokens: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_details: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<FileAttachment>,
}

/// An attachment of the file, with its text.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileAttachment {
    pub name: String,
    pub kind: FileKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<u32>,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FileRole {
    User,
    Assistant,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FileState {
    #[default]
    Complete,
    Stopped,
    Failed,
    Interrupted,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FileKind {
    Text,
    Markdown,
    Code,
    Pdf,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl FileMessage {
    /// A message of which no more is known.
    pub fn new(parent: Option<usize>, role: FileRole, created_at_ms: i64) -> Self {
        Self {
            parent,
            role,
            state: FileState::Complete,
            created_at_ms,
            finished_at_ms: None,
            text: String::new(),
            thinking: String::new(),
            answer_tokens: 0,
            thinking_tokens: 0,
            finish_reason: None,
            failure: None,
            settings: None,
            receipt: None,
            token_details: None,
            attachments: Vec::new(),
        }
    }
}

/// Reads a conversation from the history, with all that belongs to it.
///
/// # Errors
/// The history's.
pub async fn from_history(
    history: &History,
    whole: WholeConversation,
    id: String,
) -> Result<FileConversation, AppError> {
    let conversation = whole.conversation;
    let place_of = |id| conversation.path.iter().position(|message| message.id == id);
    let mut messages = Vec::with_capacity(conversation.path.len());
    for message in &conversation.path {
        let details = history.token_details(message.id).await?;
        messages.push(FileMessage {
            parent: message.parent.and_then(place_of),
            role: match message.role {
                Role::User => FileRole::User,
                Role::Assistant => FileRole::Assistant,
            },
            state: file_state(message.state),
            created_at_ms: message.created_at_ms,
            finished_at_ms: message.finished_at_ms,
            text: message.text.clone(),
            thinking: message.thinking.clone(),
            answer_tokens: message.output_tokens,
            thinking_tokens: message.thinking_tokens,
            finish_reason: message.finish_reason.clone(),
            failure: message.error_code.clone(),
            settings: raw(message.settings_json.clone()),
            receipt: raw(message.receipt_json.clone()),
            token_details: raw(details),
            attachments: attachments(history, &message.attachments).await?,
        });
    }
    Ok(FileConversation {
        id,
        active: conversation.active_leaf.and_then(place_of),
        title: conversation.title,
        created_at_ms: conversation.created_at_ms,
        updated_at_ms: conversation.updated_at_ms,
        is_pinned: conversation.is_pinned,
        settings: raw(conversation.settings_json),
        draft: conversation.draft,
        draft_attachments: attachments(history, &conversation.draft_attachments).await?,
        messages,
    })
}

async fn attachments(
    history: &History,
    stored: &[history::Attachment],
) -> Result<Vec<FileAttachment>, AppError> {
    let mut attachments = Vec::with_capacity(stored.len());
    for attachment in stored {
        attachments.push(FileAttachment {
            name: attachment.name.clone(),
            kind: match attachment.kind {
                AttachmentKind::Text => FileKind::Text,
                AttachmentKind::Markdown => FileKind::Markdown,
                AttachmentKind::Code => FileKind::Code,
                AttachmentKind::Pdf => FileKind::Pdf,
            },
            pages: attachment.pages,
            text: history.attachment_text(attachment.id).await?,
        });
    }
    Ok(attachments)
}

/// An answer that streams is one that the file sees cut off.
fn file_state(state: history::MessageState) -> FileState {
    match state {
        history::MessageState::Complete => FileState::Complete,
        history::MessageState::Stopped => FileState::Stopped,
        history::MessageState::Failed => FileState::Failed,
        history::MessageState::Interrupted | history::MessageState::Streaming => FileState::Interrupted,
    }
}

/// Stored JSON is checked when it is read.
fn raw(json: Option<String>) -> Option<Box<RawValue>> {
    json.and_then(|json| RawValue::from_string(json).ok())
}

/// A digest of what a conversation says, whatever it is called in its file.
///
/// # Errors
/// [`AppError::Json`].
pub fn digest(conversation: &FileConversation) -> Result<[u8; 32], AppError> {
    struct Hasher(Sha256);
    impl std::io::Write for Hasher {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut hasher = Hasher(Sha256::new());
    // The id stands first and is its own name.
    let unnamed = Unnamed {
        title: &conversation.title,
        times: (conversation.created_at_ms, conversation.updated_at_ms),
        is_pinned: conversation.is_pinned,
        settings: conversation.settings.as_deref(),
        draft: &conversation.draft,
        draft_attachments: &conversation.draft_attachments,
        active: conversation.active,
        messages: &conversation.messages,
    };
    serde_json::to_writer(&mut hasher, &unnamed)
        .map_err(|source| AppError::Json { what: "conversation", source: source.into() })?;
    Ok(hasher.0.finalize().into())
}

/// All of a conversation but its id.
#[derive(Serialize)]
struct Unnamed<'a> {
    title: &'a str,
    times: (i64, i64),
    is_pinned: bool,
    settings: Option<&'a RawValue>,
    draft: &'a str,
    draft_attachments: &'a [FileAttachment],
    active: Option<usize>,
    messages: &'a [FileMessage],
}

/// Makes a conversation that can be stored.
pub fn to_history(conversation: FileConversation, origin: Origin) -> NewConversation {
    NewConversation {
        title: conversation.title.split_whitespace().collect::<Vec<_>>().join(" "),
        created_at_ms: conversation.created_at_ms,
        updated_at_ms: conversation.updated_at_ms,
        is_pinned: conversation.is_pinned,
        settings_json: json(conversation.settings),
        draft: conversation.draft,
        draft_attachments: conversation.draft_attachments.into_iter().map(new_attachment).collect(),
        active: conversation.active,
        messages: conversation.messages.into_iter().map(new_message).collect(),
        origin,
    }
}

fn new_message(message: FileMessage) -> NewMessage {
    NewMessage {
        parent: message.parent,
        role: match message.role {
            FileRole::User => Role::User,
            FileRole::Assistant => Role::Assistant,
        },
        state: match message.state {
            FileState::Complete => FinishState::Complete,
            FileState::Stopped => FinishState::Stopped,
            FileState::Failed => FinishState::Failed,
            FileState::Interrupted => FinishState::Interrupted,
        },
        text: message.text,
        thinking: message.thinking,
        output_tokens: message.answer_tokens,
        thinking_tokens: message.thinking_tokens,
        created_at_ms: message.created_at_ms,
        finished_at_ms: message.finished_at_ms,
        finish_reason: message.finish_reason,
        error_code: message.failure,
        settings_json: json(message.settings),
        receipt_json: json(message.receipt),
        token_details_json: json(message.token_details),
        attachments: message.attachments.into_iter().map(new_attachment).collect(),
    }
}

fn new_attachment(attachment: FileAttachment) -> NewAttachment {
    NewAttachment {
        name: attachment.name,
        kind: match attachment.kind {
            FileKind::Text => AttachmentKind::Text,
            FileKind::Markdown => AttachmentKind::Markdown,
            FileKind::Code => AttachmentKind::Code,
            FileKind::Pdf => AttachmentKind::Pdf,
        },
        pages: attachment.pages,
        text: attachment.text,
    }
}

fn json(raw: Option<Box<RawValue>>) -> Option<String> {
    raw.map(|raw| Box::<str>::from(raw).into_string())
}
