//! Texts that go along with a message: attached to the draft first, moved to the message when it is sent.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use sqlx::sqlite::SqliteRow;
use sqlx::{Connection, Row, SqliteConnection};

use crate::{
    AttachmentId, ConversationId, Durability, History, HistoryError, MessageId, TextId, decode, messages,
};

/// What an attachment was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachmentKind {
    /// Plain text.
    Text,
    /// Markdown.
    Markdown,
    /// Source code, or data in a text format.
    Code,
    /// The text of a PDF.
    Pdf,
}

impl AttachmentKind {
    /// The stored word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Markdown => "markdown",
            Self::Code => "code",
            Self::Pdf => "pdf",
        }
    }

    /// Reads the stored word. A damaged one counts as text: its text is there.
    pub(crate) fn parse(word: &str) -> Self {
        match word {
            "markdown" => Self::Markdown,
            "code" => Self::Code,
            "pdf" => Self::Pdf,
            _ => Self::Text,
        }
    }
}

/// A stored attachment, without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Its id.
    pub id: AttachmentId,
    /// Name of the file.
    pub name: String,
    /// What it was made from.
    pub kind: AttachmentKind,
    /// Characters of its text.
    pub chars: u32,
    /// Pages of a PDF.
    pub pages: Option<u32>,
    /// Its text, for [`History::attachment_text`] and to know equal texts by.
    pub text: TextId,
}

/// An attachment to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAttachment {
    /// Name of the file.
    pub name: String,
    /// What it was made from.
    pub kind: AttachmentKind,
    /// Pages of a PDF.
    pub pages: Option<u32>,
    /// Its text.
    pub text: String,
}

impl History {
    /// Attaches a text to the draft of a conversation, after those that are there.
    ///
    /// # Errors
    /// [`HistoryError::DraftFull`] if there are `max_attachments` already, [`HistoryError::ConversationNotFound`].
    pub async fn attach(
        &self,
        conversation: ConversationId,
        attachment: &NewAttachment,
        max_attachments: u32,
    ) -> Result<Attachment, HistoryError> {
        let mut connection = self.writer(Durability::Now).await?;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        messages::require_conversation(&mut transaction, conversation).await?;
        let attached: u32 = sqlx::query_scalar(
            "SELECT count(*) FROM attachments WHERE conversation_id = ? AND message_id IS NULL",
        )
        .bind(conversation)
        .fetch_one(&mut *transaction)
        .await?;
        if attached >= max_attachments {
            return Err(HistoryError::DraftFull { max_attachments });
        }
        let stored = insert(&mut transaction, conversation, None, attachment).await?;
        transaction.commit().await?;
        Ok(stored)
    }

    /// Takes an attachment off a draft. Returns whether there was one; a sent one stays.
    pub async fn remove_attachment(&self, attachment: AttachmentId) -> Result<bool, HistoryError> {
        let mut connection = self.writer(Durability::Now).await?;
        let removed = sqlx::query("DELETE FROM attachments WHERE id = ? AND message_id IS NULL")
            .bind(attachment)
            .execute(&mut *connection)
            .await?;
        Ok(removed.rows_affected() > 0)
    }

    /// The text of an attachment, sent or not.
    ///
    /// # Errors
    /// [`HistoryError::AttachmentNotFound`].
    pub async fn attachment_text(&self, attachment: AttachmentId) -> Result<String, HistoryError> {
        let row = sqlx::query(
            "SELECT t.text FROM attachments AS a JOIN attachment_texts AS t ON t.id = a.text_id WHERE a.id = ?",
        )
        .bind(attachment)
        .fetch_optional(&self.shared.reader)
        .await?
        .ok_or(HistoryError::AttachmentNotFound(attachment))?;
        decode::text(&row, "text")
    }
}

/// Stores an attachment of a message, or of the draft, in a conversation that is there.
pub async fn insert(
    connection: &mut SqliteConnection,
    conversation: ConversationId,
    message: Option<MessageId>,
    attachment: &NewAttachment,
) -> Result<Attachment, HistoryError> {
    let NewAttachment { name, kind, pages, text } = attachment;
    let hash = Sha256::digest(text.as_bytes()).to_vec();
    // The update changes nothing; without it no id would be returned for a text that is there.
    let text_id: TextId = sqlx::query_scalar(
        "INSERT INTO attachment_texts (sha256, text) VALUES (?, ?)
         ON CONFLICT (sha256) DO UPDATE SET sha256 = excluded.sha256 RETURNING id",
    )
    .bind(hash)
    .bind(text)
    .fetch_one(&mut *connection)
    .await?;
    let chars = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
    let id = sqlx::query_scalar(
        "INSERT INTO attachments (conversation_id, message_id, kind, chars, pages, text_id, name)
         VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
    )
    .bind(conversation)
    .bind(message)
    .bind(kind.as_str())
    .bind(chars)
    .bind(pages)
    .bind(text_id)
    .bind(name)
    .fetch_one(connection)
    .await?;
    Ok(Attachment { id, name: name.clone(), kind: *kind, chars, pages: *pages, text: text_id })
}

/// Gives what is attached to the draft to a message.
pub async fn send(
    connection: &mut SqliteConnection,
    conversation: ConversationId,
    message: MessageId,
) -> Result<(), HistoryError> {
    sqlx::query("UPDATE attachments SET message_id = ?2 WHERE conversation_id = ?1 AND message_id IS NULL")
        .bind(conversation)
        .bind(message)
        .execute(connection)
        .await?;
    Ok(())
}

/// Gives the attachments of a message to another one of the conversation too.
pub async fn copy(
    connection: &mut SqliteConnection,
    conversation: ConversationId,
    from: MessageId,
    to: MessageId,
) -> Result<(), HistoryError> {
    sqlx::query(
        "INSERT INTO attachments (conversation_id, message_id, kind, chars, pages, text_id, name)
         SELECT conversation_id, ?3, kind, chars, pages, text_id, name
         FROM attachments WHERE conversation_id = ?1 AND message_id = ?2 ORDER BY id",
    )
    .bind(conversation)
    .bind(from)
    .bind(to)
    .execute(connection)
    .await?;
    Ok(())
}

/// The attachments of a conversation by message, each in order; those of the draft under `None`.
pub async fn read_all(
    connection: &mut SqliteConnection,
    conversation: ConversationId,
) -> Result<HashMap<Option<MessageId>, Vec<Attachment>>, HistoryError> {
    let rows = sqlx::query(
        "SELECT id, message_id, name, kind, chars, pages, text_id
         FROM attachments WHERE conversation_id = ? ORDER BY id",
    )
    .bind(conversation)
    .fetch_all(connection)
    .await?;
    let mut attachments: HashMap<_, Vec<_>> = HashMap::new();
    for row in &rows {
        attachments.entry(row.try_get("message_id")?).or_default().push(read(row)?);
    }
    Ok(attachments)
}

/// What is attached to the draft of a conversation, in order.
pub async fn read_draft(
    connection: &mut SqliteConnection,
    conversation: ConversationId,
) -> Result<Vec<Attachment>, HistoryError> {
    Ok(read_all(connection, conversation).await?.remove(&None).unwrap_or_default())
}

fn read(row: &SqliteRow) -> Result<Attachment, HistoryError> {
    let count = |value: i64| u32::try_from(value).unwrap_or(0);
    Ok(Attachment {
        id: row.try_get("id")?,
        name: decode::text(row, "name")?,
        kind: AttachmentKind::parse(&decode::text(row, "kind")?),
        chars: count(row.try_get("chars")?),
        pages: row.try_get::<Option<i64>, _>("pages")?.map(count),
        text: row.try_get("text_id")?,
    })
}
