//! Another version of a question.

use sqlx::Connection;

use super::{Turn, tree};
use crate::conversations::set_active_leaf;
use crate::{ConversationId, Durability, History, HistoryError, MessageId, attachments, decode, now_ms};

impl History {
    /// Stores another version of a user message, with the attachments of that one, and its empty, streaming answer in
    /// one transaction. The draft and what is attached to it stay. The answer becomes the active leaf.
    ///
    /// # Errors
    /// [`HistoryError::MessageNotFound`] if `question` is not in the conversation, [`HistoryError::NotAUserMessage`],
    /// [`HistoryError::ConversationNotFound`] if that is deleted, [`HistoryError::InvalidJson`].
    pub async fn begin_edit(
        &self,
        conversation: ConversationId,
        question: MessageId,
        text: &str,
        settings_json: &str,
    ) -> Result<Turn, HistoryError> {
        decode::require_json("settings_json", settings_json)?;
        let now_ms = now_ms();
        let mut connection = self.writer(Durability::Now).await?;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        if tree::conversation_of_user_message(&mut transaction, question).await? != conversation {
            return Err(HistoryError::MessageNotFound(question));
        }
        let parent: Option<MessageId> = sqlx::query_scalar("SELECT parent_id FROM messages WHERE id = ?")
            .bind(question)
            .fetch_one(&mut *transaction)
            .await?;
        let user_message = tree::insert_user(&mut transaction, conversation, parent, text, now_ms).await?;
        attachments::copy(&mut transaction, conversation, question, user_message).await?;
        let answer =
            tree::insert_answer(&mut transaction, conversation, user_message, settings_json, now_ms).await?;
        set_active_leaf(&mut transaction, conversation, answer, now_ms).await?;
        transaction.commit().await?;
        Ok(Turn { user_message, answer })
    }
}
