//! Which request gets what.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE},
};
use serde_json::{Value, json};

use super::{
    Answer, AnswerEvent, Answerer, Refusal, Shared,
    asked::{self, Delivery},
    body::{AnswerBody, EventBody},
    guard, shapes,
};
use shapes::Head;

/// Bytes of a request at most: a long conversation as text is far smaller.
const REQUEST_BYTES_MAX: usize = 8 << 20;
/// Wait for the body of a request.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// Answers one request, whatever it is.
pub(super) async fn respond<A: Answerer>(
    shared: &Shared<A>,
    request: Request<Incoming>,
) -> Response<AnswerBody> {
    let path = request.uri().path().trim_end_matches('/').to_owned();
    match route(shared, request, &path).await {
        Ok(response) => response,
        Err(refusal) => refused(&refusal, &path),
    }
}

async fn route<A: Answerer>(
    shared: &Shared<A>,
    request: Request<Incoming>,
    path: &str,
) -> Result<Response<AnswerBody>, Refusal> {
    guard::check_origin(request.uri(), request.headers())?;
    if path == "/health" {
        only(&Method::GET, request.method())?;
        return Ok(health(!shared.answerer.models().is_empty()));
    }
    guard::check_key(request.headers(), |given| shared.is_key(given))?;
    if path == "/v1/chat/completions" {
        only(&Method::POST, request.method())?;
        let (asked, delivery) = asked::read(&read_body(request).await?)?;
        let answer = shared.answerer.answer(asked).await?;
        return deliver(answer, delivery).await;
    }
    if path == "/v1/models" {
        only(&Method::GET, request.method())?;
        return Ok(json_response(StatusCode::OK, &shapes::models(&shared.answerer.models(), now())));
    }
    if let Some(id) = path.strip_prefix("/v1/models/") {
        only(&Method::GET, request.method())?;
        let models = shared.answerer.models();
        let found = models.iter().find(|model| model.id == id);
        let model =
            found.ok_or_else(|| Refusal::unknown_model(format!("there is no model \"{id}\" here")))?;
        return Ok(json_response(StatusCode::OK, &shapes::model(model, now())));
    }
    Err(Refusal::no_such_place(path))
}

fn only(allowed: &Method, method: &Method) -> Result<(), Refusal> {
    if method == allowed { Ok(()) } else { Err(Refusal::wrong_method(allowed.as_str())) }
}

async fn read_body(request: Request<Incoming>) -> Result<Vec<u8>, Refusal> {
    let body = Limited::new(request.into_body(), REQUEST_BYTES_MAX).collect();
    match tokio::time::timeout(BODY_PATIENCE, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes().into()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Refusal::too_large(REQUEST_BYTES_MAX)),
        Ok(Err(_)) | Err(_) => Err(Refusal::cut_off()),
    }
}

async fn deliver(answer: Answer, delivery: Delivery) -> Result<Response<AnswerBody>, Refusal> {
    let Answer { id, model, mut events } = answer;
    let head = Head { id, model, created: now() };
    if delivery.is_streamed {
        let body = AnswerBody::Events(Box::new(EventBody::new(head, delivery.has_usage, events)));
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        return Ok(response);
    }
    let (mut whole_thinking, mut whole_text, mut whole_logprobs) = (String::new(), String::new(), Vec::new());
    while let Some(event) = events.recv().await {
        match event {
            AnswerEvent::More { thinking, text, logprobs } => {
                whole_thinking.push_str(&thinking);
                whole_text.push_str(&text);
                whole_logprobs.extend(logprobs);
            }
            AnswerEvent::Finished { reason, usage } => {
                let texts = (whole_thinking.as_str(), whole_text.as_str());
                let completion = shapes::completion(&head, texts, &whole_logprobs, reason, usage);
                return Ok(json_response(StatusCode::OK, &completion));
            }
            AnswerEvent::Failed(refusal) => return Err(refusal),
        }
    }
    Err(Refusal::failed("the answer broke off"))
}

fn health(is_ready: bool) -> Response<AnswerBody> {
    let (status, word) =
        if is_ready { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, "no model loaded") };
    json_response(status, &json!({ "status": word }))
}

fn refused(refusal: &Refusal, path: &str) -> Response<AnswerBody> {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json_response(status, &refusal.body());
    let headers = response.headers_mut();
    match status {
        StatusCode::UNAUTHORIZED => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            let allowed = if path.ends_with("/completions") { "POST" } else { "GET" };
            headers.insert(ALLOW, HeaderValue::from_static(allowed));
        }
        _ => {}
    }
    if refusal.may_retry {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("2"));
    }
    response
}

fn json_response(status: StatusCode, value: &Value) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::of_json(value));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Seconds of Unix time.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
