//! App settings, settings per conversation, drafts.

use sqlx::SqliteExecutor;

use crate::{ConversationId, Durability, History, HistoryError, decode, now_ms};

impl History {
    /// The JSON text stored under `key`; `None` if there is none or it cannot be read.
    pub async fn app_setting(&self, key: &str) -> Result<Option<String>, HistoryError> {
        let row = sqlx::query("SELECT value_json FROM app_settings WHERE key = ?")
            .bind(key)
            .fetch_optional(&self.shared.reader)
            .await?;
        row.map_or(Ok(None), |row| decode::json(&row, "value_json"))
    }

    /// Stores JSON text under `key`, replacing what was there.
    ///
    /// # Errors
    /// [`HistoryError::InvalidJson`].
    pub async fn set_app_setting(&self, key: &str, value_json: &str) -> Result<(), HistoryError> {
        decode::require_json("value_json", value_json)?;
        let mut connection = self.writer(Durability::Now).await?;
        sqlx::query(
            "INSERT INTO app_settings (key, value_json, updated_at_ms) VALUES (?1, ?2, ?3)
             ON CONFLICT (key) DO UPDATE SET value_json = ?2, updated_at_ms = ?3",
        )
        .bind(key)
        .bind(value_json)
        .bind(now_ms())
        .execute(&mut *connection)
        .await?;
        Ok(())
    }

    /// The JSON text of a conversation's settings; `None` if there is none or it cannot be read.
    pub async fn conversation_settings(
        &self,
        conversation: ConversationId,
    ) -> Result<Option<String>, HistoryError> {
        read_conversation_settings(&self.shared.reader, conversation).await
    }

    /// Stores JSON text as a conversation's settings.
    ///
    /// # Errors
    /// [`HistoryError::InvalidJson`], [`HistoryError::ConversationNotFound`].
    pub async fn set_conversation_settings(
        &self,
        conversation: ConversationId,
        settings_json: &str,
    ) -> Result<(), HistoryError> {
        decode::require_json("settings_json", settings_json)?;
        let mut connection = self.writer(Durability::Now).await?;
        let written = sqlx::query(
            "INSERT INTO conversation_settings (conversation_id, settings_json, updated_at_ms)
             SELECT id, ?2, ?3 FROM conversations WHERE id = ?1 AND deleted_at_ms IS NULL
             ON CONFLICT (conversation_id) DO UPDATE SET settings_json = ?2, updated_at_ms = ?3",
        )
        .bind(conversation)
        .bind(settings_json)
        .bind(now_ms())
        .execute(&mut *connection)
        .await?;
        found(conversation, written.rows_affected())
    }

    /// The unsent text of a conversation's composer; empty if there is none.
    pub async fn draft(&self, conversation: ConversationId) -> Result<String, HistoryError> {
        read_draft(&self.shared.reader, conversation).await
    }

    /// Stores the unsent text of a conversation's composer. [`History::begin_turn`] clears it.
    ///
    /// # Errors
    /// [`HistoryError::ConversationNotFound`].
    pub async fn save_draft(&self, conversation: ConversationId, text: &str) -> Result<(), HistoryError> {
        let mut connection = self.writer(Durability::Now).await?;
        let written = sqlx::query(
            "INSERT INTO drafts (conversation_id, text, updated_at_ms)
             SELECT id, ?2, ?3 FROM conversations WHERE id = ?1 AND deleted_at_ms IS NULL
             ON CONFLICT (conversation_id) DO UPDATE SET text = ?2, updated_at_ms = ?3",
        )
        .bind(conversation)
        .bind(text)
        .bind(now_ms())
        .execute(&mut *connection)
        .await?;
        found(conversation, written.rows_affected())
    }
}

pub async fn read_conversation_settings(
    executor: impl SqliteExecutor<'_>,
    conversation: ConversationId,
) -> Result<Option<String>, HistoryError> {
    let row = sqlx::query("SELECT settings_json FROM conversation_settings WHERE conversation_id = ?")
        .bind(conversation)
        .fetch_optional(executor)
        .await?;
    row.map_or(Ok(None), |row| decode::json(&row, "settings_json"))
}

pub async fn read_draft(
    executor: impl SqliteExecutor<'_>,
    conversation: ConversationId,
) -> Result<String, HistoryError> {
    let row = sqlx::query("SELECT text FROM drafts WHERE conversation_id = ?")
        .bind(conversation)
        .fetch_optional(executor)
        .await?;
    row.map_or(Ok(String::new()), |row| decode::text(&row, "text"))
}

/// Turns "no row was written" into an error.
pub fn found(conversation: ConversationId, rows: u64) -> Result<(), HistoryError> {
    if rows == 0 { Err(HistoryError::ConversationNotFound(conversation)) } else { Ok(()) }
}
