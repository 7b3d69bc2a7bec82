//! Whole conversations that leave the history and come into it.

use sqlx::{Connection, Row, SqliteConnection};

use crate::conversations::Conversation;
use crate::messages::tree;
use crate::{
    ConversationId, Durability, FinishState, History, HistoryError, MessageId, MessageState, NewAttachment,
    Role, attachments, decode, now_ms,
};

/// Where an imported conversation came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Whose file.
    pub source: String,
    /// The conversation's name there.
    pub source_id: String,
    /// Digest of what was imported.
    pub sha256: [u8; 32],
}

/// A conversation to be stored as it is, with all its versions and times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewConversation {
    /// Its title.
    pub title: String,
    /// When it was created.
    pub created_at_ms: i64,
    /// When a message was last added or finished.
    pub updated_at_ms: i64,
    /// Kept at hand by the user.
    pub is_pinned: bool,
    /// JSON text of its settings.
    pub settings_json: Option<String>,
    /// Unsent text.
    pub draft: String,
    /// What is attached to it.
    pub draft_attachments: Vec<NewAttachment>,
    /// All messages, each after the one it follows; versions of one place oldest first.
    pub messages: Vec<NewMessage>,
    /// Place of the last message of the path; `None` takes the last of all.
    pub active: Option<usize>,
    /// Where it came from.
    pub origin: Origin,
}

/// A message of a [`NewConversation`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// Place of the message it follows, before its own.
    pub parent: Option<usize>,
    /// Who wrote it.
    pub role: Role,
    /// How it ended; a user message is complete.
    pub state: FinishState,
    /// Its text.
    pub text: String,
    /// What the model thought before it.
    pub thinking: String,
    /// Tokens of the answer.
    pub output_tokens: u32,
    /// Tokens of the thinking.
    pub thinking_tokens: u32,
    /// When it was stored.
    pub created_at_ms: i64,
    /// When the answer ended.
    pub finished_at_ms: Option<i64>,
    /// As in [`crate::AnswerEnd`].
    pub finish_reason: Option<String>,
    /// As in [`crate::AnswerEnd`].
    pub error_code: Option<String>,
    /// JSON text of the settings it was asked with.
    pub settings_json: Option<String>,
    /// JSON text of its receipt.
    pub receipt_json: Option<String>,
    /// JSON text of what was recorded of its tokens.
    pub token_details_json: Option<String>,
    /// What goes along with it.
    pub attachments: Vec<NewAttachment>,
}

/// A conversation with the messages of all branches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeConversation {
    /// As [`History::open_conversation`] gives it; its path holds every message, parents first.
    pub conversation: Conversation,
    /// Where it was imported from.
    pub origin: Option<Origin>,
}

impl History {
    /// Reads a conversation with the messages of all branches instead of those of the path.
    ///
    /// # Errors
    /// [`HistoryError::ConversationNotFound`].
    pub async fn whole_conversation(&self, id: ConversationId) -> Result<WholeConversation, HistoryError> {
        let conversation = self.open_conversation(id).await?;
        let mut connection = self.shared.reader.acquire().await?;
        let mut snapshot = connection.begin().await?;
        let path = tree::read_all(&mut snapshot, id).await?;
        let origin = read_origin(&mut snapshot, id).await?;
        snapshot.commit().await?;
        Ok(WholeConversation { conversation: Conversation { path, ..conversation }, origin })
    }

    /// Stores a conversation in one transaction.
    ///
    /// # Errors
    /// [`HistoryError::InvalidJson`], [`HistoryError::NotATree`].
    pub async fn import_conversation(&self, new: &NewConversation) -> Result<ConversationId, HistoryError> {
        check(new)?;
        let mut connection = self.writer(Durability::Now).await?;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        let id: ConversationId = sqlx::query_scalar(
            "INSERT INTO conversations (title, created_at_ms, updated_at_ms, is_pinned)
             VALUES (?, ?, ?, ?) RETURNING id",
        )
        .bind(&new.title)
        .bind(new.created_at_ms)
        .bind(new.updated_at_ms)
        .bind(new.is_pinned)
        .fetch_one(&mut *transaction)
        .await?;
        let mut ids: Vec<MessageId> = Vec::with_capacity(new.messages.len());
        for message in &new.messages {
            let parent = message.parent.map(|place| ids[place]);
            ids.push(insert_message(&mut transaction, id, parent, message).await?);
        }
        for attachment in &new.draft_attachments {
            attachments::insert(&mut transaction, id, None, attachment).await?;
        }
        let leaf = new.active.map(|place| ids[place]).or(ids.last().copied());
        sqlx::query("UPDATE conversations SET active_leaf_id = ?2 WHERE id = ?1")
            .bind(id)
            .bind(leaf)
            .execute(&mut *transaction)
            .await?;
        insert_rest(&mut transaction, id, new).await?;
        transaction.commit().await?;
        Ok(id)
    }

    /// Digests of what was imported under a name; conversations deleted since do not count.
    pub async fn imported_digests(
        &self,
        source: &str,
        source_id: &str,
    ) -> Result<Vec<[u8; 32]>, HistoryError> {
        let digests: Vec<Vec<u8>> = sqlx::query_scalar(
            "SELECT o.sha256 FROM conversation_origins AS o JOIN conversations AS c ON c.id = o.conversation_id
             WHERE o.source = ? AND o.source_id = ? AND c.deleted_at_ms IS NULL",
        )
        .bind(source)
        .bind(source_id)
        .fetch_all(&self.shared.reader)
        .await?;
        Ok(digests.into_iter().filter_map(|digest| digest.try_into().ok()).collect())
    }
}

/// Checks what the database would refuse or could not read back.
fn check(new: &NewConversation) -> Result<(), HistoryError> {
    let optional = |field, json: &Option<String>| {
        json.as_deref().map_or(Ok(()), |json| decode::require_json(field, json))
    };
    optional("settings_json", &new.settings_json)?;
    for (place, message) in new.messages.iter().enumerate() {
        if message.parent.is_some_and(|parent| parent >= place) {
            return Err(HistoryError::NotATree { place });
        }
        optional("settings_json", &message.settings_json)?;
        optional("receipt_json", &message.receipt_json)?;
        optional("token_details_json", &message.token_details_json)?;
    }
    match new.active {
        Some(place) if place >= new.messages.len() => Err(HistoryError::NotATree { place }),
        _ => Ok(()),
    }
}

async fn insert_message(
    connection: &mut SqliteConnection,
    conversation: ConversationId,
    parent: Option<MessageId>,
    message: &NewMessage,
) -> Result<MessageId, HistoryError> {
    let (role, state) = match message.role {
        Role::User => ("user", FinishState::Complete),
        Role::Assistant => ("assistant", message.state),
    };
    let id: MessageId = sqlx::query_scalar(
        "INSERT INTO messages (conversation_id, parent_id, role, state, output_tokens, thinking_tokens,
             created_at_ms, finished_at_ms, finish_reason, error_code, settings_json, receipt_json, text, thinking)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
    )
    .bind(conversation)
    .bind(parent)
    .bind(role)
    .bind(MessageState::from(state).as_str())
    .bind(message.output_tokens)
    .bind(message.thinking_tokens)
    .bind(message.created_at_ms)
    .bind(message.finished_at_ms)
    .bind(message.finish_reason.as_deref())
    .bind(message.error_code.as_deref())
    .bind(message.settings_json.as_deref())
    .bind(message.receipt_json.as_deref())
    .bind(&message.text)
    .bind(&message.thinking)
    .fetch_one(&mut *connection)
    .await?;
    if let Some(details) = &message.token_details_json {
        sqlx::query("INSERT INTO token_details (message_id, details_json) VALUES (?, ?)")
            .bind(id)
            .bind(details)
            .execute(&mut *connection)
            .await?;
    }
    for attachment in &message.attachments {
        attachments::insert(connection, conversation, Some(id), attachment).await?;
    }
    Ok(id)
}

/// Stores what lies beside the messages.
async fn insert_rest(
    connection: &mut SqliteConnection,
    id: ConversationId,
    new: &NewConversation,
) -> Result<(), HistoryError> {
    let now_ms = now_ms();
    if let Some(settings) = &new.settings_json {
        sqlx::query(
            "INSERT INTO conversation_settings (conversation_id, settings_json, updated_at_ms) VALUES (?, ?, ?)",
        )
        .bind(id)
        .bind(settings)
        .bind(now_ms)
        .execute(&mut *connection)
        .await?;
    }
    if !new.draft.is_empty() {
        sqlx::query("INSERT INTO drafts (conversation_id, text, updated_at_ms) VALUES (?, ?, ?)")
            .bind(id)
            .bind(&new.draft)
            .bind(now_ms)
            .execute(&mut *connection)
            .await?;
    }
    sqlx::query(
        "INSERT INTO conversation_origins (conversation_id, source, source_id, sha256, imported_at_ms)
         VALUES (?, ?, ?, ?, ?)",
    )
    .bind(id)
    .bind(&new.origin.source)
    .bind(&new.origin.source_id)
    .bind(&new.origin.sha256[..])
    .bind(now_ms)
    .execute(connection)
    .await?;
    Ok(())
}

async fn read_origin(
    connection: &mut SqliteConnection,
    id: ConversationId,
) -> Result<Option<Origin>, HistoryError> {
    let row =
        sqlx::query("SELECT source, source_id, sha256 FROM conversation_origins WHERE conversation_id = ?")
            .bind(id)
            .fetch_optional(connection)
            .await?;
    let Some(row) = row else { return Ok(None) };
    let digest: Vec<u8> = row.try_get("sha256")?;
    Ok(Some(Origin {
        source: decode::text(&row, "source")?,
        source_id: decode::text(&row, "source_id")?,
        sha256: digest.try_into().unwrap_or_default(),
    }))
}
