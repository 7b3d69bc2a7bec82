//! The list, and deleting with undo.

use std::time::Duration;

use history::{FinishState, HistoryError, PREVIEW_CHARS};

use crate::support::{Place, end, texts, turn};

#[tokio::test]
async fn the_list_puts_the_last_used_first_and_renaming_moves_nothing() {
    let place = Place::new();
    let history = place.open().await;
    let old = history.create_conversation("old").await.unwrap();
    let new = history.create_conversation("new").await.unwrap();
    // Two calls within one millisecond would tie, and a tie goes to the younger conversation.
    tokio::time::sleep(Duration::from_millis(2)).await;
    turn(&history, old, None, "q", "a").await;
    tokio::time::sleep(Duration::from_millis(2)).await;
    history.rename_conversation(new, "renamed").await.unwrap();
    let list = history.list_conversations().await.unwrap();
    let titles: Vec<_> = list.iter().map(|line| (line.id, line.title.as_str(), line.message_count)).collect();
    assert_eq!(titles, [(old, "old", 2), (new, "renamed", 0)]);
}

#[tokio::test]
async fn a_pin_survives_a_restart_and_undo_and_moves_nothing() {
    let place = Place::new();
    let history = place.open().await;
    let pinned = history.create_conversation("pinned").await.unwrap();
    // Two conversations of one millisecond would tie; a tie goes to the younger one, as here.
    let newer = history.create_conversation("newer").await.unwrap();
    history.pin_conversation(pinned).await.unwrap();
    history.pin_conversation(newer).await.unwrap();
    history.unpin_conversation(newer).await.unwrap();
    history.delete_conversation(pinned).await.unwrap();
    assert!(matches!(
        history.pin_conversation(pinned).await,
        Err(HistoryError::ConversationNotFound(id)) if id == pinned
    ));
    history.restore_conversation(pinned).await.unwrap();
    history.close().await;
    let history = place.open().await;
    let list = history.list_conversations().await.unwrap();
    let pins: Vec<_> = list.iter().map(|line| (line.id, line.is_pinned)).collect();
    assert_eq!(pins, [(newer, false), (pinned, true)]);
    assert!(history.open_conversation(pinned).await.unwrap().is_pinned);
}

#[tokio::test]
async fn a_preview_is_one_short_line_of_the_newest_text() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    let preview = async || history.list_conversations().await.unwrap()[0].preview.clone();
    assert_eq!(preview().await, "");
    let turn = history.begin_turn(chat, None, "why\n\n is  it?", "{}").await.unwrap();
    assert_eq!(preview().await, "why is it?");
    history.append_answer_text(turn.answer, &"é ".repeat(50_000), 1).await.unwrap();
    assert_eq!(preview().await, "why is it?", "a streaming answer is not read for every refresh of the list");
    history.finish_answer(turn.answer, &end(FinishState::Complete)).await.unwrap();
    let finished = preview().await;
    assert_eq!(finished.chars().count(), PREVIEW_CHARS);
    assert!(finished.starts_with("é é"));
}

#[tokio::test]
async fn a_deleted_conversation_comes_back_whole_until_it_is_purged() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("keep").await.unwrap();
    let answer = turn(&history, chat, None, "q", "a").await;
    history.save_draft(chat, "unsent").await.unwrap();
    history.set_conversation_settings(chat, r#"{"seed":1}"#).await.unwrap();
    let before = history.open_conversation(chat).await.unwrap();

    history.delete_conversation(chat).await.unwrap();
    assert!(history.list_conversations().await.unwrap().is_empty());
    for result in [
        history.open_conversation(chat).await.map(drop),
        history.delete_conversation(chat).await,
        history.rename_conversation(chat, "x").await,
        history.save_draft(chat, "x").await,
        history.begin_turn(chat, Some(answer), "x", "{}").await.map(drop),
    ] {
        assert!(matches!(result, Err(HistoryError::ConversationNotFound(id)) if id == chat));
    }
    assert_eq!(history.purge_deleted(Duration::from_secs(60)).await.unwrap(), 0, "undo still has time");
    history.restore_conversation(chat).await.unwrap();
    assert_eq!(history.open_conversation(chat).await.unwrap(), before);

    history.delete_conversation(chat).await.unwrap();
    assert_eq!(history.purge_deleted(Duration::ZERO).await.unwrap(), 1);
    assert!(matches!(history.restore_conversation(chat).await, Err(HistoryError::ConversationNotFound(_))));
    let next = history.create_conversation("next").await.unwrap();
    assert!(next > chat, "an id of a purged conversation must not come to mean another one");
}

#[tokio::test]
async fn purging_one_conversation_leaves_the_others_alone() {
    let place = Place::new();
    let history = place.open().await;
    let gone = history.create_conversation("gone").await.unwrap();
    let kept = history.create_conversation("kept").await.unwrap();
    let unfinished = history.begin_turn(gone, None, "q", "{}").await.unwrap();
    history.append_answer_text(unfinished.answer, "half", 1).await.unwrap();
    turn(&history, kept, None, "q", "a").await;
    history.delete_conversation(gone).await.unwrap();
    history.purge_deleted(Duration::ZERO).await.unwrap();
    assert_eq!(texts(&history.open_conversation(kept).await.unwrap().path), ["q", "a"]);
    history.close().await;
    let mut raw = place.raw().await;
    let left: i64 = sqlx::query_scalar(
        "SELECT (SELECT count(*) FROM messages) * 10 + (SELECT count(*) FROM answer_pieces)",
    )
    .fetch_one(&mut raw)
    .await
    .unwrap();
    assert_eq!(left, 20, "two messages and no piece stay");
}
