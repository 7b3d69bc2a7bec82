//! Token ids to text and back: tokenizer, chat template, streaming detokeniser, stop strings.
//!
//! Pure Rust and single-threaded by design: no MLX, no async, no network. Everything that a model folder says about
//! text (`tokenizer.json`, `tokenizer_config.json`, `chat_template.jinja`, the end-of-sequence ids) is read once by
//! [`Tokenizer::from_dir`]; the result is cheap to clone and may be used from any thread.
//!
//! Flow of a prompt: `[ChatMessage]` -> [`Tokenizer::prompt_tokens`] -> token ids. Flow of an answer: token id ->
//! [`Detokenizer::push`] -> text -> [`ThinkingSplitter::push`] -> thinking and answer; of the answer,
//! [`StopMatcher::push`] -> text that may be shown.
//!
//! A model folder comes from strangers. Its template runs under a meter, panics of the libraries that read it become
//! errors, and the example `fuzz` looks for what gets past both.
//!
//! Terms. A *control token* is an added token that steers the model (turn markers, end of text). Text that a person
//! wrote never becomes one: see [`Tokenizer::prompt_tokens`] for how.

mod chat_template;
mod detokenizer;
mod error;
mod generation_defaults;
mod panics;
mod reasoning;
mod stop_matcher;
mod tokenizer;

pub use chat_template::{ChatMessage, ChatTemplate, Clock, RenderOptions, Role};
pub use detokenizer::Detokenizer;
pub use error::TextError;
pub use generation_defaults::GenerationDefaults;
pub use reasoning::{SplitText, ThinkingSplitter, ThinkingStage, ThinkingTags};
pub use stop_matcher::{StopMatcher, StopOutcome};
pub use tokenizer::{SpecialTokens, Tokenizer};

/// Index of a token in the model's vocabulary.
pub type TokenId = u32;
