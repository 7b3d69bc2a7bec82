//! Why a request gets no answer, in the convention's shape.

use serde_json::{Value, json};

/// A request that is refused, or an answer that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status, if nothing was sent yet.
    pub status: u16,
    /// The convention's kind of error.
    pub kind: &'static str,
    /// Short and stable, for programs.
    pub code: &'static str,
    /// The field that is to blame.
    pub param: Option<String>,
    /// For people.
    pub message: String,
    /// Whether asking again later may help.
    pub may_retry: bool,
}

impl Refusal {
    fn new(status: u16, kind: &'static str, code: &'static str, message: String) -> Self {
        Self { status, kind, code, param: None, message, may_retry: false }
    }

    /// A field that makes no sense. `param`: its place, as in `messages[0].content`.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        let refusal = Self::new(400, "invalid_request_error", "invalid_value", message.into());
        Self { param: Some(param.into()), ..refusal }
    }

    /// A field that this server does not have. `param`: as in [`Self::invalid`].
    pub fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: "unsupported_parameter", ..Self::invalid(param, message) }
    }

    /// A request that can never be answered, for a reason of a name of its own.
    pub fn impossible(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(400, "invalid_request_error", code, message.into())
    }

    /// A model that is not there.
    pub fn unknown_model(message: impl Into<String>) -> Self {
        let refusal = Self::new(404, "invalid_request_error", "model_not_found", message.into());
        Self { param: Some("model".into()), ..refusal }
    }

    /// The server cannot answer now.
    pub fn unavailable(code: &'static str, message: impl Into<String>) -> Self {
        Self { may_retry: true, ..Self::new(503, "server_error", code, message.into()) }
    }

    /// The server failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(500, "server_error", "server_error", message.into())
    }

    pub(super) fn foreign(message: String) -> Self {
        Self::new(403, "invalid_request_error", "forbidden", message)
    }

    pub(super) fn no_key(message: &str) -> Self {
        Self::new(401, "invalid_request_error", "invalid_api_key", message.to_owned())
    }

    pub(super) fn no_such_place(path: &str) -> Self {
        let places = "/v1/models, /v1/chat/completions and /health";
        let message = format!("there is no \"{path}\" here: this server has {places}");
        Self::new(404, "invalid_request_error", "not_found", message)
    }

    pub(super) fn wrong_method(allowed: &str) -> Self {
        let message = format!("only {allowed} is answered here");
        Self::new(405, "invalid_request_error", "method_not_allowed", message)
    }

    pub(super) fn too_large(limit_bytes: usize) -> Self {
        let message = format!("a request may have {limit_bytes} bytes at most");
        Self::new(413, "invalid_request_error", "request_too_large", message)
    }

    pub(super) fn not_json(message: String) -> Self {
        Self::new(400, "invalid_request_error", "invalid_json", message)
    }

    pub(super) fn cut_off() -> Self {
        Self::new(408, "invalid_request_error", "timeout", "the request did not arrive as a whole".into())
    }

    pub(super) fn body(&self) -> Value {
        json!({
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.code,
            }
        })
    }
}
