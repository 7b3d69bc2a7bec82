//! Lists of models.

use reqwest::Response;
use serde_json::Value;

use super::{ClientError, words};

/// Bytes of a list that are read.
const LIST_BYTES_MAX: usize = 8 << 20;
/// Models of a list that are kept.
const MODELS_MAX: usize = 2_000;

/// A model that a server offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// The server's name for it.
    pub id: String,
    /// Context window, if the server says.
    pub context_tokens: Option<u32>,
}

pub(super) async fn read(mut response: Response, host: &str) -> Result<Vec<Model>, ClientError> {
    let bad = |why: &str| ClientError::BadAnswer { host: host.to_owned(), why: why.to_owned() };
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(|error| ClientError::reading(host, error))? {
        if body.len() + bytes.len() > LIST_BYTES_MAX {
            return Err(bad("a list of models of more than 8 MiB"));
        }
        body.extend_from_slice(&bytes);
    }
    let text = String::from_utf8_lossy(&body);
    if words::is_markup(&text) {
        return Err(bad("a web page, not a list of models; check the address"));
    }
    let value: Value =
        serde_json::from_str(&text).map_err(|_| bad("no list of models; check the address"))?;
    list(&value).ok_or_else(|| bad("no list of models; check the address"))
}

/// `{"data": […]}` by the convention; `{"models": […]}` and a bare list exist as well.
fn list(value: &Value) -> Option<Vec<Model>> {
    let entries = [&value["data"], &value["models"], value].into_iter().find_map(Value::as_array)?;
    let mut models: Vec<Model> = Vec::new();
    for entry in entries {
        let name = [entry, &entry["id"], &entry["name"], &entry["model"]].into_iter().find_map(Value::as_str);
        let Some(id) = name.filter(|id| !id.is_empty()) else { continue };
        if models.len() < MODELS_MAX && !models.iter().any(|model| model.id == id) {
            models.push(Model { id: id.to_owned(), context_tokens: context_tokens(entry) });
        }
    }
    Some(models)
}

/// As vLLM, OpenRouter, Groq, llama.cpp and LM Studio call it.
fn context_tokens(entry: &Value) -> Option<u32> {
    let places = [
        &entry["max_model_len"],
        &entry["context_length"],
        &entry["context_window"],
        &entry["meta"]["n_ctx"],
        &entry["meta"]["n_ctx_train"],
        &entry["max_context_length"],
    ];
    let tokens = places.into_iter().find_map(Value::as_u64)?;
    u32::try_from(tokens).ok().filter(|tokens| *tokens > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_in_every_shape_and_no_model_appears_twice() {
        let value = |json: &str| serde_json::from_str::<Value>(json).expect("JSON");
        let ids = |json: &str| {
            list(&value(json)).map(|models| models.into_iter().map(|model| model.id).collect::<Vec<_>>())
        };
        assert_eq!(ids(r#"{"data":[{"id":"a"},{"id":"a"},{"id":""},{"no":1}]}"#), Some(vec!["a".into()]));
        assert_eq!(ids(r#"[{"name":"a"},"b"]"#), Some(vec!["a".into(), "b".into()]));
        assert_eq!(ids(r#"{"models":[{"model":"a"}]}"#), Some(vec!["a".into()]));
        assert_eq!(ids(r#"{"data":[]}"#), Some(vec![]));
        assert_eq!(ids(r#"{"error":"x"}"#), None);
        let models = list(&value(r#"{"data":[{"id":"a","meta":{"n_ctx_train":4096}},{"id":"b"}]}"#));
        let contexts: Vec<_> = models.into_iter().flatten().map(|model| model.context_tokens).collect();
        assert_eq!(contexts, [Some(4096), None]);
    }
}
