//! From the JSON of a request to what is asked for, checked once.

use serde_json::{Value, json};

use super::Refusal;
use crate::request::{ChatRequest, Content, Message, ResponseFormat};

/// Alternatives per token at most.
const TOP_LOGPROBS_MAX: u32 = 20;

/// What a request asks for. Ranges of numbers are the answerer's to check.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Asked {
    /// The model; empty for any.
    pub model: String,
    /// The conversation, oldest first; at least one message.
    pub messages: Vec<AskedMessage>,
    /// Divides the logits.
    pub temperature: Option<f32>,
    /// Nucleus of probability.
    pub top_p: Option<f32>,
    /// Likeliest tokens kept.
    pub top_k: Option<u32>,
    /// Least probability relative to the likeliest.
    pub min_p: Option<f32>,
    /// Threshold and probability of "exclude top choices".
    pub xtc: Option<(f32, f32)>,
    /// Divides positive logits of tokens that occurred.
    pub repetition_penalty: Option<f32>,
    /// Subtracted once per occurrence.
    pub frequency_penalty: Option<f32>,
    /// Subtracted once.
    pub presence_penalty: Option<f32>,
    /// Added to the logits of tokens; none twice.
    pub logit_bias: Vec<(u32, f32)>,
    /// Seed of the noise.
    pub seed: Option<u64>,
    /// Tokens to generate at most.
    pub max_tokens: Option<u32>,
    /// Alternatives to report per token, 0 to 20; `None` reports nothing.
    pub logprobs: Option<u8>,
    /// Sequences that end the answer.
    pub stop: Vec<String>,
    /// JSON that the answer must be.
    pub json: Option<JsonOutput>,
    /// Whether a model that can think is asked to; `None` leaves it to its template.
    pub wants_thinking: Option<bool>,
}

/// A message of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedMessage {
    /// Who speaks.
    pub role: AskedRole,
    /// What is said.
    pub text: String,
    /// What was thought before it, if that was sent along.
    pub thinking: Option<String>,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedRole {
    /// Standing instructions.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// JSON that an answer must be.
#[derive(Debug, Clone, PartialEq)]
pub enum JsonOutput {
    /// Any object.
    Object,
    /// What a schema describes.
    Schema(Value),
}

impl JsonOutput {
    /// The schema that the answer is held to, as JSON text.
    pub fn schema(&self) -> String {
        match self {
            Self::Object => json!({ "type": "object" }).to_string(),
            Self::Schema(schema) => schema.to_string(),
        }
    }
}

/// How the answer is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Delivery {
    pub is_streamed: bool,
    pub has_usage: bool,
}

/// Reads the body of a request.
pub(super) fn read(body: &[u8]) -> Result<(Asked, Delivery), Refusal> {
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(Refusal::not_json("the request is no JSON object".into()));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let request: ChatRequest = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let (place, cause) = (error.path().to_string(), error.inner());
        if cause.is_data() && place != "." {
            Refusal::invalid(place.clone(), format!("{place} cannot be read: {cause}"))
        } else {
            Refusal::not_json(format!("the request is not JSON: {cause}"))
        }
    })?;
    deserializer.end().map_err(|error| Refusal::not_json(format!("the request is not JSON: {error}")))?;
    let delivery = Delivery {
        is_streamed: request.stream == Some(true),
        has_usage: request.stream_options.is_some_and(|options| options.include_usage == Some(true)),
    };
    Ok((check(request)?, delivery))
}

fn check(request: ChatRequest) -> Result<Asked, Refusal> {
    refuse_unsupported(&request)?;
    if request.messages.is_empty() {
        return Err(Refusal::invalid("messages", "messages must have at least one message"));
    }
    let messages = request.messages.into_iter().enumerate().map(|(index, message)| said(index, message));
    let messages = messages.collect::<Result<_, _>>()?;
    let asked_thinking = request.chat_template_kwargs.and_then(|variables| variables.enable_thinking);
    let effort_is_none = request.reasoning_effort.as_deref() == Some("none");
    Ok(Asked {
        messages,
        logprobs: logprobs(request.logprobs, request.top_logprobs)?,
        json: request.response_format.map(json_output).transpose()?.flatten(),
        logit_bias: request.logit_bias.into_iter().flatten().map(bias).collect::<Result<_, _>>()?,
        xtc: request
            .xtc_probability
            .zip(request.xtc_threshold)
            .map(|(chance, threshold)| (threshold, chance)),
        stop: request.stop.map(Vec::from).unwrap_or_default(),
        max_tokens: request.max_completion_tokens.or(request.max_tokens),
        seed: request.seed.map(crate::request::Seed::bits),
        wants_thinking: asked_thinking.or(effort_is_none.then_some(false)),
        model: request.model,
        temperature: request.temperature,
        top_p: request.top_p,
        top_k: request.top_k,
        min_p: request.min_p,
        repetition_penalty: request.repetition_penalty,
        frequency_penalty: request.frequency_penalty,
        presence_penalty: request.presence_penalty,
    })
}

/// Refuses what would change the answer and is not here; ignoring it would answer another question.
fn refuse_unsupported(request: &ChatRequest) -> Result<(), Refusal> {
    let is_used =
        |value: &Option<Value>| value.as_ref().is_some_and(|value| value.as_array() != Some(&Vec::new()));
    if request.n.is_some_and(|answers| answers != 1) {
        return Err(Refusal::unsupported("n", "n must be 1: a request gets one answer"));
    }
    if is_used(&request.tools) {
        return Err(Refusal::unsupported("tools", "tools cannot be called here"));
    }
    if is_used(&request.functions) {
        return Err(Refusal::unsupported("functions", "functions cannot be called here"));
    }
    if request.modalities.iter().flatten().any(|kind| kind != "text") {
        return Err(Refusal::unsupported("modalities", "answers are text"));
    }
    Ok(())
}

fn said(index: usize, message: Message) -> Result<AskedMessage, Refusal> {
    let role = match message.role.as_str() {
        "system" | "developer" => AskedRole::System,
        "user" => AskedRole::User,
        "assistant" => AskedRole::Assistant,
        other => {
            let words = format!("a message is of system, developer, user or assistant, not of \"{other}\"");
            return Err(Refusal::unsupported(format!("messages[{index}].role"), words));
        }
    };
    let has_calls =
        message.tool_calls.is_some_and(|calls| calls.as_array().is_none_or(|calls| !calls.is_empty()));
    if has_calls {
        return Err(Refusal::unsupported(
            format!("messages[{index}].tool_calls"),
            "tools cannot be called here",
        ));
    }
    let text = match message.content {
        None => {
            return Err(Refusal::invalid(
                format!("messages[{index}].content"),
                "a message must say something",
            ));
        }
        Some(Content::Text(text)) => text,
        Some(Content::Parts(parts)) => {
            let texts = parts.into_iter().enumerate().map(|(part, content)| match content.text {
                Some(text) if content.kind == "text" => Ok(text),
                _ => {
                    let place = format!("messages[{index}].content[{part}]");
                    let words = format!("a part must be text, not \"{}\"", content.kind);
                    Err(Refusal::unsupported(place, words))
                }
            });
            texts.collect::<Result<Vec<_>, _>>()?.join("\n")
        }
    };
    Ok(AskedMessage { role, text, thinking: message.reasoning_content.filter(|text| !text.is_empty()) })
}

fn logprobs(wanted: Option<bool>, alternatives: Option<u32>) -> Result<Option<u8>, Refusal> {
    match (wanted, alternatives) {
        (Some(true), count) => {
            let count = count.unwrap_or(0);
            let fits = u8::try_from(count).ok().filter(|_| count <= TOP_LOGPROBS_MAX);
            fits.map(Some).ok_or_else(|| {
                Refusal::invalid("top_logprobs", format!("top_logprobs must be 0 to 20, but is {count}"))
            })
        }
        (_, Some(1..)) => Err(Refusal::invalid("top_logprobs", "top_logprobs needs logprobs to be true")),
        (_, _) => Ok(None),
    }
}

fn json_output(format: ResponseFormat) -> Result<Option<JsonOutput>, Refusal> {
    match format.kind.as_str() {
        "text" => Ok(None),
        "json_object" => Ok(Some(JsonOutput::Object)),
        "json_schema" => {
            let place = "response_format.json_schema.schema";
            let schema = format.json_schema.map(|format| format.schema).filter(|schema| !schema.is_null());
            let schema = schema.ok_or_else(|| Refusal::invalid(place, "the schema is missing"))?;
            Ok(Some(JsonOutput::Schema(schema)))
        }
        other => {
            let words = format!("an answer can be text, json_object or json_schema, not \"{other}\"");
            Err(Refusal::unsupported("response_format.type", words))
        }
    }
}

fn bias((token, value): (String, f32)) -> Result<(u32, f32), Refusal> {
    let id = token.parse().map_err(|_| {
        Refusal::invalid("logit_bias", format!("logit_bias names tokens by number, not by \"{token}\""))
    })?;
    Ok((id, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(fields: &str) -> Result<Asked, Refusal> {
        let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}]{fields}}}"#);
        read(body.as_bytes()).map(|(asked, _)| asked)
    }

    fn refused_param(fields: &str) -> Option<String> {
        asked(fields).expect_err(fields).param
    }

    #[test]
    fn every_setting_arrives_and_unknown_fields_do_not_matter() {
        let all = r#","temperature":0.5,"top_p":0.9,"top_k":4,"min_p":0.1,"seed":-1,"stop":"END","max_tokens":7,
            "max_completion_tokens":5,"frequency_penalty":1,"presence_penalty":-1,"logit_bias":{"42":-100},
            "logprobs":true,"top_logprobs":3,"response_format":{"type":"json_object"},"n":1,"user":"me","store":false,
            "tools":[],"tool_choice":"none","parallel_tool_calls":true,"reasoning_effort":"none","metadata":{}"#;
        let asked = asked(all).expect("all of it is known or ignored");
        assert_eq!(asked.seed, Some(u64::MAX), "the same bits");
        assert_eq!(asked.max_tokens, Some(5), "the newer name wins");
        assert_eq!(asked.stop, ["END"]);
        assert_eq!(asked.logit_bias, [(42, -100.0)]);
        assert_eq!(asked.logprobs, Some(3));
        assert_eq!(asked.json, Some(JsonOutput::Object));
        assert_eq!(asked.wants_thinking, Some(false));
        assert_eq!((asked.temperature, asked.top_k), (Some(0.5), Some(4)));
    }

    #[test]
    fn nulls_are_as_good_as_nothing() {
        let nulls = r#","temperature":null,"stop":null,"stream":null,"n":null,"tools":null,"response_format":null,
            "stream_options":null,"logit_bias":null,"max_tokens":null,"logprobs":null,"seed":null"#;
        assert_eq!(asked(nulls), asked(""));
    }

    #[test]
    fn what_is_not_here_is_refused_by_name() {
        for (fields, param) in [
            (r#","n":2"#, "n"),
            (r#","tools":[{"type":"function"}]"#, "tools"),
            (r#","functions":[{}]"#, "functions"),
            (r#","modalities":["audio"]"#, "modalities"),
            (r#","response_format":{"type":"grammar"}"#, "response_format.type"),
            (r#","response_format":{"type":"json_schema"}"#, "response_format.json_schema.schema"),
            (r#","logit_bias":{"the":1}"#, "logit_bias"),
            (r#","top_logprobs":5"#, "top_logprobs"),
            (r#","logprobs":true,"top_logprobs":21"#, "top_logprobs"),
            (r#","temperature":"hot""#, "temperature"),
            (r#","stop":[1]"#, "stop"),
        ] {
            assert_eq!(refused_param(fields).as_deref(), Some(param), "{fields}");
        }
    }

    #[test]
    fn messages_are_texts_and_parts_of_text() {
        let of = |messages: &str| {
            read(format!(r#"{{"messages":{messages}}}"#).as_bytes()).map(|(asked, _)| asked.messages)
        };
        let said = of(r#"[{"role":"developer","content":"Be brief."},
                {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":"x"},
                {"role":"assistant","content":"c","reasoning":"hm","tool_calls":[]}]"#)
        .expect("all of it is text");
        let texts: Vec<_> = said.iter().map(|message| (message.role, message.text.as_str())).collect();
        assert_eq!(
            texts,
            [(AskedRole::System, "Be brief."), (AskedRole::User, "a\nb"), (AskedRole::Assistant, "c")]
        );
        assert_eq!(said[2].thinking.as_deref(), Some("hm"));
        for (messages, param) in [
            (r#"[{"role":"tool","content":"4"}]"#, "messages[0].role"),
            (r#"[{"role":"user"}]"#, "messages[0].content"),
            (
                r#"[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]"#,
                "messages[0].content[0]",
            ),
            (r#"[{"role":"assistant","content":"","tool_calls":[{}]}]"#, "messages[0].tool_calls"),
            (r#"[{"role":"user","content":7}]"#, "messages[0].content"),
        ] {
            assert_eq!(of(messages).expect_err(messages).param.as_deref(), Some(param));
        }
    }

    #[test]
    fn what_is_no_json_is_refused_as_that() {
        for body in ["", "{", "[1", "{} x", "\u{1}"] {
            assert_eq!(read(body.as_bytes()).expect_err(body).code, "invalid_json", "{body}");
        }
    }
}
