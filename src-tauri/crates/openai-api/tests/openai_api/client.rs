use std::time::Duration;

use openai_api::{
    Secret,
    client::{Address, ChatEvent, Client, ClientError, FinishReason, Patience},
    request::{ChatRequest, Content, Message},
};

use crate::scripted::{Act, EVENTS, Scripted, Seen, response, say};

const KEY: &str = "sk-secret-key";

fn client(address: &str) -> Client {
    let patience = Patience { idle: Duration::from_millis(300), ..Patience::default() };
    Client::new(Address::parse(address).expect("an address"), Secret::new(KEY), patience).expect("a client")
}

fn question() -> ChatRequest {
    let message =
        Message { role: "user".into(), content: Some(Content::Text("Hi".into())), ..Message::default() };
    ChatRequest {
        model: "m".into(),
        messages: vec![message],
        max_tokens: Some(5),
        stream: Some(true),
        ..ChatRequest::default()
    }
}

/// Everything that a server's answer comes to.
async fn answer(client: &Client) -> (Vec<ChatEvent>, Option<ClientError>) {
    let mut events = Vec::new();
    let mut stream = match client.chat(&question()).await {
        Ok(stream) => stream,
        Err(error) => return (events, Some(error)),
    };
    loop {
        match stream.next().await {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return (events, None),
            Err(error) => return (events, Some(error)),
        }
    }
}

async fn answer_to(script: Vec<Act>) -> (Vec<ChatEvent>, Option<ClientError>) {
    let server = Scripted::start(vec![script]).await;
    answer(&client(&server.address)).await
}

fn text_of(events: &[ChatEvent]) -> String {
    events
        .iter()
        .filter_map(|event| if let ChatEvent::Text(text) = event { Some(text.as_str()) } else { None })
        .collect()
}

fn end_of(events: &[ChatEvent]) -> Option<(FinishReason, Option<u32>)> {
    match events.last() {
        Some(ChatEvent::Finished { reason, usage }) => {
            Some((*reason, usage.map(|usage| usage.completion_tokens)))
        }
        _ => None,
    }
}

const PIECES: &str = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\r\n\r\n\
    : still there\r\n\r\n\
    data: {\"choices\":[{\"delta\":{\"content\":\"Wörld 漢\"}}]}\r\n\r\n\
    data: {\"choices\":[{\"delta\":{\"content\":\"字\"},\"finish_reason\":\"length\"}]}\r\n\r\n\
    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":7,\"total_tokens\":10}}\r\n\r\n\
    data: [DONE]\r\n\r\n";

#[tokio::test]
async fn an_answer_is_the_same_however_its_bytes_travel() {
    for size in [1, 7, 64, 4096] {
        let pieces = PIECES
            .as_bytes()
            .chunks(size)
            .map(|bytes| say([format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()));
        let head = say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let script = [head].into_iter().chain(pieces).chain([say("0\r\n\r\n")]).collect();
        let (events, error) = answer_to(script).await;
        assert!(error.is_none(), "{error:?}");
        assert_eq!(text_of(&events), "Wörld 漢字", "in pieces of {size} bytes");
        assert_eq!(end_of(&events), Some((FinishReason::Length, Some(7))));
    }
}

#[tokio::test]
async fn a_server_need_not_say_done_nor_count_nor_stream() {
    let (events, error) = answer_to(vec![
        say(EVENTS),
        say("data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n"),
    ])
    .await;
    assert!(error.is_none(), "no [DONE]: {error:?}");
    assert_eq!(end_of(&events), Some((FinishReason::Stop, None)));

    let (events, error) = answer_to(vec![
        say(EVENTS),
        say("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n"),
        Act::Hang,
    ])
    .await;
    assert!(error.is_none(), "no reason, and a connection that stays open: {error:?}");
    assert_eq!((text_of(&events), end_of(&events)), ("a".into(), Some((FinishReason::Stop, None))));

    let whole = r#"{"choices":[{"message":{"content":"all","reasoning":"hm"},"finish_reason":"stop"}],
        "usage":{"completion_tokens":2}}"#;
    for headers in ["Content-Type: application/json\r\n", "Content-Type: text/event-stream\r\n", ""] {
        let (events, error) = answer_to(vec![response("200 OK", headers, whole)]).await;
        assert!(error.is_none(), "whole, as {headers:?}: {error:?}");
        assert_eq!(events[0], ChatEvent::Thinking("hm".into()));
        assert_eq!((text_of(&events), end_of(&events)), ("all".into(), Some((FinishReason::Stop, Some(2)))));
    }
}

#[tokio::test]
async fn counts_that_never_come_do_not_hold_the_end_up() {
    let (events, error) = answer_to(vec![
        say(EVENTS),
        say("data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n"),
        Act::Hang,
    ])
    .await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(end_of(&events), Some((FinishReason::Stop, None)));
}

#[tokio::test]
async fn what_came_before_a_fault_is_kept_and_the_fault_is_told() {
    let begin = "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n";
    for (rest, expected) in [
        ("data: {\"error\":{\"message\":\"out of memory\"}}\n\n", "out of memory"),
        ("event: error\ndata: overloaded\n\n", "overloaded"),
        ("error: {\"message\":\"slot is gone\"}\n\n", "slot is gone"),
        ("data: {\"object\":\"error\",\"message\":\"bad\"}\n\n", "bad"),
        ("data: {oops\n\n", "not JSON"),
        ("", "broke off"),
    ] {
        let (events, error) = answer_to(vec![say(EVENTS), say(format!("{begin}{rest}"))]).await;
        assert_eq!(text_of(&events), "half", "{rest:?}");
        let error = error.unwrap_or_else(|| panic!("{rest:?} is a fault"));
        assert!(error.to_string().contains(expected), "{rest:?}: {error}");
    }
}

#[tokio::test]
async fn a_connection_that_dies_in_a_chunk_has_broken_off() {
    let head = say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    let piece = "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n";
    let script = vec![head, say(format!("{:x}\r\n{piece}\r\n", piece.len())), say("ffff\r\ndata: {\"cho")];
    let (events, error) = answer_to(script).await;
    assert_eq!(text_of(&events), "half");
    assert!(matches!(error, Some(ClientError::BrokeOff { .. })), "{error:?}");
}

#[tokio::test]
async fn a_server_that_falls_silent_is_given_up() {
    let (events, error) = answer_to(vec![
        say(EVENTS),
        say("data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n"),
        Act::Hang,
    ])
    .await;
    assert_eq!(text_of(&events), "half");
    assert!(matches!(error, Some(ClientError::Silent { .. })), "{error:?}");
}

#[tokio::test]
async fn every_refusal_has_its_kind_and_the_servers_words() {
    for (status, body) in [
        ("401 Unauthorized", r#"{"error":{"message":"Incorrect API key provided: sk-secret-key"}}"#),
        ("403 Forbidden", r#"{"detail":"no"}"#),
        ("400 Bad Request", r#"{"object":"error","message":"context too long","code":40001}"#),
        ("404 Not Found", r#"{"error":"model not found"}"#),
        ("422 Unprocessable", r#"{"detail":[{"loc":["body","top_p"],"msg":"too large"}]}"#),
        ("429 Too Many Requests", "slow down"),
        ("500 Internal Server Error", "<html><title>Oops</title></html>"),
        ("503 Service Unavailable", r#"{"error":{"message":"Loading model"}}"#),
        ("502 Bad Gateway", ""),
    ] {
        let (events, error) = answer_to(vec![response(status, "", body)]).await;
        assert!(events.is_empty(), "{status}");
        let error = error.unwrap_or_else(|| panic!("{status} is an error"));
        let is_right = match &status[..3] {
            "401" | "403" => matches!(error, ClientError::Access { has_key: true, .. }),
            "500" | "502" | "503" => matches!(error, ClientError::Failed { .. }),
            _ => matches!(error, ClientError::Refused { .. }),
        };
        assert!(is_right, "{status}: {error:?}");
        let (text, debug) = (error.to_string(), format!("{error:?}"));
        assert!(!text.contains(KEY) && !debug.contains(KEY), "the key is in {text} or {debug}");
    }
}

#[tokio::test]
async fn a_web_page_is_no_answer() {
    let (_, error) =
        answer_to(vec![response("200 OK", "Content-Type: text/html\r\n", "<!doctype html>")]).await;
    assert!(matches!(error, Some(ClientError::BadAnswer { .. })), "{error:?}");
    let (_, error) = answer_to(vec![response("200 OK", "", "data: {\"hello\":1}\n\n")]).await;
    assert!(matches!(error, Some(ClientError::BadAnswer { .. })), "{error:?}");
    let (_, error) = answer_to(vec![response("200 OK", "", "")]).await;
    assert!(matches!(error, Some(ClientError::BadAnswer { .. })), "{error:?}");
}

#[tokio::test]
async fn nobody_listening_is_told_as_that() {
    // Bound and dropped: the port is free now.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = format!("http://{}", listener.local_addr().expect("bound"));
    drop(listener);
    let (_, error) = answer(&client(&address)).await;
    assert!(matches!(error, Some(ClientError::Unreachable { .. })), "{error:?}");
}

#[tokio::test]
async fn the_key_goes_with_the_request_and_never_to_another_place() {
    let mut other = Scripted::start(vec![vec![response("200 OK", "", "{}")]]).await;
    let to_other = format!("Location: {}/v1/chat/completions?x=1\r\n", other.address);
    let mut server = Scripted::start(vec![vec![response("307 Temporary Redirect", &to_other, "")]]).await;
    let (_, error) = answer(&client(&server.address)).await;
    assert!(server.request().await.contains("authorization: Bearer sk-secret-key\r\n"));
    let error = error.expect("it is not followed");
    assert!(
        matches!(&error, ClientError::Redirect { to, .. } if to.starts_with(&other.address)),
        "{error:?}"
    );
    assert!(other.seen.try_recv().is_err(), "nothing was sent there");

    let own = "Location: /v1/elsewhere\r\n";
    let done = vec![say(EVENTS), say(PIECES)];
    let mut server = Scripted::start(vec![vec![response("308 Permanent Redirect", own, "")], done]).await;
    let (events, error) = answer(&client(&server.address)).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(text_of(&events), "Wörld 漢字");
    server.request().await;
    let second = server.request().await;
    assert!(second.starts_with("POST /v1/elsewhere HTTP/1.1"), "{second}");
    assert!(second.contains("\"model\":\"m\""), "the request goes along");
}

#[tokio::test]
async fn dropping_an_answer_closes_the_connection() {
    let piece = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    let mut server = Scripted::start(vec![vec![say(EVENTS), say(piece), Act::Hang]]).await;
    let mut stream = client(&server.address).chat(&question()).await.expect("it answers");
    assert_eq!(stream.next().await.expect("a piece"), Some(ChatEvent::Text("a".into())));
    server.request().await;
    drop(stream);
    assert_eq!(server.next().await, Seen::Gone);
}

#[tokio::test]
async fn dropping_the_wait_for_an_answer_closes_the_connection() {
    let mut server = Scripted::start(vec![vec![Act::Hang]]).await;
    let client = client(&server.address);
    let request = question();
    let wait = tokio::time::timeout(Duration::from_millis(100), client.chat(&request)).await;
    assert!(wait.is_err(), "the server says nothing");
    server.request().await;
    assert_eq!(server.next().await, Seen::Gone);
}

#[tokio::test]
async fn a_name_that_the_server_does_not_know_is_replaced_once() {
    let refusal = r#"{"error":{"message":"Use 'max_completion_tokens'.","param":"max_tokens","code":"unsupported_parameter"}}"#;
    let refused = vec![response("400 Bad Request", "", refusal)];
    let mut server = Scripted::start(vec![refused.clone(), vec![say(EVENTS), say(PIECES)]]).await;
    let (events, error) = answer(&client(&server.address)).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(text_of(&events), "Wörld 漢字");
    assert!(server.request().await.contains("\"max_tokens\":5"));
    let second = server.request().await;
    assert!(second.contains("\"max_completion_tokens\":5") && !second.contains("\"max_tokens\""), "{second}");

    let server = Scripted::start(vec![refused]).await;
    let (_, error) = answer(&client(&server.address)).await;
    assert!(matches!(error, Some(ClientError::Refused { .. })), "not again and again: {error:?}");
}

#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    let line = vec![b'x'; 64 << 10];
    let script = [say(EVENTS), say("data: ")].into_iter().chain((0..40).map(|_| say(line.clone()))).collect();
    let (_, error) = answer_to(script).await;
    assert!(matches!(error, Some(ClientError::BadAnswer { .. })), "{error:?}");
}

#[tokio::test]
async fn models_are_listed_and_what_is_no_list_is_told() {
    let list = r#"{"object":"list","data":[{"id":"a","max_model_len":2048},{"id":"b"}]}"#;
    let server = Scripted::start(vec![
        vec![response("200 OK", "", list)],
        vec![response("200 OK", "", "<html>")],
        vec![response("401 Unauthorized", "", "{}")],
    ])
    .await;
    let client = client(&server.address);
    let models = client.models().await.expect("a list");
    let ids: Vec<_> = models.iter().map(|model| (model.id.as_str(), model.context_tokens)).collect();
    assert_eq!(ids, [("a", Some(2048)), ("b", None)]);
    assert!(matches!(client.models().await, Err(ClientError::BadAnswer { .. })));
    assert!(matches!(client.models().await, Err(ClientError::Access { .. })));
}

#[tokio::test]
async fn a_key_that_cannot_travel_is_refused() {
    let address = Address::parse("localhost").expect("an address");
    let client = Client::new(address, Secret::new("two\nlines"), Patience::default());
    assert!(matches!(client, Err(ClientError::InvalidKey)));
}
