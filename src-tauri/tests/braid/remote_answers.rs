//! Tabs that a server answers, over a scripted server on the loopback.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use app::{commands::conversations, error::AppError, requests::StopCause};
use engine::testing::{Answer, Script};
use protocol::{
    ErrorCode, FinishReason, KeyChange, MessageState, RemoteServerChange, RemoteTarget, SamplingSettings,
    StreamEventBody, TextPart,
};
use serde_json::{Value, json};

use crate::support::{PATIENCE, Plan, TestApp, until};

/// What the server does with each request, once it has read it.
type Play = dyn Fn(&mut TcpStream) + Send + Sync;

/// A server that plays one piece, and what it was asked.
struct Scripted {
    base_url: String,
    asked: Arc<Mutex<Vec<Value>>>,
    /// Connections that the other side closed.
    closed: Arc<Mutex<usize>>,
}

impl Scripted {
    fn start(play: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
        let base_url = format!("http://{}/v1", listener.local_addr().expect("it is bound"));
        let (asked, closed) = (Arc::<Mutex<Vec<Value>>>::default(), Arc::<Mutex<usize>>::default());
        let (play, noted, gone): (Arc<Play>, _, _) = (Arc::new(play), asked.clone(), closed.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (play, noted, gone) = (play.clone(), noted.clone(), gone.clone());
                thread::spawn(move || {
                    let mut stream = stream;
                    let Some(body) = read_body(&stream) else { return };
                    noted.lock().expect("no script panics").push(body);
                    play(&mut stream);
                    // What is read after the request is the end of the connection.
                    let _ = stream.read(&mut [0; 1]);
                    *gone.lock().expect("no script panics") += 1;
                });
            }
        });
        Self { base_url, asked, closed }
    }

    fn asked(&self) -> Vec<Value> {
        self.asked.lock().expect("no script panics").clone()
    }
}

fn read_body(stream: &TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

fn head(stream: &mut TcpStream) {
    let _ =
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n");
}

fn say(stream: &mut TcpStream, event: &Value) -> bool {
    stream.write_all(format!("data: {event}\n\n").as_bytes()).and_then(|()| stream.flush()).is_ok()
}

fn delta(text: &str) -> Value {
    json!({ "choices": [{ "index": 0, "delta": { "content": text } }] })
}

fn thought(text: &str) -> Value {
    json!({ "choices": [{ "index": 0, "delta": { "reasoning_content": text } }] })
}

fn finish(stream: &mut TcpStream) {
    say(stream, &json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] }));
    let usage = json!({ "prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12 });
    say(stream, &json!({ "choices": [], "usage": usage }));
    let _ = stream.write_all(b"data: [DONE]\n\n");
}

/// Says words until nobody listens.
fn talk_on(stream: &mut TcpStream) {
    head(stream);
    while say(stream, &delta("word ")) {
        thread::sleep(Duration::from_millis(5));
    }
}

/// An app whose engine has no model, and settings of a tab that the server answers.
async fn app_with(server: &Scripted) -> (TestApp, SamplingSettings) {
    let mut plan = Plan::of(Script { answer: Answer::spoken("local"), ..Script::default() });
    plan.has_model = false;
    let app = TestApp::start(plan).await;
    let settings = target(&app, &server.base_url).await;
    (app, settings)
}

async fn target(app: &TestApp, base_url: &str) -> SamplingSettings {
    let change =
        RemoteServerChange { id: None, name: "lab".into(), base_url: base_url.into(), key: KeyChange::Keep };
    let history = app.state.history().await.expect("it opens");
    let server = app.state.remotes.save(history, change).await.expect("the address is one");
    let remote = Some(RemoteTarget { server_id: server.id, model: "big".into() });
    SamplingSettings { remote, ..app::sampling_settings::defaults() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_servers_answer_is_saved_streamed_and_measured_like_any_other() {
    let server = Scripted::start(|stream| {
        head(stream);
        for text in ["Let me", " see."] {
            say(stream, &thought(text));
        }
        for text in ["Grüße", " aus", " 巴黎"] {
            say(stream, &delta(text));
            thread::sleep(Duration::from_millis(20));
        }
        finish(stream);
    });
    let (app, settings) = app_with(&server).await;
    let settings = SamplingSettings {
        system_prompt: "Be brief.".into(),
        thinking_budget: Some(9),
        logprobs: Some(3),
        ..settings
    };
    let conversation = app.conversation_with(&settings).await;
    let (started, recorder) = app.send(&conversation, "Hello").await.unwrap();
    assert_eq!(started.answer.state, MessageState::Streaming);
    let StreamEventBody::Finished { reason, receipt } = recorder.wait_for_end().await else {
        panic!("it finishes");
    };
    assert_eq!(reason, FinishReason::EndOfTurn);
    assert_eq!(
        (recorder.part(TextPart::Thinking), recorder.text()),
        ("Let me see.".into(), "Grüße aus 巴黎".into())
    );
    let numbers = recorder.events().into_iter().map(|event| event.sequence);
    assert!(numbers.eq(0..recorder.events().len() as u32));
    assert_eq!((receipt.prompt_tokens, receipt.answer_tokens, receipt.thinking_tokens), (7, 3, 2));
    assert!(receipt.ttft_ms.is_some_and(|ms| ms > 0.0) && receipt.decode_tok_s.is_some());
    assert_eq!((receipt.settings.thinking_budget, receipt.settings.logprobs), (None, None));
    assert_eq!(receipt.settings.remote, settings.remote);

    let stored = app.messages(&conversation).await.remove(1);
    assert_eq!((stored.text, stored.thinking), (recorder.text(), recorder.part(TextPart::Thinking)));
    assert_eq!((stored.state, stored.receipt), (MessageState::Complete, Some(receipt)));
    app.send(&conversation, "And you?").await.unwrap().1.wait_for_end().await;
    let messages = |index: usize| server.asked()[index]["messages"].clone();
    let system = json!({ "role": "system", "content": "Be brief." });
    assert_eq!(messages(0), json!([system, { "role": "user", "content": "Hello" }]));
    assert_eq!(messages(1)[2], json!({ "role": "assistant", "content": "Grüße aus 巴黎" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_closes_the_connection_in_every_phase_and_keeps_the_text() {
    let server = Scripted::start(talk_on);
    let (app, settings) = app_with(&server).await;
    let conversation = app.conversation_with(&settings).await;
    let (_, recorder) = app.send(&conversation, "a").await.unwrap();
    recorder.wait_for_text().await;
    app.state.requests.stop(&format!("r{conversation}"), StopCause::User);
    let end = recorder.wait_for_end().await;
    assert!(matches!(end, StreamEventBody::Finished { reason: FinishReason::Stopped, .. }), "{end:?}");
    let stored = app.messages(&conversation).await.remove(1);
    assert_eq!((stored.text.clone(), stored.state), (recorder.text(), MessageState::Stopped));
    assert!(stored.text.starts_with("word "));
    until(async || *server.closed.lock().unwrap() == 1).await;

    // A server that takes the request and says nothing.
    let silent = Scripted::start(|_| {});
    let settings = target(&app, &silent.base_url).await;
    let conversation = app.conversation_with(&settings).await;
    let (_, recorder) = app.send(&conversation, "a").await.unwrap();
    until(async || !silent.asked().is_empty()).await;
    app.state.requests.stop(&format!("r{conversation}"), StopCause::User);
    let end = recorder.wait_for_end().await;
    assert!(matches!(end, StreamEventBody::Finished { reason: FinishReason::Stopped, .. }), "{end:?}");
    until(async || *silent.closed.lock().unwrap() == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_is_gone_ends_the_connection() {
    let server = Scripted::start(talk_on);
    let (app, settings) = app_with(&server).await;
    let conversation = app.conversation_with(&settings).await;
    let (_, recorder) = app.send(&conversation, "a").await.unwrap();
    recorder.wait_for_text().await;
    recorder.is_closed.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(app.state.requests.drained(PATIENCE).await, 0);
    assert_eq!(app.messages(&conversation).await[1].state, MessageState::Interrupted);
    until(async || *server.closed.lock().unwrap() == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_fails_is_told_by_its_code_and_keeps_what_came() {
    let broken = Scripted::start(|stream| {
        head(stream);
        say(stream, &delta("half an "));
        thread::sleep(Duration::from_millis(50));
        let _ = stream.shutdown(std::net::Shutdown::Both);
    });
    let refusing = Scripted::start(|stream| {
        let body = r#"{"error":{"message":"no such model: big"}}"#;
        let head = format!("HTTP/1.1 404 Not Found\r\ncontent-length: {}\r\n\r\n", body.len());
        let _ = stream.write_all((head + body).as_bytes());
    });
    let (app, settings) = app_with(&broken).await;
    let refused = target(&app, &refusing.base_url).await;
    let unreachable = target(&app, "http://127.0.0.1:9/v1").await;
    for (settings, expected, text) in [
        (settings, ErrorCode::RemoteFault, "half an "),
        (refused, ErrorCode::RemoteRefused, ""),
        (unreachable, ErrorCode::RemoteUnreachable, ""),
    ] {
        let conversation = app.conversation_with(&settings).await;
        let (_, recorder) = app.send(&conversation, "a").await.unwrap();
        let StreamEventBody::Failed { code, .. } = recorder.wait_for_end().await else {
            panic!("it fails: {expected:?}");
        };
        assert_eq!(code, expected);
        let stored = app.messages(&conversation).await;
        assert_eq!((stored[0].text.as_str(), stored[1].text.as_str()), ("a", text));
        assert_eq!((stored[1].state, stored[1].failure), (MessageState::Failed, Some(expected)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_server_can_be_asked_is_refused_before_anything_is_stored() {
    let server = Scripted::start(talk_on);
    let (app, settings) = app_with(&server).await;
    let conversation = app.conversation_with(&settings).await;
    let grammar = protocol::StructuredOutput::Lark { grammar: "start: \"a\"".into() };
    let bad = SamplingSettings { structured_output: Some(grammar), ..settings.clone() };
    let refused = conversations::write_settings(&app.state, &conversation, &bad).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InvalidSetting);
    let history = app.state.history().await.unwrap();
    app.state.remotes.delete(history, &settings.remote.unwrap().server_id).await.unwrap();
    let Err(error) = app.send(&conversation, "a").await else { panic!("the server is gone") };
    assert!(matches!(error, AppError::UnknownServer { .. }), "{error:?}");
    assert_eq!(error.code(), ErrorCode::RemoteUnknown);
    assert_eq!(app.messages(&conversation).await, []);
    assert_eq!(server.asked().len(), 0);
}
