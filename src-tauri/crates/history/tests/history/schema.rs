//! Opening older, newer and locked files.

use std::fs;

use history::{History, HistoryError, KEPT_BACKUPS};
use sqlx::migrate::{Migrate, Migrator};
use sqlx::{Connection, SqliteConnection};

use crate::support::{Place, turn};

static MIGRATIONS: Migrator = sqlx::migrate!("../../../migrations");

/// SHA-384 of every migration ever released, first 16 hex digits. A new migration adds a line; no line changes.
const RELEASED: [(i64, &str); 6] = [
    (1, "a3751afb8bbf35cc"),
    (2, "ca14df4e5494f074"),
    (3, "eee00f7db9ce94b7"),
    (4, "161db848af261faa"),
    (5, "a5cfff0e57c2c9dc"),
    (6, "b632b58cec90118a"),
];

#[test]
fn migrations_are_numbered_without_gaps_and_append_only() {
    let found: Vec<(i64, String)> = MIGRATIONS
        .iter()
        .map(|migration| {
            let digits = migration.checksum.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            (migration.version, digits)
        })
        .collect();
    let released: Vec<(i64, String)> =
        RELEASED.iter().map(|(version, digits)| (*version, (*digits).to_owned())).collect();
    assert_eq!(found, released);
    assert!(found.iter().map(|(version, _)| *version).eq(1..=found.len() as i64));
}

/// A database as the program with only the first migration left it, with one message in one conversation.
async fn make_version_1(place: &Place) {
    fs::create_dir_all(place.path.parent().unwrap()).unwrap();
    fs::File::create(&place.path).unwrap();
    let mut raw = place.raw().await;
    raw.ensure_migrations_table("_sqlx_migrations").await.unwrap();
    let first = MIGRATIONS.iter().next().unwrap();
    raw.apply("_sqlx_migrations", first).await.unwrap();
    sqlx::raw_sql(
        "INSERT INTO conversations (title, created_at_ms, updated_at_ms) VALUES ('from version 1', 1, 1);
         INSERT INTO messages (conversation_id, role, state, created_at_ms, text)
         VALUES (1, 'user', 'complete', 1, 'asked long ago')",
    )
    .execute(&mut raw)
    .await
    .unwrap();
    raw.close().await.unwrap();
}

#[tokio::test]
async fn an_older_file_is_backed_up_before_it_is_migrated() {
    let place = Place::new();
    make_version_1(&place).await;

    let history = place.open().await;
    assert_eq!(history.list_conversations().await.unwrap()[0].title, "from version 1");
    for query in ["from version", "long ago"] {
        assert_eq!(history.search(query, 9).await.unwrap().len(), 1, "what was there is found: {query}");
    }
    history.set_app_setting("theme", "1").await.unwrap();
    history.close().await;

    let backups = place.files_with(".backup-");
    assert_eq!(backups.len(), 1, "{backups:?}");
    assert!(backups[0].starts_with("history.sqlite3.backup-v0001-"));
    let backup = place.path.with_file_name(&backups[0]);
    let mut raw = SqliteConnection::connect(&format!("sqlite://{}", backup.display())).await.unwrap();
    let title: String =
        sqlx::query_scalar("SELECT title FROM conversations").fetch_one(&mut raw).await.unwrap();
    assert_eq!(title, "from version 1");
    let versions: Vec<i64> =
        sqlx::query_scalar("SELECT version FROM _sqlx_migrations").fetch_all(&mut raw).await.unwrap();
    assert_eq!(versions, [1], "the backup must be from before the migration");

    place.open().await.close().await;
    assert_eq!(place.files_with(".backup-"), backups, "nothing pending, nothing to back up");
}

#[tokio::test]
async fn only_the_newest_backups_are_kept() {
    let place = Place::new();
    make_version_1(&place).await;
    for age in 0..KEPT_BACKUPS + 2 {
        let name = format!("history.sqlite3.backup-v0001-{:013}", 1000 + age);
        fs::write(place.path.with_file_name(name), b"old").unwrap();
    }
    place.open().await.close().await;
    let left = place.files_with(".backup-");
    assert_eq!(left.len(), KEPT_BACKUPS);
    assert!(left[0].ends_with("0000000001003") && left[1].ends_with("0000000001004"), "{left:?}");
}

#[tokio::test]
async fn without_a_backup_there_is_no_migration() {
    let place = Place::new();
    make_version_1(&place).await;
    // A folder where the unfinished copy would go makes the copy fail.
    fs::create_dir(place.path.with_file_name("history.sqlite3.backup-part")).unwrap();
    let opened = History::open(&place.path).await;
    assert!(matches!(opened, Err(HistoryError::Backup { from_version: 1, .. })), "{opened:?}");
    let mut raw = place.raw().await;
    let versions: Vec<i64> =
        sqlx::query_scalar("SELECT version FROM _sqlx_migrations").fetch_all(&mut raw).await.unwrap();
    assert_eq!(versions, [1]);
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("from the future").await.unwrap();
    turn(&history, chat, None, "q", "a").await;
    history.begin_turn(chat, None, "unfinished", "{}").await.unwrap();
    history.close().await;
    let mut raw = place.raw().await;
    sqlx::raw_sql(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'later', TRUE, x'00', 0)",
    )
    .execute(&mut raw)
    .await
    .unwrap();
    raw.close().await.unwrap();
    let before = fs::read(&place.path).unwrap();

    let opened = History::open(&place.path).await;
    let known = RELEASED.len() as i64;
    assert!(
        matches!(opened, Err(HistoryError::NewerSchema { found_version: 9999, known_version }) if known_version == known),
        "{opened:?}"
    );
    assert_eq!(fs::read(&place.path).unwrap(), before);
    assert!(place.files_with(".backup-").is_empty());
}

#[tokio::test]
async fn a_migration_with_other_text_is_refused() {
    let place = Place::new();
    place.open().await.close().await;
    let mut raw = place.raw().await;
    sqlx::raw_sql("UPDATE _sqlx_migrations SET checksum = x'00' WHERE version = 2")
        .execute(&mut raw)
        .await
        .unwrap();
    raw.close().await.unwrap();
    let opened = History::open(&place.path).await;
    assert!(matches!(opened, Err(HistoryError::ForeignSchema { version: 2 })), "{opened:?}");
}

#[tokio::test]
async fn a_second_opener_is_refused_until_the_first_closes() {
    let place = Place::new();
    let history = place.open().await;
    let second = History::open(&place.path).await;
    assert!(matches!(second, Err(HistoryError::AlreadyOpen { .. })), "{second:?}");
    history.close().await;
    place.open().await;
}
