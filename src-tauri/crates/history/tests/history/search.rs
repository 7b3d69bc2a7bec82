//! Searching titles and texts.

use std::time::Duration;

use history::{ConversationId, FinishState, History, MAX_QUERY_WORDS, MessageId, SearchHit};

use crate::support::{Place, end, turn};

const LIMIT: u32 = 50;

async fn found(history: &History, query: &str) -> Vec<ConversationId> {
    history.search(query, LIMIT).await.unwrap().iter().map(|hit| hit.conversation).collect()
}

fn marked(hit: &SearchHit) -> (Vec<&str>, Vec<&str>) {
    let title = hit.title.marks.iter().map(|mark| &hit.title.text[mark.clone()]).collect();
    let snippet = hit.snippet.marks.iter().map(|mark| &hit.snippet.text[mark.clone()]).collect();
    (title, snippet)
}

#[tokio::test]
async fn titles_come_first_then_the_newest_messages_each_conversation_once() {
    let place = Place::new();
    let history = place.open().await;
    let titled = history.create_conversation("Rainbows at night").await.unwrap();
    let old = history.create_conversation("old").await.unwrap();
    turn(&history, old, None, "a rainbow?", "no").await;
    // Messages stored within one millisecond would tie.
    tokio::time::sleep(Duration::from_millis(2)).await;
    let new = history.create_conversation("new").await.unwrap();
    let first = turn(&history, new, None, "light", "the first rainbow").await;
    let second = turn(&history, new, Some(first), "more", "RAINBOWS are\n\narcs; a rainbow").await;

    let hits = history.search("rainbow", LIMIT).await.unwrap();
    let order: Vec<(ConversationId, Option<MessageId>)> =
        hits.iter().map(|hit| (hit.conversation, hit.message)).collect();
    assert_eq!(order[0], (titled, None));
    assert_eq!(order[1], (new, Some(second)), "the newest of its two matching messages");
    assert_eq!((order[2].0, order.len()), (old, 3));
    assert_eq!(marked(&hits[0]), (vec!["Rainbow"], vec![]));
    assert_eq!(hits[1].snippet.text, "RAINBOWS are arcs; a rainbow");
    assert_eq!(marked(&hits[1]), (vec![], vec!["RAINBOW", "rainbow"]));
    assert_eq!(history.search("rainbow", 1).await.unwrap(), hits[..1]);
}

#[tokio::test]
async fn parts_of_words_other_scripts_and_other_accents_are_found() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    turn(
        &history,
        chat,
        None,
        "Das Schaufenster im Café",
        "東京都の天気は晴れです。 C++ costs 50% x_y 한국어",
    )
    .await;
    for query in [
        "fenster",
        "schau",
        "CAFE",
        "café",
        "京都",
        "東",
        "한국",
        "한국어",
        "天気は晴れ",
        "c++",
        "50%",
        "0%",
        "x_y",
        "im caf",
    ] {
        assert_eq!(found(&history, query).await, [chat], "{query}");
    }
    for query in ["fenester", "大阪", "5%0", "x.y", "%%", "__", "im tee"] {
        assert!(found(&history, query).await.is_empty(), "{query}");
    }
}

#[tokio::test]
async fn every_word_must_be_in_the_same_text() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    turn(&history, chat, None, "apples and pears", "only plums").await;
    assert_eq!(found(&history, "pears  apples").await, [chat]);
    assert_eq!(found(&history, "es pears").await, [chat], "a short word beside a long one");
    assert!(found(&history, "apples plums").await.is_empty());
    assert!(found(&history, "pears xy").await.is_empty());
}

#[tokio::test]
async fn whatever_is_typed_is_text_and_never_syntax() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    turn(&history, chat, None, r#"say "hello" AND (text:NEAR) * ^col -x"#, "{}").await;
    for query in [r#""hello""#, "AND", "(text:NEAR)", "NEAR)", "* ^col", "-x", "\"hello\" \0 say"] {
        assert_eq!(found(&history, query).await, [chat], "{query}");
    }
    let long = "word ".repeat(10_000);
    let endless = "x".repeat(100_000);
    for query in [
        "",
        "   ",
        "\0",
        "\u{301}",
        "\"",
        "\"\"\"",
        "'",
        "text:",
        "a OR",
        "\\",
        ")",
        &long,
        &endless,
        "😀😀😀",
    ] {
        history.search(query, LIMIT).await.unwrap_or_else(|error| panic!("{query:.20}: {error:?}"));
    }
    for query in ["", " \n ", "\0", "\u{301}"] {
        assert!(found(&history, query).await.is_empty(), "no word finds nothing: {query:?}");
    }
    let many = "say ".repeat(MAX_QUERY_WORDS) + "never";
    assert_eq!(found(&history, &many).await, [chat], "words beyond the limit are ignored");
}

#[tokio::test]
async fn the_index_follows_renames_answers_deletion_and_purge() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("before").await.unwrap();
    history.rename_conversation(chat, "after").await.unwrap();
    assert!(found(&history, "before").await.is_empty());
    assert_eq!(found(&history, "after").await, [chat]);

    let streaming = history.begin_turn(chat, None, "question", "{}").await.unwrap();
    history.append_answer_text(streaming.answer, "half an ", 1).await.unwrap();
    assert!(found(&history, "half").await.is_empty(), "an answer is found once it has ended");
    history.append_answer_text(streaming.answer, "answer", 2).await.unwrap();
    history.finish_answer(streaming.answer, &end(FinishState::Complete)).await.unwrap();
    assert_eq!(found(&history, "half answer").await, [chat]);

    history.delete_conversation(chat).await.unwrap();
    for query in ["after", "question", "half", "ha"] {
        assert!(found(&history, query).await.is_empty(), "{query} of a deleted conversation");
    }
    history.restore_conversation(chat).await.unwrap();
    assert_eq!(found(&history, "half").await, [chat]);

    history.delete_conversation(chat).await.unwrap();
    history.purge_deleted(Duration::ZERO).await.unwrap();
    history.close().await;
    let mut raw = place.raw().await;
    let check = "INSERT INTO title_search (title_search, rank) VALUES ('integrity-check', 1);
         INSERT INTO message_search (message_search, rank) VALUES ('integrity-check', 1)";
    sqlx::raw_sql(check).execute(&mut raw).await.expect("the index is what the tables hold: nothing");
    let left: i64 = sqlx::query_scalar(
        "SELECT (SELECT count(*) FROM message_search_docsize) + (SELECT count(*) FROM title_search_docsize)",
    )
    .fetch_one(&mut raw)
    .await
    .unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn an_answer_cut_off_by_a_crash_is_found_after_the_next_start() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    let streaming = history.begin_turn(chat, None, "question", "{}").await.unwrap();
    history.append_answer_text(streaming.answer, "the part that was written", 5).await.unwrap();
    history.close().await;
    let history = place.open().await;
    assert_eq!(found(&history, "written").await, [chat]);
}
