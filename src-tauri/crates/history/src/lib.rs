//! The history: every conversation, message, draft and setting, in one SQLite file.
//!
//! The only crate that names sqlx; it depends on no other crate of the workspace. SQL lives in the top-level
//! `migrations/` and is embedded; migrations are append-only.
//!
//! **Terms.** A *conversation* owns a tree of *messages* (`parent`). The *path* is the line of messages from the
//! root to the conversation's active leaf: what the chat shows. *Siblings* are versions: an edited question or a
//! regenerated answer is added beside the old one and overwrites nothing. A *turn* is a user message with its answer.
//!
//! **Flow of one answer.** [`History::begin_turn`] stores the user's message and an empty answer in one transaction,
//! before generation starts. An [`AnswerWriter`] takes text deltas and appends them every [`FLUSH_INTERVAL`] as
//! pieces. [`History::finish_answer`] joins the pieces into the message. An answer found `streaming` when the file is
//! opened was cut off: it becomes `interrupted` and keeps its text ([`History::interrupted_answers`]).
//!
//! **What survives.** A killed process loses nothing that a call returned `Ok` for. A power loss loses nothing
//! either, except answer pieces of the last [`SYNC_INTERVAL`]: every commit is synced to the disk but those, because
//! several streaming tabs would otherwise keep the disk flushing without pause (`F_FULLFSYNC` on macOS).
//!
//! **Who may write.** One process, one [`History`]; a lock file holds that. Inside, one connection writes and up to
//! [`MAX_READERS`] read snapshots, so that a long read never delays a flush. Clones share them.
//!
//! Times are Unix milliseconds. Message text appears in no log line and in no error.

mod answer_writer;
mod attachments;
mod backup;
mod conversations;
mod decode;
mod error;
mod ids;
mod messages;
mod open;
mod scroll;
mod search;
mod settings;
mod transfer;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sqlx::pool::PoolConnection;
use sqlx::{Sqlite, SqlitePool};

pub use answer_writer::{AnswerWriter, FLUSH_INTERVAL};
pub use attachments::{Attachment, AttachmentKind, NewAttachment};
pub use backup::KEPT_BACKUPS;
pub use conversations::{Conversation, ConversationSummary, PREVIEW_CHARS};
pub use error::HistoryError;
pub use ids::{AttachmentId, ConversationId, MessageId, TextId};
pub use messages::{
    AnswerEnd, AnswerPiece, Beginning, FannedTurn, FinishState, Message, MessageState, Role, Turn,
};
pub use scroll::ScrollPlace;
pub use search::{MAX_QUERY_WORDS, MAX_WORD_CHARS, Marked, SearchHit};
pub use transfer::{NewConversation, NewMessage, Origin, WholeConversation};

/// Read connections at most.
pub const MAX_READERS: u32 = 4;

/// Age that answer pieces reach at most before the next flush also syncs them to the disk.
pub const SYNC_INTERVAL: Duration = Duration::from_secs(5);

/// The open history; cloning shares it.
#[derive(Clone)]
pub struct History {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    /// One connection: SQLite has one writer anyway, and this queue is fair where its busy handler is not.
    writer: SqlitePool,
    reader: SqlitePool,
    last_sync: Mutex<Instant>,
    interrupted_answers: u64,
    /// Held for its advisory lock.
    lock: File,
}

/// When a commit must be on the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Durability {
    /// When the call returns.
    Now,
    /// Within [`SYNC_INTERVAL`] of writing, as long as writing goes on.
    Soon,
}

impl History {
    /// The database file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Answers that a previous run left streaming and that opening marked interrupted.
    pub fn interrupted_answers(&self) -> u64 {
        self.shared.interrupted_answers
    }

    /// Closes the file and gives up the lock, for all clones; later calls on them fail.
    ///
    /// Not needed before the process exits.
    pub async fn close(self) {
        self.shared.reader.close().await;
        self.shared.writer.close().await;
        if let Err(error) = self.shared.lock.unlock() {
            tracing::warn!(%error, "cannot unlock the history; it stays locked until the process ends");
        }
    }

    /// Searches the whole file for damage. Takes time in proportion to its size.
    ///
    /// # Errors
    /// [`HistoryError::Corrupt`] with the first finding.
    pub async fn check_integrity(&self) -> Result<(), HistoryError> {
        let mut connection = self.shared.reader.acquire().await?;
        backup::check_integrity(&mut connection).await
    }

    /// Takes the write connection, set to sync its next commits as asked.
    async fn writer(&self, durability: Durability) -> Result<PoolConnection<Sqlite>, HistoryError> {
        let mut connection = self.shared.writer.acquire().await?;
        let pragma =
            if self.syncs(durability) { "PRAGMA synchronous = FULL" } else { "PRAGMA synchronous = NORMAL" };
        // raw_sql: this pragma acts while it is compiled, so a cached statement would do nothing.
        sqlx::raw_sql(pragma).execute(&mut *connection).await?;
        Ok(connection)
    }

    /// Whether the next commit must be synced; if so, counts it as done now.
    fn syncs(&self, durability: Durability) -> bool {
        let mut last_sync = self.shared.last_sync.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let is_due = durability == Durability::Now || last_sync.elapsed() >= SYNC_INTERVAL;
        if is_due {
            *last_sync = Instant::now();
        }
        is_due
    }
}

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("History").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

/// The wall clock in Unix milliseconds; 0 if it stands before 1970.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn limit_pages(history: &History, pages: u32) {
        let mut connection = history.shared.writer.acquire().await.unwrap();
        let pragma = format!("PRAGMA max_page_count = {pages}");
        sqlx::raw_sql(sqlx::AssertSqlSafe(pragma)).execute(&mut *connection).await.unwrap();
    }

    #[tokio::test]
    async fn a_full_disk_is_said_loses_nothing_and_ends_when_there_is_space() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::open(folder.path().join("history.sqlite3")).await.unwrap();
        let chat = history.create_conversation("full").await.unwrap();
        let turn = history.begin_turn(chat, None, "question", "{}").await.unwrap();
        let writer = AnswerWriter::spawn(&history, turn.answer);
        writer.push("before", 1).unwrap();
        writer.flush().await.unwrap();

        limit_pages(&history, 1).await;
        let long = "x".repeat(100_000);
        writer.push(&long, 2).unwrap();
        assert!(matches!(writer.flush().await, Err(HistoryError::DiskFull)));
        let next = history.begin_turn(chat, Some(turn.answer), &long, "{}").await;
        assert!(matches!(next, Err(HistoryError::DiskFull)), "{next:?}");
        let seen = history.open_conversation(chat).await.unwrap();
        assert_eq!(seen.path[0].text, "question");
        assert_eq!(seen.path[1].text, "before");
        assert_eq!(seen.path.len(), 2, "half a turn was stored");

        limit_pages(&history, 1_000_000).await;
        let end = AnswerEnd {
            state: FinishState::Complete,
            finish_reason: None,
            receipt_json: None,
            error_code: None,
            token_details_json: None,
        };
        writer.finish(end).await.unwrap();
        let answer = history.open_conversation(chat).await.unwrap().path.pop().unwrap();
        assert_eq!(answer.text, format!("before{long}"));
        history.check_integrity().await.unwrap();
    }

    #[tokio::test]
    async fn a_full_disk_takes_a_conversation_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::open(folder.path().join("history.sqlite3")).await.unwrap();
        let message = |parent| NewMessage {
            parent,
            role: Role::User,
            state: FinishState::Complete,
            text: "x".repeat(100_000),
            thinking: String::new(),
            output_tokens: 0,
            thinking_tokens: 0,
            created_at_ms: 1,
            finished_at_ms: None,
            finish_reason: None,
            error_code: None,
            settings_json: None,
            receipt_json: None,
            token_details_json: None,
            attachments: Vec::new(),
        };
        let large = NewConversation {
            title: "large".into(),
            created_at_ms: 1,
            updated_at_ms: 2,
            is_pinned: false,
            settings_json: None,
            draft: String::new(),
            draft_attachments: Vec::new(),
            messages: vec![message(None), message(Some(0))],
            active: None,
            origin: Origin { source: "test".into(), source_id: "1".into(), sha256: [7; 32] },
        };
        limit_pages(&history, 1).await;
        let full = history.import_conversation(&large).await;
        assert!(matches!(full, Err(HistoryError::DiskFull)), "{full:?}");
        assert!(history.list_conversations().await.unwrap().is_empty());
        assert!(history.imported_digests("test", "1").await.unwrap().is_empty());
        limit_pages(&history, 1_000_000).await;
        let id = history.import_conversation(&large).await.unwrap();
        assert_eq!(history.open_conversation(id).await.unwrap().path.len(), 2);
        assert_eq!(history.imported_digests("test", "1").await.unwrap(), [[7; 32]]);
        history.check_integrity().await.unwrap();
    }

    #[tokio::test]
    async fn a_transaction_that_sqlite_rolled_back_by_itself_does_not_block_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::open(folder.path().join("history.sqlite3")).await.unwrap();
        let mut connection = history.writer(Durability::Now).await.unwrap();
        let mut transaction =
            sqlx::Connection::begin_with(&mut *connection, "BEGIN IMMEDIATE").await.unwrap();
        // What SQLite does when COMMIT finds the disk full.
        sqlx::raw_sql("ROLLBACK").execute(&mut *transaction).await.unwrap();
        assert!(transaction.commit().await.is_err());
        drop(connection);
        let chat = history.create_conversation("after").await.unwrap();
        history.begin_turn(chat, None, "question", "{}").await.unwrap();
        assert_eq!(history.open_conversation(chat).await.unwrap().path.len(), 2);
    }

    #[tokio::test]
    async fn every_commit_is_synced_but_pieces_within_the_sync_interval() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::open(folder.path().join("history.sqlite3")).await.unwrap();
        let full = 2;
        let normal = 1;
        let synchronous = async |durability| {
            let mut connection = history.writer(durability).await.unwrap();
            // Not prepared: the value is read while the statement is compiled.
            let row = sqlx::Executor::fetch_one(&mut *connection, sqlx::raw_sql("PRAGMA synchronous")).await;
            sqlx::Row::get::<i64, _>(&row.unwrap(), 0)
        };
        assert_eq!(synchronous(Durability::Now).await, full);
        assert_eq!(synchronous(Durability::Soon).await, normal);
        assert_eq!(synchronous(Durability::Now).await, full);
        let long_ago = Instant::now().checked_sub(SYNC_INTERVAL).unwrap();
        *history.shared.last_sync.lock().unwrap() = long_ago;
        assert_eq!(synchronous(Durability::Soon).await, full);
        assert_eq!(synchronous(Durability::Soon).await, normal);
    }
}
