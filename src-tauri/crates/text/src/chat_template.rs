mod environment;
mod python_json;

use std::{path::Path, sync::Arc};

use minijinja::{Environment, ErrorKind, context};
use serde::Serialize;
use serde_json::Value;

use crate::{TextError, tokenizer::files};

/// Steps a template may take; the longest in use take a few dozen per message.
const TEMPLATE_STEPS: u64 = 5_000_000;

const NAME: &str = "chat_template";

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Standing instructions.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The result of a tool that the model called.
    Tool,
}

/// One message of a conversation, as a chat template sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChatMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said, as plain text.
    pub content: String,
}

impl ChatMessage {
    /// Builds a message.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
    }
}

/// How to render a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenderOptions {
    /// Whether to end with the opening of an answer; `true` to get one from the model.
    pub add_generation_prompt: bool,
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self { add_generation_prompt: true }
    }
}

/// A model's chat template: Jinja with the functions and settings that Hugging Face `transformers` gives it.
///
/// Known to templates: `messages`, `add_generation_prompt`, `tools` and `documents` (none), the special tokens of
/// `tokenizer_config.json` by name, `raise_exception`, `strftime_now` (local time), `tojson` with Python's spacing,
/// Python's methods on strings, lists and dicts, `break` and `continue`. A template that runs for ever is stopped.
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    environment: Arc<Environment<'static>>,
    special_tokens: Value,
}

impl ChatTemplate {
    /// Reads the template of a model folder: `chat_template.jinja`, else `chat_template` in `tokenizer_config.json`.
    /// `None` if the folder has neither.
    ///
    /// # Errors
    /// [`TextError::Read`], [`TextError::Json`], or [`TextError::TemplateSyntax`].
    pub fn from_dir(dir: &Path) -> Result<Option<Self>, TextError> {
        let config = files::read_json(&dir.join("tokenizer_config.json"))?;
        match files::read_optional(&dir.join("chat_template.jinja"))? {
            Some(source) => Self::new(&String::from_utf8_lossy(&source), &config).map(Some),
            None => Self::from_config(&config),
        }
    }

    /// Takes the template out of the content of a `tokenizer_config.json`. `None` if there is none.
    ///
    /// # Errors
    /// [`TextError::TemplateSyntax`] with the line if it does not parse.
    pub fn from_config(config: &Value) -> Result<Option<Self>, TextError> {
        let template = &config["chat_template"];
        // Older files list several templates by name.
        let named = |name: &str| {
            template.as_array()?.iter().find(|entry| entry["name"] == name)?["template"].as_str()
        };
        let source = template.as_str().or_else(|| named("default"));
        source.map(|source| Self::new(source, config)).transpose()
    }

    fn new(source: &str, config: &Value) -> Result<Self, TextError> {
        let mut environment = environment::new();
        environment.set_fuel(Some(TEMPLATE_STEPS));
        environment
            .add_template_owned(NAME, environment::without_generation_tags(source))
            .map_err(|source| TextError::TemplateSyntax { line: source.line().unwrap_or(1), source })?;
        let tokens = config.as_object().into_iter().flatten().filter(|(key, _)| key.ends_with("_token"));
        let special_tokens = tokens
            .filter_map(|(key, value)| Some((key.clone(), Value::from(files::token_text(value)?))))
            .collect::<serde_json::Map<_, _>>();
        Ok(Self { environment: Arc::new(environment), special_tokens: Value::Object(special_tokens) })
    }

    /// The template as the model folder has it.
    pub(crate) fn source(&self) -> String {
        let template = self.environment.get_template(NAME).expect("added when the environment was built");
        template.source().to_string()
    }

    /// Renders `messages` into the text that the model reads.
    ///
    /// # Errors
    /// [`TextError::TemplateRefused`] with the template's words if it rejects the messages;
    /// [`TextError::TemplateEndless`] if it does not finish; [`TextError::TemplateFailed`] otherwise.
    pub fn render(&self, messages: &[ChatMessage], options: RenderOptions) -> Result<String, TextError> {
        let template = self.environment.get_template(NAME).expect("added when the environment was built");
        let special_tokens = minijinja::Value::from_serialize(&self.special_tokens);
        let variables = context! {
            messages => messages,
            add_generation_prompt => options.add_generation_prompt,
            tools => (),
            documents => (),
            ..special_tokens
        };
        template.render(variables).map_err(failed)
    }
}

fn failed(error: minijinja::Error) -> TextError {
    if let Some(message) = environment::refusal(&error) {
        return TextError::TemplateRefused { message };
    }
    if error.kind() == ErrorKind::OutOfFuel {
        return TextError::TemplateEndless { steps: TEMPLATE_STEPS };
    }
    TextError::TemplateFailed { line: error.line().unwrap_or(1), source: error }
}
