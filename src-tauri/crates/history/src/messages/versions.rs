//! Other versions of a turn: several answers at once, answers that go on, and answers that begin with a given text.

use sqlx::{Connection, SqliteConnection};

use super::{AnswerPiece, Message, MessageState, send_draft, tree};
use crate::conversations::set_active_leaf;
use crate::{ConversationId, Durability, History, HistoryError, MessageId, decode, now_ms};

/// The rows of one question with several answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FannedTurn {
    /// What the user sent.
    pub user_message: MessageId,
    /// The answers, empty and streaming, in the order of their settings.
    pub answers: Vec<MessageId>,
}

/// How a new version of an answer begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Beginning {
    /// What it says already.
    pub piece: AnswerPiece,
    /// JSON text: what is recorded of the tokens that say it. See [`History::token_details`].
    pub token_details_json: Option<String>,
}

impl History {
    /// As [`History::begin_turn`], with one empty, streaming answer for each of `settings_json`. The first becomes the
    /// active leaf.
    ///
    /// # Errors
    /// As [`History::begin_turn`].
    pub async fn begin_fan_out(
        &self,
        conversation: ConversationId,
        parent: Option<MessageId>,
        user_text: &str,
        settings_json: &[String],
    ) -> Result<FannedTurn, HistoryError> {
        for json in settings_json {
            decode::require_json("settings_json", json)?;
        }
        let now_ms = now_ms();
        let mut connection = self.writer(Durability::Now).await?;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        let user_message =
            tree::insert_user(&mut transaction, conversation, parent, user_text, now_ms).await?;
        let mut answers = Vec::with_capacity(settings_json.len());
        for json in settings_json {
            answers
                .push(tree::insert_answer(&mut transaction, conversation, user_message, json, now_ms).await?);
        }
        let leaf = answers.first().copied().unwrap_or(user_message);
        set_active_leaf(&mut transaction, conversation, leaf, now_ms).await?;
        send_draft(&mut transaction, conversation, user_message).await?;
        transaction.commit().await?;
        Ok(FannedTurn { user_message, answers })
    }

    /// As [`History::start_answer`], of an answer that begins with a given text and goes on from there.
    ///
    /// # Errors
    /// As [`History::start_answer`].
    pub async fn start_answer_with(
        &self,
        user_message: MessageId,
        settings_json: &str,
        beginning: &Beginning,
    ) -> Result<MessageId, HistoryError> {
        decode::require_json("settings_json", settings_json)?;
        let details = beginning.token_details_json.as_deref();
        details.map_or(Ok(()), |json| decode::require_json("token_details_json", json))?;
        let now_ms = now_ms();
        let mut connection = self.writer(Durability::Now).await?;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        let conversation = tree::conversation_of_user_message(&mut transaction, user_message).await?;
        let answer =
            tree::insert_answer(&mut transaction, conversation, user_message, settings_json, now_ms).await?;
        insert_first_piece(&mut transaction, answer, &beginning.piece).await?;
        if let Some(details) = details {
            sqlx::query("INSERT INTO token_details (message_id, details_json) VALUES (?1, ?2)")
                .bind(answer)
                .bind(details)
                .execute(&mut *transaction)
                .await?;
        }
        set_active_leaf(&mut transaction, conversation, answer, now_ms).await?;
        transaction.commit().await?;
        Ok(answer)
    }

    /// Stores a version of an answer whose text the user wrote: complete, and nothing measured. It becomes the active
    /// leaf.
    ///
    /// # Errors
    /// As [`History::start_answer`].
    pub async fn write_answer(&self, user_message: MessageId, text: &str) -> Result<MessageId, HistoryError> {
        let now_ms = now_ms();
        let mut connection = self.writer(Durability::Now).await?;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        let conversation = tree::conversation_of_user_message(&mut transaction, user_message).await?;
        let answer = sqlx::query_scalar(
            "INSERT INTO messages (conversation_id, parent_id, role, state, created_at_ms, finished_at_ms, text)
             VALUES (?1, ?2, 'assistant', 'complete', ?3, ?3, ?4) RETURNING id",
        )
        .bind(conversation)
        .bind(user_message)
        .bind(now_ms)
        .bind(text)
        .fetch_one(&mut *transaction)
        .await?;
        set_active_leaf(&mut transaction, conversation, answer, now_ms).await?;
        transaction.commit().await?;
        Ok(answer)
    }

    /// Lets an answer that ended stream again: it keeps its text, and what comes is appended. It becomes the active
    /// leaf.
    ///
    /// Its receipt and what was recorded of its tokens stay until it ends again, when they are replaced.
    /// `settings_json`: what the rest is asked with.
    ///
    /// # Errors
    /// [`HistoryError::MessageNotFound`] if it is no answer of the conversation, [`HistoryError::AnswerStreaming`],
    /// [`HistoryError::AnswerFollowed`], because its text is what the next question was about,
    /// [`HistoryError::InvalidJson`].
    pub async fn reopen_answer(
        &self,
        conversation: ConversationId,
        answer: MessageId,
        settings_json: &str,
    ) -> Result<(), HistoryError> {
        decode::require_json("settings_json", settings_json)?;
        let now_ms = now_ms();
        let mut connection = self.writer(Durability::Now).await?;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        tree::require_conversation(&mut transaction, conversation).await?;
        let row: Option<(String, String, String, u32, u32)> = sqlx::query_as(
            "SELECT state, text, thinking, output_tokens, thinking_tokens FROM messages
             WHERE id = ?1 AND conversation_id = ?2 AND role = 'assistant'",
        )
        .bind(answer)
        .bind(conversation)
        .fetch_optional(&mut *transaction)
        .await?;
        let (state, text, thinking, output_tokens, thinking_tokens) =
            row.ok_or(HistoryError::MessageNotFound(answer))?;
        if MessageState::parse(&state) == MessageState::Streaming {
            return Err(HistoryError::AnswerStreaming(answer));
        }
        let is_followed: bool = sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM messages WHERE conversation_id = ?1 AND parent_id = ?2)",
        )
        .bind(conversation)
        .bind(answer)
        .fetch_one(&mut *transaction)
        .await?;
        if is_followed {
            return Err(HistoryError::AnswerFollowed(answer));
        }
        let piece = AnswerPiece { text, thinking, output_tokens, thinking_tokens };
        insert_first_piece(&mut transaction, answer, &piece).await?;
        // The text stays in its row too, for the search: the end replaces it with that of the pieces.
        sqlx::query(
            "UPDATE messages SET state = 'streaming', finished_at_ms = NULL, finish_reason = NULL,
                 error_code = NULL, settings_json = ?2
             WHERE id = ?1",
        )
        .bind(answer)
        .bind(settings_json)
        .execute(&mut *transaction)
        .await?;
        set_active_leaf(&mut transaction, conversation, answer, now_ms).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Every version at the place of a message, itself included, oldest first.
    ///
    /// # Errors
    /// [`HistoryError::MessageNotFound`] if it is not in the conversation.
    pub async fn versions(
        &self,
        conversation: ConversationId,
        message: MessageId,
    ) -> Result<Vec<Message>, HistoryError> {
        let mut connection = self.shared.reader.acquire().await?;
        let mut snapshot = connection.begin().await?;
        let versions = tree::read_versions(&mut snapshot, conversation, message).await?;
        snapshot.commit().await?;
        if versions.is_empty() { Err(HistoryError::MessageNotFound(message)) } else { Ok(versions) }
    }
}

/// Stores what a streaming answer says already.
async fn insert_first_piece(
    connection: &mut SqliteConnection,
    answer: MessageId,
    piece: &AnswerPiece,
) -> Result<(), HistoryError> {
    sqlx::query(
        "INSERT INTO answer_pieces (message_id, seq, output_tokens, text, thinking_tokens, thinking)
         VALUES (?1, 1, ?2, ?3, ?4, ?5)",
    )
    .bind(answer)
    .bind(piece.output_tokens)
    .bind(&piece.text)
    .bind(piece.thinking_tokens)
    .bind(&piece.thinking)
    .execute(connection)
    .await?;
    Ok(())
}
