//! One answer of a server.

use std::collections::BTreeMap;

use engine::params::InvalidParam;
use openai_api::{
    client::{self, ChatEvent},
    request::{
        ChatRequest, Content, JsonSchemaFormat, Message, ResponseFormat, Seed, Stop, StreamOptions,
        TemplateVariables,
    },
};
use protocol::{BiasTarget, FinishReason, RemoteTarget, SamplingSettings, StructuredOutput};
use text::{ChatMessage, Role};
use tokio::sync::mpsc;

use super::{RemoteEvent, RemoteServers};
use crate::error::AppError;

/// Asks and passes on what comes, until the end.
pub(super) async fn ask(
    servers: &RemoteServers,
    target: &RemoteTarget,
    messages: &[ChatMessage],
    settings: &SamplingSettings,
    sender: &mpsc::Sender<RemoteEvent>,
) -> Result<(), AppError> {
    let request = request(target, messages, settings)?;
    let client = servers.client(&target.server_id).await?;
    let mut stream = client.chat(&request).await?;
    while let Some(event) = stream.next().await? {
        let event = match event {
            ChatEvent::Thinking(text) => RemoteEvent::Thinking(text),
            ChatEvent::Text(text) => RemoteEvent::Text(text),
            ChatEvent::Finished { reason, usage } => {
                let reason = finish_reason(reason, settings)?;
                RemoteEvent::Finished { reason, usage }
            }
        };
        if sender.send(event).await.is_err() {
            break;
        }
    }
    Ok(())
}

fn finish_reason(
    reason: client::FinishReason,
    settings: &SamplingSettings,
) -> Result<FinishReason, AppError> {
    match reason {
        client::FinishReason::Stop => Ok(FinishReason::EndOfTurn),
        client::FinishReason::Length if settings.structured_output.is_some() => Ok(FinishReason::Incomplete),
        client::FinishReason::Length => Ok(FinishReason::MaxTokens),
        client::FinishReason::ContentFilter => Err(AppError::RemoteFiltered),
        client::FinishReason::Error => Err(AppError::RemoteEndedBadly),
    }
}

/// Checks that a server can be asked for an answer with these settings.
///
/// The API has words for temperature, top-p, the limit of tokens, stop sequences, seed, both penalties by occurrence, a
/// JSON schema and biases by token number. Top-k, min-p, repetition penalty, XTC and whether to think are sent if they
/// are set, for the servers that know them. A thinking budget, logprobs and bias traces are the local engine's.
///
/// # Errors
/// [`AppError::InvalidSetting`] for what no server could be asked: an expression or a grammar, a bias of a text.
pub fn check_settings(settings: &SamplingSettings) -> Result<(), AppError> {
    response_format(settings)?;
    logit_bias(settings)?;
    seed(settings)?;
    Ok(())
}

fn request(
    target: &RemoteTarget,
    messages: &[ChatMessage],
    settings: &SamplingSettings,
) -> Result<ChatRequest, AppError> {
    let is_set = |value: f32, off: f32| (value != off).then_some(value);
    let thinking = |wants| TemplateVariables { enable_thinking: Some(wants) };
    Ok(ChatRequest {
        model: target.model.clone(),
        messages: messages.iter().map(message).collect(),
        stream: Some(true),
        stream_options: Some(StreamOptions { include_usage: Some(true) }),
        temperature: Some(settings.temperature),
        top_p: Some(settings.top_p),
        top_k: (settings.top_k > 0).then_some(settings.top_k),
        min_p: is_set(settings.min_p, 0.0),
        seed: seed(settings)?,
        stop: (!settings.stop.is_empty()).then(|| Stop::Many(settings.stop.clone())),
        max_tokens: Some(settings.max_tokens),
        frequency_penalty: is_set(settings.frequency_penalty, 0.0),
        presence_penalty: is_set(settings.presence_penalty, 0.0),
        repetition_penalty: is_set(settings.repetition_penalty, 1.0),
        xtc_probability: settings.xtc.map(|xtc| xtc.probability),
        xtc_threshold: settings.xtc.map(|xtc| xtc.threshold),
        logit_bias: logit_bias(settings)?,
        response_format: response_format(settings)?,
        chat_template_kwargs: settings.wants_thinking.map(thinking),
        ..ChatRequest::default()
    })
}

/// Without what was thought: some servers refuse it, and none needs it.
fn message(message: &ChatMessage) -> Message {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let content = Some(Content::Text(message.content.clone()));
    Message { role: role.into(), content, ..Message::default() }
}

fn seed(settings: &SamplingSettings) -> Result<Option<Seed>, AppError> {
    let Some(text) = &settings.seed else { return Ok(None) };
    match text.trim().parse() {
        Ok(seed) => Ok(Some(Seed::Positive(seed))),
        Err(_) => Err(invalid("seed", "a whole number from 0 to 18446744073709551615", text)),
    }
}

fn logit_bias(settings: &SamplingSettings) -> Result<Option<BTreeMap<String, f32>>, AppError> {
    let by_id = settings.logit_bias.iter().map(|bias| match &bias.target {
        BiasTarget::TokenId { id } => Ok((id.to_string(), bias.value)),
        BiasTarget::Text { text } => {
            Err(invalid("logit_bias", "by token number where a server answers", &format!("\"{text}\"")))
        }
    });
    let biases: BTreeMap<String, f32> = by_id.collect::<Result<_, _>>()?;
    Ok((!biases.is_empty()).then_some(biases))
}

fn response_format(settings: &SamplingSettings) -> Result<Option<ResponseFormat>, AppError> {
    let only_schemas = |what| Err(invalid("structured_output", "a JSON schema where a server answers", what));
    match &settings.structured_output {
        None => Ok(None),
        Some(StructuredOutput::Regex { .. }) => only_schemas("an expression"),
        Some(StructuredOutput::Lark { .. }) => only_schemas("a grammar"),
        Some(StructuredOutput::JsonSchema { schema }) => {
            let schema = serde_json::from_str(schema).map_err(|error| {
                invalid("structured_output", "a schema written in JSON", &format!("not JSON: {error}"))
            })?;
            let json_schema = JsonSchemaFormat { name: "answer".into(), schema, strict: Some(true) };
            Ok(Some(ResponseFormat { kind: "json_schema".into(), json_schema: Some(json_schema) }))
        }
    }
}

fn invalid(field: &'static str, limit: &'static str, value: &str) -> AppError {
    AppError::InvalidSetting(InvalidParam { field, limit, value: value.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling_settings::defaults;
    use protocol::BiasSetting;
    use serde_json::json;

    fn sent(settings: &SamplingSettings) -> serde_json::Value {
        let target = RemoteTarget { server_id: "s".into(), model: "m".into() };
        let messages = [
            ChatMessage::new(Role::System, "Be brief."),
            ChatMessage::new(Role::Assistant, "Yes.").with_reasoning("hm"),
        ];
        let request = request(&target, &messages, settings).expect("it can be asked");
        // As text and back, so that numbers are those on the wire.
        serde_json::from_str(&serde_json::to_string(&request).expect("plain data")).expect("JSON")
    }

    #[test]
    fn usual_settings_are_sent_in_words_that_every_server_knows() {
        assert_eq!(
            sent(&defaults()),
            json!({
                "model": "m",
                "messages": [
                    { "role": "system", "content": "Be brief." },
                    { "role": "assistant", "content": "Yes." },
                ],
                "stream": true,
                "stream_options": { "include_usage": true },
                "temperature": 0.2,
                "top_p": 0.9,
                "max_tokens": 1024,
            })
        );
    }

    #[test]
    fn what_is_set_is_sent() {
        let settings = SamplingSettings {
            top_k: 40,
            min_p: 0.05,
            seed: Some("18446744073709551615".into()),
            stop: vec!["END".into()],
            presence_penalty: 0.5,
            logit_bias: vec![BiasSetting { target: BiasTarget::TokenId { id: 42 }, value: -100.0 }],
            structured_output: Some(StructuredOutput::JsonSchema { schema: r#"{"type":"object"}"#.into() }),
            wants_thinking: Some(false),
            ..defaults()
        };
        let sent = sent(&settings);
        assert_eq!(sent["top_k"], 40);
        assert_eq!(sent["min_p"], 0.05);
        assert_eq!(sent["seed"], u64::MAX);
        assert_eq!(sent["stop"], json!(["END"]));
        assert_eq!(sent["presence_penalty"], 0.5);
        assert_eq!(sent["logit_bias"], json!({ "42": -100.0 }));
        assert_eq!(sent["response_format"]["json_schema"]["schema"], json!({ "type": "object" }));
        assert_eq!(sent["chat_template_kwargs"], json!({ "enable_thinking": false }));
        assert!(sent.get("frequency_penalty").is_none(), "it is off");
    }

    #[test]
    fn what_no_server_can_be_asked_is_refused_by_name() {
        let text = BiasSetting { target: BiasTarget::Text { text: " no".into() }, value: -1.0 };
        let lark = StructuredOutput::Lark { grammar: "start: \"a\"".into() };
        for (settings, field) in [
            (SamplingSettings { logit_bias: vec![text], ..defaults() }, "logit_bias"),
            (SamplingSettings { structured_output: Some(lark), ..defaults() }, "structured_output"),
            (SamplingSettings { seed: Some("one".into()), ..defaults() }, "seed"),
        ] {
            match check_settings(&settings) {
                Err(AppError::InvalidSetting(invalid)) => assert_eq!(invalid.field, field),
                other => panic!("{field}: {other:?}"),
            }
        }
    }
}
