//! Opening the file: lock, connect, refuse what is newer, back up, migrate, mark what was cut off.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sqlx::migrate::Migrator;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{Connection, SqlitePool};

use crate::{History, HistoryError, MAX_READERS, Shared, backup, messages, search};

static MIGRATOR: Migrator = sqlx::migrate!("../../../migrations");

/// How long one connection waits for another's lock. Only a foreign program on the file makes it wait.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

impl History {
    /// Opens the database file, creating it and its folder if they are missing.
    ///
    /// Brings an older schema up to date after a backup beside the file (the newest
    /// [`KEPT_BACKUPS`](crate::KEPT_BACKUPS) are kept), and marks answers left streaming as interrupted.
    ///
    /// # Errors
    /// [`HistoryError::AlreadyOpen`], [`HistoryError::NewerSchema`], [`HistoryError::ForeignSchema`],
    /// [`HistoryError::Corrupt`], [`HistoryError::Backup`], [`HistoryError::Migration`], [`HistoryError::File`], and
    /// the disk's errors. The stored conversations are then as they were.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, HistoryError> {
        let path = path.as_ref();
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|source| HistoryError::File {
                action: "create",
                path: folder.to_owned(),
                source,
            })?;
        }
        let lock = lock(path)?;
        refuse_lost_file(path)?;
        let options = connect_options(path);
        let writer = pool_options(1).connect_with(options.clone()).await?;
        let interrupted_answers = match prepare(&writer, path).await {
            Ok(count) => count,
            Err(error) => {
                writer.close().await;
                return Err(error);
            }
        };
        let reader = pool_options(MAX_READERS).connect_lazy_with(options.pragma("query_only", "ON"));
        let last_sync = Mutex::new(Instant::now());
        let path = path.to_owned();
        Ok(Self { shared: Arc::new(Shared { path, writer, reader, last_sync, interrupted_answers, lock }) })
    }
}

fn pool_options(max_connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(max_connections)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        // SQLite rolls back by itself when a disk is full or fails; sqlx then still counts the transaction and would
        // refuse every later one on that connection.
        .before_acquire(|connection, _| {
            let is_usable = !connection.is_in_transaction();
            Box::pin(async move { Ok(is_usable) })
        })
}

fn connect_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        // macOS: fsync leaves data in the drive's own memory; this asks for F_FULLFSYNC.
        .pragma("fullfsync", "ON")
        .pragma("checkpoint_fullfsync", "ON")
        .pragma("cell_size_check", "ON")
        .pragma("trusted_schema", "OFF")
}

/// Checks and migrates the schema, makes damaged indexes anew, then closes answers that were cut off. Returns how many.
async fn prepare(writer: &SqlitePool, path: &Path) -> Result<u64, HistoryError> {
    let mut connection = writer.acquire().await?;
    let applied = applied_versions(&mut connection).await?;
    let known_version = MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or(0);
    let found_version = applied.iter().copied().max().unwrap_or(0);
    if found_version > known_version {
        return Err(HistoryError::NewerSchema { found_version, known_version });
    }
    let is_pending = MIGRATOR.iter().any(|migration| !applied.contains(&migration.version));
    let needs_backup = is_pending && !applied.is_empty();
    if needs_backup {
        backup::write(&mut connection, path, found_version).await.map_err(|source| HistoryError::Backup {
            from_version: found_version,
            source: Box::new(source),
        })?;
    }
    // The pool's one connection, given back: a future that holds a borrowed one here could not be sent to a task.
    drop(connection);
    MIGRATOR.run(writer).await?;
    if needs_backup {
        backup::prune(path);
    }
    let mut connection = writer.acquire().await?;
    search::repair_indexes(&mut connection).await?;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let interrupted_answers = messages::interrupt_streaming(&mut transaction).await?;
    transaction.commit().await?;
    Ok(interrupted_answers)
}

/// Versions in the file's migration table; empty for a new file.
async fn applied_versions(connection: &mut SqliteConnection) -> Result<Vec<i64>, HistoryError> {
    let table: Option<String> = sqlx::query_scalar(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name = '_sqlx_migrations'",
    )
    .fetch_optional(&mut *connection)
    .await?;
    if table.is_none() {
        return Ok(Vec::new());
    }
    Ok(sqlx::query_scalar("SELECT version FROM _sqlx_migrations").fetch_all(connection).await?)
}

/// Takes the advisory lock beside the database. The system drops it when the process dies, however it dies.
///
/// Without it a second process would mark the answers that the first one is streaming as interrupted.
fn lock(path: &Path) -> Result<File, HistoryError> {
    let lock_path = with_suffix(path, ".lock");
    let file_error = |action| {
        let path = lock_path.clone();
        move |source| HistoryError::File { action, path, source }
    };
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&lock_path)
        .map_err(file_error("create"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(HistoryError::AlreadyOpen { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(file_error("lock")(source)),
    }
}

/// Stops where SQLite would start afresh over the remains of a database.
///
/// SQLite takes an empty file for a new database and then deletes the write-ahead log beside it.
fn refuse_lost_file(path: &Path) -> Result<(), HistoryError> {
    let bytes = |path: &Path| fs::metadata(path).map(|metadata| metadata.len()).ok();
    let file_bytes = bytes(path);
    if file_bytes.is_some_and(|bytes| bytes > 0) {
        return Ok(());
    }
    let has_log = bytes(&with_suffix(path, "-wal")).is_some_and(|bytes| bytes > 0);
    let was_emptied = file_bytes.is_some() && !backup::list(path).is_empty();
    if has_log || was_emptied {
        return Err(HistoryError::Corrupt {
            detail: "the database file is empty or gone, but its log or backups are there".to_owned(),
        });
    }
    Ok(())
}

/// `path` with `suffix` after its file name.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}
