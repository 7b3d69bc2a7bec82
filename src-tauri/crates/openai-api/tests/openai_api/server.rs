use std::{sync::Mutex, time::Duration};

use openai_api::{
    Secret,
    client::{Address, ChatEvent, Client, ClientError, FinishReason, Patience},
    request::{ChatRequest, Content, Message, StreamOptions},
    response::Usage,
    server::{
        Answer, AnswerEnd, AnswerEvent, Answerer, Asked, Listeners, Refusal, ServedModel, Server,
        TokenLogprob,
    },
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
};

const KEY: &str = "braid-test-key";
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers with what a test sends.
struct Puppet {
    answers: Mutex<Vec<Result<mpsc::Receiver<AnswerEvent>, Refusal>>>,
    asked: mpsc::UnboundedSender<Asked>,
}

impl Answerer for Puppet {
    fn models(&self) -> Vec<ServedModel> {
        vec![ServedModel { id: "puppet".into(), context_tokens: Some(64) }]
    }

    async fn answer(&self, asked: Asked) -> Result<Answer, Refusal> {
        self.asked.send(asked).expect("the test listens");
        let next = self.answers.lock().expect("no test panics here").remove(0);
        next.map(|events| Answer { id: "chatcmpl-1".into(), model: "puppet".into(), events })
    }
}

struct Running {
    server: Server,
    address: String,
    asked: mpsc::UnboundedReceiver<Asked>,
}

async fn start(answers: Vec<Result<mpsc::Receiver<AnswerEvent>, Refusal>>) -> Running {
    let (sender, asked) = mpsc::unbounded_channel();
    let listeners = Listeners::bind(0).await.expect("loopback");
    let address = listeners.address().expect("bound").to_string();
    let puppet = Puppet { answers: Mutex::new(answers), asked: sender };
    let server = Server::start(listeners, Secret::new(KEY).expect("a key"), puppet);
    Running { server, address, asked }
}

fn events(list: Vec<AnswerEvent>) -> Result<mpsc::Receiver<AnswerEvent>, Refusal> {
    let (sender, receiver) = mpsc::channel(list.len().max(1));
    for event in list {
        sender.try_send(event).expect("there is room");
    }
    Ok(receiver)
}

fn more(thinking: &str, text: &str) -> AnswerEvent {
    AnswerEvent::More { thinking: thinking.into(), text: text.into(), logprobs: Vec::new() }
}

fn finished() -> AnswerEvent {
    let usage = Usage { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5, ..Usage::default() };
    AnswerEvent::Finished { reason: AnswerEnd::Length, usage }
}

fn client(address: &str, key: &str) -> Client {
    let address = Address::parse(address).expect("an address");
    Client::new(address, Secret::new(key), Patience::default()).expect("a client")
}

fn question() -> ChatRequest {
    let message =
        Message { role: "user".into(), content: Some(Content::Text("Hi".into())), ..Message::default() };
    ChatRequest { messages: vec![message], stream: Some(true), ..ChatRequest::default() }
}

/// Sends bytes and reads until the server closes the connection.
async fn raw(address: &str, request: impl AsRef<[u8]>) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(request.as_ref()).await.expect("it takes bytes");
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    read.expect("the answer ends").expect("the connection holds");
    String::from_utf8(answer).expect("text")
}

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n")
}

fn post(body: &str) -> String {
    let length = body.len();
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: bearer {KEY}\r\n\
         Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

fn status_and_json(answer: &str) -> (&str, Value) {
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (&head[9..12], serde_json::from_str(body).unwrap_or_else(|error| panic!("{error} in {body}")))
}

#[tokio::test]
async fn the_client_hears_from_the_server_what_was_said() {
    let said = vec![more("hm", ""), more("", "Wörld "), more("", "漢字"), finished()];
    let mut running = start(vec![events(said)]).await;
    let client = client(&running.address, KEY);
    let models = client.models().await.expect("a list");
    assert_eq!((models[0].id.as_str(), models[0].context_tokens), ("puppet", Some(64)));
    let options = StreamOptions { include_usage: Some(true) };
    let request = ChatRequest { stream_options: Some(options), temperature: Some(0.5), ..question() };
    let mut stream = client.chat(&request).await.expect("it answers");
    let mut heard = Vec::new();
    while let Some(event) = stream.next().await.expect("no fault") {
        heard.push(event);
    }
    assert_eq!(heard[0], ChatEvent::Thinking("hm".into()));
    assert_eq!(heard[1..3], [ChatEvent::Text("Wörld ".into()), ChatEvent::Text("漢字".into())]);
    let ChatEvent::Finished { reason, usage } = &heard[3] else { panic!("{heard:?}") };
    assert_eq!(*reason, FinishReason::Length);
    assert_eq!(usage.map(|usage| usage.total_tokens), Some(5));
    assert_eq!(running.asked.recv().await.expect("it was asked").temperature, Some(0.5));
}

#[tokio::test]
async fn without_stream_the_answer_comes_whole() {
    let logprobs = vec![TokenLogprob {
        text: "a".into(),
        bytes: vec![97],
        logprob: Some(-0.5),
        alternatives: vec![TokenLogprob {
            text: "b".into(),
            bytes: vec![98],
            logprob: None,
            alternatives: vec![],
        }],
    }];
    let said = vec![
        AnswerEvent::More { thinking: "hm".into(), text: "a".into(), logprobs },
        more("", "b"),
        finished(),
    ];
    let running = start(vec![events(said)]).await;
    let answer =
        raw(&running.address, post(r#"{"messages":[{"role":"user","content":"Hi"}],"logprobs":true}"#)).await;
    let (status, body) = status_and_json(&answer);
    assert_eq!((status, body["object"].as_str()), ("200", Some("chat.completion")));
    let choice = &body["choices"][0];
    assert_eq!(choice["message"]["content"], "ab");
    assert_eq!(choice["message"]["reasoning_content"], "hm");
    assert_eq!(choice["finish_reason"], "length");
    assert_eq!(choice["logprobs"]["content"][0]["top_logprobs"][0]["logprob"], -9999.0);
    assert_eq!(body["usage"]["completion_tokens"], 2);
}

#[tokio::test]
async fn a_stream_has_the_conventions_shape_to_the_byte() {
    let running = start(vec![events(vec![more("", "a"), finished()])]).await;
    let request = r#"{"messages":[{"role":"user","content":"Hi"}],"stream":true}"#;
    let answer = raw(&running.address, post(request)).await;
    assert!(answer.contains("content-type: text/event-stream"), "{answer}");
    let data: Vec<&str> = answer.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let piece = |index: usize| serde_json::from_str::<Value>(data[index]).expect("JSON");
    assert_eq!(piece(0)["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(piece(1)["choices"][0]["delta"]["content"], "a");
    assert_eq!(piece(2)["choices"][0]["finish_reason"], "length");
    assert_eq!(data[3], "[DONE]", "usage only when it was asked for");
    assert!(piece(0).get("usage").is_none());
    assert!(answer.ends_with("0\r\n\r\n"), "the body has a proper end");
}

#[tokio::test]
async fn only_the_key_opens_and_a_new_one_closes_the_old() {
    let running = start(vec![]).await;
    for headers in [
        "Host: localhost\r\n".to_owned(),
        "Host: localhost\r\nAuthorization: Bearer wrong\r\n".to_owned(),
        format!("Host: localhost\r\nAuthorization: {KEY}\r\n"),
        format!("Host: localhost\r\nAuthorization: Basic {KEY}\r\n"),
        format!("Host: localhost\r\nX-Api-Key: {KEY}\r\n"),
    ] {
        for path in ["/v1/models", "/v1/chat/completions", "/nowhere"] {
            let answer = raw(&running.address, get(path, &headers)).await;
            let (status, body) = status_and_json(&answer);
            assert_eq!(
                (status, body["error"]["code"].as_str()),
                ("401", Some("invalid_api_key")),
                "{headers}"
            );
        }
    }
    client(&running.address, KEY).models().await.expect("the key opens");
    running.server.set_key(Secret::new("braid-other").expect("a key"));
    let error = client(&running.address, KEY).models().await.expect_err("it was renewed");
    assert!(matches!(error, ClientError::Access { .. }), "{error:?}");
    client(&running.address, "braid-other").models().await.expect("the new key opens");
    let health = raw(&running.address, get("/health", "Host: localhost\r\n")).await;
    assert!(health.starts_with("HTTP/1.1 200"), "health needs no key: {health}");
}

#[tokio::test]
async fn what_a_web_page_could_send_is_refused_even_with_the_key() {
    let running = start(vec![]).await;
    let key = format!("Authorization: Bearer {KEY}\r\n");
    for headers in [
        format!("Host: evil.example\r\n{key}"),
        format!("Host: localhost\r\nOrigin: https://evil.example\r\n{key}"),
        format!("Host: localhost\r\nOrigin: null\r\n{key}"),
        key.clone(),
    ] {
        for path in ["/v1/models", "/health"] {
            let answer = raw(&running.address, get(path, &headers)).await;
            assert!(answer.starts_with("HTTP/1.1 403"), "{headers}: {answer}");
        }
    }
    let preflight = "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\n\
                     Access-Control-Request-Method: POST\r\nConnection: close\r\n\r\n";
    let answer = raw(&running.address, preflight).await.to_lowercase();
    assert!(!answer.contains("access-control-allow"), "no page may read answers: {answer}");
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_in_the_conventions_shape() {
    let running = start(vec![]).await;
    let hi = r#""messages":[{"role":"user","content":"Hi"}]"#;
    for (body, status, code, param) in [
        ("{", "400", "invalid_json", None),
        (&format!("{{{hi},\"n\":2}}"), "400", "unsupported_parameter", Some("n")),
        (&format!("{{{hi},\"top_p\":\"x\"}}"), "400", "invalid_value", Some("top_p")),
        (r#"{"messages":[]}"#, "400", "invalid_value", Some("messages")),
    ] {
        let answer = raw(&running.address, post(body)).await;
        let (got, json) = status_and_json(&answer);
        let error = &json["error"];
        assert_eq!(
            (got, error["code"].as_str(), error["param"].as_str()),
            (status, Some(code), param),
            "{body}"
        );
        assert!(error["message"].as_str().is_some_and(|words| !words.is_empty()));
    }
    let key = format!("Host: localhost\r\nAuthorization: Bearer {KEY}\r\n");
    for (path, status) in
        [("/v1/embeddings", "404"), ("/v1/chat/completions", "405"), ("/v1/models/x", "404")]
    {
        let answer = raw(&running.address, get(path, &key)).await;
        assert_eq!(status_and_json(&answer).0, status, "{path}");
    }
    assert!(raw(&running.address, get("/v1/models/puppet/", &key)).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_request_that_is_too_large_or_no_http_is_turned_away() {
    let running = start(vec![]).await;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n\
         Content-Length: 999999999\r\n\r\n"
    );
    let mut stream = TcpStream::connect(&running.address).await.expect("it listens");
    stream.write_all(head.as_bytes()).await.expect("it takes the head");
    let piece = vec![b' '; 1 << 20];
    for _ in 0..12 {
        if stream.write_all(&piece).await.is_err() {
            break;
        }
    }
    let mut answer = [0; 12];
    // Bytes that were under way when it hung up may reset the connection before its answer is read.
    if let Ok(Ok(_)) = tokio::time::timeout(PATIENCE, stream.read_exact(&mut answer)).await {
        assert_eq!(&answer, b"HTTP/1.1 413");
    }
    let answer = raw(&running.address, "nonsense\r\n\r\n").await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    client(&running.address, KEY).models().await.expect("others are served as before");
}

#[tokio::test]
async fn refusals_and_failures_of_the_answerer_reach_the_client() {
    let busy = Refusal::unavailable("queue_full", "too many requests are waiting");
    let failed = AnswerEvent::Failed(Refusal::failed("the engine failed"));
    let running =
        start(vec![Err(busy), events(vec![more("", "half"), failed.clone()]), events(vec![failed])]).await;
    let client = client(&running.address, KEY);
    let error = client.chat(&question()).await.expect_err("it is busy");
    assert!(error.to_string().contains("too many requests are waiting"), "{error}");
    let mut stream = client.chat(&question()).await.expect("it begins");
    assert_eq!(stream.next().await.expect("text"), Some(ChatEvent::Text("half".into())));
    let error = stream.next().await.expect_err("it fails");
    assert!(error.to_string().contains("the engine failed"), "{error}");
    let answer = raw(&running.address, post(r#"{"messages":[{"role":"user","content":"Hi"}]}"#)).await;
    assert_eq!(status_and_json(&answer).0, "500", "a whole answer that fails is no answer");
}

#[tokio::test]
async fn a_client_that_goes_away_drops_the_answer() {
    for is_streamed in [true, false] {
        let (sender, receiver) = mpsc::channel(4);
        let mut running = start(vec![Ok(receiver)]).await;
        let body = format!(r#"{{"messages":[{{"role":"user","content":"Hi"}}],"stream":{is_streamed}}}"#);
        let mut stream = TcpStream::connect(&running.address).await.expect("it listens");
        stream.write_all(post(&body).as_bytes()).await.expect("it takes the request");
        running.asked.recv().await.expect("it was asked");
        sender.send(more("", "a")).await.expect("somebody listens");
        drop(stream);
        let dropped = tokio::time::timeout(PATIENCE, sender.closed()).await;
        dropped.unwrap_or_else(|_| panic!("streamed: {is_streamed}: the answer goes on for nobody"));
    }
}

#[tokio::test]
async fn stopping_ends_streams_properly_and_frees_the_port() {
    let (sender, receiver) = mpsc::channel(4);
    let running = start(vec![Ok(receiver)]).await;
    let (client, port) =
        (client(&running.address, KEY), running.address.rsplit(':').next().map(str::to_owned));
    let mut stream = client.chat(&question()).await.expect("it answers");
    sender.send(more("", "a")).await.expect("somebody listens");
    assert_eq!(stream.next().await.expect("text"), Some(ChatEvent::Text("a".into())));
    let stopping = tokio::spawn(running.server.stop());
    let last = AnswerEvent::Failed(Refusal::unavailable("stopped", "the server was switched off"));
    sender.send(last).await.expect("somebody listens");
    let error = stream.next().await.expect_err("it was switched off");
    assert!(error.to_string().contains("switched off"), "{error}");
    tokio::time::timeout(PATIENCE, stopping).await.expect("it stops").expect("without a panic");
    let port = port.and_then(|port| port.parse().ok()).expect("a port");
    Listeners::bind(port).await.expect("the port is free again");
}

#[tokio::test]
async fn a_port_that_is_taken_is_told() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = taken.local_addr().expect("bound").port();
    let error = Listeners::bind(port).await.expect_err("it is taken");
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}
