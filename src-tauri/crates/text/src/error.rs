use std::{path::PathBuf, time::Duration};

/// Why text could not become tokens, or tokens text.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// A file of the model folder could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of the model folder is not the JSON it should be.
    #[error("{} is not valid JSON", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why parsing stopped.
        source: serde_json::Error,
    },
    /// `tokenizer.json` does not describe a tokenizer that this build knows.
    #[error("{} does not describe a usable tokenizer", path.display())]
    TokenizerFile {
        /// The file.
        path: PathBuf,
        /// What the tokenizer library said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The tokenizer refused a text.
    #[error("the tokenizer cannot encode a text of {text_bytes} bytes")]
    Encode {
        /// Length of the text.
        text_bytes: usize,
        /// What the tokenizer library said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The tokenizer refused token ids.
    #[error("the tokenizer cannot decode {tokens} tokens")]
    Decode {
        /// How many ids were to be decoded.
        tokens: usize,
        /// What the tokenizer library said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An answer that is to go on has thinking, and the model has no tags for it, or the prompt closes it.
    #[error("the answer has thinking, which has no place in what this model is asked")]
    NoPlaceForThinking,
    /// The tokens of an answer that is to go on would say something else than it does.
    #[error("the model's vocabulary cannot spell this answer as it is")]
    InexactAnswer,
    /// The model folder carries no chat template, so messages cannot become a prompt.
    #[error("this model has no chat template: it continues text, it does not chat")]
    NoChatTemplate,
    /// The chat template is too long, or one of its tags is.
    #[error("the model's chat template is too long on line {line}")]
    TemplateTooLong {
        /// Line in the template, from 1.
        line: usize,
    },
    /// The chat template does not parse.
    #[error("the model's chat template has a syntax error on line {line}")]
    TemplateSyntax {
        /// Line in the template, from 1.
        line: usize,
        /// What the template engine said.
        source: minijinja::Error,
    },
    /// The chat template itself refuses these messages, for example a role or an order of roles.
    #[error("the model's chat template refuses this conversation: {message}")]
    TemplateRefused {
        /// The template's own words.
        message: String,
    },
    /// The chat template asks for something that does not exist or does not fit.
    #[error("the model's chat template failed on line {line}")]
    TemplateFailed {
        /// Line in the template, from 1.
        line: usize,
        /// What the template engine said.
        source: minijinja::Error,
    },
    /// The chat template ran for too long, most likely for ever.
    #[error("the model's chat template did not finish within {steps} steps")]
    TemplateEndless {
        /// The limit it ran into.
        steps: u64,
    },
    /// The chat template took too long, most likely because it never ends.
    #[error("the model's chat template did not finish within {} seconds", limit.as_secs())]
    TemplateSlow {
        /// The limit it ran into.
        limit: Duration,
    },
    /// The chat template makes larger values than a rendering may hold.
    #[error("the model's chat template makes texts or lists beyond the limit of {} MiB", limit_bytes >> 20)]
    TemplateMemory {
        /// What a rendering may make in all.
        limit_bytes: usize,
    },
    /// The chat template writes more than any model reads.
    #[error("the model's chat template writes more than {} MiB", limit_bytes >> 20)]
    TemplateOutput {
        /// The limit it ran into.
        limit_bytes: usize,
    },
    /// A message quotes a control token and the chat template cuts messages, so the quotation cannot be kept apart.
    #[error(
        "the model's chat template cuts through \"{literal}\", which this model reserves; reword that message"
    )]
    TemplateCutsLiteral {
        /// The quoted control token.
        literal: String,
    },
}
