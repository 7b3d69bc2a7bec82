//! What a server says in an error, in every shape that servers have for it.

use serde_json::Value;

use crate::Secret;

/// Characters of a server's words that are kept.
const WORDS_MAX: usize = 500;

/// An error as a server tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub words: String,
    pub param: Option<String>,
    pub code: Option<String>,
}

/// Reads the body of an answer that is an error.
pub(super) fn of_body(body: &[u8], key: Option<&Secret>) -> Told {
    let text = String::from_utf8_lossy(body);
    let told = match serde_json::from_str::<Value>(&text) {
        Ok(value) => of_value(&value),
        Err(_) if is_markup(&text) => {
            Told { words: title(&text).unwrap_or_else(|| "a web page".into()), ..Told::default() }
        }
        Err(_) => Told { words: text.into_owned(), ..Told::default() },
    };
    told.tidied(key)
}

/// The error in a piece of a stream; `None` if the piece is none.
pub(super) fn of_piece(piece: &Value, key: Option<&Secret>) -> Option<Told> {
    let is_error = piece.get("error").is_some_and(|error| !error.is_null() && error != &Value::Bool(false))
        || piece["object"] == "error";
    is_error.then(|| of_value(piece).tidied(key))
}

/// `{"error": {"message"}}`, `{"error": ""}`, `{"detail": ""}`, `{"detail": [{"msg", "loc"}]}`,
/// `{"object": "error", "message"}`, `{"message": ""}`, or anything else as it is.
fn of_value(value: &Value) -> Told {
    let error = match value.get("error") {
        Some(error @ Value::Object(_)) => error,
        _ => value,
    };
    let text_of = |value: &Value| match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let words = [&error["message"], &error["error"], &error["detail"], &error["msg"]]
        .into_iter()
        .find_map(|place| match place {
            Value::Array(complaints) => Some(complaints.iter().map(complaint).collect::<Vec<_>>().join("; ")),
            Value::Object(inner) => inner.get("message").and_then(text_of),
            other => text_of(other),
        })
        .filter(|words| !words.is_empty());
    Told {
        words: words.unwrap_or_else(|| error.to_string()),
        param: text_of(&error["param"]),
        code: text_of(&error["code"]),
    }
}

/// One entry of FastAPI's list of what is wrong with a request.
fn complaint(entry: &Value) -> String {
    let Some(text) = entry["msg"].as_str() else { return entry.to_string() };
    let place: Vec<String> = entry["loc"].as_array().into_iter().flatten().map(plain).collect();
    if place.is_empty() { text.to_owned() } else { format!("{}: {text}", place.join(".")) }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(super) fn is_markup(text: &str) -> bool {
    text.trim_start().starts_with('<')
}

fn title(page: &str) -> Option<String> {
    let lower = page.to_ascii_lowercase();
    let start = lower.find("<title>")? + "<title>".len();
    let end = start + lower[start..].find("</title>")?;
    let title = page[start..end].trim();
    (!title.is_empty()).then(|| format!("a web page, \"{title}\""))
}

impl Told {
    /// On one line, not too long, and without the key, which some servers repeat.
    fn tidied(self, key: Option<&Secret>) -> Self {
        let tidy = |text: String| {
            let text = key.map_or(text.clone(), |key| key.redact(&text));
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            match line.char_indices().nth(WORDS_MAX) {
                Some((end, _)) => format!("{}…", &line[..end]),
                None => line,
            }
        };
        Self { words: tidy(self.words), param: self.param.map(tidy), code: self.code.map(tidy) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_found_in_every_shape() {
        for (body, words) in [
            (r#"{"error":{"message":"no such model","type":"x","param":null,"code":404}}"#, "no such model"),
            (r#"{"error":"model 'x' not found"}"#, "model 'x' not found"),
            (r#"{"detail":"Unauthorized"}"#, "Unauthorized"),
            (r#"{"detail":[{"loc":["body","top_p"],"msg":"too large"}]}"#, "body.top_p: too large"),
            (r#"{"object":"error","message":"context\n too long","code":400}"#, "context too long"),
            (r#"{"message":"Loading model"}"#, "Loading model"),
            (r#"{"error":{"error":{"message":"inner"}}}"#, "inner"),
            (r#"{"status":"bad"}"#, r#"{"status":"bad"}"#),
            ("<html><head><TITLE>502 Bad Gateway</TITLE></head>", "a web page, \"502 Bad Gateway\""),
            (" <!doctype html>", "a web page"),
            ("upstream\tconnect error", "upstream connect error"),
            ("", ""),
        ] {
            assert_eq!(of_body(body.as_bytes(), None).words, words, "{body}");
        }
        let told = of_body(
            br#"{"error":{"message":"m","param":"max_tokens","code":"unsupported_parameter"}}"#,
            None,
        );
        assert_eq!(told.param.as_deref(), Some("max_tokens"));
        assert_eq!(told.code.as_deref(), Some("unsupported_parameter"));
    }

    #[test]
    fn a_key_that_the_server_repeats_is_not_passed_on() {
        let key = Secret::new("sk-very-secret");
        let told = of_body(br#"{"error":{"message":"Incorrect API key: sk-very-secret."}}"#, key.as_ref());
        assert_eq!(told.words, "Incorrect API key: [key].");
    }

    #[test]
    fn long_words_are_cut_between_characters() {
        let told = of_body("漢".repeat(4000).as_bytes(), None);
        assert_eq!(told.words.chars().count(), WORDS_MAX + 1);
    }

    #[test]
    fn a_piece_of_an_answer_is_no_error_and_an_error_is() {
        let piece = |json: &str| serde_json::from_str::<Value>(json).expect("JSON");
        assert_eq!(of_piece(&piece(r#"{"choices":[],"error":null}"#), None), None);
        assert!(of_piece(&piece(r#"{"error":{"message":"x"}}"#), None).is_some());
        assert!(of_piece(&piece(r#"{"object":"error","message":"x"}"#), None).is_some());
    }
}
