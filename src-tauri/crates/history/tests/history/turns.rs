//! Turns, answers, branches.

use history::{AnswerEnd, ConversationId, FinishState, HistoryError, MessageId, MessageState, Role};

use crate::support::{Place, end, texts, turn};

#[tokio::test]
async fn a_turn_is_stored_whole_before_generation_and_clears_the_draft() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("France").await.unwrap();
    history.save_draft(chat, "What is the cap").await.unwrap();

    let turn =
        history.begin_turn(chat, None, "What is the capital?", r#"{"temperature":0.7}"#).await.unwrap();
    history.close().await;

    let mut raw = place.raw().await;
    let on_disk: Vec<(i64, String, String, String)> =
        sqlx::query_as("SELECT id, role, state, text FROM messages ORDER BY id")
            .fetch_all(&mut raw)
            .await
            .unwrap();
    assert_eq!(
        on_disk,
        [
            (turn.user_message.0, "user".into(), "complete".into(), "What is the capital?".into()),
            (turn.answer.0, "assistant".into(), "streaming".into(), String::new()),
        ]
    );
    let drafts: i64 = sqlx::query_scalar("SELECT count(*) FROM drafts").fetch_one(&mut raw).await.unwrap();
    assert_eq!(drafts, 0);
}

#[tokio::test]
async fn an_answer_reads_the_same_while_streaming_and_after() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    let turn = history.begin_turn(chat, None, "hi", "{}").await.unwrap();
    let pieces = ["Par", "is 🗼", "\0", "", " 東京\n", "ة"];
    for (index, piece) in pieces.iter().enumerate() {
        history.append_answer_text(turn.answer, piece, index as u32 + 1).await.unwrap();
    }
    let streaming = history.open_conversation(chat).await.unwrap().path.pop().unwrap();
    assert_eq!((streaming.state, streaming.output_tokens), (MessageState::Streaming, 6));
    assert_eq!(streaming.text, pieces.concat());

    let receipt = r#"{"ttft_ms":12}"#;
    let end = AnswerEnd {
        state: FinishState::Complete,
        finish_reason: Some("stop".into()),
        receipt_json: Some(receipt.into()),
        error_code: None,
    };
    history.finish_answer(turn.answer, &end).await.unwrap();
    let finished = history.open_conversation(chat).await.unwrap().path.pop().unwrap();
    assert_eq!((finished.state, finished.output_tokens), (MessageState::Complete, 6));
    assert_eq!(finished.text, pieces.concat());
    assert_eq!(finished.role, Role::Assistant);
    assert_eq!(finished.finish_reason.as_deref(), Some("stop"));
    assert_eq!(finished.receipt_json.as_deref(), Some(receipt));
    assert!(finished.finished_at_ms.unwrap() >= finished.created_at_ms);
}

#[tokio::test]
async fn a_finished_answer_takes_nothing_more() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    let answer = turn(&history, chat, None, "q", "a").await;
    let stopped = AnswerEnd { error_code: None, ..end(FinishState::Stopped) };
    for result in
        [history.append_answer_text(answer, "x", 9).await, history.finish_answer(answer, &stopped).await]
    {
        assert!(matches!(
            result,
            Err(HistoryError::AnswerNotStreaming { state: MessageState::Complete, .. })
        ));
    }
    assert_eq!(texts(&history.open_conversation(chat).await.unwrap().path), ["q", "a"]);
}
