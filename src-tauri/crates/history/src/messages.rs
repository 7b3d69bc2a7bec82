//! Messages: a tree per conversation, and the life of an answer from streaming to finished.

mod edit;
mod state;
pub(crate) mod tree;
mod versions;

use sqlx::{Connection, SqliteConnection};

use crate::conversations::set_active_leaf;
use crate::{
    Attachment, ConversationId, Durability, History, HistoryError, MessageId, attachments, decode, now_ms,
};

pub use state::{FinishState, MessageState, Role};
pub use tree::{read_path, require_conversation};
pub use versions::{Beginning, FannedTurn};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// The message it follows; `None` at a root.
    pub parent: Option<MessageId>,
    /// Every version at this place, itself included, oldest first. See [`History::select_branch`].
    pub siblings: Vec<MessageId>,
    /// Who wrote it.
    pub role: Role,
    /// Where it stands.
    pub state: MessageState,
    /// Its text; while streaming, what has been flushed so far.
    pub text: String,
    /// What the model thought before the text; empty for a user message.
    pub thinking: String,
    /// Tokens of the answer; 0 for a user message.
    pub output_tokens: u32,
    /// Tokens of the thinking, not counted in `output_tokens`.
    pub thinking_tokens: u32,
    /// When it was stored.
    pub created_at_ms: i64,
    /// When the answer ended; `None` while streaming and for a user message.
    pub finished_at_ms: Option<i64>,
    /// As given to [`History::finish_answer`].
    pub finish_reason: Option<String>,
    /// As given to [`History::finish_answer`].
    pub error_code: Option<String>,
    /// JSON text of the settings the answer was asked with; `None` if there is none or it cannot be read.
    pub settings_json: Option<String>,
    /// JSON text of the answer's receipt; `None` if there is none or it cannot be read.
    pub receipt_json: Option<String>,
    /// What goes along with a user message, in order.
    pub attachments: Vec<Attachment>,
}

/// The two rows of one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// What the user sent.
    pub user_message: MessageId,
    /// The answer, empty and streaming.
    pub answer: MessageId,
}

/// How and why an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerEnd {
    /// Its last state.
    pub state: FinishState,
    /// The engine's word for it, such as `stop` or `length`.
    pub finish_reason: Option<String>,
    /// JSON text: what the answer cost and was made with.
    pub receipt_json: Option<String>,
    /// The app's error code, if it failed.
    pub error_code: Option<String>,
    /// JSON text: what was recorded of the answer's tokens. See [`History::token_details`].
    pub token_details_json: Option<String>,
}

/// What is added to a streaming answer at once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AnswerPiece {
    /// Appended to the text.
    pub text: String,
    /// Appended to the thinking.
    pub thinking: String,
    /// Tokens of the text up to here; 0 leaves the count as it is.
    pub output_tokens: u32,
    /// Tokens of the thinking up to here; 0 leaves the count as it is.
    pub thinking_tokens: u32,
}

impl AnswerPiece {
    /// Adds a later piece to this one.
    pub(crate) fn extend(&mut self, later: &AnswerPiece) {
        self.text.push_str(&later.text);
        self.thinking.push_str(&later.thinking);
        self.output_tokens = self.output_tokens.max(later.output_tokens);
        self.thinking_tokens = self.thinking_tokens.max(later.thinking_tokens);
    }

    /// Forgets the texts, which are written or never can be.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.thinking.clear();
    }
}

impl History {
    /// Stores a user message and its empty, streaming answer in one transaction, and clears the draft, whose
    /// attachments go with the message.
    ///
    /// Once this returns, the message survives a power loss. `parent`: the message it follows, usually the
    /// conversation's active leaf; `None` begins a new root. `settings_json`: what the answer is asked with. The answer
    /// becomes the active leaf.
    ///
    /// # Errors
    /// [`HistoryError::ConversationNotFound`], [`HistoryError::MessageNotFound`] for `parent`,
    /// [`HistoryError::InvalidJson`].
    pub async fn begin_turn(
        &self,
        conversation: ConversationId,
        parent: Option<MessageId>,
        user_text: &str,
        settings_json: &str,
    ) -> Result<Turn, HistoryError> {
        decode::require_json("settings_json", settings_json)?;
        let now_ms = now_ms();
        let mut connection = self.writer(Durability::Now).await?;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        let user_message =
            tree::insert_user(&mut transaction, conversation, parent, user_text, now_ms).await?;
        let answer =
            tree::insert_answer(&mut transaction, conversation, user_message, settings_json, now_ms).await?;
        set_active_leaf(&mut transaction, conversation, answer, now_ms).await?;
        send_draft(&mut transaction, conversation, user_message).await?;
        transaction.commit().await?;
        Ok(Turn { user_message, answer })
    }

    /// Stores a user message without an answer, and clears the draft, whose attachments go with it. It becomes the
    /// active leaf.
    ///
    /// # Errors
    /// As [`History::begin_turn`].
    pub async fn append_user(
        &self,
        conversation: ConversationId,
        parent: Option<MessageId>,
        text: &str,
    ) -> Result<MessageId, HistoryError> {
        let now_ms = now_ms();
        let mut connection = self.writer(Durability::Now).await?;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        let message = tree::insert_user(&mut transaction, conversation, parent, text, now_ms).await?;
        set_active_leaf(&mut transaction, conversation, message, now_ms).await?;
        send_draft(&mut transaction, conversation, message).await?;
        transaction.commit().await?;
        Ok(message)
    }

    /// Stores an empty, streaming answer to a user message: the first one, or another version. It becomes the
    /// active leaf.
    ///
    /// # Errors
    /// [`HistoryError::MessageNotFound`], [`HistoryError::NotAUserMessage`], [`HistoryError::ConversationNotFound`]
    /// if the conversation is deleted, [`HistoryError::InvalidJson`].
    pub async fn start_answer(
        &self,
        user_message: MessageId,
        settings_json: &str,
    ) -> Result<MessageId, HistoryError> {
        decode::require_json("settings_json", settings_json)?;
        let now_ms = now_ms();
        let mut connection = self.writer(Durability::Now).await?;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        let conversation = tree::conversation_of_user_message(&mut transaction, user_message).await?;
        let answer =
            tree::insert_answer(&mut transaction, conversation, user_message, settings_json, now_ms).await?;
        set_active_leaf(&mut transaction, conversation, answer, now_ms).await?;
        transaction.commit().await?;
        Ok(answer)
    }

    /// Appends text to a streaming answer. `output_tokens`: tokens of the whole answer up to here.
    ///
    /// # Errors
    /// As [`History::append_answer_piece`].
    pub async fn append_answer_text(
        &self,
        answer: MessageId,
        delta: &str,
        output_tokens: u32,
    ) -> Result<(), HistoryError> {
        let piece = AnswerPiece { text: delta.to_owned(), output_tokens, ..AnswerPiece::default() };
        self.append_answer_piece(answer, &piece).await
    }

    /// Appends to a streaming answer.
    ///
    /// Writes one page whatever the answer's length. Prefer [`AnswerWriter`](crate::AnswerWriter), which batches.
    ///
    /// # Errors
    /// [`HistoryError::AnswerNotStreaming`], [`HistoryError::MessageNotFound`].
    pub async fn append_answer_piece(
        &self,
        answer: MessageId,
        piece: &AnswerPiece,
    ) -> Result<(), HistoryError> {
        let mut connection = self.writer(Durability::Soon).await?;
        let written = sqlx::query(
            "INSERT INTO answer_pieces (message_id, seq, output_tokens, text, thinking_tokens, thinking)
             SELECT m.id, coalesce((SELECT max(seq) FROM answer_pieces WHERE message_id = m.id), 0) + 1,
                    ?2, ?3, ?4, ?5
             FROM messages AS m WHERE m.id = ?1 AND m.state = 'streaming'",
        )
        .bind(answer)
        .bind(piece.output_tokens)
        .bind(&piece.text)
        .bind(piece.thinking_tokens)
        .bind(&piece.thinking)
        .execute(&mut *connection)
        .await?;
        if written.rows_affected() == 0 {
            return Err(not_streaming(&mut connection, answer).await?);
        }
        Ok(())
    }

    /// Ends a streaming answer with the text appended so far.
    ///
    /// # Errors
    /// [`HistoryError::AnswerNotStreaming`], [`HistoryError::MessageNotFound`], [`HistoryError::InvalidJson`].
    pub async fn finish_answer(&self, answer: MessageId, end: &AnswerEnd) -> Result<(), HistoryError> {
        self.finish_answer_with(answer, &AnswerPiece::default(), end).await
    }

    /// [`History::finish_answer`] after appending `tail`, in one transaction.
    pub(crate) async fn finish_answer_with(
        &self,
        answer: MessageId,
        tail: &AnswerPiece,
        end: &AnswerEnd,
    ) -> Result<(), HistoryError> {
        let json = [("receipt_json", &end.receipt_json), ("token_details_json", &end.token_details_json)];
        for (field, text) in json {
            text.as_deref().map_or(Ok(()), |text| decode::require_json(field, text))?;
        }
        let now_ms = now_ms();
        let mut connection = self.writer(Durability::Now).await?;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        let finished = sqlx::query(
            "UPDATE messages SET
                 text = (SELECT coalesce(group_concat(text, '' ORDER BY seq), '')
                         FROM answer_pieces WHERE message_id = ?1) || ?2,
                 output_tokens = max(?3, (SELECT coalesce(max(output_tokens), 0)
                                          FROM answer_pieces WHERE message_id = ?1)),
                 state = ?4, finish_reason = ?5, receipt_json = ?6, error_code = ?7, finished_at_ms = ?8,
                 thinking = (SELECT coalesce(group_concat(thinking, '' ORDER BY seq), '')
                             FROM answer_pieces WHERE message_id = ?1) || ?9,
                 thinking_tokens = max(?10, (SELECT coalesce(max(thinking_tokens), 0)
                                             FROM answer_pieces WHERE message_id = ?1))
             WHERE id = ?1 AND state = 'streaming'",
        )
        .bind(answer)
        .bind(&tail.text)
        .bind(tail.output_tokens)
        .bind(MessageState::from(end.state).as_str())
        .bind(end.finish_reason.as_deref())
        .bind(end.receipt_json.as_deref())
        .bind(end.error_code.as_deref())
        .bind(now_ms)
        .bind(&tail.thinking)
        .bind(tail.thinking_tokens)
        .execute(&mut *transaction)
        .await?;
        if finished.rows_affected() == 0 {
            return Err(not_streaming(&mut transaction, answer).await?);
        }
        if let Some(details) = &end.token_details_json {
            sqlx::query(
                "INSERT INTO token_details (message_id, details_json) VALUES (?1, ?2)
                 ON CONFLICT (message_id) DO UPDATE SET details_json = ?2",
            )
            .bind(answer)
            .bind(details)
            .execute(&mut *transaction)
            .await?;
        }
        sqlx::query("DELETE FROM answer_pieces WHERE message_id = ?")
            .bind(answer)
            .execute(&mut *transaction)
            .await?;
        sqlx::query(
            "UPDATE conversations SET updated_at_ms = ?2
             WHERE id = (SELECT conversation_id FROM messages WHERE id = ?1)",
        )
        .bind(answer)
        .bind(now_ms)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(())
    }

    /// The JSON text of what was recorded of an answer's tokens; `None` if there is nothing or it cannot be read.
    pub async fn token_details(&self, answer: MessageId) -> Result<Option<String>, HistoryError> {
        let row = sqlx::query("SELECT details_json FROM token_details WHERE message_id = ?")
            .bind(answer)
            .fetch_optional(&self.shared.reader)
            .await?;
        row.map_or(Ok(None), |row| decode::json(&row, "details_json"))
    }

    /// Shows the version `message`: the path then runs through it to the newest message below it.
    ///
    /// # Errors
    /// [`HistoryError::MessageNotFound`] if it is not in the conversation.
    pub async fn select_branch(
        &self,
        conversation: ConversationId,
        message: MessageId,
    ) -> Result<(), HistoryError> {
        let mut connection = self.writer(Durability::Now).await?;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        let leaf = tree::newest_leaf_below(&mut transaction, conversation, message).await?;
        sqlx::query("UPDATE conversations SET active_leaf_id = ?2 WHERE id = ?1")
            .bind(conversation)
            .bind(leaf)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(())
    }

    /// The messages from the root to `leaf`, which may lie off the active path.
    ///
    /// # Errors
    /// [`HistoryError::MessageNotFound`] if it is not in the conversation.
    pub async fn message_path(
        &self,
        conversation: ConversationId,
        leaf: MessageId,
    ) -> Result<Vec<Message>, HistoryError> {
        let mut connection = self.shared.reader.acquire().await?;
        let mut snapshot = connection.begin().await?;
        let path = tree::read_path(&mut snapshot, conversation, leaf).await?;
        snapshot.commit().await?;
        if path.is_empty() { Err(HistoryError::MessageNotFound(leaf)) } else { Ok(path) }
    }
}

/// Marks every streaming answer as interrupted, with the text flushed so far. Returns how many.
pub async fn interrupt_streaming(connection: &mut SqliteConnection) -> Result<u64, HistoryError> {
    let interrupted = sqlx::query(
        "UPDATE messages SET
             text = (SELECT coalesce(group_concat(p.text, '' ORDER BY p.seq), '')
                     FROM answer_pieces AS p WHERE p.message_id = messages.id),
             output_tokens = (SELECT coalesce(max(p.output_tokens), 0)
                              FROM answer_pieces AS p WHERE p.message_id = messages.id),
             thinking = (SELECT coalesce(group_concat(p.thinking, '' ORDER BY p.seq), '')
                         FROM answer_pieces AS p WHERE p.message_id = messages.id),
             thinking_tokens = (SELECT coalesce(max(p.thinking_tokens), 0)
                                FROM answer_pieces AS p WHERE p.message_id = messages.id),
             state = 'interrupted', finished_at_ms = ?
         WHERE state = 'streaming'",
    )
    .bind(now_ms())
    .execute(&mut *connection)
    .await?;
    sqlx::query("DELETE FROM answer_pieces").execute(connection).await?;
    Ok(interrupted.rows_affected())
}

/// Clears the draft and gives what is attached to it to the message that it became.
pub async fn send_draft(
    connection: &mut SqliteConnection,
    conversation: ConversationId,
    message: MessageId,
) -> Result<(), HistoryError> {
    attachments::send(connection, conversation, message).await?;
    sqlx::query("DELETE FROM drafts WHERE conversation_id = ?")
        .bind(conversation)
        .execute(connection)
        .await?;
    Ok(())
}

/// Why `answer` could not be written to.
async fn not_streaming(
    connection: &mut SqliteConnection,
    answer: MessageId,
) -> Result<HistoryError, HistoryError> {
    let state: Option<String> = sqlx::query_scalar("SELECT state FROM messages WHERE id = ?")
        .bind(answer)
        .fetch_optional(connection)
        .await?;
    Ok(match state {
        Some(state) => HistoryError::AnswerNotStreaming { answer, state: MessageState::parse(&state) },
        None => HistoryError::MessageNotFound(answer),
    })
}
