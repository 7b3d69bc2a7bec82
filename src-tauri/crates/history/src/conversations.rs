//! Conversations: list, create, open, rename, delete with undo.

use std::time::Duration;

use sqlx::sqlite::SqliteRow;
use sqlx::{Connection, Row, SqliteConnection, SqlitePool};

use crate::settings::{found, read_conversation_settings, read_draft};
use crate::{
    Attachment, ConversationId, Durability, History, HistoryError, Message, MessageId, ScrollPlace,
    attachments, decode, messages, now_ms, scroll,
};

/// Characters of a preview at most.
pub const PREVIEW_CHARS: usize = 160;

/// A line of the sidebar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationSummary {
    /// Its id.
    pub id: ConversationId,
    /// Its title.
    pub title: String,
    /// When it was created.
    pub created_at_ms: i64,
    /// When a message was last added or finished. Renaming does not count.
    pub updated_at_ms: i64,
    /// Messages in the whole tree, other versions included.
    pub message_count: u32,
    /// Start of the last message of the path on one line; of the question while its answer is empty or streaming.
    pub preview: String,
    /// Kept at hand by the user.
    pub is_pinned: bool,
    /// Its messages cannot be read because the file is damaged there; count and preview are then 0 and empty.
    pub is_damaged: bool,
}

/// A conversation as the chat view shows it, read in one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// Its id.
    pub id: ConversationId,
    /// Its title.
    pub title: String,
    /// When it was created.
    pub created_at_ms: i64,
    /// When a message was last added or finished.
    pub updated_at_ms: i64,
    /// Kept at hand by the user.
    pub is_pinned: bool,
    /// The last message of `path`: the parent to give to the next turn. `None` while there is no message.
    pub active_leaf: Option<MessageId>,
    /// The messages from the root to the active leaf.
    pub path: Vec<Message>,
    /// Unsent text of the composer.
    pub draft: String,
    /// What is attached to it, in order.
    pub draft_attachments: Vec<Attachment>,
    /// Where the reader was; `None` for the end, and if that message is not on the path.
    pub scroll: Option<ScrollPlace>,
    /// JSON text of its settings; `None` if there is none or it cannot be read.
    pub settings_json: Option<String>,
}

impl History {
    /// Stores a new, empty conversation.
    pub async fn create_conversation(&self, title: &str) -> Result<ConversationId, HistoryError> {
        let mut connection = self.writer(Durability::Now).await?;
        let id = sqlx::query_scalar(
            "INSERT INTO conversations (title, created_at_ms, updated_at_ms) VALUES (?1, ?2, ?2) RETURNING id",
        )
        .bind(title)
        .bind(now_ms())
        .fetch_one(&mut *connection)
        .await?;
        Ok(id)
    }

    /// All conversations that are not deleted, last updated first.
    ///
    /// Damage among the messages of some leaves the others whole ([`ConversationSummary::is_damaged`]).
    pub async fn list_conversations(&self) -> Result<Vec<ConversationSummary>, HistoryError> {
        let summaries = read_summaries(&self.shared.reader).await;
        let Err(HistoryError::Corrupt { detail }) = summaries else { return summaries };
        tracing::warn!(%detail, "the history is damaged; listing conversations one by one");
        let rows = sqlx::query(
            "SELECT id, title, created_at_ms, updated_at_ms, is_pinned, 0 AS message_count, '' AS preview
             FROM conversations WHERE deleted_at_ms IS NULL ORDER BY updated_at_ms DESC, id DESC",
        )
        .fetch_all(&self.shared.reader)
        .await?;
        let mut summaries = Vec::with_capacity(rows.len());
        for row in &rows {
            let bare = read_summary(row)?;
            summaries.push(match read_one_summary(&self.shared.reader, bare.id).await {
                Ok(whole) => whole,
                Err(HistoryError::Corrupt { .. }) => ConversationSummary { is_damaged: true, ..bare },
                Err(error) => return Err(error),
            });
        }
        Ok(summaries)
    }

    /// Reads a conversation with its path, draft, settings and place.
    ///
    /// # Errors
    /// [`HistoryError::ConversationNotFound`], also if it is deleted.
    pub async fn open_conversation(&self, id: ConversationId) -> Result<Conversation, HistoryError> {
        let mut connection = self.shared.reader.acquire().await?;
        let mut snapshot = connection.begin().await?;
        let row = sqlx::query(
            "SELECT title, created_at_ms, updated_at_ms, is_pinned,
                    coalesce(active_leaf_id,
                             (SELECT max(m.id) FROM messages AS m WHERE m.conversation_id = c.id)) AS leaf_id
             FROM conversations AS c WHERE id = ? AND deleted_at_ms IS NULL",
        )
        .bind(id)
        .fetch_optional(&mut *snapshot)
        .await?
        .ok_or(HistoryError::ConversationNotFound(id))?;
        let active_leaf: Option<MessageId> = row.try_get("leaf_id")?;
        let path = match active_leaf {
            Some(leaf) => messages::read_path(&mut snapshot, id, leaf).await?,
            None => Vec::new(),
        };
        let place = scroll::read_scroll(&mut snapshot, id).await?;
        let scroll = place.filter(|place| path.iter().any(|message| message.id == place.message));
        let conversation = Conversation {
            id,
            title: decode::text(&row, "title")?,
            created_at_ms: row.try_get("created_at_ms")?,
            updated_at_ms: row.try_get("updated_at_ms")?,
            is_pinned: row.try_get("is_pinned")?,
            active_leaf,
            path,
            draft: read_draft(&mut *snapshot, id).await?,
            draft_attachments: attachments::read_draft(&mut snapshot, id).await?,
            scroll,
            settings_json: read_conversation_settings(&mut *snapshot, id).await?,
        };
        snapshot.commit().await?;
        Ok(conversation)
    }

    /// Changes the title.
    ///
    /// # Errors
    /// [`HistoryError::ConversationNotFound`].
    pub async fn rename_conversation(&self, id: ConversationId, title: &str) -> Result<(), HistoryError> {
        let mut connection = self.writer(Durability::Now).await?;
        let renamed =
            sqlx::query("UPDATE conversations SET title = ?2 WHERE id = ?1 AND deleted_at_ms IS NULL")
                .bind(id)
                .bind(title)
                .execute(&mut *connection)
                .await?;
        found(id, renamed.rows_affected())
    }

    /// Keeps a conversation at hand. Its place in [`History::list_conversations`] stays.
    ///
    /// # Errors
    /// [`HistoryError::ConversationNotFound`].
    pub async fn pin_conversation(&self, id: ConversationId) -> Result<(), HistoryError> {
        self.write_pin(id, Pin::Pinned).await
    }

    /// Undoes [`History::pin_conversation`].
    ///
    /// # Errors
    /// [`HistoryError::ConversationNotFound`].
    pub async fn unpin_conversation(&self, id: ConversationId) -> Result<(), HistoryError> {
        self.write_pin(id, Pin::Unpinned).await
    }

    async fn write_pin(&self, id: ConversationId, pin: Pin) -> Result<(), HistoryError> {
        let mut connection = self.writer(Durability::Now).await?;
        let written =
            sqlx::query("UPDATE conversations SET is_pinned = ?2 WHERE id = ?1 AND deleted_at_ms IS NULL")
                .bind(id)
                .bind(pin == Pin::Pinned)
                .execute(&mut *connection)
                .await?;
        found(id, written.rows_affected())
    }

    /// Hides a conversation; [`History::restore_conversation`] brings it back whole until it is purged.
    ///
    /// # Errors
    /// [`HistoryError::ConversationNotFound`], also if it is already deleted.
    pub async fn delete_conversation(&self, id: ConversationId) -> Result<(), HistoryError> {
        let mut connection = self.writer(Durability::Now).await?;
        let deleted = sqlx::query(
            "UPDATE conversations SET deleted_at_ms = ?2 WHERE id = ?1 AND deleted_at_ms IS NULL",
        )
        .bind(id)
        .bind(now_ms())
        .execute(&mut *connection)
        .await?;
        found(id, deleted.rows_affected())
    }

    /// Undoes [`History::delete_conversation`].
    ///
    /// # Errors
    /// [`HistoryError::ConversationNotFound`] if it was purged or never was.
    pub async fn restore_conversation(&self, id: ConversationId) -> Result<(), HistoryError> {
        let mut connection = self.writer(Durability::Now).await?;
        let restored = sqlx::query("UPDATE conversations SET deleted_at_ms = NULL WHERE id = ?")
            .bind(id)
            .execute(&mut *connection)
            .await?;
        found(id, restored.rows_affected())
    }

    /// Erases conversations deleted at least `age` ago, with everything in them. Returns how many.
    pub async fn purge_deleted(&self, age: Duration) -> Result<u64, HistoryError> {
        let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        let mut connection = self.writer(Durability::Now).await?;
        let purged = sqlx::query("DELETE FROM conversations WHERE deleted_at_ms <= ?")
            .bind(now_ms().saturating_sub(age_ms))
            .execute(&mut *connection)
            .await?;
        Ok(purged.rows_affected())
    }
}

/// Whether a conversation is kept at hand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pin {
    Pinned,
    Unpinned,
}

/// Moves the end of the path to `leaf` and the conversation to the top of the list.
pub async fn set_active_leaf(
    connection: &mut SqliteConnection,
    id: ConversationId,
    leaf: MessageId,
    now_ms: i64,
) -> Result<(), HistoryError> {
    let moved = sqlx::query(
        "UPDATE conversations SET active_leaf_id = ?2, updated_at_ms = ?3 WHERE id = ?1 AND deleted_at_ms IS NULL",
    )
    .bind(id)
    .bind(leaf)
    .bind(now_ms)
    .execute(connection)
    .await?;
    found(id, moved.rows_affected())
}

/// Every column of a [`ConversationSummary`]; `?1` is the length that a preview is cut to.
macro_rules! select_summaries {
    ($tail:literal) => {
        concat!(
            "SELECT c.id, c.title, c.created_at_ms, c.updated_at_ms, c.is_pinned,
                    (SELECT count(*) FROM messages AS m WHERE m.conversation_id = c.id) AS message_count,
                    substr(coalesce(nullif(leaf.text, ''), asked.text, ''), 1, ?1) AS preview
             FROM conversations AS c
             LEFT JOIN messages AS leaf ON leaf.id = c.active_leaf_id
             LEFT JOIN messages AS asked ON asked.id = leaf.parent_id ",
            $tail
        )
    };
}

/// Twice what is shown: white space is folded after the cut.
const CUT_CHARS: i64 = 2 * PREVIEW_CHARS as i64;

async fn read_summaries(reader: &SqlitePool) -> Result<Vec<ConversationSummary>, HistoryError> {
    let rows = sqlx::query(select_summaries!(
        "WHERE c.deleted_at_ms IS NULL ORDER BY c.updated_at_ms DESC, c.id DESC"
    ))
    .bind(CUT_CHARS)
    .fetch_all(reader)
    .await?;
    rows.iter().map(read_summary).collect()
}

async fn read_one_summary(
    reader: &SqlitePool,
    id: ConversationId,
) -> Result<ConversationSummary, HistoryError> {
    let row =
        sqlx::query(select_summaries!("WHERE c.id = ?2")).bind(CUT_CHARS).bind(id).fetch_one(reader).await?;
    read_summary(&row)
}

fn read_summary(row: &SqliteRow) -> Result<ConversationSummary, HistoryError> {
    Ok(ConversationSummary {
        id: row.try_get("id")?,
        title: decode::text(row, "title")?,
        created_at_ms: row.try_get("created_at_ms")?,
        updated_at_ms: row.try_get("updated_at_ms")?,
        message_count: row.try_get("message_count")?,
        preview: fold_white_space(&decode::text(row, "preview")?),
        is_pinned: row.try_get("is_pinned")?,
        is_damaged: false,
    })
}

fn fold_white_space(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(PREVIEW_CHARS).collect()
}
