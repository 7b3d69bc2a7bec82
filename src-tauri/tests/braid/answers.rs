use std::{sync::atomic::Ordering, time::Duration};

use app::{error::AppError, requests::StopCause};
use engine::testing::{Answer, BadLogits, START_OF_TURN, Scenario, Script};
use protocol::{ErrorCode, FinishReason, MessageState, Role, SamplingSettings, StreamEventBody};

use crate::support::{PATIENCE, Plan, TestApp};

fn spoken(text: &str) -> Plan {
    Plan::of(Script { answer: Answer::spoken(text), ..Script::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn both_messages_are_stored_before_the_engine_is_asked() {
    let plan = spoken("Paris.");
    plan.gate.close();
    let app = TestApp::start(plan.clone()).await;
    let conversation = app.new_conversation().await;
    app.state.history().await.unwrap().save_draft(conversation.parse().unwrap(), "draft").await.unwrap();
    let (started, recorder) = app.send(&conversation, "What is the capital of France?").await.unwrap();
    let stored = app.messages(&conversation).await;
    assert_eq!(stored, [started.user_message, started.answer], "the engine is still loading");
    assert_eq!(stored[1].state, MessageState::Streaming);
    let view = app::commands::conversations::open(&app.state, &conversation).await.unwrap();
    assert_eq!(view.draft, "", "what was sent is no draft any more");
    assert_eq!(view.summary.title, "What is the capital of France?");
    let [active] = view.active_requests.as_slice() else { panic!("one request is active") };
    assert_eq!((&active.request_id, &active.answer_id), (&format!("r{conversation}"), &stored[1].id));
    plan.gate.open();
    recorder.wait_for_end().await;
    assert_eq!(app.messages(&conversation).await[1].text, "Paris.");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_reaches_screen_and_disk_alike() {
    let answer = "Grüße aus Paris 🗼 – 巴黎。".repeat(40);
    let app = TestApp::start(spoken(&answer)).await;
    let conversation = app.new_conversation().await;
    let settings = SamplingSettings { max_tokens: 9_999, ..app::sampling_settings::defaults() };
    app::commands::conversations::write_settings(&app.state, &conversation, &settings).await.unwrap();
    let (started, recorder) = app.send(&conversation, "Hello").await.unwrap();
    let StreamEventBody::Finished { reason, receipt } = recorder.wait_for_end().await else {
        panic!("it finishes");
    };
    assert_eq!(reason, FinishReason::EndOfTurn);
    assert_eq!(recorder.text(), answer);
    let events = recorder.events();
    let numbers: Vec<u32> = events.iter().map(|event| event.sequence).collect();
    assert_eq!(numbers, (0..events.len() as u32).collect::<Vec<_>>());
    assert_eq!(receipt.answer_tokens as usize, answer.len(), "the vocabulary is bytes");
    assert!(receipt.settings.seed.is_some(), "the receipt says which seed was drawn");
    assert!(receipt.fused_steps > 0 && receipt.per_row_steps == 0);
    let stored = app.messages(&conversation).await;
    assert_eq!(stored[1].id, started.answer.id);
    assert_eq!(
        (stored[1].text.as_str(), stored[1].state, stored[1].finish_reason, stored[1].receipt.clone()),
        (answer.as_str(), MessageState::Complete, Some(reason), Some(receipt)),
        "the end is on disk before the UI hears of it"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_message_can_follow_the_last_event_at_once() {
    let app = TestApp::start(spoken("ok")).await;
    let conversation = app.new_conversation().await;
    for turn in 0..5 {
        let (_, recorder) = app.send(&conversation, "again").await.expect("the conversation is free");
        recorder.wait_for_end().await;
        assert_eq!(app.messages(&conversation).await.len(), 2 * (turn + 1));
    }
    let messages = app.messages(&conversation).await;
    let parents = messages.iter().map(|message| message.parent_id.clone()).skip(1);
    let ids = messages.iter().map(|message| Some(message.id.clone()));
    assert!(parents.eq(ids.take(messages.len() - 1)), "one path");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_answers_one_message_at_a_time() {
    let app = TestApp::start(Plan::of(Scenario::LongAnswers)).await;
    let conversation = app.new_conversation().await;
    let (_, recorder) = app.send(&conversation, "one").await.unwrap();
    recorder.wait_for_text().await;
    assert!(matches!(app.send(&conversation, "two").await, Err(AppError::AlreadyGenerating { .. })));
    assert_eq!(app.messages(&conversation).await.len(), 2, "what was refused is not stored");
    let other = app.new_conversation().await;
    app.send(&other, "two").await.expect("other conversations answer at the same time");
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_keeps_the_text_in_every_phase() {
    let plan = Plan::of(Scenario::LongAnswers);
    let app = TestApp::start(plan.clone()).await;
    let decoding = app.new_conversation().await;
    let (_, recorder) = app.send(&decoding, "a").await.unwrap();
    recorder.wait_for_text().await;
    app.state.requests.stop(&format!("r{decoding}"), StopCause::User);
    app.state.requests.stop("of another time", StopCause::User);
    let end = recorder.wait_for_end().await;
    assert!(matches!(end, StreamEventBody::Finished { reason: FinishReason::Stopped, .. }), "{end:?}");
    let stored = app.messages(&decoding).await;
    assert_eq!((stored[1].text.clone(), stored[1].state), (recorder.text(), MessageState::Stopped));
    assert!(!recorder.text().is_empty());

    plan.gate.close();
    app.state.engine.restart().await;
    let waiting = app.new_conversation().await;
    let (_, recorder) = app.send(&waiting, "b").await.unwrap();
    app.state.requests.stop(&format!("r{waiting}"), StopCause::User);
    let end = recorder.wait_for_end().await;
    assert!(matches!(end, StreamEventBody::Finished { reason: FinishReason::Stopped, .. }), "{end:?}");
    plan.gate.open();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_is_gone_ends_its_answer_as_interrupted() {
    let app = TestApp::start(Plan::of(Scenario::LongAnswers)).await;
    let conversation = app.new_conversation().await;
    let (_, recorder) = app.send(&conversation, "a").await.unwrap();
    recorder.wait_for_text().await;
    recorder.is_closed.store(true, Ordering::Relaxed);
    assert_eq!(app.state.requests.drained(PATIENCE).await, 0);
    let stored = app.messages(&conversation).await;
    assert_eq!(stored[1].state, MessageState::Interrupted);
    assert!(!stored[1].text.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_sent_is_refused_before_anything_is_stored() {
    let app = TestApp::start(spoken("ok")).await;
    let conversation = app.new_conversation().await;
    let code = |result: Result<_, AppError>| match result {
        Ok(_) => panic!("it is refused"),
        Err(error) => error.code(),
    };
    assert_eq!(code(app.send(&conversation, " \n").await), ErrorCode::EmptyMessage);
    assert_eq!(code(app.send("999", "hi").await), ErrorCode::ConversationNotFound);
    assert_eq!(code(app.send("not a number", "hi").await), ErrorCode::ConversationNotFound);
    let bad = SamplingSettings { top_p: 0.0, ..app::sampling_settings::defaults() };
    let error = app::commands::conversations::write_settings(&app.state, &conversation, &bad).await;
    assert_eq!(error.unwrap_err().to_string(), "top_p must be above 0 and at most 1, but is 0");
    assert_eq!(app.messages(&conversation).await, []);
    let (_, recorder) = app.send(&conversation, "hi").await.expect("a refused message blocks nothing");
    recorder.wait_for_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_after_saving_keeps_the_message_and_says_why() {
    let app = TestApp::start(spoken("ok")).await;
    let conversation = app.new_conversation().await;
    let (_, recorder) = app.send(&conversation, &"too long ".repeat(1_000)).await.unwrap();
    let StreamEventBody::Failed { code, detail, .. } = recorder.wait_for_end().await else {
        panic!("it fails");
    };
    assert_eq!(code, ErrorCode::ContextTooLong);
    assert!(detail.contains("4096"), "the detail has the numbers: {detail}");
    let stored = app.messages(&conversation).await;
    assert_eq!((stored[0].role, stored[0].text.len()), (Role::User, 9_000));
    assert_eq!(
        (stored[1].state, stored[1].finish_reason, stored[1].failure),
        (MessageState::Failed, Some(FinishReason::Failed), Some(ErrorCode::ContextTooLong)),
        "the reason outlives the window"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_without_usable_logits_fails_alone_and_keeps_its_text() {
    let bad = BadLogits { first_token: START_OF_TURN, after_tokens: 3, logit: f32::NAN };
    let script = Script {
        bad_logits: Some(bad),
        step: Duration::from_millis(5),
        answer: Answer::spoken("abcdef"),
        ..Script::default()
    };
    let app = TestApp::start(Plan::of(script)).await;
    let conversation = app.new_conversation().await;
    let (_, recorder) = app.send(&conversation, "hi").await.unwrap();
    let end = recorder.wait_for_end().await;
    // Every row of this batch of one is bad, which the engine takes for a fault of the model as a whole.
    let expected = [ErrorCode::BadLogits, ErrorCode::EngineFailed];
    assert!(matches!(&end, StreamEventBody::Failed { code, .. } if expected.contains(code)), "{end:?}");
    let stored = app.messages(&conversation).await;
    assert_eq!((stored[1].text.as_str(), stored[1].state), ("abc", MessageState::Failed));
}

#[tokio::test(flavor = "multi_thread")]
async fn text_that_can_no_longer_be_saved_ends_its_answer_in_words() {
    let app = TestApp::start(Plan::of(Scenario::LongAnswers)).await;
    let conversation = app.new_conversation().await;
    let (_, recorder) = app.send(&conversation, "a").await.unwrap();
    recorder.wait_for_text().await;
    app.state.close_history().await;
    let end = recorder.wait_for_end().await;
    assert!(matches!(end, StreamEventBody::Failed { code: ErrorCode::HistoryFailed, .. }), "{end:?}");
    assert!(!recorder.text().is_empty(), "what was shown stays on screen");
    assert_eq!(app.state.requests.drained(PATIENCE).await, 0, "the engine does not go on unsaved");
}

#[test]
fn an_app_that_vanishes_leaves_its_text_marked_interrupted() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (folder, conversation, shown) = runtime.block_on(async {
        let app = TestApp::start(Plan::of(Scenario::LongAnswers)).await;
        let conversation = app.new_conversation().await;
        let (_, recorder) = app.send(&conversation, "a").await.unwrap();
        recorder.wait_for_text().await;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        (app.folder, conversation, recorder.text())
    });
    // No task gets to run again: what is on disk is all there is.
    runtime.shutdown_background();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let app = TestApp::start_in(folder, Plan::of(Scenario::ShortAnswers)).await;
        let start = app::commands::window::start(&app.state).await.unwrap();
        assert_eq!(start.interrupted_answers, 1);
        let stored = app.messages(&conversation).await;
        assert_eq!((stored[0].text.as_str(), stored[1].state), ("a", MessageState::Interrupted));
        assert_eq!(stored[1].finish_reason, Some(FinishReason::Interrupted));
        assert!(shown.starts_with(&stored[1].text));
        // 20 ms a token: a second behind the screen is 50 tokens of one byte.
        assert!(shown.len() - stored[1].text.len() <= 50, "{} of {}", stored[1].text.len(), shown.len());
    });
}
