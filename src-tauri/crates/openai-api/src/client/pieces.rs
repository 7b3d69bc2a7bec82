//! Pieces of an answer, and whole answers, as the many servers write them.

use serde_json::Value;

use super::{ChatEvent, FinishReason};
use crate::response::Usage;

/// What a piece says.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Piece {
    pub texts: Vec<ChatEvent>,
    pub finish: Option<FinishReason>,
    pub usage: Option<Usage>,
}

/// Reads one piece of a stream, or a whole answer; both differ in `delta` and `message` alone.
///
/// `None` if it is neither: it has no choices and no usage.
pub(super) fn read(value: &Value) -> Option<Piece> {
    let usage = value.get("usage").filter(|usage| usage.is_object());
    let usage = usage.and_then(|usage| serde_json::from_value(usage.clone()).ok());
    let choices = match value.get("choices") {
        Some(Value::Array(choices)) => choices.as_slice(),
        Some(Value::Null) => &[],
        Some(_) => return None,
        None if usage.is_some() => &[],
        None => return None,
    };
    let mut piece = Piece { usage, ..Piece::default() };
    // Asked for one answer; others, if a server sends them all the same, are not ours.
    let own = choices.iter().find(|choice| choice["index"].as_u64().unwrap_or(0) == 0);
    if let Some(choice) = own {
        let said = if choice["delta"].is_object() { &choice["delta"] } else { &choice["message"] };
        let thinking = [&said["reasoning_content"], &said["reasoning"]]
            .into_iter()
            .map(text_of)
            .find(|text| !text.is_empty())
            .unwrap_or_default();
        if !thinking.is_empty() {
            piece.texts.push(ChatEvent::Thinking(thinking));
        }
        push_content(&mut piece.texts, &said["content"]);
        let refusal = text_of(&said["refusal"]);
        if !refusal.is_empty() {
            piece.texts.push(ChatEvent::Text(refusal));
        }
        piece.finish = choice["finish_reason"].as_str().map(finish_reason);
    }
    Some(piece)
}

/// A text, or parts of which some may be thinking, as Mistral's API has them.
fn push_content(texts: &mut Vec<ChatEvent>, content: &Value) {
    match content {
        Value::String(text) if !text.is_empty() => texts.push(ChatEvent::Text(text.clone())),
        Value::Array(parts) => {
            for part in parts {
                let (text, thinking) = (text_of(&part["text"]), text_of(&part["thinking"]));
                if !thinking.is_empty() {
                    texts.push(ChatEvent::Thinking(thinking));
                }
                if !text.is_empty() {
                    texts.push(ChatEvent::Text(text));
                }
            }
        }
        _ => {}
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(|part| text_of(&part["text"])).collect(),
        _ => String::new(),
    }
}

fn finish_reason(word: &str) -> FinishReason {
    match word {
        "length" | "max_tokens" | "model_length" => FinishReason::Length,
        "content_filter" => FinishReason::ContentFilter,
        "error" => FinishReason::Error,
        _ => FinishReason::Stop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(json: &str) -> Option<Piece> {
        read(&serde_json::from_str(json).expect("JSON"))
    }

    fn texts(json: &str) -> Vec<ChatEvent> {
        piece(json).expect(json).texts
    }

    #[test]
    fn thinking_is_found_under_each_of_its_names_and_never_twice() {
        let thinking = |text: &str| ChatEvent::Thinking(text.into());
        let text = |text: &str| ChatEvent::Text(text.into());
        assert_eq!(
            texts(r#"{"choices":[{"delta":{"reasoning_content":"a","content":null}}]}"#),
            [thinking("a")]
        );
        assert_eq!(texts(r#"{"choices":[{"delta":{"reasoning":"a","content":""}}]}"#), [thinking("a")]);
        assert_eq!(
            texts(r#"{"choices":[{"delta":{"reasoning":"a","reasoning_content":"a","content":"b"}}]}"#),
            [thinking("a"), text("b")]
        );
        assert_eq!(
            texts(
                r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]},
                    {"type":"text","text":"b"}]}}]}"#
            ),
            [thinking("a"), text("b")]
        );
    }

    #[test]
    fn a_whole_answer_is_read_like_a_piece() {
        let whole = piece(
            r#"{"choices":[{"index":1,"message":{"content":"no"}},
                {"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"length"}],
                "usage":{"prompt_tokens":3,"completion_tokens":1,"prompt_tokens_details":null}}"#,
        )
        .expect("an answer");
        assert_eq!(whole.texts, [ChatEvent::Text("yes".into())]);
        assert_eq!(whole.finish, Some(FinishReason::Length));
        assert_eq!(whole.usage.map(|usage| usage.prompt_tokens), Some(3));
    }

    #[test]
    fn what_is_no_piece_is_told_from_an_empty_one() {
        assert_eq!(piece(r#"{"choices":[]}"#), Some(Piece::default()));
        assert_eq!(
            piece(r#"{"choices":null,"usage":{}}"#).and_then(|piece| piece.usage),
            Some(Usage::default())
        );
        for other in ["[]", "3", r#"{"models":[]}"#, r#"{"choices":"x"}"#] {
            assert_eq!(piece(other), None, "{other}");
        }
    }
}
