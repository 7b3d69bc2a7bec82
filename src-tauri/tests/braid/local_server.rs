//! Other programs ask the loaded model, through the server's real socket.

use std::time::Duration;

use app::commands;
use engine::testing::{Answer, Scenario, Script, thinking_tokenizer};
use openai_api::{
    Secret,
    client::{Address, ChatEvent, ChatStream, Client, ClientError, FinishReason, Patience},
    request::{ChatRequest, Content, Message, ResponseFormat, StreamOptions},
    response::Usage,
};
use protocol::{ErrorCode, LocalServerSettings, LocalServerStatus, RowPhase, RowSource};

use crate::support::{PATIENCE, Plan, TestApp, until};

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    listener.local_addr().expect("bound").port()
}

async fn switch_on(app: &TestApp) -> LocalServerStatus {
    let settings = LocalServerSettings { is_enabled: true, port: free_port() };
    let history = app.state.history().await.expect("it is open");
    app.state.server.write(history, settings).await.expect("it can be switched on")
}

fn client(status: &LocalServerStatus) -> Client {
    let address = status.address.as_deref().unwrap_or_else(|| panic!("it listens: {status:?}"));
    let address = Address::parse(address).expect("an address");
    Client::new(address, Secret::new(&status.key), Patience::default()).expect("a client")
}

fn question(text: &str) -> ChatRequest {
    let message =
        Message { role: "user".into(), content: Some(Content::Text(text.into())), ..Message::default() };
    ChatRequest {
        messages: vec![message],
        stream: Some(true),
        stream_options: Some(StreamOptions { include_usage: Some(true) }),
        ..ChatRequest::default()
    }
}

struct Heard {
    thinking: String,
    text: String,
    end: Option<(FinishReason, Option<Usage>)>,
    error: Option<ClientError>,
}

async fn hear(stream: &mut ChatStream) -> Heard {
    let mut heard = Heard { thinking: String::new(), text: String::new(), end: None, error: None };
    loop {
        match tokio::time::timeout(PATIENCE, stream.next()).await.expect("it goes on") {
            Ok(Some(ChatEvent::Thinking(more))) => heard.thinking.push_str(&more),
            Ok(Some(ChatEvent::Text(more))) => heard.text.push_str(&more),
            Ok(Some(ChatEvent::Finished { reason, usage })) => heard.end = Some((reason, usage)),
            Ok(None) => return heard,
            Err(error) => {
                heard.error = Some(error);
                return heard;
            }
        }
    }
}

async fn hear_text(stream: &mut ChatStream) {
    let first = tokio::time::timeout(PATIENCE, stream.next()).await.expect("it says something");
    assert!(matches!(first, Ok(Some(ChatEvent::Text(_)))), "{first:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_requests_of_programs_and_an_answer_of_a_tab_share_a_batch() {
    let app = TestApp::start(Plan::of(Scenario::LongAnswers)).await;
    let client = client(&switch_on(&app).await);
    let conversation = app.new_conversation().await;
    let (_, recorder) = app.send(&conversation, "tab").await.expect("the engine runs");
    let mut first = client.chat(&question("one")).await.expect("it answers");
    let mut second = client.chat(&question("two")).await.expect("it answers");
    recorder.wait_for_text().await;
    hear_text(&mut first).await;
    hear_text(&mut second).await;
    until(async || commands::engine::current(&app.state).await.steps.batch_rows == 3).await;
    let status = commands::engine::current(&app.state).await;
    let mut sources: Vec<_> =
        status.rows.iter().map(|row| (row.source, row.conversation_id.clone())).collect();
    sources.sort_by_key(|(_, conversation)| conversation.is_none());
    assert_eq!(
        sources,
        [(RowSource::Tab, Some(conversation)), (RowSource::Server, None), (RowSource::Server, None)]
    );
    assert!(status.rows.iter().all(|row| row.phase == RowPhase::Decoding));
    // A client that goes away takes its row with it; the others stay.
    drop(first);
    until(async || commands::engine::current(&app.state).await.rows.len() == 2).await;
    hear_text(&mut second).await;
    assert_eq!(app.state.server.status().await.served_requests, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_arrives_with_thinking_counts_and_reason() {
    let script = Script { answer: Answer::spoken("hm</think>Yes."), ..Script::default() };
    let app = TestApp::start(Plan { tokenizer: thinking_tokenizer, ..Plan::of(script) }).await;
    let client = client(&switch_on(&app).await);
    until(async || !client.models().await.expect("a list").is_empty()).await;
    assert_eq!(client.models().await.expect("a list")[0].id, "scripted");
    let heard = hear(&mut client.chat(&question("Hi")).await.expect("it answers")).await;
    assert_eq!((heard.thinking.as_str(), heard.text.as_str()), ("hm", "Yes."));
    let (reason, usage) = heard.end.expect("it ends");
    let usage = usage.expect("it was asked for");
    assert_eq!(reason, FinishReason::Stop);
    assert_eq!(usage.completion_tokens - usage.completion_tokens_details.reasoning_tokens, 4);
    assert_eq!(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
    let short = ChatRequest { max_tokens: Some(2), ..question("Hi") };
    let heard = hear(&mut client.chat(&short).await.expect("it answers")).await;
    assert_eq!(heard.end.map(|(reason, _)| reason), Some(FinishReason::Length));
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_a_request_count_and_bad_ones_are_named() {
    let app = TestApp::start(Plan::of(Scenario::ShortAnswers)).await;
    let client = client(&switch_on(&app).await);
    let seeded = ChatRequest {
        seed: Some(openai_api::request::Seed::Positive(7)),
        temperature: Some(1.0),
        max_tokens: Some(12),
        ..question("Hi")
    };
    let mut texts = Vec::new();
    for _ in 0..2 {
        texts.push(hear(&mut client.chat(&seeded).await.expect("it answers")).await.text);
    }
    assert_eq!(texts[0], texts[1], "the same seed");
    let json = ResponseFormat { kind: "json_object".into(), json_schema: None };
    let json = ChatRequest { response_format: Some(json), max_tokens: Some(200), ..question("Hi") };
    let heard = hear(&mut client.chat(&json).await.expect("it answers")).await;
    assert!(heard.text.trim_start().starts_with('{'), "{}", heard.text);
    for (request, named) in [
        (ChatRequest { temperature: Some(9.0), ..question("Hi") }, "temperature"),
        (ChatRequest { top_p: Some(0.0), ..question("Hi") }, "top_p"),
        (ChatRequest { max_tokens: Some(0), ..question("Hi") }, "max_tokens"),
        (ChatRequest { model: "gpt-4o".into(), ..question("Hi") }, "model"),
        (ChatRequest { n: Some(2), ..question("Hi") }, "n"),
    ] {
        match client.chat(&request).await {
            Err(ClientError::Refused { param, .. }) => assert_eq!(param.as_deref(), Some(named)),
            other => panic!("{named}: {other:?}"),
        }
    }
    assert!(app.state.requests.is_idle(), "a refused request leaves nothing behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_no_model_can_answer_programs_are_told_to_wait() {
    let plan = Plan::of(Scenario::ShortAnswers);
    plan.gate.close();
    let app = TestApp::start(plan.clone()).await;
    let client = client(&switch_on(&app).await);
    let refused = async |client: &Client| match client.chat(&question("Hi")).await {
        Err(ClientError::Failed { words, .. }) => words,
        other => panic!("{other:?}"),
    };
    assert!(refused(&client).await.contains("loading"));
    assert!(client.models().await.expect("a list").is_empty());
    plan.gate.open();
    until(async || !client.models().await.expect("a list").is_empty()).await;
    hear(&mut client.chat(&question("Hi")).await.expect("it answers now")).await;
    app.state.engine.unload().await;
    assert!(refused(&client).await.contains("no model is loaded"));
}

#[tokio::test(flavor = "multi_thread")]
async fn switching_off_ends_running_answers_with_words_and_the_port_is_free() {
    let app = TestApp::start(Plan::of(Scenario::LongAnswers)).await;
    let on = switch_on(&app).await;
    let mut stream = client(&on).chat(&question("Hi")).await.expect("it answers");
    hear_text(&mut stream).await;
    let history = app.state.history().await.expect("it is open");
    let off = LocalServerSettings { is_enabled: false, ..on.settings.clone() };
    let listening = tokio::spawn(async move { hear(&mut stream).await });
    let status = app.state.server.write(history, off).await.expect("it can be switched off");
    assert_eq!((status.address, status.failure), (None, None));
    let error = listening.await.expect("no panic").error.expect("it was cut short");
    assert!(error.to_string().contains("switched off"), "{error}");
    std::net::TcpListener::bind(("127.0.0.1", on.settings.port)).expect("the port is free");
    assert!(app.state.requests.is_idle());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_is_told_and_the_app_goes_on() {
    let app = TestApp::start(Plan::of(Scenario::ShortAnswers)).await;
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let settings = LocalServerSettings { is_enabled: true, port: other.local_addr().expect("bound").port() };
    let history = app.state.history().await.expect("it is open");
    let status = app.state.server.write(history, settings.clone()).await.expect("the setting is kept");
    assert_eq!(status.failure.map(|failure| failure.code), Some(ErrorCode::ServerPortTaken));
    assert_eq!(status.address, None);
    let conversation = app.new_conversation().await;
    app.send(&conversation, "hi").await.expect("tabs are answered").1.wait_for_end().await;
    drop(other);
    let status = app.state.server.write(history, settings).await.expect("once more");
    assert_eq!(status.failure, None);
    let system = LocalServerSettings { is_enabled: true, port: 80 };
    let refused = app.state.server.write(history, system).await.expect_err("it is the system's");
    assert_eq!(refused.code(), ErrorCode::InvalidSetting);
}

#[tokio::test(flavor = "multi_thread")]
async fn key_and_setting_outlast_the_app_and_a_renewed_key_closes_the_old() {
    let app = TestApp::start(Plan::of(Scenario::ShortAnswers)).await;
    let off = app.state.server.status().await;
    assert_eq!((off.settings.is_enabled, off.key.as_str()), (false, ""), "off until it is switched on");
    let on = switch_on(&app).await;
    assert!(on.key.len() > 40, "{}", on.key);
    app.state.server.stop().await;
    app.state.close_history().await;
    let TestApp { folder, .. } = app;
    let app = TestApp::start_in(folder, Plan::of(Scenario::ShortAnswers)).await;
    app.state.server.start_if_enabled().await;
    let again = app.state.server.status().await;
    assert_eq!((again.key.as_str(), &again.address), (on.key.as_str(), &on.address));
    client(&again).models().await.expect("the key opens");
    let history = app.state.history().await.expect("it is open");
    let renewed = app.state.server.renew_key(history).await.expect("it can be renewed");
    assert_ne!(renewed.key, on.key);
    assert!(matches!(client(&on).models().await, Err(ClientError::Access { .. })));
    client(&renewed).models().await.expect("the new key opens");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_a_limit_is_as_long_as_memory_allows() {
    let script =
        Script { answer: Answer::Hashed { eos_one_in: 0 }, context_tokens: 128, ..Script::default() };
    let app = TestApp::start(Plan::of(script)).await;
    let client = client(&switch_on(&app).await);
    until(async || !client.models().await.expect("a list").is_empty()).await;
    let heard = hear(&mut client.chat(&question("Hi")).await.expect("it answers")).await;
    assert_eq!(heard.end.map(|(reason, _)| reason), Some(FinishReason::Length), "{:?}", heard.error);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(app.state.requests.is_idle());
}
