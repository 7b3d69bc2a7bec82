//! The message tree: inserting nodes, walking up to a root and down to a leaf.

use std::collections::HashMap;

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::{Message, MessageState, Role};
use crate::{Attachment, ConversationId, HistoryError, MessageId, attachments, decode};

/// Adds a user message below `parent`, in a conversation that is not deleted.
pub async fn insert_user(
    connection: &mut SqliteConnection,
    conversation: ConversationId,
    parent: Option<MessageId>,
    text: &str,
    now_ms: i64,
) -> Result<MessageId, HistoryError> {
    require_conversation(connection, conversation).await?;
    if let Some(parent) = parent {
        require_message(connection, conversation, parent).await?;
    }
    let id = sqlx::query_scalar(
        "INSERT INTO messages (conversation_id, parent_id, role, state, created_at_ms, text)
         VALUES (?, ?, 'user', 'complete', ?, ?) RETURNING id",
    )
    .bind(conversation)
    .bind(parent)
    .bind(now_ms)
    .bind(text)
    .fetch_one(connection)
    .await?;
    Ok(id)
}

/// Adds an empty, streaming answer below a user message that the caller has checked.
pub async fn insert_answer(
    connection: &mut SqliteConnection,
    conversation: ConversationId,
    user_message: MessageId,
    settings_json: &str,
    now_ms: i64,
) -> Result<MessageId, HistoryError> {
    let id = sqlx::query_scalar(
        "INSERT INTO messages (conversation_id, parent_id, role, state, created_at_ms, settings_json)
         VALUES (?, ?, 'assistant', 'streaming', ?, ?) RETURNING id",
    )
    .bind(conversation)
    .bind(user_message)
    .bind(now_ms)
    .bind(settings_json)
    .fetch_one(connection)
    .await?;
    Ok(id)
}

/// The conversation of a message that must be the user's.
pub async fn conversation_of_user_message(
    connection: &mut SqliteConnection,
    message: MessageId,
) -> Result<ConversationId, HistoryError> {
    let row: Option<(ConversationId, String)> =
        sqlx::query_as("SELECT conversation_id, role FROM messages WHERE id = ?")
            .bind(message)
            .fetch_optional(connection)
            .await?;
    match row {
        None => Err(HistoryError::MessageNotFound(message)),
        Some((conversation, role)) if role == "user" => Ok(conversation),
        Some(_) => Err(HistoryError::NotAUserMessage(message)),
    }
}

/// The newest message of the subtree under `message`. It is a leaf, since a child's id is greater than its parent's.
pub async fn newest_leaf_below(
    connection: &mut SqliteConnection,
    conversation: ConversationId,
    message: MessageId,
) -> Result<MessageId, HistoryError> {
    require_message(connection, conversation, message).await?;
    let leaf = sqlx::query_scalar(
        "WITH RECURSIVE below (id) AS (
             SELECT ?2
             UNION
             SELECT m.id FROM below JOIN messages AS m ON m.conversation_id = ?1 AND m.parent_id = below.id
         )
         SELECT max(id) FROM below",
    )
    .bind(conversation)
    .bind(message)
    .fetch_one(connection)
    .await?;
    Ok(leaf)
}

/// Reads the messages that a common table `found (id)` names, oldest first.
macro_rules! messages_sql {
    ($found:literal) => {
        concat!(
            "WITH RECURSIVE ",
            $found,
            "
             SELECT m.id, m.parent_id, m.role, m.state, m.created_at_ms, m.finished_at_ms,
                    m.finish_reason, m.error_code, m.settings_json, m.receipt_json,
                    CASE m.state WHEN 'streaming'
                        THEN (SELECT coalesce(max(p.output_tokens), 0) FROM answer_pieces AS p
                              WHERE p.message_id = m.id)
                        ELSE m.output_tokens END AS output_tokens,
                    CASE m.state WHEN 'streaming'
                        THEN (SELECT coalesce(max(p.thinking_tokens), 0) FROM answer_pieces AS p
                              WHERE p.message_id = m.id)
                        ELSE m.thinking_tokens END AS thinking_tokens,
                    CASE m.state WHEN 'streaming'
                        THEN (SELECT coalesce(group_concat(p.thinking, '' ORDER BY p.seq), '')
                              FROM answer_pieces AS p WHERE p.message_id = m.id)
                        ELSE m.thinking END AS thinking,
                    CASE m.state WHEN 'streaming'
                        THEN (SELECT coalesce(group_concat(p.text, '' ORDER BY p.seq), '') FROM answer_pieces AS p
                              WHERE p.message_id = m.id)
                        ELSE m.text END AS text
             FROM found JOIN messages AS m ON m.id = found.id
             ORDER BY m.id"
        )
    };
}

const PATH: &str = messages_sql!(
    "path (id, parent_id) AS (
         SELECT id, parent_id FROM messages WHERE conversation_id = ?1 AND id = ?2
         UNION
         SELECT m.id, m.parent_id FROM path JOIN messages AS m ON m.id = path.parent_id
     ),
     found (id) AS (SELECT id FROM path)"
);

const VERSIONS: &str = messages_sql!(
    "found (id) AS (
         SELECT version.id FROM messages AS version JOIN messages AS meant
             ON meant.conversation_id = ?1 AND meant.id = ?2
         WHERE version.conversation_id = ?1 AND version.parent_id IS meant.parent_id
     )"
);

const ALL: &str =
    messages_sql!("found (id) AS (SELECT id FROM messages WHERE conversation_id = ?1 AND ?2 IS NOT NULL)");

/// The messages from the root to `leaf`; none if it is not in the conversation.
pub async fn read_path(
    connection: &mut SqliteConnection,
    conversation: ConversationId,
    leaf: MessageId,
) -> Result<Vec<Message>, HistoryError> {
    read_messages(connection, PATH, conversation, leaf).await
}

/// The versions at the place of `message`; none if it is not in the conversation.
pub async fn read_versions(
    connection: &mut SqliteConnection,
    conversation: ConversationId,
    message: MessageId,
) -> Result<Vec<Message>, HistoryError> {
    read_messages(connection, VERSIONS, conversation, message).await
}

/// The messages of all branches.
pub async fn read_all(
    connection: &mut SqliteConnection,
    conversation: ConversationId,
) -> Result<Vec<Message>, HistoryError> {
    // The statement has a place for a message that it does not ask for.
    read_messages(connection, ALL, conversation, MessageId(0)).await
}

async fn read_messages(
    connection: &mut SqliteConnection,
    statement: &'static str,
    conversation: ConversationId,
    message: MessageId,
) -> Result<Vec<Message>, HistoryError> {
    let rows = sqlx::query(statement).bind(conversation).bind(message).fetch_all(&mut *connection).await?;
    let children = read_children(connection, conversation).await?;
    let mut attachments = attachments::read_all(connection, conversation).await?;
    rows.iter().map(|row| read_message(row, &children, &mut attachments)).collect()
}

/// Ids of the conversation's messages by parent, oldest first.
async fn read_children(
    connection: &mut SqliteConnection,
    conversation: ConversationId,
) -> Result<HashMap<Option<MessageId>, Vec<MessageId>>, HistoryError> {
    let rows: Vec<(Option<MessageId>, MessageId)> =
        sqlx::query_as("SELECT parent_id, id FROM messages WHERE conversation_id = ? ORDER BY id")
            .bind(conversation)
            .fetch_all(connection)
            .await?;
    let mut children: HashMap<_, Vec<_>> = HashMap::new();
    for (parent, id) in rows {
        children.entry(parent).or_default().push(id);
    }
    Ok(children)
}

fn read_message(
    row: &SqliteRow,
    children: &HashMap<Option<MessageId>, Vec<MessageId>>,
    attachments: &mut HashMap<Option<MessageId>, Vec<Attachment>>,
) -> Result<Message, HistoryError> {
    let id: MessageId = row.try_get("id")?;
    let parent: Option<MessageId> = row.try_get("parent_id")?;
    let role = match decode::text(row, "role")?.as_str() {
        "user" => Role::User,
        _ => Role::Assistant,
    };
    let tokens = |column: &str| row.try_get(column).map(|tokens: i64| u32::try_from(tokens).unwrap_or(0));
    Ok(Message {
        id,
        parent,
        siblings: children.get(&parent).cloned().unwrap_or_default(),
        role,
        state: MessageState::parse(&decode::text(row, "state")?),
        text: decode::text(row, "text")?,
        thinking: decode::text(row, "thinking")?,
        output_tokens: tokens("output_tokens")?,
        thinking_tokens: tokens("thinking_tokens")?,
        created_at_ms: row.try_get("created_at_ms")?,
        finished_at_ms: row.try_get("finished_at_ms")?,
        finish_reason: decode::optional_text(row, "finish_reason")?,
        error_code: decode::optional_text(row, "error_code")?,
        settings_json: decode::json(row, "settings_json")?,
        receipt_json: decode::json(row, "receipt_json")?,
        attachments: attachments.remove(&Some(id)).unwrap_or_default(),
    })
}

/// Checks that a conversation is there and not deleted.
pub async fn require_conversation(
    connection: &mut SqliteConnection,
    conversation: ConversationId,
) -> Result<(), HistoryError> {
    let found: Option<i64> =
        sqlx::query_scalar("SELECT id FROM conversations WHERE id = ? AND deleted_at_ms IS NULL")
            .bind(conversation)
            .fetch_optional(connection)
            .await?;
    if found.is_some() { Ok(()) } else { Err(HistoryError::ConversationNotFound(conversation)) }
}

async fn require_message(
    connection: &mut SqliteConnection,
    conversation: ConversationId,
    message: MessageId,
) -> Result<(), HistoryError> {
    let found: Option<i64> =
        sqlx::query_scalar("SELECT id FROM messages WHERE conversation_id = ? AND id = ?")
            .bind(conversation)
            .bind(message)
            .fetch_optional(connection)
            .await?;
    if found.is_some() { Ok(()) } else { Err(HistoryError::MessageNotFound(message)) }
}
