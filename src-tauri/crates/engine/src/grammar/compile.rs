//! Grammars from their sources: JSON Schema, regular expression, Lark.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
};

use llguidance::{
    JsonCompileOptions, ParserFactory, TokenParser,
    api::TopLevelGrammar,
    earley::SlicedBiasComputer,
    toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv},
};
use regex_syntax::ast::{self, Ast, Span, Visitor};
use serde_json::Value;
use text::Tokenizer;

use super::{
    Grammar,
    check::{self, GrammarCheck},
    places::Place,
    schema,
    vocabulary::Vocabulary,
};
use crate::{EngineError, error::panic_message, params::GrammarSource};

/// White space between the parts of a JSON text: none, a space, or a line break with its indentation. So an answer may
/// be laid out as models like to, and cannot spend its tokens on white space.
const JSON_WHITE_SPACE: &str = r" |\n {0,16}";

/// What is wrong with a grammar's source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) at: Place,
    pub(super) reason: String,
}

impl From<Fault> for EngineError {
    fn from(fault: Fault) -> Self {
        Self::Grammar { at: fault.at.to_string(), reason: fault.reason }
    }
}

/// Compiles grammars for one vocabulary. Clones share what is built on the first use.
#[derive(Clone)]
pub(crate) struct Grammars {
    shared: Arc<Shared>,
}

struct Shared {
    tokenizer: Tokenizer,
    factory: OnceLock<Result<ParserFactory, String>>,
}

impl std::fmt::Debug for Grammars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grammars").field("tokenizer", &self.shared.tokenizer).finish_non_exhaustive()
    }
}

impl Grammars {
    pub(crate) fn new(tokenizer: Tokenizer) -> Self {
        Self { shared: Arc::new(Shared { tokenizer, factory: OnceLock::new() }) }
    }

    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        &self.shared.tokenizer
    }

    /// Compiles `source` and works out how an answer may begin. `vocab_width`: width of the logits.
    ///
    /// # Errors
    /// [`EngineError::Grammar`] with the place if the source is malformed or asks for what cannot be enforced;
    /// [`EngineError::GrammarDeadEnd`] if no answer can begin; [`EngineError::GrammarFailed`] if the vocabulary
    /// does not fit the library, or the library panics.
    pub(crate) fn compile(&self, source: &GrammarSource, vocab_width: u32) -> Result<Grammar, EngineError> {
        let compiled = catch_unwind(AssertUnwindSafe(|| self.compile_source(source, vocab_width)));
        compiled
            .unwrap_or_else(|panic| Err(EngineError::GrammarFailed { reason: panic_message(panic.as_ref()) }))
    }

    /// Looks for everything that is wrong with `source`, and for what of it has no effect.
    pub(crate) fn check(&self, source: &GrammarSource) -> GrammarCheck {
        check::check(source, &|grammar| self.parser(grammar))
    }

    fn compile_source(&self, source: &GrammarSource, vocab_width: u32) -> Result<Grammar, EngineError> {
        let parser = match source {
            GrammarSource::JsonSchema(text) => self.compile_schema(text)?,
            GrammarSource::Regex(pattern) => {
                check_pattern(pattern)?;
                let unsupported = |reason: String| unsupported_pattern(pattern, &reason);
                self.parser(TopLevelGrammar::from_regex(pattern))?.map_err(unsupported)?
            }
            GrammarSource::Lark(text) => {
                let malformed = |reason: String| malformed_lark(&reason);
                self.parser(TopLevelGrammar::from_lark(text.clone()))?.map_err(malformed)?
            }
        };
        Grammar::new(parser, self.shared.tokenizer.clone(), vocab_width)
    }

    fn compile_schema(&self, text: &str) -> Result<TokenParser, EngineError> {
        let schema = parse_json(text)?;
        schema::check(&schema)?;
        self.parser(with_options(&schema))?.map_err(|reason| {
            let compile =
                |part: &Value| self.parser(with_options(part)).map_or(Ok(()), |made| made.map(|_| ()));
            schema::blame(&schema, reason, &compile).into()
        })
    }

    /// The outer error is of the vocabulary, the inner one of the grammar.
    fn parser(&self, grammar: TopLevelGrammar) -> Result<Result<TokenParser, String>, EngineError> {
        let factory = self.shared.factory.get_or_init(|| factory(&self.shared.tokenizer));
        let factory =
            factory.as_ref().map_err(|reason| EngineError::GrammarFailed { reason: reason.clone() })?;
        Ok(make(factory, grammar))
    }
}

fn factory(tokenizer: &Tokenizer) -> Result<ParserFactory, String> {
    let vocabulary = Vocabulary::new(tokenizer.clone());
    let capabilities = vocabulary.capabilities();
    factory_of(Arc::new(vocabulary), capabilities)
}

/// The library with a vocabulary of bytes, no token of which has a name.
pub(super) fn byte_factory() -> Result<ParserFactory, String> {
    factory_of(ApproximateTokEnv::single_byte_env(), InferenceCapabilities::default())
}

fn factory_of(env: TokEnv, capabilities: InferenceCapabilities) -> Result<ParserFactory, String> {
    let mut factory = ParserFactory::new(&env, capabilities, &SlicedBiasComputer::general_slices())
        .map_err(|error| format!("{error:#}"))?;
    factory.quiet();
    // A grammar in an error message would be the user's own, at any length.
    factory.limits_mut().verbose_errors = false;
    Ok(factory)
}

pub(super) fn make(factory: &ParserFactory, grammar: TopLevelGrammar) -> Result<TokenParser, String> {
    factory.create_parser(grammar).map_err(|error| first_line(&format!("{error:#}")))
}

pub(super) fn with_options(schema: &Value) -> TopLevelGrammar {
    let options = JsonCompileOptions {
        whitespace_pattern: Some(JSON_WHITE_SPACE.into()),
        ..JsonCompileOptions::default()
    };
    let mut schema = schema.clone();
    if schema.is_object() {
        options.apply_to(&mut schema);
    }
    TopLevelGrammar::from_json_schema(schema)
}

/// # Errors
/// [`Fault`] with the place, if the text is no JSON.
pub(super) fn parse_json(text: &str) -> Result<Value, Fault> {
    serde_json::from_str(text).map_err(|error| {
        let at = Place::of_bytes(text, error.line(), error.column());
        // The place is told apart.
        let reason = error.to_string();
        let reason = reason.rsplit_once(" at line ").map_or(reason.as_str(), |(reason, _)| reason);
        Fault { at, reason: format!("this is no JSON: {reason}") }
    })
}

/// # Errors
/// [`Fault`] with the place, if the pattern is malformed.
pub(super) fn check_pattern(pattern: &str) -> Result<(), Fault> {
    let parsed = regex_syntax::ast::parse::Parser::new().parse(pattern);
    parsed.map(|_| ()).map_err(|error| {
        let start = error.span().start;
        let at = Place::Text { line: start.line, column: start.column };
        Fault { at, reason: error.kind().to_string() }
    })
}

/// What the library said of a well-formed pattern.
pub(super) fn unsupported_pattern(pattern: &str, message: &str) -> Fault {
    Fault { at: assertion_place(pattern), reason: split_place(message).1 }
}

/// What the library said of a grammar in Lark's notation.
pub(super) fn malformed_lark(message: &str) -> Fault {
    let (at, reason) = split_place(message);
    Fault { at, reason }
}

/// Where a well-formed pattern looks around: the library follows assertions only where they hold of themselves, at
/// the ends.
fn assertion_place(pattern: &str) -> Place {
    struct Found(Option<Span>);
    impl Visitor for Found {
        type Output = Option<Span>;
        type Err = std::convert::Infallible;

        fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
            if let Ast::Assertion(assertion) = ast
                && assertion.span.start.offset > 0
                && self.0.is_none()
            {
                self.0 = Some(assertion.span);
            }
            Ok(())
        }

        fn finish(self) -> Result<Option<Span>, Self::Err> {
            Ok(self.0)
        }
    }
    let parsed = regex_syntax::ast::parse::Parser::new().parse(pattern).ok();
    let found = parsed.and_then(|ast| ast::visit(&ast, Found(None)).ok().flatten());
    found.map_or(Place::Whole, |span| Place::Text { line: span.start.line, column: span.start.column })
}

/// Splits off the line and column that the library begins its messages about Lark with, as `3(5): ` or `at 3(5): `.
fn split_place(message: &str) -> (Place, String) {
    let rest = message.strip_prefix("at ").unwrap_or(message);
    let parts = rest.split_once(": ").and_then(|(at, reason)| {
        let (line, column) = at.strip_suffix(')')?.split_once('(')?;
        let at = Place::Text { line: line.parse().ok()?, column: column.parse().ok()? };
        Some((at, reason.to_string()))
    });
    parts.unwrap_or_else(|| (Place::Whole, message.to_string()))
}

/// The lines after the first repeat the source.
fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().to_string()
}
