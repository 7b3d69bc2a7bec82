mod clock;
mod environment;
mod metering;
mod python_json;
mod python_methods;
mod python_slice;
mod python_values;
mod source;

use std::{path::Path, sync::Arc};

use minijinja::{
    AutoEscape, Environment, ErrorKind,
    machinery::{Vm, get_compiled_template, make_string_output},
    value::merge_maps,
};
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value, json};

pub use clock::Clock;

use crate::{
    TextError,
    panics::{Panicked, caught},
    tokenizer::files,
};
use metering::{Account, Exceeded, Metered};

/// Steps a template may take; the longest in use take some hundred per message.
const TEMPLATE_STEPS: u64 = 5_000_000;

/// Longest text a template may render; some two million tokens, more than any context window.
const MAX_RENDERED_BYTES: usize = 8 << 20;

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said, as plain text.
    pub content: String,
    /// What the model thought before it said that, without tags. Most templates drop it from earlier turns.
    pub reasoning: Option<String>,
}

impl ChatMessage {
    /// Builds a message without reasoning.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), reasoning: None }
    }

    /// The same message with what was thought before it.
    #[must_use]
    pub fn with_reasoning(self, reasoning: impl Into<String>) -> Self {
        Self { reasoning: Some(reasoning.into()), ..self }
    }
}

/// Templates know the reasoning as `reasoning_content`, those of gpt-oss as `thinking`; they get it under both names.
impl Serialize for ChatMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(reasoning) = &self.reasoning {
            map.serialize_entry("thinking", reasoning)?;
        }
        map.serialize_entry("role", &self.role)?;
        map.serialize_entry("content", &self.content)?;
        if let Some(reasoning) = &self.reasoning {
            map.serialize_entry("reasoning_content", reasoning)?;
        }
        map.end()
    }
}

/// How to render a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct RenderOptions {
    /// Whether to end with the opening of an answer; `true` to get one from the model.
    pub add_generation_prompt: bool,
    /// Whether the answer may begin with thinking, for templates that ask; `None` leaves it to the template.
    pub enable_thinking: Option<bool>,
    /// What `strftime_now` goes by.
    pub clock: Clock,
    /// Further variables of templates, such as `date_string` or `reasoning_effort`. They go before the special tokens
    /// of the same name; `messages` and the options above cannot be replaced.
    pub variables: Map<String, Value>,
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self {
            add_generation_prompt: true,
            enable_thinking: None,
            clock: Clock::default(),
            variables: Map::new(),
        }
    }
}

/// A model's chat template: Jinja with the functions and settings that Hugging Face `transformers` gives it.
///
/// Known to templates: `messages`, `add_generation_prompt`, `tools` and `documents` (none), `enable_thinking` and
/// `thinking` if the options say so, the special tokens of `tokenizer_config.json` by name, `raise_exception`,
/// `strftime_now`, `tojson` with Python's spacing, Python's methods on strings, lists and dicts, Python's way to write
/// values, `break` and `continue`. A template that runs for ever or writes without end is stopped.
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    environment: Arc<Environment<'static>>,
    source: Arc<str>,
    special_tokens: Map<String, Value>,
}

impl ChatTemplate {
    /// Reads the template of a model folder: `chat_template.jinja`, else `chat_template` in `tokenizer_config.json`,
    /// else in `chat_template.json`. `None` if the folder has none of them. Special tokens that
    /// `tokenizer_config.json` does not name may come from `special_tokens_map.json`.
    ///
    /// # Errors
    /// [`TextError::Read`], [`TextError::Json`], [`TextError::TemplateTooLong`] or [`TextError::TemplateSyntax`].
    pub fn from_dir(dir: &Path) -> Result<Option<Self>, TextError> {
        let mut config = Map::new();
        for name in ["chat_template.json", "special_tokens_map.json", "tokenizer_config.json"] {
            if let Value::Object(entries) = files::read_json(&dir.join(name))? {
                config.extend(entries.into_iter().filter(|(_, value)| !value.is_null()));
            }
        }
        let config = Value::Object(config);
        match files::read_optional(&dir.join("chat_template.jinja"))? {
            Some(source) => Self::new(&String::from_utf8_lossy(&source), &config).map(Some),
            None => Self::from_config(&config),
        }
    }

    /// Takes the template out of the content of a `tokenizer_config.json`. `None` if there is none.
    ///
    /// # Errors
    /// [`TextError::TemplateTooLong`]; [`TextError::TemplateSyntax`] with the line if it does not parse.
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
        let source = source::without_generation_tags(source);
        source::check(&environment, &source)
            .map_err(|source::TooLong { line }| TextError::TemplateTooLong { line })?;
        caught(|| environment.template_from_named_str(NAME, &source).map(|_| ()))
            .unwrap_or_else(|panicked| Err(engine_failed(panicked)))
            .map_err(|error| TextError::TemplateSyntax { line: error.line().unwrap_or(1), source: error })?;
        let tokens = config.as_object().into_iter().flatten().filter(|(key, _)| key.ends_with("_token"));
        let special_tokens = tokens
            .filter_map(|(key, value)| Some((key.clone(), Value::from(files::token_text(value)?))))
            .collect();
        Ok(Self { environment: Arc::new(environment), source: source.into(), special_tokens })
    }

    /// The template as the model folder has it, but for marks of training.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Renders `messages` into the text that the model reads.
    ///
    /// # Errors
    /// [`TextError::TemplateRefused`] with the template's words if it rejects the messages;
    /// [`TextError::TemplateEndless`] or [`TextError::TemplateSlow`] if it does not finish, [`TextError::TemplateOutput`]
    /// or [`TextError::TemplateMemory`] if it writes too much; [`TextError::TemplateFailed`] otherwise.
    pub fn render(&self, messages: &[ChatMessage], options: &RenderOptions) -> Result<String, TextError> {
        let mut variables = self.special_tokens.clone();
        variables.extend(options.variables.clone());
        // The two names that templates have for one switch.
        for name in ["enable_thinking", "thinking"] {
            variables.extend(options.enable_thinking.map(|on| (name.to_owned(), on.into())));
        }
        variables.extend([
            ("add_generation_prompt".to_owned(), options.add_generation_prompt.into()),
            ("tools".to_owned(), Value::Null),
            ("documents".to_owned(), Value::Null),
        ]);
        let own = minijinja::context! { messages => messages, strftime_now => options.clock.strftime_now() };
        let variables =
            merge_maps([Account::open(), own, minijinja::Value::from_serialize(json!(variables))]);
        let template = self.environment.template_from_named_str(NAME, &self.source).map_err(failed)?;
        let metered = Metered::new(get_compiled_template(&template));
        let mut text = String::new();
        let mut output = make_string_output(&mut text);
        let work = || {
            let machine = Vm::new(&self.environment);
            machine
                .eval(&metered.instructions, variables, &metered.blocks, &mut output, AutoEscape::None)
                .map(|_| ())
        };
        caught(work).unwrap_or_else(|panicked| Err(engine_failed(panicked))).map_err(failed)?;
        if text.len() > MAX_RENDERED_BYTES {
            return Err(TextError::TemplateOutput { limit_bytes: MAX_RENDERED_BYTES });
        }
        Ok(text)
    }
}

fn engine_failed(panicked: Panicked) -> minijinja::Error {
    minijinja::Error::new(ErrorKind::InvalidOperation, "the template engine failed").with_source(panicked)
}

fn failed(error: minijinja::Error) -> TextError {
    if let Some(message) = environment::refusal(&error) {
        return TextError::TemplateRefused { message };
    }
    match environment::exceeded(&error) {
        Some(Exceeded::Memory) => TextError::TemplateMemory { limit_bytes: metering::MAX_MADE_BYTES },
        Some(Exceeded::Time) => TextError::TemplateSlow { limit: metering::MAX_TIME },
        None if error.kind() == ErrorKind::OutOfFuel => TextError::TemplateEndless { steps: TEMPLATE_STEPS },
        None => TextError::TemplateFailed { line: error.line().unwrap_or(1), source: error },
    }
}
