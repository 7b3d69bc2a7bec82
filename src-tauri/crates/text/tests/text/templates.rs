//! Chat templates against Jinja2 (`tests/fixtures/make_templates.py`), and what happens when one fails.

use std::{fs, path::Path};

use serde_json::{Value, json};
use text::{ChatMessage, ChatTemplate, RenderOptions, Role, TextError};

fn template(source: &str) -> ChatTemplate {
    let config = json!({ "chat_template": source, "bos_token": "<s>", "eos_token": { "content": "</s>" } });
    ChatTemplate::from_config(&config).unwrap().unwrap()
}

fn render(source: &str, messages: &[ChatMessage]) -> Result<String, TextError> {
    template(source).render(messages, &RenderOptions::default())
}

fn hi() -> Vec<ChatMessage> {
    vec![ChatMessage::new(Role::User, "hi")]
}

fn message(value: &Value) -> ChatMessage {
    let role = match value["role"].as_str().unwrap() {
        "system" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        other => panic!("no role {other}"),
    };
    ChatMessage::new(role, value["content"].as_str().unwrap())
}

#[test]
fn templates_render_as_jinja_renders_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/templates.json");
    let fixture: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    for case in fixture["cases"].as_array().unwrap() {
        let name = case["template"].as_str().unwrap();
        let messages: Vec<ChatMessage> = case["messages"].as_array().unwrap().iter().map(message).collect();
        let options = RenderOptions {
            add_generation_prompt: case["add_generation_prompt"].as_bool().unwrap(),
            ..RenderOptions::default()
        };
        let outcome = template(fixture["templates"][name].as_str().unwrap()).render(&messages, &options);
        match (&case["text"], outcome) {
            (Value::String(expected), Ok(text)) => assert_eq!(&text, expected, "{name} on {messages:?}"),
            (Value::Null, Err(TextError::TemplateRefused { message })) => {
                assert_eq!(case["refused"], message, "{name}")
            }
            (_, outcome) => panic!("{name} on {messages:?}: {outcome:?}"),
        }
    }
}

#[test]
fn a_refusal_carries_the_templates_words() {
    let source = "{% macro check(m) %}{{ raise_exception('no ' ~ m.role ~ ' here') }}{% endmacro %}{{ check(messages[0]) }}";
    let error = render(source, &hi()).unwrap_err();
    assert!(
        matches!(&error, TextError::TemplateRefused { message } if message == "no user here"),
        "{error:?}"
    );
}

#[test]
fn a_syntax_error_names_its_line_when_the_model_is_loaded() {
    let error = ChatTemplate::from_config(&json!({ "chat_template": "a\nb\n{% if %}" })).unwrap_err();
    assert!(matches!(error, TextError::TemplateSyntax { line: 3, .. }), "{error:?}");
}

#[test]
fn a_failing_template_names_its_line() {
    let error = render("a\n{{ messages[0].nothing.at_all }}", &hi()).unwrap_err();
    assert!(matches!(error, TextError::TemplateFailed { line: 2, .. }), "{error:?}");
    let error = render("{{ no_such_function() }}", &hi()).unwrap_err();
    assert!(matches!(error, TextError::TemplateFailed { line: 1, .. }), "{error:?}");
}

#[test]
fn an_endless_template_is_stopped() {
    let nested = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}";
    let error = render(nested, &hi()).unwrap_err();
    assert!(matches!(error, TextError::TemplateEndless { .. }), "{error:?}");
}

#[test]
fn a_long_conversation_is_no_endless_template() {
    let messages: Vec<ChatMessage> =
        (0..4000).map(|i| ChatMessage::new(Role::User, format!("message {i}"))).collect();
    let text = render("{% for m in messages %}{{ m.role + m.content }}\n{% endfor %}", &messages).unwrap();
    assert_eq!(text.lines().count(), 4000);
}

#[test]
fn strftime_now_gives_todays_date() {
    let text = render("{{ strftime_now('%Y-%m-%d|%d %b %Y') }}", &hi()).unwrap();
    let (iso, words) = text.split_once('|').unwrap();
    assert_eq!((iso.len(), words.len()), (10, 11), "{text}");
    assert!(iso.starts_with("20") && words.ends_with(&iso[..4]), "{text}");
    assert!(matches!(render("{{ strftime_now('%') }}", &hi()), Err(TextError::TemplateFailed { .. })));
}

#[test]
fn a_template_file_goes_before_the_config_and_named_templates_have_a_default() {
    let dir = tempfile::tempdir().unwrap();
    assert!(ChatTemplate::from_dir(dir.path()).unwrap().is_none());
    let named = json!({ "chat_template": [
        { "name": "tool_use", "template": "tools" }, { "name": "default", "template": "config" },
    ] });
    fs::write(dir.path().join("tokenizer_config.json"), named.to_string()).unwrap();
    let text = |dir: &Path| {
        ChatTemplate::from_dir(dir).unwrap().unwrap().render(&hi(), &RenderOptions::default()).unwrap()
    };
    assert_eq!(text(dir.path()), "config");
    fs::write(dir.path().join("chat_template.jinja"), "file").unwrap();
    assert_eq!(text(dir.path()), "file");
}
