//! Copies of the database beside it, made before a migration.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use sqlx::SqliteConnection;

use crate::{HistoryError, now_ms};

/// Backups that stay after a migration; older ones are deleted.
pub const KEPT_BACKUPS: usize = 3;

/// Copies the database to `<file>.backup-v<schema version>-<Unix ms>`.
///
/// The copy has its name only once it is complete and on the disk.
pub async fn write(
    connection: &mut SqliteConnection,
    database: &Path,
    schema_version: i64,
) -> Result<(), HistoryError> {
    check_integrity(connection).await?;
    let folder = folder_of(database);
    let prefix = name_prefix(database);
    let part = folder.join(format!("{prefix}part"));
    let whole = folder.join(format!("{prefix}v{schema_version:04}-{:013}", now_ms()));
    remove_if_present(&part)?;
    let target = part.to_str().ok_or_else(|| HistoryError::File {
        action: "name",
        path: part.clone(),
        source: io::Error::new(io::ErrorKind::InvalidFilename, "not UTF-8"),
    })?;
    // The file alone would lack what is still in the write-ahead log.
    let copied = sqlx::query("VACUUM INTO ?").bind(target).execute(connection).await;
    if let Err(error) = copied {
        remove_if_present(&part)?;
        return Err(error.into());
    }
    publish(&part, &whole)
}

/// Deletes all but the newest [`KEPT_BACKUPS`]. A backup that cannot be deleted is only logged.
pub fn prune(database: &Path) {
    let backups = list(database);
    let surplus = backups.len().saturating_sub(KEPT_BACKUPS);
    for path in &backups[..surplus] {
        if let Err(error) = fs::remove_file(path) {
            tracing::warn!(%error, path = %path.display(), "cannot delete an old backup of the history");
        }
    }
}

/// The complete backups of `database`, oldest first.
pub fn list(database: &Path) -> Vec<PathBuf> {
    let prefix = name_prefix(database) + "v";
    let Ok(entries) = fs::read_dir(folder_of(database)) else { return Vec::new() };
    let mut backups: Vec<(String, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let (_version, written_at_ms) = name.strip_prefix(&prefix)?.split_once('-')?;
            Some((written_at_ms.to_owned(), entry.path()))
        })
        .collect();
    backups.sort();
    backups.into_iter().map(|(_, path)| path).collect()
}

/// Searches the whole database for damage.
pub async fn check_integrity(connection: &mut SqliteConnection) -> Result<(), HistoryError> {
    let finding: String = sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(connection).await?;
    if finding == "ok" { Ok(()) } else { Err(HistoryError::Corrupt { detail: finding }) }
}

/// Syncs `part` and gives it its name; SQLite itself does not sync what VACUUM INTO wrote.
fn publish(part: &Path, whole: &Path) -> Result<(), HistoryError> {
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| HistoryError::File { action, path, source }
    };
    // Opened for writing: Windows syncs no other handle.
    let file = File::options().write(true).open(part).map_err(failed("open", part))?;
    file.sync_all().map_err(failed("sync", part))?;
    fs::rename(part, whole).map_err(failed("rename", part))
}

fn remove_if_present(path: &Path) -> Result<(), HistoryError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(HistoryError::File { action: "delete", path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

fn folder_of(database: &Path) -> &Path {
    match database.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn name_prefix(database: &Path) -> String {
    let name = database.file_name().unwrap_or_default().to_string_lossy();
    format!("{name}.backup-")
}
