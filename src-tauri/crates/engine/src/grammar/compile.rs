//! Grammars from their sources: JSON Schema, regular expression, Lark.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
};

use llguidance::{
    JsonCompileOptions, ParserFactory, TokenParser, api::TopLevelGrammar, earley::SlicedBiasComputer,
    toktrie::TokEnv,
};
use regex_syntax::ast::{self, Ast, Span, Visitor};
use serde_json::Value;
use text::Tokenizer;

use super::{Grammar, schema, vocabulary::Vocabulary};
use crate::{EngineError, error::panic_message, params::GrammarSource};

/// White space between the parts of a JSON text: none, a space, or a line break with its indentation. So an answer may
/// be laid out as models like to, and cannot spend its tokens on white space.
const JSON_WHITE_SPACE: &str = r" |\n {0,16}";

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

    fn compile_source(&self, source: &GrammarSource, vocab_width: u32) -> Result<Grammar, EngineError> {
        let parser = match source {
            GrammarSource::JsonSchema(text) => self.compile_schema(text)?,
            GrammarSource::Regex(pattern) => {
                check_pattern(pattern)?;
                let unsupported = |reason: String| refusal(&assertion_place(pattern), split_place(&reason).1);
                self.parser(TopLevelGrammar::from_regex(pattern))?.map_err(unsupported)?
            }
            GrammarSource::Lark(text) => {
                let malformed = |reason: String| {
                    let (at, reason) = split_place(&reason);
                    refusal(&at, reason)
                };
                self.parser(TopLevelGrammar::from_lark(text.clone()))?.map_err(malformed)?
            }
        };
        Grammar::new(parser, self.shared.tokenizer.clone(), vocab_width)
    }

    fn compile_schema(&self, text: &str) -> Result<TokenParser, EngineError> {
        let schema: Value = serde_json::from_str(text).map_err(|error| {
            refusal(&place(error.line(), error.column()), format!("this is no JSON: {error}"))
        })?;
        schema::check(&schema)?;
        self.parser(with_options(&schema))?.map_err(|reason| {
            let compiles = |part: &Value| matches!(self.parser(with_options(part)), Ok(Ok(_)));
            refusal(&schema::blame(&schema, compiles), reason)
        })
    }

    /// The outer error is of the vocabulary, the inner one of the grammar.
    fn parser(&self, grammar: TopLevelGrammar) -> Result<Result<TokenParser, String>, EngineError> {
        let factory = self.shared.factory.get_or_init(|| factory(&self.shared.tokenizer));
        let factory =
            factory.as_ref().map_err(|reason| EngineError::GrammarFailed { reason: reason.clone() })?;
        Ok(factory.create_parser(grammar).map_err(|error| first_line(&format!("{error:#}"))))
    }
}

fn factory(tokenizer: &Tokenizer) -> Result<ParserFactory, String> {
    let vocabulary = Vocabulary::new(tokenizer.clone());
    let capabilities = vocabulary.capabilities();
    let env: TokEnv = Arc::new(vocabulary);
    let mut factory = ParserFactory::new(&env, capabilities, &SlicedBiasComputer::general_slices())
        .map_err(|error| format!("{error:#}"))?;
    factory.quiet();
    // A grammar in an error message would be the user's own, at any length.
    factory.limits_mut().verbose_errors = false;
    Ok(factory)
}

fn with_options(schema: &Value) -> TopLevelGrammar {
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

fn check_pattern(pattern: &str) -> Result<(), EngineError> {
    let parsed = regex_syntax::ast::parse::Parser::new().parse(pattern);
    parsed.map(|_| ()).map_err(|error| {
        let start = error.span().start;
        refusal(&place(start.line, start.column), error.kind().to_string())
    })
}

/// Where a well-formed pattern looks around: the library follows assertions only where they hold of themselves, at
/// the ends. "" if it does so nowhere else.
fn assertion_place(pattern: &str) -> String {
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
    found.map_or(String::new(), |span| place(span.start.line, span.start.column))
}

/// Splits off the line and column that the library begins its messages about Lark with, as `3(5): ` or `at 3(5): `.
fn split_place(message: &str) -> (String, String) {
    let rest = message.strip_prefix("at ").unwrap_or(message);
    let parts = rest.split_once(": ").and_then(|(at, reason)| {
        let (line, column) = at.strip_suffix(')')?.split_once('(')?;
        Some((place(line.parse().ok()?, column.parse().ok()?), reason.to_string()))
    });
    parts.unwrap_or_else(|| (String::new(), message.to_string()))
}

fn place(line: usize, column: usize) -> String {
    format!("line {line}, column {column}")
}

fn refusal(at: &str, reason: String) -> EngineError {
    EngineError::Grammar { at: at.into(), reason }
}

/// The lines after the first repeat the source.
fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().to_string()
}
