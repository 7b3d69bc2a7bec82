//! One question, several answers.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use app::{
    commands::{conversations, versions, window},
    error::AppError,
    generation,
    requests::StopCause,
};
use engine::testing::{Answer, Scenario, Script};
use protocol::{
    ErrorCode, FanOut, FanOutVariant, FinishReason, MessageState, SamplingSettings, StartedFanOut,
    StreamEventBody,
};

use crate::support::{PATIENCE, Plan, Recorder, Sink, TestApp, until};

fn plan(step_ms: u64) -> Plan {
    let answer = Answer::Hashed { eos_one_in: 0 };
    Plan::of(Script { answer, step: Duration::from_millis(step_ms), ..Script::default() })
}

/// Settings with another seed for each answer.
fn seeds(count: u64, max_tokens: u32) -> Vec<SamplingSettings> {
    let settings = |seed: u64| SamplingSettings {
        temperature: 3.0,
        top_p: 1.0,
        seed: Some(seed.to_string()),
        max_tokens,
        ..app::sampling_settings::defaults()
    };
    (1..=count).map(settings).collect()
}

/// Request ids are "v0", "v1", …
async fn fan_out(
    app: &TestApp,
    conversation: &str,
    settings: Vec<SamplingSettings>,
) -> Result<(StartedFanOut, Arc<Recorder>), AppError> {
    let variant = |(index, settings)| FanOutVariant { request_id: format!("v{index}"), settings };
    let request = FanOut {
        conversation_id: conversation.into(),
        text: "Which one?".into(),
        variants: settings.into_iter().enumerate().map(variant).collect(),
    };
    let recorder = Arc::new(Recorder::default());
    let sink = Sink(recorder.clone());
    let started = generation::fan_out(&app.state, request, Instant::now(), sink).await?;
    Ok((started, recorder))
}

async fn wait_for_texts(recorder: &Recorder, requests: &[&str]) {
    for request in requests {
        let is_text = |body: &StreamEventBody| matches!(body, StreamEventBody::Text { .. });
        recorder.wait_for_event(|event| event.request_id == *request && is_text(&event.body)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_answers_are_stored_before_the_engine_is_asked_and_the_first_is_shown() {
    let plan = plan(0);
    plan.gate.close();
    let app = TestApp::start(plan.clone()).await;
    let conversation = app.new_conversation().await;
    let history = app.state.history().await.unwrap();
    history.save_draft(conversation.parse().unwrap(), "Which one?").await.unwrap();
    let (started, recorder) = fan_out(&app, &conversation, seeds(4, 9)).await.unwrap();

    let ids: Vec<_> = started.answers.iter().map(|answer| answer.id.clone()).collect();
    let view = conversations::open(&app.state, &conversation).await.unwrap();
    assert_eq!(view.messages, [started.user_message, started.answers[0].clone()]);
    assert_eq!(view.messages[1].version_ids, ids);
    assert_eq!((view.draft.as_str(), view.summary.title.as_str()), ("", "Which one?"));
    let active: Vec<_> = view.active_requests.iter().map(|active| active.answer_id.clone()).collect();
    assert_eq!(active, ids, "the engine is still loading");
    assert_eq!(versions::versions(&app.state, &conversation, &ids[2]).await.unwrap(), started.answers);
    plan.gate.open();
    for request in ["v0", "v1", "v2", "v3"] {
        recorder.wait_for_end_of(request).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_answer_is_what_it_would_be_alone_and_counts_its_own_events() {
    let app = TestApp::start(plan(2)).await;
    let conversation = app.new_conversation().await;
    let (started, recorder) = fan_out(&app, &conversation, seeds(3, 24)).await.unwrap();
    for (index, settings) in seeds(3, 24).into_iter().enumerate() {
        let request = format!("v{index}");
        let StreamEventBody::Finished { receipt, .. } = recorder.wait_for_end_of(&request).await else {
            panic!("it finishes");
        };
        assert_eq!(receipt.settings, settings);
        let numbers = recorder.of(&request).into_iter().map(|event| event.sequence);
        assert!(numbers.eq(0..recorder.of(&request).len() as u32));
        let alone = app.conversation_with(&settings).await;
        let (_, lone) = app.send(&alone, "Which one?").await.unwrap();
        lone.wait_for_end().await;
        let read = versions::versions(&app.state, &conversation, &started.answers[0].id).await.unwrap();
        assert_eq!((&read[index].text, read[index].state), (&lone.text(), MessageState::Complete));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_answer_and_a_failed_one_leave_the_others_alone() {
    let app = TestApp::start(plan(10)).await;
    let conversation = app.new_conversation().await;
    let mut settings = seeds(3, 40);
    settings[1].system_prompt = "too long ".repeat(1_000);
    settings[2].max_tokens = 9_999;
    let (started, recorder) = fan_out(&app, &conversation, settings).await.unwrap();
    wait_for_texts(&recorder, &["v2"]).await;
    app.state.requests.stop("v2", StopCause::User);
    let end = recorder.wait_for_end_of("v2").await;
    assert!(matches!(end, StreamEventBody::Finished { reason: FinishReason::Stopped, .. }), "{end:?}");
    let end = recorder.wait_for_end_of("v1").await;
    assert!(matches!(end, StreamEventBody::Failed { code: ErrorCode::ContextTooLong, .. }), "{end:?}");
    let end = recorder.wait_for_end_of("v0").await;
    assert!(matches!(end, StreamEventBody::Finished { reason: FinishReason::MaxTokens, .. }), "{end:?}");
    let read = versions::versions(&app.state, &conversation, &started.answers[0].id).await.unwrap();
    let states: Vec<_> = read.iter().map(|version| version.state).collect();
    assert_eq!(states, [MessageState::Complete, MessageState::Failed, MessageState::Stopped]);
    assert!(!read[2].text.is_empty(), "what a stopped answer said stays");
    let view = conversations::open(&app.state, &conversation).await.unwrap();
    assert_eq!(view.active_requests, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn keeping_one_answer_stops_the_others_and_the_conversation_goes_on_from_it() {
    let app = TestApp::start(plan(10)).await;
    let conversation = app.new_conversation().await;
    let (started, recorder) = fan_out(&app, &conversation, seeds(3, 9_999)).await.unwrap();
    wait_for_texts(&recorder, &["v0", "v1", "v2"]).await;
    let kept = started.answers[1].id.clone();
    let view = versions::keep(&app.state, &conversation, &kept).await.unwrap();
    assert_eq!(view.messages[1].id, kept);
    let active: Vec<_> = view.active_requests.iter().map(|active| active.request_id.as_str()).collect();
    assert_eq!(active, ["v1"], "the one that is kept goes on");
    let read = versions::versions(&app.state, &conversation, &kept).await.unwrap();
    for other in [&read[0], &read[2]] {
        assert_eq!(other.state, MessageState::Stopped);
        assert!(!other.text.is_empty());
    }
    app.state.requests.stop("v1", StopCause::User);
    recorder.wait_for_end_of("v1").await;
    let next = app.send(&conversation, "And then?").await.unwrap().0;
    assert_eq!(next.user_message.parent_id, Some(kept));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_waiting_for_the_engine_is_stopped_by_keeping_another() {
    let plan = plan(0);
    plan.gate.close();
    let app = TestApp::start(plan.clone()).await;
    let conversation = app.new_conversation().await;
    let (started, recorder) = fan_out(&app, &conversation, seeds(2, 5)).await.unwrap();
    versions::keep(&app.state, &conversation, &started.answers[0].id).await.unwrap();
    let end = recorder.wait_for_end_of("v1").await;
    assert!(matches!(end, StreamEventBody::Finished { reason: FinishReason::Stopped, .. }), "{end:?}");
    plan.gate.open();
    let end = recorder.wait_for_end_of("v0").await;
    assert!(matches!(end, StreamEventBody::Finished { reason: FinishReason::MaxTokens, .. }), "{end:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_fanned_out_is_refused_before_anything_is_stored() {
    let app = TestApp::start(plan(0)).await;
    let conversation = app.new_conversation().await;
    let code = |result: Result<_, AppError>| match result {
        Ok(_) => panic!("it is refused"),
        Err(error) => error.code(),
    };
    for count in [0, 1, 9] {
        assert_eq!(code(fan_out(&app, &conversation, seeds(count, 5)).await), ErrorCode::InvalidSetting);
    }
    let mut bad = seeds(3, 5);
    bad[2].top_p = 0.0;
    assert_eq!(code(fan_out(&app, &conversation, bad).await), ErrorCode::InvalidSetting);
    assert_eq!(code(fan_out(&app, "999", seeds(2, 5)).await), ErrorCode::ConversationNotFound);
    assert_eq!(app.messages(&conversation).await, []);
    let (_, recorder) = fan_out(&app, &conversation, seeds(8, 5)).await.expect("nothing is busy");
    recorder.wait_for_end_of("v7").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_is_fanned_out_takes_nothing_else_until_all_have_ended() {
    let app = TestApp::start(plan(10)).await;
    let conversation = app.new_conversation().await;
    let (started, recorder) = fan_out(&app, &conversation, seeds(2, 9_999)).await.unwrap();
    wait_for_texts(&recorder, &["v0", "v1"]).await;
    app.state.requests.stop("v0", StopCause::User);
    recorder.wait_for_end_of("v0").await;
    assert!(matches!(app.send(&conversation, "next").await, Err(AppError::AlreadyGenerating { .. })));
    let written = versions::write_version(&app.state, &conversation, &started.answers[0].id, "mine").await;
    assert!(matches!(written, Err(AppError::AlreadyGenerating { .. })));
    conversations::select(&app.state, &conversation, &started.answers[0].id).await.unwrap_err();
    app.state.requests.stop_conversation(conversation.parse().unwrap(), StopCause::User);
    recorder.wait_for_end_of("v1").await;
    app.send(&conversation, "next").await.expect("all have ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_is_gone_interrupts_all_of_them() {
    let app = TestApp::start(plan(10)).await;
    let conversation = app.new_conversation().await;
    let (started, recorder) = fan_out(&app, &conversation, seeds(3, 9_999)).await.unwrap();
    wait_for_texts(&recorder, &["v0", "v1", "v2"]).await;
    recorder.is_closed.store(true, Ordering::Relaxed);
    assert_eq!(app.state.requests.drained(PATIENCE).await, 0);
    let read = versions::versions(&app.state, &conversation, &started.answers[0].id).await.unwrap();
    assert!(
        read.iter().all(|version| version.state == MessageState::Interrupted && !version.text.is_empty())
    );
}

#[test]
fn an_app_that_vanishes_keeps_what_every_answer_said() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (folder, conversation, answer) = runtime.block_on(async {
        let app = TestApp::start(Plan::of(Scenario::LongAnswers)).await;
        let conversation = app.new_conversation().await;
        let (started, recorder) = fan_out(&app, &conversation, seeds(3, 9_999)).await.unwrap();
        wait_for_texts(&recorder, &["v0", "v1", "v2"]).await;
        let answer = started.answers[0].id.clone();
        until(async || {
            let read = versions::versions(&app.state, &conversation, &answer).await.unwrap();
            read.iter().all(|version| version.text.len() > 10)
        })
        .await;
        (app.folder, conversation, answer)
    });
    runtime.shutdown_background();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let app = TestApp::start_in(folder, Plan::of(Scenario::ShortAnswers)).await;
        assert_eq!(window::start(&app.state).await.unwrap().interrupted_answers, 3);
        let read = versions::versions(&app.state, &conversation, &answer).await.unwrap();
        assert!(read.iter().all(|version| version.state == MessageState::Interrupted));
        assert!(read.iter().all(|version| version.text.len() > 10));
        assert_eq!(app.messages(&conversation).await[1].id, answer, "the first is still the one shown");
    });
}
