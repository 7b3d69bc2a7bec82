//! What can go wrong between the app and the database file.

use std::io;
use std::path::PathBuf;

use sqlx::migrate::MigrateError;

use crate::ids::{AttachmentId, ConversationId, MessageId};
use crate::messages::MessageState;

/// Why a call on [`History`](crate::History) failed. Nothing was written, unless a variant says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// Another process, or another [`History`](crate::History) of this one, has the file open.
    #[error("the history at {path} is already open")]
    AlreadyOpen {
        /// The database file.
        path: PathBuf,
    },
    /// A newer Braid wrote the file; opening it could lose what this version does not know. The file is untouched.
    #[error("the history has schema version {found_version}, this program knows up to {known_version}")]
    NewerSchema {
        /// Highest version in the file.
        found_version: i64,
        /// Highest version this program can read.
        known_version: i64,
    },
    /// The file holds a migration under a known version with other text, or lacks one it must have.
    #[error("migration {version} in the history is not the one this program has")]
    ForeignSchema {
        /// The version at fault.
        version: i64,
    },
    /// The file is damaged or is no SQLite database. Never reported as an empty history.
    #[error("the history is damaged: {detail}")]
    Corrupt {
        /// What SQLite found.
        detail: String,
    },
    /// No space left on the disk, or the file reached its size limit. What was saved before is intact.
    #[error("no space left to write the history")]
    DiskFull,
    /// The file or its folder does not permit writing.
    #[error("the history is read-only")]
    ReadOnly,
    /// The disk failed a read, a write or a sync.
    #[error("reading or writing the history failed: {detail}")]
    Io {
        /// SQLite's words, with its extended code.
        detail: String,
    },
    /// Another connection held the database for longer than the busy timeout.
    #[error("the history is busy")]
    Busy,
    /// A folder or file beside the database could not be made, written or renamed.
    #[error("cannot {action} {path}")]
    File {
        /// The verb: "create", "lock", "sync", "rename", "read".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The backup that must precede a migration failed; the migration was not run.
    #[error("no backup before the migration from schema version {from_version}")]
    Backup {
        /// Schema version of the file, which stays as it is.
        from_version: i64,
        /// What failed.
        source: Box<HistoryError>,
    },
    /// A migration failed and was rolled back.
    #[error("migrating the history failed")]
    Migration(#[source] MigrateError),
    /// No such conversation, or it is deleted.
    #[error("no conversation {0}")]
    ConversationNotFound(ConversationId),
    /// No such message in the conversation meant.
    #[error("no message {0}")]
    MessageNotFound(MessageId),
    /// The conversation went on from the answer.
    #[error("messages follow answer {0}")]
    AnswerFollowed(MessageId),
    /// The answer is being generated.
    #[error("answer {0} is still being generated")]
    AnswerStreaming(MessageId),
    /// No such attachment.
    #[error("no attachment {0}")]
    AttachmentNotFound(AttachmentId),
    /// A message of a conversation to be stored follows one that does not come before it, or the message shown is not
    /// among them.
    #[error("message {place} of the conversation has no place in its tree")]
    NotATree {
        /// Place of the message, from 0.
        place: usize,
    },
    /// As much is attached to the draft as may be.
    #[error("{max_attachments} files are attached already, and no more go along with a message")]
    DraftFull {
        /// Attachments of a draft at most.
        max_attachments: u32,
    },
    /// An answer can only follow a user message.
    #[error("message {0} is not a user message")]
    NotAUserMessage(MessageId),
    /// The answer is finished: nothing more can be appended and it cannot be finished again.
    #[error("answer {answer} is {state}, not streaming")]
    AnswerNotStreaming {
        /// The answer.
        answer: MessageId,
        /// Its state.
        state: MessageState,
    },
    /// The text given to be stored as JSON is not JSON.
    #[error("{field} is not valid JSON")]
    InvalidJson {
        /// The argument at fault.
        field: &'static str,
        /// Where the parser stopped.
        source: serde_json::Error,
    },
    /// The [`AnswerWriter`](crate::AnswerWriter)'s task is gone because the runtime shut down. Text not flushed
    /// before is lost.
    #[error("the answer writer stopped")]
    WriterStopped,
    /// Any other failure of the database.
    #[error("the history database failed")]
    Database(#[source] sqlx::Error),
}

impl HistoryError {
    /// Whether the same call can succeed later without a change by the caller: space freed, lock released.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::DiskFull | Self::ReadOnly | Self::Io { .. } | Self::Busy | Self::Database(_))
    }
}

/// Primary SQLite result codes, the low byte of the extended code. Source: sqlite.org/rescode.html
mod code {
    pub const BUSY: i32 = 5;
    pub const LOCKED: i32 = 6;
    pub const READONLY: i32 = 8;
    pub const IOERR: i32 = 10;
    pub const CORRUPT: i32 = 11;
    pub const FULL: i32 = 13;
    pub const CANTOPEN: i32 = 14;
    pub const NOTADB: i32 = 26;
    /// Extended: the index of the write-ahead log cannot grow, which is how a full disk shows when opening.
    pub const IOERR_SHMSIZE: i32 = 4874;
}

impl From<sqlx::Error> for HistoryError {
    fn from(error: sqlx::Error) -> Self {
        let database = match &error {
            sqlx::Error::Database(database) => database,
            sqlx::Error::PoolTimedOut => return Self::Busy,
            sqlx::Error::Io(io) if io.kind() == io::ErrorKind::StorageFull => return Self::DiskFull,
            _ => return Self::Database(error),
        };
        let extended: Option<i32> = database.code().and_then(|code| code.parse().ok());
        if extended == Some(code::IOERR_SHMSIZE) {
            return Self::DiskFull;
        }
        match extended.map(|code| code & 0xff) {
            Some(code::CORRUPT | code::NOTADB) => Self::Corrupt { detail: database.to_string() },
            Some(code::FULL) => Self::DiskFull,
            Some(code::READONLY) => Self::ReadOnly,
            Some(code::BUSY | code::LOCKED) => Self::Busy,
            Some(code::IOERR | code::CANTOPEN) => Self::Io { detail: database.to_string() },
            _ => Self::Database(error),
        }
    }
}

impl From<MigrateError> for HistoryError {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::VersionMissing(version) | MigrateError::VersionMismatch(version) => {
                Self::ForeignSchema { version }
            }
            MigrateError::Execute(source) => source.into(),
            MigrateError::ExecuteMigration(source, version) => match source.into() {
                Self::Database(source) => Self::Migration(MigrateError::ExecuteMigration(source, version)),
                typed => typed,
            },
            other => Self::Migration(other),
        }
    }
}
