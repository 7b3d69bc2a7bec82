//! Servers that answer instead of the engine; here, another Braid's local server.

use app::{
    error::AppError,
    remote::{RemoteEvent, RemoteServers},
};
use engine::testing::{Answer, Scenario, Script, thinking_tokenizer};
use protocol::{
    ErrorCode, FinishReason, KeyChange, KeyPlace, LocalServerSettings, RemoteServerChange, RemoteTarget,
    SamplingSettings,
};
use text::{ChatMessage, Role};
use tokio::sync::mpsc::Receiver;

use crate::support::{PATIENCE, Plan, TestApp, until};

/// An app whose local server runs, and its address and key.
async fn serving(plan: Plan) -> (TestApp, String, String) {
    let app = TestApp::start(plan).await;
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").expect("loopback").local_addr().expect("bound").port();
    let history = app.state.history().await.expect("it is open");
    let settings = LocalServerSettings { is_enabled: true, port };
    let status = app.state.server.write(history, settings).await.expect("it can be switched on");
    until(async || app.state.engine.loaded().is_some()).await;
    (app, status.address.expect("it listens"), status.key)
}

fn server_at(address: &str, key: KeyChange) -> RemoteServerChange {
    RemoteServerChange { id: None, name: "Lab".into(), base_url: address.into(), key }
}

fn ask(remotes: &RemoteServers, server_id: &str) -> Receiver<RemoteEvent> {
    let target = RemoteTarget { server_id: server_id.into(), model: "scripted".into() };
    let settings = SamplingSettings { max_tokens: 4000, ..app::sampling_settings::defaults() };
    remotes.stream(target, vec![ChatMessage::new(Role::User, "Hi")], settings)
}

async fn next(events: &mut Receiver<RemoteEvent>) -> RemoteEvent {
    let next = tokio::time::timeout(PATIENCE, events.recv()).await;
    next.expect("it goes on").expect("it has not ended")
}

async fn failure(events: &mut Receiver<RemoteEvent>) -> AppError {
    match next(events).await {
        RemoteEvent::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_servers_answer_arrives_with_thinking_counts_and_reason() {
    let script = Script { answer: Answer::spoken("hm</think>Yes."), ..Script::default() };
    let plan = Plan { tokenizer: thinking_tokenizer, ..Plan::of(script) };
    let (other, address, key) = serving(plan).await;
    let app = TestApp::start(Plan::of(Scenario::ShortAnswers)).await;
    let history = app.state.history().await.expect("it is open");
    let remotes = &app.state.remotes;
    let saved = remotes.save(history, server_at(&address, KeyChange::Set { key })).await.expect("kept");
    assert_eq!((saved.key, saved.base_url.as_str()), (KeyPlace::File, address.as_str()));
    let models = remotes.models(&saved.id).await.expect("a list");
    assert_eq!(models[0].id, "scripted");
    let mut events = ask(remotes, &saved.id);
    let (mut thinking, mut text) = (String::new(), String::new());
    let (reason, usage) = loop {
        match next(&mut events).await {
            RemoteEvent::Thinking(more) => thinking.push_str(&more),
            RemoteEvent::Text(more) => text.push_str(&more),
            RemoteEvent::Finished { reason, usage } => break (reason, usage),
            RemoteEvent::Failed(error) => panic!("{error}"),
        }
    };
    assert_eq!((thinking.as_str(), text.as_str()), ("hm", "Yes."));
    assert_eq!(reason, FinishReason::EndOfTurn);
    assert!(usage.is_some_and(|usage| usage.prompt_tokens > 0));
    assert_eq!(other.state.server.status().await.served_requests, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_events_stops_the_answer_at_the_server() {
    let (other, address, key) = serving(Plan::of(Scenario::LongAnswers)).await;
    let app = TestApp::start(Plan::of(Scenario::ShortAnswers)).await;
    let history = app.state.history().await.expect("it is open");
    let saved =
        app.state.remotes.save(history, server_at(&address, KeyChange::Set { key })).await.expect("kept");
    let mut events = ask(&app.state.remotes, &saved.id);
    assert!(matches!(next(&mut events).await, RemoteEvent::Text(_)));
    assert!(!other.state.requests.is_idle());
    drop(events);
    until(async || other.state.requests.is_idle()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_has_its_code() {
    let (_other, address, key) = serving(Plan::of(Scenario::ShortAnswers)).await;
    let app = TestApp::start(Plan::of(Scenario::ShortAnswers)).await;
    let history = app.state.history().await.expect("it is open");
    let remotes = &app.state.remotes;
    let without_key = remotes.save(history, server_at(&address, KeyChange::Keep)).await.expect("kept");
    let error = failure(&mut ask(remotes, &without_key.id)).await;
    assert_eq!(error.code(), ErrorCode::RemoteAccess, "{error}");
    assert_eq!(failure(&mut ask(remotes, "nobody")).await.code(), ErrorCode::RemoteUnknown);
    let saved = remotes.save(history, server_at(&address, KeyChange::Set { key })).await.expect("kept");
    let target = RemoteTarget { server_id: saved.id.clone(), model: "another".into() };
    let messages = vec![ChatMessage::new(Role::User, "Hi")];
    let mut events = remotes.stream(target, messages, app::sampling_settings::defaults());
    let error = failure(&mut events).await;
    assert_eq!(error.code(), ErrorCode::RemoteRefused);
    assert!(error.to_string().contains("not loaded"), "the server's words: {error}");
    let nowhere =
        remotes.save(history, server_at("http://127.0.0.1:1/v1", KeyChange::Keep)).await.expect("kept");
    assert_eq!(failure(&mut ask(remotes, &nowhere.id)).await.code(), ErrorCode::RemoteUnreachable);
    let error = remotes.save(history, server_at("ftp://x", KeyChange::Keep)).await.expect_err("no address");
    assert_eq!(error.code(), ErrorCode::RemoteAddress);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_come_back_after_a_restart_and_forgotten_ones_do_not() {
    let app = TestApp::start(Plan::of(Scenario::ShortAnswers)).await;
    let history = app.state.history().await.expect("it is open");
    let remotes = &app.state.remotes;
    let key = |key: &str| KeyChange::Set { key: key.into() };
    let first = remotes.save(history, server_at("localhost:8000", key("sk-1"))).await.expect("kept");
    assert_eq!(first.base_url, "http://localhost:8000/v1");
    let second =
        remotes.save(history, server_at("https://example.org/v1", KeyChange::Keep)).await.expect("kept");
    let renamed = RemoteServerChange {
        id: Some(first.id.clone()),
        name: " Desk ".into(),
        ..server_at("localhost:8000", KeyChange::Keep)
    };
    let renamed = remotes.save(history, renamed).await.expect("changed");
    assert_eq!((renamed.name.as_str(), renamed.key), ("Desk", KeyPlace::File), "the key stayed");
    let file = app.folder.path().join("keys").join(format!("server-{}", first.id));
    assert!(file.exists());
    app.state.close_history().await;
    let TestApp { folder, .. } = app;
    let app = TestApp::start_in(folder, Plan::of(Scenario::ShortAnswers)).await;
    let remotes = &app.state.remotes;
    assert_eq!(remotes.list().await, [renamed, second]);
    let history = app.state.history().await.expect("it is open");
    remotes.delete(history, &first.id).await.expect("forgotten");
    assert!(!file.exists(), "its key is erased");
    assert_eq!(remotes.list().await.len(), 1);
    let error = remotes.delete(history, &first.id).await.expect_err("it is gone");
    assert_eq!(error.code(), ErrorCode::RemoteUnknown);
    let settings = history.app_setting("remoteServers").await.expect("readable").expect("stored");
    assert!(!settings.contains("sk-1"), "keys are kept elsewhere: {settings}");
}
