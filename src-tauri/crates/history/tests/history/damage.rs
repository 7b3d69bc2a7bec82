//! A damaged file is said to be damaged, never shown as empty.

use std::fs;

use history::{FinishState, History, HistoryError, MessageState};

use crate::support::{Place, end, texts, turn};

#[tokio::test]
async fn unreadable_values_cost_only_themselves() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("title").await.unwrap();
    turn(&history, chat, None, "question", "answer").await;
    history.set_conversation_settings(chat, "{}").await.unwrap();
    history.set_app_setting("theme", "1").await.unwrap();
    history.close().await;
    let mut raw = place.raw().await;
    for damage in [
        "PRAGMA ignore_check_constraints = ON",
        "UPDATE messages SET text = CAST(x'61FF62' AS TEXT), settings_json = '{', state = 'melted' WHERE id = 2",
        "UPDATE messages SET settings_json = 'x' WHERE id = 1",
        "UPDATE conversation_settings SET settings_json = '{\"seed\":'",
        "UPDATE app_settings SET value_json = ''",
    ] {
        sqlx::raw_sql(damage).execute(&mut raw).await.unwrap();
    }
    drop(raw);

    let history = place.open().await;
    let opened = history.open_conversation(chat).await.unwrap();
    assert_eq!(texts(&opened.path), ["question", "a\u{fffd}b"]);
    assert_eq!(opened.path[1].state, MessageState::Interrupted);
    assert_eq!((opened.path[1].settings_json.clone(), opened.settings_json), (None, None));
    assert_eq!(history.app_setting("theme").await.unwrap(), None);
}

#[tokio::test]
async fn a_damaged_search_index_is_made_anew_and_costs_nothing() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("a lighthouse").await.unwrap();
    let answer = turn(&history, chat, None, "question", "far from the sea").await;
    history.close().await;
    let mut raw = place.raw().await;
    for table in ["title_search_data", "message_search_data", "attachment_search_data"] {
        // The record that says which segments there are.
        let damage = sqlx::AssertSqlSafe(format!("DELETE FROM {table} WHERE id = 10"));
        assert_eq!(sqlx::query(damage).execute(&mut raw).await.unwrap().rows_affected(), 1);
    }
    drop(raw);

    let history = place.open().await;
    turn(&history, chat, Some(answer), "and", "said after the damage").await;
    for query in ["lighthouse", "from the sea", "after the damage"] {
        assert_eq!(history.search(query, 9).await.unwrap().len(), 1, "{query}");
    }
    history.check_integrity().await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_kept() {
    for content in [vec![0_u8; 8192], b"not a database at all, but long enough to be one".repeat(100)] {
        let place = Place::new();
        fs::create_dir_all(place.path.parent().unwrap()).unwrap();
        fs::write(&place.path, &content).unwrap();
        let opened = History::open(&place.path).await;
        assert!(matches!(opened, Err(HistoryError::Corrupt { .. })), "{opened:?}");
        assert_eq!(fs::read(&place.path).unwrap(), content);
    }
}

#[tokio::test]
async fn an_emptied_file_beside_its_log_is_refused_and_the_log_kept() {
    let place = Place::new();
    let history = place.open().await;
    history.create_conversation("only in the log").await.unwrap();
    let log = place.path.with_extension("sqlite3-wal");
    let logged = fs::read(&log).unwrap();
    history.close().await;
    for leave_empty_file in [true, false] {
        fs::remove_file(&place.path).unwrap();
        if leave_empty_file {
            fs::write(&place.path, b"").unwrap();
        }
        fs::write(&log, &logged).unwrap();
        let opened = History::open(&place.path).await;
        assert!(matches!(opened, Err(HistoryError::Corrupt { .. })), "{opened:?}");
        assert_eq!(fs::read(&log).unwrap(), logged);
    }
}

/// Zeroes every page in turn. Allowed: the open fails as damaged, or each conversation is listed and opens with all its
/// messages or fails as damaged. Not allowed: fewer conversations or fewer messages without an error.
#[tokio::test]
async fn a_zeroed_page_never_hides_a_conversation_or_a_message() {
    let place = Place::new();
    let history = place.open().await;
    let chats = 40;
    for number in 0..chats {
        let chat = history.create_conversation(&format!("{number} {}", "title ".repeat(40))).await.unwrap();
        let answer = turn(&history, chat, None, "first", &"words ".repeat(1500)).await;
        turn(&history, chat, Some(answer), "second", &"more ".repeat(40)).await;
    }
    history.close().await;
    let whole = fs::read(&place.path).unwrap();
    let page_bytes = 4096;
    let mut refused = 0;
    for page in 0..whole.len() / page_bytes {
        let damaged_place = Place::new();
        fs::create_dir_all(damaged_place.path.parent().unwrap()).unwrap();
        let mut damaged = whole.clone();
        damaged[page * page_bytes..][..page_bytes].fill(0);
        fs::write(&damaged_place.path, damaged).unwrap();
        refused += u32::from(!is_complete_or_refused(&damaged_place, page, chats).await);
    }
    assert!(refused > 0, "no page mattered: the test damages the wrong file");
}

/// Whether everything was shown; panics if something was missing without an error.
async fn is_complete_or_refused(place: &Place, page: usize, chats: usize) -> bool {
    let history = match History::open(&place.path).await {
        Ok(history) => history,
        Err(HistoryError::Corrupt { .. }) => return false,
        Err(other) => panic!("page {page}: {other:?}"),
    };
    let list = match history.list_conversations().await {
        Ok(list) => list,
        Err(HistoryError::Corrupt { .. }) => return false,
        Err(other) => panic!("page {page}: {other:?}"),
    };
    assert_eq!(list.len(), chats, "page {page}");
    let mut is_complete = true;
    for line in list {
        assert!(line.is_damaged || line.message_count == 4, "page {page}: {line:?}");
        is_complete &= !line.is_damaged;
        match history.open_conversation(line.id).await {
            Ok(chat) => assert_eq!(chat.path.len(), 4, "page {page}"),
            Err(HistoryError::Corrupt { .. }) => is_complete = false,
            Err(other) => panic!("page {page}: {other:?}"),
        }
    }
    history.close().await;
    is_complete
}

#[tokio::test]
async fn the_integrity_check_finds_damage() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    let turn = history.begin_turn(chat, None, "q", "{}").await.unwrap();
    history.append_answer_text(turn.answer, &"long ".repeat(20_000), 1).await.unwrap();
    history.finish_answer(turn.answer, &end(FinishState::Complete)).await.unwrap();
    history.check_integrity().await.unwrap();
    history.close().await;
    let mut bytes = fs::read(&place.path).unwrap();
    let end = bytes.len();
    bytes[end - 16 * 4096..end - 8 * 4096].fill(0);
    fs::write(&place.path, bytes).unwrap();
    let history = place.open().await;
    let found = history.check_integrity().await;
    assert!(matches!(found, Err(HistoryError::Corrupt { .. })), "{found:?}");
}
