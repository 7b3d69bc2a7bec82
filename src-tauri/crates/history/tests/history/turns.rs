//! Turns, answers, branches.

use history::{
    AnswerEnd, AnswerPiece, ConversationId, FinishState, HistoryError, Message, MessageId, MessageState, Role,
};
use sqlx::Connection;

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
        token_details_json: None,
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
async fn thinking_and_token_details_are_kept_apart_from_the_text() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    let turn = history.begin_turn(chat, None, "hi", "{}").await.unwrap();
    let thought = |text: &str, thinking_tokens| AnswerPiece {
        thinking: text.into(),
        thinking_tokens,
        ..AnswerPiece::default()
    };
    history.append_answer_piece(turn.answer, &thought("Let me ", 2)).await.unwrap();
    history.append_answer_piece(turn.answer, &thought("see.", 3)).await.unwrap();
    history.append_answer_text(turn.answer, "Paris.", 1).await.unwrap();
    let expected = |message: &Message| {
        assert_eq!((message.thinking.as_str(), message.thinking_tokens), ("Let me see.", 3));
        assert_eq!((message.text.as_str(), message.output_tokens), ("Paris.", 1));
    };
    expected(&history.open_conversation(chat).await.unwrap().path[1]);
    assert_eq!(history.token_details(turn.answer).await.unwrap(), None, "nothing is recorded yet");

    let bad = AnswerEnd { token_details_json: Some("[".into()), ..end(FinishState::Stopped) };
    let refused = history.finish_answer(turn.answer, &bad).await;
    assert!(matches!(refused, Err(HistoryError::InvalidJson { field: "token_details_json", .. })));
    let details = AnswerEnd { token_details_json: Some("[1]".into()), ..end(FinishState::Stopped) };
    history.finish_answer(turn.answer, &details).await.unwrap();
    history.close().await;

    let history = place.open().await;
    expected(&history.open_conversation(chat).await.unwrap().path[1]);
    assert_eq!(history.token_details(turn.answer).await.unwrap().as_deref(), Some("[1]"));
}

#[tokio::test]
async fn an_answer_that_was_cut_off_keeps_its_thinking() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    let turn = history.begin_turn(chat, None, "hi", "{}").await.unwrap();
    let piece = AnswerPiece { thinking: "Half a tho".into(), thinking_tokens: 4, ..AnswerPiece::default() };
    history.append_answer_piece(turn.answer, &piece).await.unwrap();
    history.close().await;
    let cut_off = place.open().await.open_conversation(chat).await.unwrap().path.pop().unwrap();
    assert_eq!(cut_off.state, MessageState::Interrupted);
    assert_eq!((cut_off.thinking.as_str(), cut_off.thinking_tokens), ("Half a tho", 4));
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

#[tokio::test]
async fn an_edit_and_a_regeneration_are_siblings_and_every_branch_can_be_shown() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    let first = turn(&history, chat, None, "q1", "a1").await;
    let second = turn(&history, chat, Some(first), "q2", "a2").await;
    let edited = turn(&history, chat, Some(first), "q2 edited", "a2 edited").await;
    let edited_path = history.open_conversation(chat).await.unwrap().path;
    assert_eq!(texts(&edited_path), ["q1", "a1", "q2 edited", "a2 edited"]);

    let regenerated = history.start_answer(edited_path[2].id, "{}").await.unwrap();
    history.append_answer_text(regenerated, "a2 again", 3).await.unwrap();
    history.finish_answer(regenerated, &end(FinishState::Stopped)).await.unwrap();
    let shown = history.open_conversation(chat).await.unwrap();
    assert_eq!(texts(&shown.path), ["q1", "a1", "q2 edited", "a2 again"]);
    assert_eq!(shown.active_leaf, Some(regenerated));
    assert_eq!(shown.path[3].siblings, [edited, regenerated]);

    let old_question = shown.path[2].siblings[0];
    history.select_branch(chat, old_question).await.unwrap();
    let old = history.open_conversation(chat).await.unwrap();
    assert_eq!(texts(&old.path), ["q1", "a1", "q2", "a2"]);
    assert_eq!(old.active_leaf, Some(second));

    // The newest leaf below the edited question is the regenerated answer.
    history.select_branch(chat, shown.path[2].id).await.unwrap();
    assert_eq!(history.open_conversation(chat).await.unwrap().active_leaf, Some(regenerated));
    assert_eq!(texts(&history.message_path(chat, second).await.unwrap()), ["q1", "a1", "q2", "a2"]);
}

#[tokio::test]
async fn a_first_question_can_be_edited_too() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    turn(&history, chat, None, "old", "a").await;
    turn(&history, chat, None, "new", "b").await;
    let path = history.open_conversation(chat).await.unwrap().path;
    assert_eq!(texts(&path), ["new", "b"]);
    assert_eq!(path[0].siblings.len(), 2);
}

#[tokio::test]
async fn messages_of_other_conversations_and_roles_are_refused() {
    let place = Place::new();
    let history = place.open().await;
    let mine = history.create_conversation("").await.unwrap();
    let other = history.create_conversation("").await.unwrap();
    let foreign = turn(&history, other, None, "q", "a").await;
    let own = turn(&history, mine, None, "q", "a").await;

    let across = history.begin_turn(mine, Some(foreign), "x", "{}").await;
    assert!(matches!(across, Err(HistoryError::MessageNotFound(id)) if id == foreign));
    let select = history.select_branch(mine, foreign).await;
    assert!(matches!(select, Err(HistoryError::MessageNotFound(id)) if id == foreign));
    let path = history.message_path(mine, foreign).await;
    assert!(matches!(path, Err(HistoryError::MessageNotFound(id)) if id == foreign));
    let answer_to_answer = history.start_answer(own, "{}").await;
    assert!(matches!(answer_to_answer, Err(HistoryError::NotAUserMessage(id)) if id == own));
    let nowhere = history.begin_turn(ConversationId(99), None, "x", "{}").await;
    assert!(matches!(nowhere, Err(HistoryError::ConversationNotFound(ConversationId(99)))));
    let unknown = history.append_answer_text(MessageId(99), "x", 1).await;
    assert!(matches!(unknown, Err(HistoryError::MessageNotFound(MessageId(99)))));
    let not_json = history.begin_turn(mine, Some(own), "x", "{").await;
    assert!(matches!(not_json, Err(HistoryError::InvalidJson { field: "settings_json", .. })));
    assert_eq!(history.open_conversation(mine).await.unwrap().path.len(), 2, "a refused turn left something");
}

#[tokio::test]
async fn a_path_deeper_than_sqlites_trigger_limit_reads_in_order_and_can_be_purged() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    history.close().await;
    let mut raw = place.raw().await;
    let mut transaction = raw.begin().await.unwrap();
    let depth = 3000;
    // Every message also gets a dead-end sibling, made before it.
    for step in 0..depth {
        let parent = (step > 0).then(|| 2 * step);
        for text in [format!("dead end {step}"), format!("step {step}")] {
            sqlx::query(
                "INSERT INTO messages (conversation_id, parent_id, role, state, created_at_ms, text)
                 VALUES (?, ?, 'user', 'complete', 0, ?)",
            )
            .bind(chat)
            .bind(parent)
            .bind(text)
            .execute(&mut *transaction)
            .await
            .unwrap();
        }
    }
    transaction.commit().await.unwrap();
    raw.close().await.unwrap();

    let history = place.open().await;
    history.select_branch(chat, MessageId(1)).await.unwrap();
    assert_eq!(history.open_conversation(chat).await.unwrap().path.len(), 1);
    history.select_branch(chat, MessageId(2)).await.unwrap();
    let path = history.open_conversation(chat).await.unwrap().path;
    let expected: Vec<String> = (0..depth).map(|step| format!("step {step}")).collect();
    assert_eq!(texts(&path), expected);
    history.delete_conversation(chat).await.unwrap();
    assert_eq!(history.purge_deleted(std::time::Duration::ZERO).await.unwrap(), 1);
    history.check_integrity().await.unwrap();
}

#[test]
fn ids_cross_as_decimal_strings() {
    assert_eq!("9007199254740993".parse(), Ok(MessageId(9_007_199_254_740_993)));
    assert_eq!(ConversationId(7).to_string(), "7");
    assert!("7a".parse::<ConversationId>().is_err());
}
