//! Where readers are in conversations.

use sqlx::{Connection, SqliteConnection};

use crate::{ConversationId, Durability, History, HistoryError, MessageId, messages};

/// Where a reader is in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScrollPlace {
    /// The first message in sight.
    pub message: MessageId,
    /// How far its top lies above the top of the view, in CSS pixels.
    pub above_px: i32,
}

impl History {
    /// Keeps where a reader is; `None` is the end.
    ///
    /// # Errors
    /// [`HistoryError::ConversationNotFound`], [`HistoryError::MessageNotFound`].
    pub async fn save_scroll(
        &self,
        conversation: ConversationId,
        place: Option<ScrollPlace>,
    ) -> Result<(), HistoryError> {
        let mut connection = self.writer(Durability::Soon).await?;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        messages::require_conversation(&mut transaction, conversation).await?;
        match place {
            None => {
                sqlx::query("DELETE FROM scroll_places WHERE conversation_id = ?")
                    .bind(conversation)
                    .execute(&mut *transaction)
                    .await?;
            }
            Some(ScrollPlace { message, above_px }) => {
                let written = sqlx::query(
                    "INSERT INTO scroll_places (conversation_id, message_id, above_px)
                     SELECT conversation_id, id, ?3 FROM messages WHERE conversation_id = ?1 AND id = ?2
                     ON CONFLICT (conversation_id) DO UPDATE SET message_id = ?2, above_px = ?3",
                )
                .bind(conversation)
                .bind(message)
                .bind(above_px)
                .execute(&mut *transaction)
                .await?;
                if written.rows_affected() == 0 {
                    return Err(HistoryError::MessageNotFound(message));
                }
            }
        }
        transaction.commit().await?;
        Ok(())
    }
}

/// Where the reader of a conversation was, if that is not the end.
pub async fn read_scroll(
    connection: &mut SqliteConnection,
    conversation: ConversationId,
) -> Result<Option<ScrollPlace>, HistoryError> {
    let row: Option<(MessageId, i64)> =
        sqlx::query_as("SELECT message_id, above_px FROM scroll_places WHERE conversation_id = ?")
            .bind(conversation)
            .fetch_optional(connection)
            .await?;
    Ok(row.map(|(message, above_px)| ScrollPlace { message, above_px: i32::try_from(above_px).unwrap_or(0) }))
}
