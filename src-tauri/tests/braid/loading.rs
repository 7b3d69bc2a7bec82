use std::sync::Arc;

use app::{
    error::AppError,
    local_engine::{EngineLink, LoadRequest, LoadState, RunningEngine},
};
use engine::{
    EngineError, EnginePhase, Replace,
    testing::{Answer, LoadFault, LoadGate, SLICE_BYTES, Scenario, Script},
};
use protocol::{ErrorCode, FinishReason, MessageState, StreamEventBody};

use crate::support::{PATIENCE, Plan, Recorder, SLICES, TestApp, model};

fn saying(text: &str) -> Script {
    Script { answer: Answer::spoken(text), ..Script::default() }
}

async fn loads(app: &TestApp, test: impl Fn(&LoadState) -> bool) -> LoadState {
    let mut loads = app.state.engine.loads();
    let found = tokio::time::timeout(PATIENCE, loads.wait_for(|state| test(state))).await;
    found.expect("the load gets there").expect("the engine lives").clone()
}

/// Waits until requests go to the model called `id`.
async fn answers_with(app: &TestApp, id: &str) -> RunningEngine {
    let mut link = app.state.engine.link();
    let is_it = |link: &EngineLink| matches!(link, EngineLink::Running(running) if running.model.id == id);
    let found = tokio::time::timeout(PATIENCE, link.wait_for(is_it)).await;
    found.expect("the link gets there").expect("the engine lives");
    let ready = tokio::time::timeout(PATIENCE, app.state.engine.ready()).await;
    ready.expect("the model loads").expect("the model can be loaded")
}

async fn load(app: &TestApp, id: &str, plan: impl FnOnce(&mut Plan)) {
    plan(&mut app.plan.lock().expect("no test panics while it plans"));
    app.state.engine.load(model(id), LoadRequest::default()).await.expect("nothing speaks against it");
}

async fn ask(app: &TestApp) -> (String, Arc<Recorder>) {
    let conversation = app.new_conversation().await;
    let recorder = app.send(&conversation, "hi").await.expect("a model answers").1;
    (conversation, recorder)
}

async fn answer(app: &TestApp) -> String {
    let (_, recorder) = ask(app).await;
    let end = recorder.wait_for_end().await;
    assert!(matches!(end, StreamEventBody::Finished { .. }), "{end:?}");
    recorder.text()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_keeps_what_was_said_and_tells_why_it_ended() {
    let app = TestApp::start(Plan::of(Scenario::LongAnswers)).await;
    let (conversation, recorder) = ask(&app).await;
    recorder.wait_for_text().await;
    let gate = LoadGate::closed_after(1);
    load(&app, "new", |plan| (plan.script, plan.gate) = (saying("new"), gate.clone())).await;
    let reading = loads(&app, |state| state.loading.as_ref().is_some_and(|load| load.done_bytes > 0)).await;
    let progress = reading.loading.expect("it was there");
    assert_eq!((progress.model.id.as_str(), progress.done_bytes), ("new", SLICE_BYTES));
    assert_eq!(progress.total_bytes, SLICES * SLICE_BYTES);
    assert_eq!(app.state.engine.loaded().map(|(model, _)| model.id.clone()), Some("scripted".into()));
    gate.open();
    let end = recorder.wait_for_end().await;
    assert!(matches!(end, StreamEventBody::Failed { code: ErrorCode::ModelReplaced, .. }), "{end:?}");
    let stored = app.messages(&conversation).await;
    assert_eq!((stored[1].text.clone(), stored[1].state), (recorder.text(), MessageState::Failed));
    answers_with(&app, "new").await;
    loads(&app, |state| state.loading.is_none() && state.failure.is_none()).await;
    assert_eq!(app.state.engine.loaded().map(|(model, _)| model.id.clone()), Some("new".into()));
    assert_eq!(answer(&app).await, "new");
    app.state.engine.restart().await;
    assert_eq!(answers_with(&app, "new").await.model.id, "new", "the model that was loaded");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_speaks_against_a_model_leaves_the_present_one_alone() {
    let app = TestApp::start(Plan::of(saying("old"))).await;
    answers_with(&app, "scripted").await;
    app.plan.lock().unwrap().refusal = Some(AppError::EmptyMessage);
    let refused = app.state.engine.load(model("new"), LoadRequest::default()).await;
    assert!(matches!(refused, Err(AppError::EmptyMessage)), "{refused:?}");
    assert_eq!(answer(&app).await, "old");
    assert!(app.state.engine.loads().borrow().loading.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_fails_is_told_and_the_present_model_answers_on() {
    for replace in [Replace::Beside, Replace::UnloadFirst] {
        let app = TestApp::start(Plan { replace, ..Plan::of(saying("old")) }).await;
        answers_with(&app, "scripted").await;
        load(&app, "new", |plan| plan.fault = Some(("new", LoadFault::Fails(2)))).await;
        let failed = loads(&app, |state| state.failure.is_some()).await.failure.expect("it is there");
        assert_eq!(failed.model_id, "new");
        assert!(matches!(failed.error, AppError::Engine(EngineError::Load(_))), "{:?}", failed.error);
        answers_with(&app, "scripted").await;
        assert_eq!(answer(&app).await, "old", "{replace:?}");
        assert!(app.state.engine.loads().borrow().failure.is_some(), "until another one is asked for");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_load_is_no_failure() {
    for replace in [Replace::Beside, Replace::UnloadFirst] {
        let app = TestApp::start(Plan { replace, ..Plan::of(saying("old")) }).await;
        answers_with(&app, "scripted").await;
        load(&app, "new", |plan| plan.gate = LoadGate::closed_after(1)).await;
        loads(&app, |state| state.loading.as_ref().is_some_and(|load| load.done_bytes > 0)).await;
        // What comes back is loaded by the same plan.
        app.plan.lock().unwrap().gate = LoadGate::closed_after(u64::MAX);
        app.state.engine.cancel_load();
        answers_with(&app, "scripted").await;
        assert_eq!(answer(&app).await, "old", "{replace:?}");
        let state = loads(&app, |state| state.loading.is_none()).await;
        assert!(state.failure.is_none(), "{:?}", state.failure);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_loads_the_later_is_the_one_that_answers() {
    for replace in [Replace::Beside, Replace::UnloadFirst] {
        let app = TestApp::start(Plan { replace, ..Plan::of(saying("old")) }).await;
        answers_with(&app, "scripted").await;
        load(&app, "first", |plan| plan.gate = LoadGate::closed_after(1)).await;
        loads(&app, |state| state.loading.as_ref().is_some_and(|load| load.done_bytes > 0)).await;
        load(&app, "second", |plan| {
            (plan.script, plan.gate) = (saying("second"), LoadGate::closed_after(u64::MAX));
        })
        .await;
        answers_with(&app, "second").await;
        assert_eq!(answer(&app).await, "second", "{replace:?}");
        let state = loads(&app, |state| state.loading.is_none()).await;
        assert!(state.failure.is_none(), "{:?}", state.failure);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unloaded_engine_says_so_and_takes_another_model() {
    let app = TestApp::start(Plan::of(Scenario::LongAnswers)).await;
    let (_, recorder) = ask(&app).await;
    recorder.wait_for_text().await;
    let freed = app.state.engine.unload().await.expect("a model was loaded");
    assert!(freed.before_bytes > freed.after_bytes, "{freed:?}");
    let end = recorder.wait_for_end().await;
    assert!(matches!(end, StreamEventBody::Failed { code: ErrorCode::ModelUnloaded, .. }), "{end:?}");
    assert!(app.state.engine.loaded().is_none());
    let conversation = app.new_conversation().await;
    let refused = app.send(&conversation, "hi").await.err().map(|error| error.code());
    assert_eq!(refused, Some(ErrorCode::ModelUnloaded));
    assert!(app.state.engine.unload().await.is_none(), "nothing is left to unload");
    load(&app, "new", |plan| plan.script = saying("new")).await;
    answers_with(&app, "new").await;
    assert_eq!(answer(&app).await, "new");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_waits_for_a_load_is_answered_by_the_new_model() {
    let app = TestApp::start(Plan { replace: Replace::UnloadFirst, ..Plan::of(saying("old")) }).await;
    answers_with(&app, "scripted").await;
    let gate = LoadGate::closed_after(1);
    load(&app, "new", |plan| (plan.script, plan.gate) = (saying("new"), gate.clone())).await;
    let mut link = app.state.engine.link();
    let is_new =
        |link: &EngineLink| matches!(link, EngineLink::Running(running) if running.model.id == "new");
    link.wait_for(is_new).await.expect("the engine lives");
    let (_, recorder) = ask(&app).await;
    gate.open();
    let end = recorder.wait_for_end().await;
    assert!(matches!(end, StreamEventBody::Finished { reason: FinishReason::EndOfTurn, .. }), "{end:?}");
    assert_eq!(recorder.text(), "new");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_can_be_loaded_where_the_engine_has_died() {
    let script = Script { answer: Answer::Hashed { eos_one_in: 0 }, ..Scenario::PanicAtStep(3).into() };
    let app = TestApp::start(Plan::of(script)).await;
    let (_, recorder) = ask(&app).await;
    recorder.wait_for_end().await;
    load(&app, "new", |plan| plan.script = saying("new")).await;
    answers_with(&app, "new").await;
    assert_eq!(answer(&app).await, "new");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_takes_the_preferred_model() {
    let app = TestApp::start(Plan { has_model: false, ..Plan::of(saying("mine")) }).await;
    app.state.engine.prefer(Some("mine".into())).await;
    app.plan.lock().unwrap().has_model = true;
    app.state.engine.restart().await;
    let running = answers_with(&app, "mine").await;
    assert!(matches!(running.handle.status().borrow().phase, EnginePhase::Ready));
}
