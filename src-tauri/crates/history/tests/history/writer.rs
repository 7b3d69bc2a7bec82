//! The answer writer on a real database.

use std::time::Duration;

use history::{AnswerWriter, FinishState, HistoryError, MessageState};
use tokio::time::{Instant, sleep};

use crate::support::{Place, end, texts};

/// Slack for a loaded test machine, on top of the flush interval; together they stay below the promised second.
const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn the_last_delta_of_a_stalled_model_is_stored_within_a_second() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    let turn = history.begin_turn(chat, None, "q", "{}").await.unwrap();
    let writer = AnswerWriter::spawn(&history, turn.answer);
    writer.push("slow", 1).unwrap();
    let pushed = Instant::now();
    while history.open_conversation(chat).await.unwrap().path[1].text != "slow" {
        assert!(pushed.elapsed() < SECOND, "no push followed, and the text is still not stored");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_tabs_stream_at_once_and_keep_their_own_words() {
    let place = Place::new();
    let history = place.open().await;
    let mut tabs = Vec::new();
    for tab in 0..4 {
        let chat = history.create_conversation(&format!("tab {tab}")).await.unwrap();
        let turn = history.begin_turn(chat, None, "q", "{}").await.unwrap();
        let writer = AnswerWriter::spawn(&history, turn.answer);
        tabs.push((
            chat,
            tokio::spawn(async move {
                let mut sent = String::new();
                for token in 1..=400 {
                    let delta = format!("{tab}:{token} ");
                    writer.push(&delta, token).unwrap();
                    sent.push_str(&delta);
                    sleep(Duration::from_millis(3)).await;
                }
                writer.finish(end(FinishState::Complete)).await.unwrap();
                sent
            }),
        ));
    }
    // Reads and edits of others go on meanwhile.
    for _ in 0..20 {
        history.list_conversations().await.unwrap();
        history.save_draft(tabs[0].0, "next question").await.unwrap();
        sleep(Duration::from_millis(20)).await;
    }
    for (chat, task) in tabs {
        let sent = task.await.unwrap();
        let answer = history.open_conversation(chat).await.unwrap().path.pop().unwrap();
        assert_eq!(answer.text, sent);
        assert_eq!((answer.state, answer.output_tokens), (MessageState::Complete, 400));
    }
}

#[tokio::test]
async fn a_dropped_writer_leaves_its_text_marked_interrupted() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    let turn = history.begin_turn(chat, None, "q", "{}").await.unwrap();
    let writer = AnswerWriter::spawn(&history, turn.answer);
    writer.push("half an ", 2).unwrap();
    writer.push("answer", 3).unwrap();
    drop(writer);
    let dropped = Instant::now();
    loop {
        let path = history.open_conversation(chat).await.unwrap().path;
        if path[1].state == MessageState::Interrupted {
            assert_eq!(texts(&path), ["q", "half an answer"]);
            break;
        }
        assert!(dropped.elapsed() < SECOND);
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_purged_conversation_ends_its_writer_with_an_error() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    let turn = history.begin_turn(chat, None, "q", "{}").await.unwrap();
    let writer = AnswerWriter::spawn(&history, turn.answer);
    history.delete_conversation(chat).await.unwrap();
    history.purge_deleted(Duration::ZERO).await.unwrap();
    writer.push("late", 1).unwrap();
    let flushed = writer.flush().await;
    assert!(matches!(flushed, Err(HistoryError::MessageNotFound(id)) if id == turn.answer), "{flushed:?}");
}
