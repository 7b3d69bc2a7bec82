use std::time::Duration;

use app::{commands, requests::StopCause, state::AppState};
use engine::testing::{Answer, Scenario, Script};
use protocol::{
    EnginePhase, EngineStatus, ErrorCode, GateMode, MessageState, RowPhase, RowSource, StreamEventBody,
};

use crate::support::{PATIENCE, Plan, TestApp};

/// The first status that passes `test`.
async fn status(state: &AppState, test: impl Fn(&EngineStatus) -> bool) -> EngineStatus {
    let mut found = None;
    let search = commands::engine::follow(state, |status| {
        let is_it = test(&status);
        if is_it {
            found = Some(status);
        }
        !is_it
    });
    tokio::time::timeout(PATIENCE, search).await.expect("the status comes");
    found.expect("the search ended with it")
}

fn is_ready(status: &EngineStatus) -> bool {
    status.phase == EnginePhase::Ready
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_model_is_a_phase_and_not_a_blank_window() {
    let app = TestApp::start(Plan { has_model: false, ..Plan::of(Scenario::ShortAnswers) }).await;
    let first = status(&app.state, |_| true).await;
    assert!(
        matches!(&first.phase, EnginePhase::Failed { code: ErrorCode::ModelMissing, detail } if detail.contains("/nowhere"))
    );
    let conversation = app.new_conversation().await;
    let refused = app.send(&conversation, "hi").await.err().map(|error| error.code());
    assert_eq!(refused, Some(ErrorCode::ModelMissing));
    app.plan.lock().unwrap().has_model = true;
    app.state.engine.restart().await;
    status(&app.state, is_ready).await;
    let (_, recorder) = app.send(&conversation, "hi").await.expect("there is a model now");
    recorder.wait_for_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn loading_is_a_phase() {
    let plan = Plan::of(Scenario::ShortAnswers);
    plan.gate.close();
    let app = TestApp::start(plan.clone()).await;
    assert_eq!(status(&app.state, |_| true).await.phase, EnginePhase::Loading);
    plan.gate.open();
    let ready = status(&app.state, is_ready).await;
    assert_eq!(ready.model.map(|model| model.name), Some("scripted".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_dies_fails_its_answers_and_can_be_restarted() {
    let script = Script { step: Duration::from_millis(10), ..Scenario::PanicAtStep(30).into() };
    let script = Script { answer: Answer::Hashed { eos_one_in: 0 }, ..script };
    let app = TestApp::start(Plan::of(script)).await;
    let (one, two) = (app.new_conversation().await, app.new_conversation().await);
    let (_, first) = app.send(&one, "a").await.unwrap();
    let (_, second) = app.send(&two, "b").await.unwrap();
    for (conversation, recorder) in [(&one, first), (&two, second)] {
        let end = recorder.wait_for_end().await;
        assert!(matches!(end, StreamEventBody::Failed { code: ErrorCode::EngineFailed, .. }), "{end:?}");
        assert_eq!(app.messages(conversation).await[1].state, MessageState::Failed);
    }
    let dead = status(&app.state, |status| !is_ready(status)).await;
    assert!(
        matches!(dead.phase, EnginePhase::Failed { code: ErrorCode::EngineFailed, .. }),
        "{:?}",
        dead.phase
    );
    assert!(app.send(&one, "c").await.is_err(), "a dead engine takes nothing");
    *app.plan.lock().unwrap() = Plan::of(Scenario::ShortAnswers);
    app.state.engine.restart().await;
    let (_, recorder) = app.send(&one, "d").await.expect("the new engine is on its way");
    let end = recorder.wait_for_end().await;
    assert!(matches!(end, StreamEventBody::Finished { .. }), "{end:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_carry_the_names_that_the_ui_knows() {
    let app = TestApp::start(Plan::of(Scenario::LongAnswers)).await;
    let mut recorders = Vec::new();
    for text in ["a", "b", "c"] {
        let conversation = app.new_conversation().await;
        recorders.push((conversation.clone(), app.send(&conversation, text).await.unwrap().1));
    }
    let decoding = |status: &EngineStatus| {
        status.rows.len() == 3 && status.rows.iter().all(|row| row.phase == RowPhase::Decoding)
    };
    let running = status(&app.state, decoding).await;
    for (row, (conversation, _)) in running.rows.iter().zip(&recorders) {
        assert_eq!(row.conversation_id.as_ref(), Some(conversation));
        let answer = &app.messages(conversation).await[1].id;
        assert_eq!((row.source, row.answer_id.as_ref()), (RowSource::Tab, Some(answer)));
        assert_eq!(row.request_id, format!("r{conversation}"));
    }
    app.state.requests.stop_all(StopCause::AppExit);
    assert_eq!(app.state.requests.drained(PATIENCE).await, 0);
    for (conversation, _) in &recorders {
        let state = app.messages(conversation).await[1].state;
        assert_eq!(state, MessageState::Interrupted, "the person did not stop it, the exit did");
    }
    assert!(app.state.engine.end_thread());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gates_mode_outlives_the_engine_and_the_app() {
    let app = TestApp::start(Plan::of(Scenario::ShortAnswers)).await;
    assert_eq!(status(&app.state, is_ready).await.gate_mode, GateMode::Split);
    commands::settings::set_mode(&app.state, GateMode::Strict).await.unwrap();
    status(&app.state, |status| status.gate_mode == GateMode::Strict).await;
    app.state.engine.restart().await;
    assert_eq!(status(&app.state, is_ready).await.gate_mode, GateMode::Strict);
    app.state.close_history().await;
    let app = TestApp::start_in(app.folder, Plan::of(Scenario::ShortAnswers)).await;
    assert_eq!(status(&app.state, is_ready).await.gate_mode, GateMode::Strict);
}
