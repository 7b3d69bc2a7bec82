//! An answer as it arrives.

use std::{collections::VecDeque, time::Duration};

use reqwest::Response;
use serde_json::Value;

use super::{ChatEvent, ClientError, FinishReason, Patience, pieces, words};
use crate::{Secret, response::Usage, sse::SseDecoder};

/// Bytes of one answer that are read.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Wait for the counts of tokens, or for the end, once the server said why it ended.
const LINGER: Duration = Duration::from_secs(2);

/// How the server writes its answer; told by its first character, since types of content are not to be relied on.
#[derive(Debug)]
enum Form {
    Unknown,
    Events(SseDecoder),
    /// One JSON value: the server took no notice of `stream`.
    Whole(Vec<u8>),
}

/// An answer as it arrives. Dropping it drops the connection.
///
/// Takes events and whole answers, with and without counts of tokens, with and without `[DONE]`; an answer that ends
/// with neither `[DONE]` nor a reason has broken off.
#[derive(Debug)]
pub struct ChatStream {
    response: Response,
    host: String,
    key: Option<Secret>,
    patience: Patience,
    form: Form,
    read_bytes: usize,
    queue: VecDeque<ChatEvent>,
    has_begun: bool,
    /// Whether anything was a piece of this API.
    is_recognised: bool,
    finish: Option<FinishReason>,
    usage: Option<Usage>,
    /// Told after what came before it.
    failure: Option<ClientError>,
    is_over: bool,
}

impl ChatStream {
    pub(super) fn new(response: Response, host: String, key: Option<Secret>, patience: Patience) -> Self {
        Self {
            response,
            host,
            key,
            patience,
            form: Form::Unknown,
            read_bytes: 0,
            queue: VecDeque::new(),
            has_begun: false,
            is_recognised: false,
            finish: None,
            usage: None,
            failure: None,
            is_over: false,
        }
    }

    /// What the server says next; `None` after [`ChatEvent::Finished`]. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Silent`], [`ClientError::BrokeOff`], [`ClientError::Failed`], [`ClientError::BadAnswer`]; the
    /// last word.
    pub async fn next(&mut self) -> Result<Option<ChatEvent>, ClientError> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Ok(Some(event));
            }
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            if self.is_over {
                return Ok(None);
            }
            let waited = match (self.finish, self.has_begun) {
                (Some(_), _) => LINGER,
                (None, true) => self.patience.idle,
                (None, false) => self.patience.first_piece,
            };
            match tokio::time::timeout(waited, self.response.chunk()).await {
                Ok(Ok(Some(bytes))) => self.take(&bytes),
                Ok(Ok(None)) => self.end(),
                // All was said; how the connection ends does not matter.
                Ok(Err(_)) | Err(_) if self.finish.is_some() => self.conclude(),
                Ok(Err(error)) => self.fail(ClientError::reading(&self.host, error)),
                Err(_) => self.fail(ClientError::Silent { host: self.host.clone(), waited }),
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.read_bytes += bytes.len();
        if self.read_bytes > ANSWER_BYTES_MAX {
            return self.fail(self.bad("an answer of more than 64 MiB"));
        }
        if matches!(self.form, Form::Unknown) {
            let Some(first) = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) else { return };
            self.form = match first {
                b'{' | b'[' | b'<' => Form::Whole(Vec::new()),
                _ => Form::Events(SseDecoder::default()),
            };
        }
        match &mut self.form {
            Form::Unknown => {}
            Form::Whole(body) => body.extend_from_slice(bytes),
            Form::Events(decoder) => {
                let pushed = decoder.push(bytes);
                self.read_events();
                if let Err(error) = pushed {
                    self.fail(self.bad(&error.to_string()));
                }
            }
        }
    }

    fn end(&mut self) {
        match &mut self.form {
            Form::Unknown => return self.fail(self.bad("nothing")),
            Form::Whole(body) => {
                let body = std::mem::take(body);
                return self.read_whole(&body);
            }
            Form::Events(decoder) => {
                let finished = decoder.finish();
                self.read_events();
                if let Err(error) = finished {
                    return self.fail(self.bad(&error.to_string()));
                }
            }
        }
        if self.is_over {
            return;
        }
        match (self.finish.is_some(), self.is_recognised) {
            (true, _) => self.conclude(),
            (false, true) => self.fail(ClientError::BrokeOff { host: self.host.clone(), source: None }),
            (false, false) => self.fail(self.bad("no answer of this API; check the address")),
        }
    }

    fn read_events(&mut self) {
        while !self.is_over
            && let Form::Events(decoder) = &mut self.form
            && let Some(event) = decoder.pop()
        {
            let data = event.data.trim();
            if data == "[DONE]" {
                self.conclude();
            } else if event.name == "error" {
                let told = words::of_body(data.as_bytes(), self.key.as_ref());
                self.fail(ClientError::Failed { host: self.host.clone(), words: told.words });
            } else if !data.is_empty() {
                match serde_json::from_str(data) {
                    Ok(value) => self.read_piece(&value),
                    Err(_) => self.fail(self.bad("a piece that is not JSON")),
                }
            }
        }
    }

    fn read_piece(&mut self, value: &Value) {
        if let Some(told) = words::of_piece(value, self.key.as_ref()) {
            return self.fail(ClientError::Failed { host: self.host.clone(), words: told.words });
        }
        // Pings and other things that some servers put between the pieces.
        let Some(piece) = pieces::read(value) else { return };
        self.is_recognised = true;
        self.has_begun |= !piece.texts.is_empty();
        self.queue.extend(piece.texts);
        self.finish = piece.finish.or(self.finish);
        self.usage = piece.usage.or(self.usage);
    }

    fn read_whole(&mut self, body: &[u8]) {
        let text = String::from_utf8_lossy(body);
        if words::is_markup(&text) {
            return self.fail(self.bad("a web page, not an answer; check the address"));
        }
        match serde_json::from_str::<Value>(&text) {
            Ok(value) => {
                self.read_piece(&value);
                if self.is_recognised && !self.is_over {
                    self.conclude();
                } else if !self.is_over {
                    self.fail(self.bad("no answer of this API; check the address"));
                }
            }
            Err(_) => self.fail(self.bad("an answer that is not JSON")),
        }
    }

    fn conclude(&mut self) {
        self.is_over = true;
        let reason = self.finish.unwrap_or(FinishReason::Stop);
        self.queue.push_back(ChatEvent::Finished { reason, usage: self.usage });
    }

    fn fail(&mut self, failure: ClientError) {
        self.is_over = true;
        self.failure = self.failure.take().or(Some(failure));
    }

    fn bad(&self, why: &str) -> ClientError {
        ClientError::BadAnswer { host: self.host.clone(), why: why.to_owned() }
    }
}
