//! Stored conversations and messages -> wire types.

use history::{Attachment, Conversation, ConversationId, Marked, Message, MessageId, PREVIEW_CHARS};
use protocol::{
    AttachmentKind, AttachmentView, ConversationSummary, FinishReason, MessageState, MessageView, Receipt,
    Role, SamplingSettings, ScrollPlace, SearchHit, SearchedText,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::answer::empty_receipt;
use crate::{error::AppError, sampling_settings};

/// Characters of a title that was taken from a message, at most.
const TITLE_CHARS: usize = 60;

/// Reads a conversation's id as the UI sends it.
///
/// # Errors
/// [`AppError::UnknownConversation`].
pub fn parse_id(given: &str) -> Result<ConversationId, AppError> {
    given.parse().map_err(|_| AppError::UnknownConversation { given: given.to_owned() })
}

/// Reads an answer's id as the UI sends it.
///
/// # Errors
/// [`AppError::UnknownAnswer`].
pub fn parse_message_id(given: &str) -> Result<MessageId, AppError> {
    given.parse().map_err(|_| AppError::UnknownAnswer { given: given.to_owned() })
}

/// A line of the sidebar, from the list.
pub fn summary(stored: history::ConversationSummary) -> ConversationSummary {
    ConversationSummary {
        id: stored.id.to_string(),
        title: stored.title,
        preview: stored.preview,
        message_count: stored.message_count,
        updated_at_ms: stored.updated_at_ms,
        is_pinned: stored.is_pinned,
    }
}

/// A line of the sidebar, from the opened conversation.
pub fn summary_of(stored: &Conversation) -> ConversationSummary {
    let last_text =
        stored.path.iter().rev().map(|message| message.text.as_str()).find(|text| !text.is_empty());
    let versions: usize = stored.path.iter().map(|message| message.siblings.len()).sum();
    ConversationSummary {
        id: stored.id.to_string(),
        title: stored.title.clone(),
        preview: one_line(last_text.unwrap_or_default(), PREVIEW_CHARS),
        message_count: super::count(versions),
        updated_at_ms: stored.updated_at_ms,
        is_pinned: stored.is_pinned,
    }
}

/// The line of a conversation that was just created.
pub fn new_summary(id: ConversationId, updated_at_ms: i64) -> ConversationSummary {
    ConversationSummary {
        id: id.to_string(),
        title: String::new(),
        preview: String::new(),
        message_count: 0,
        updated_at_ms,
        is_pinned: false,
    }
}

/// A line of a search's results.
pub fn search_hit(found: history::SearchHit) -> SearchHit {
    SearchHit {
        conversation_id: found.conversation.to_string(),
        title: searched_text(&found.title),
        message_id: found.message.map(|message| message.to_string()),
        snippet: searched_text(&found.snippet),
        at_ms: found.at_ms,
    }
}

/// Runs, not offsets: the window counts in UTF-16 units, the history in bytes.
fn searched_text(line: &Marked) -> Vec<SearchedText> {
    let mut runs = Vec::with_capacity(2 * line.marks.len() + 1);
    let mut push = |range: std::ops::Range<usize>, is_match| {
        if !range.is_empty() {
            runs.push(SearchedText { text: line.text[range].to_owned(), is_match });
        }
    };
    let mut from = 0;
    for mark in &line.marks {
        push(from..mark.start, false);
        push(mark.clone(), true);
        from = mark.end;
    }
    push(from..line.text.len(), false);
    runs
}

/// A message of the path.
pub fn message(stored: &Message) -> MessageView {
    let (role, state) = (role(stored.role), state(stored.state));
    MessageView {
        id: stored.id.to_string(),
        parent_id: stored.parent.map(|parent| parent.to_string()),
        role,
        version_ids: stored.siblings.iter().map(ToString::to_string).collect(),
        text: stored.text.clone(),
        thinking: stored.thinking.clone(),
        thinking_tokens: stored.thinking_tokens,
        state,
        created_at_ms: stored.created_at_ms,
        finish_reason: stored.finish_reason.as_deref().and_then(from_word).or(implied_reason(state)),
        receipt: stored.receipt_json.as_deref().and_then(receipt),
        attachments: stored.attachments.iter().map(attachment).collect(),
        failure: stored.error_code.as_deref().and_then(from_word),
    }
}

/// An attachment whose tokens are not counted yet.
pub fn attachment(stored: &Attachment) -> AttachmentView {
    AttachmentView {
        id: stored.id.to_string(),
        name: stored.name.clone(),
        kind: match stored.kind {
            history::AttachmentKind::Text => AttachmentKind::Text,
            history::AttachmentKind::Markdown => AttachmentKind::Markdown,
            history::AttachmentKind::Code => AttachmentKind::Code,
            history::AttachmentKind::Pdf => AttachmentKind::Pdf,
        },
        chars: stored.chars,
        tokens: None,
        pages: stored.pages,
    }
}

/// Where a reader is.
pub fn scroll_place(stored: history::ScrollPlace) -> ScrollPlace {
    ScrollPlace { message_id: stored.message.to_string(), above_px: stored.above_px }
}

/// Where a reader is, to be stored.
///
/// # Errors
/// [`AppError::UnknownAnswer`].
pub fn stored_scroll_place(place: &ScrollPlace) -> Result<history::ScrollPlace, AppError> {
    Ok(history::ScrollPlace { message: parse_message_id(&place.message_id)?, above_px: place.above_px })
}

fn role(role: history::Role) -> Role {
    match role {
        history::Role::User => Role::User,
        history::Role::Assistant => Role::Assistant,
    }
}

fn state(state: history::MessageState) -> MessageState {
    match state {
        history::MessageState::Complete => MessageState::Complete,
        history::MessageState::Streaming => MessageState::Streaming,
        history::MessageState::Stopped => MessageState::Stopped,
        history::MessageState::Interrupted => MessageState::Interrupted,
        history::MessageState::Failed => MessageState::Failed,
    }
}

/// The reason of an answer whose end the app did not live to write.
fn implied_reason(state: MessageState) -> Option<FinishReason> {
    (state == MessageState::Interrupted).then_some(FinishReason::Interrupted)
}

/// The word that stands for a plain enum value on the wire and in the database.
pub fn word(value: &impl Serialize) -> Option<String> {
    serde_json::to_value(value).ok()?.as_str().map(str::to_owned)
}

fn from_word<T: DeserializeOwned>(word: &str) -> Option<T> {
    serde_json::from_value(word.into()).ok()
}

/// Stored settings of a conversation.
pub fn settings(json: &str) -> Option<SamplingSettings> {
    from_json_over("settings", &sampling_settings::defaults(), json)
}

/// The settings that an answer was made with, its seed included if it is known.
pub fn settings_of_answer(stored: &Message) -> Option<SamplingSettings> {
    let used = stored.receipt_json.as_deref().and_then(receipt).map(|receipt| receipt.settings);
    used.or_else(|| stored.settings_json.as_deref().and_then(settings))
}

fn receipt(json: &str) -> Option<Receipt> {
    from_json_over("receipt", &empty_receipt(&sampling_settings::defaults()), json)
}

/// As [`from_json`]; fields that an earlier version of the app did not know yet are those of `defaults`.
pub fn from_json_over<T: Serialize + DeserializeOwned>(
    what: &'static str,
    defaults: &T,
    json: &str,
) -> Option<T> {
    let stored: Value = from_json(what, json)?;
    let whole = overlaid(serde_json::to_value(defaults).ok()?, stored);
    from_json(what, &whole.to_string())
}

/// `below` with the fields of `above` in their place, objects within objects likewise.
fn overlaid(below: Value, above: Value) -> Value {
    match (below, above) {
        (Value::Object(mut fields), Value::Object(above)) => {
            for (name, value) in above {
                let below = fields.remove(&name).unwrap_or(Value::Null);
                fields.insert(name, overlaid(below, value));
            }
            Value::Object(fields)
        }
        (_, above) => above,
    }
}

/// Reads a stored value; `None`, with a warning, if another version of the app wrote it in another shape.
pub fn from_json<T: DeserializeOwned>(what: &'static str, json: &str) -> Option<T> {
    let read = serde_json::from_str(json);
    if let Err(error) = &read {
        tracing::warn!(
            what,
            line = error.line(),
            at = error.column(),
            "stored JSON has another shape; ignored"
        );
    }
    read.ok()
}

/// A title from the first message.
pub fn title_of(text: &str) -> String {
    one_line(text, TITLE_CHARS)
}

/// The start of a text on one line; an ellipsis marks a cut.
fn one_line(text: &str, max_chars: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= max_chars {
        return line;
    }
    let cut: String = line.chars().take(max_chars - 1).collect();
    let whole_words = cut.rsplit_once(' ').map_or(cut.as_str(), |(words, _)| words);
    // A text without spaces is cut within its only word.
    let kept = if whole_words.chars().count() * 2 > max_chars { whole_words } else { &cut };
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_short_line() {
        assert_eq!(title_of("  What is\n the capital?  "), "What is the capital?");
        let long = title_of(&"several words ".repeat(20));
        assert!(long.chars().count() <= TITLE_CHARS && long.ends_with("words…"), "{long}");
        let cjk = title_of(&"字".repeat(200));
        assert_eq!(cjk.chars().count(), TITLE_CHARS);
    }

    #[test]
    fn runs_of_a_searched_line_are_the_line_again() {
        let runs = |text: &str, marks: &[(usize, usize)]| {
            let marks = marks.iter().map(|&(start, end)| start..end).collect();
            let line = Marked { text: text.to_owned(), marks };
            let runs = searched_text(&line).into_iter();
            runs.map(|run| (run.text, run.is_match)).collect::<Vec<_>>()
        };
        assert_eq!(runs("", &[]), []);
        assert_eq!(runs("é", &[(0, 2)]), [("é".to_owned(), true)]);
        let mixed = [("a".to_owned(), false), ("é".to_owned(), true), ("b".to_owned(), false)];
        assert_eq!(runs("aéb", &[(1, 3)]), mixed);
    }

    #[test]
    fn settings_of_an_earlier_version_are_read_with_the_defaults_of_what_is_new() {
        let earlier = r#"{"temperature":1.5,"topP":0.5,"topK":3,"minP":0.0,"seed":"7","maxTokens":9,
            "logprobs":2,"stop":["x"],"systemPrompt":"Be brief."}"#;
        let read = settings(earlier).expect("it was valid then");
        let expected = SamplingSettings {
            temperature: 1.5,
            top_p: 0.5,
            top_k: 3,
            seed: Some("7".into()),
            max_tokens: 9,
            logprobs: Some(2),
            stop: vec!["x".into()],
            system_prompt: "Be brief.".into(),
            ..sampling_settings::defaults()
        };
        assert_eq!(read, expected);
        assert_eq!(settings(r#"{"temperature":"hot"}"#), None, "another shape is no setting");
    }

    #[test]
    fn a_receipt_of_an_earlier_version_keeps_its_figures() {
        let earlier = r#"{"ttftMs":12.5,"decodeTokS":null,"itlMsP50":null,"itlMsP95":null,"promptTokens":4,
            "answerTokens":5,"fusedSteps":5,"perRowSteps":0,"meanBatchRows":1.0,"meanLogprob":null,
            "settings":{"temperature":0.0,"topP":1.0,"topK":0,"minP":0.0,"seed":"3","maxTokens":9,
            "logprobs":null,"stop":[],"systemPrompt":""}}"#;
        let read = receipt(earlier).expect("it was whole then");
        assert_eq!((read.ttft_ms, read.answer_tokens, read.thinking_tokens), (Some(12.5), 5, 0));
        assert_eq!(read.settings.seed.as_deref(), Some("3"));
        assert_eq!(read.settings.repetition_penalty, 1.0);
    }

    #[test]
    fn a_finish_reason_survives_the_database() {
        let reason = FinishReason::StopSequence;
        let stored = word(&reason).expect("a plain enum");
        assert_eq!(stored, "stopSequence");
        assert_eq!(from_word::<FinishReason>(&stored), Some(reason));
        assert_eq!(from_word::<FinishReason>("of a later version"), None);
    }
}
