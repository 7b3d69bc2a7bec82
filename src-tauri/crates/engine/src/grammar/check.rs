//! Everything that is wrong with a grammar's source, for whoever writes it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::OnceLock,
};

use llguidance::{
    ParserFactory, TokenParser,
    api::{StopReason, TopLevelGrammar},
};
use serde_json::Value;

use super::{
    compile::{
        Fault, byte_factory, check_pattern, make, malformed_lark, parse_json, unsupported_pattern,
        with_options,
    },
    places::Place,
    schema,
};
use crate::{EngineError, error::panic_message, params::GrammarSource};

/// Most parts of a schema that the library refuses, found by taking out one after the other.
const MAX_REFUSALS: usize = 16;

/// What a check of a grammar's source found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrammarCheck {
    /// Whether answers can be held to it.
    pub is_enforceable: bool,
    /// In order of their place; those without one last.
    pub problems: Vec<GrammarProblem>,
}

/// How bad a [`GrammarProblem`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemSeverity {
    /// No answer can be held to the grammar until it is mended.
    Error,
    /// This part has no effect; the rest has.
    Ignored,
}

/// Something in a grammar's source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrammarProblem {
    /// How bad it is.
    pub severity: ProblemSeverity,
    /// JSON pointer into a schema, "" for all of it; `None` in other sources, and where the text is no JSON.
    pub pointer: Option<String>,
    /// Line in the text, from 1, if known.
    pub line: Option<u32>,
    /// Column in that line, in characters from 1, if known. Of a keyword, where its name begins.
    pub column: Option<u32>,
    /// What it is, in words.
    pub message: String,
}

/// Makes the library's parser of a grammar. The outer error is of the vocabulary, the inner one of the grammar.
type Parse<'a> = &'a dyn Fn(TopLevelGrammar) -> Result<Result<TokenParser, String>, EngineError>;

/// Looks for everything that is wrong with `source`, and for what of it has no effect, while there is no model.
/// [`crate::EngineHandle::check_grammar`] does so for a model's vocabulary, and knows its control tokens by name.
pub fn check_grammar(source: &GrammarSource) -> GrammarCheck {
    static FACTORY: OnceLock<Result<ParserFactory, String>> = OnceLock::new();
    let factory = FACTORY.get_or_init(byte_factory);
    check(source, &|grammar| match factory {
        Ok(factory) => Ok(make(factory, grammar)),
        Err(reason) => Err(EngineError::GrammarFailed { reason: reason.clone() }),
    })
}

pub(super) fn check(source: &GrammarSource, parse: Parse<'_>) -> GrammarCheck {
    let found = catch_unwind(AssertUnwindSafe(|| Findings::of(source, parse)));
    let mut findings = found.unwrap_or_else(|panic| {
        let mut findings = Findings::default();
        findings.add(ProblemSeverity::Error, unplaced(panic_message(panic.as_ref())));
        findings
    });
    let (GrammarSource::JsonSchema(text) | GrammarSource::Regex(text) | GrammarSource::Lark(text)) = source;
    findings.0.sort_by_key(|(_, fault)| fault.at.line_and_column(text).unwrap_or((usize::MAX, 0)));
    let is_enforceable = findings.0.iter().all(|(severity, _)| *severity != ProblemSeverity::Error);
    let problems = findings.0.into_iter().map(|(severity, fault)| problem(severity, fault, text)).collect();
    GrammarCheck { is_enforceable, problems }
}

fn problem(severity: ProblemSeverity, fault: Fault, text: &str) -> GrammarProblem {
    let place = fault.at.line_and_column(text);
    let count = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    GrammarProblem {
        severity,
        line: place.map(|(line, _)| count(line)),
        column: place.map(|(_, column)| count(column)),
        pointer: if let Place::Pointer(pointer) = fault.at { Some(pointer) } else { None },
        message: fault.reason,
    }
}

fn unplaced(reason: String) -> Fault {
    Fault { at: Place::Whole, reason }
}

#[derive(Default)]
struct Findings(Vec<(ProblemSeverity, Fault)>);

impl Findings {
    fn of(source: &GrammarSource, parse: Parse<'_>) -> Self {
        let mut findings = Self::default();
        let made = match source {
            GrammarSource::JsonSchema(text) => findings.look_at_schema(text, parse),
            GrammarSource::Regex(pattern) => match check_pattern(pattern) {
                Ok(()) => findings.parse(TopLevelGrammar::from_regex(pattern), parse, |reason| {
                    unsupported_pattern(pattern, &reason)
                }),
                Err(fault) => findings.refuse(fault),
            },
            GrammarSource::Lark(text) => {
                findings
                    .parse(TopLevelGrammar::from_lark(text.clone()), parse, |reason| malformed_lark(&reason))
            }
        };
        if let Some(parser) = made {
            findings.look_at_beginning(parser);
        }
        findings
    }

    fn add(&mut self, severity: ProblemSeverity, fault: Fault) {
        self.0.push((severity, fault));
    }

    fn refuse(&mut self, fault: Fault) -> Option<TokenParser> {
        self.add(ProblemSeverity::Error, fault);
        None
    }

    fn parse(
        &mut self,
        grammar: TopLevelGrammar,
        parse: Parse<'_>,
        fault: impl FnOnce(String) -> Fault,
    ) -> Option<TokenParser> {
        match parse(grammar) {
            Ok(Ok(parser)) => Some(parser),
            Ok(Err(reason)) => self.refuse(fault(reason)),
            Err(error) => self.refuse(unplaced(error.to_string())),
        }
    }

    /// Finds one fault after the other by taking out what is at fault.
    fn look_at_schema(&mut self, text: &str, parse: Parse<'_>) -> Option<TokenParser> {
        let mut schema = match parse_json(text) {
            Ok(schema) => schema,
            Err(fault) => return self.refuse(fault),
        };
        schema::ignored(&schema).into_iter().for_each(|fault| self.add(ProblemSeverity::Ignored, fault));
        if !schema.is_object() && !schema.is_boolean() {
            let at = Place::Pointer(String::new());
            return self.refuse(Fault { at, reason: "this is no schema".into() });
        }
        for fault in schema::faults(&schema) {
            schema::remove(&mut schema, &fault.at);
            self.refuse(fault);
        }
        let compile = |part: &Value| parse(with_options(part)).map_or(Ok(()), |made| made.map(|_| ()));
        for _ in 0..MAX_REFUSALS {
            let reason = match parse(with_options(&schema)) {
                Ok(Ok(parser)) => return Some(parser),
                Ok(Err(reason)) => reason,
                Err(error) => return self.refuse(unplaced(error.to_string())),
            };
            let fault = schema::blame(&schema, reason, &compile);
            let is_gone = schema::remove(&mut schema, &fault.at);
            self.refuse(fault);
            if !is_gone {
                break;
            }
        }
        None
    }

    /// Looks whether an answer can begin.
    fn look_at_beginning(&mut self, mut parser: TokenParser) {
        for warning in parser.grammar_warnings() {
            self.add(ProblemSeverity::Ignored, unplaced(warning));
        }
        parser.start_without_prompt();
        if !parser.is_accepting()
            && let Err(error) = parser.compute_mask()
        {
            let is_dead_end = parser.stop_reason() == StopReason::NoExtensionBias;
            let reason = if is_dead_end { "no answer can match this".into() } else { error.to_string() };
            self.refuse(unplaced(reason));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ProblemSeverity::{Error, Ignored};

    /// Severity, pointer, line and column of each problem.
    type Found = (ProblemSeverity, Option<String>, Option<(u32, u32)>);

    fn found(source: &GrammarSource) -> (bool, Vec<Found>) {
        let GrammarCheck { is_enforceable, problems } = check_grammar(source);
        assert!(problems.iter().all(|problem| !problem.message.is_empty()));
        let place = |problem: &GrammarProblem| Some((problem.line?, problem.column?));
        let found =
            problems.iter().map(|problem| (problem.severity, problem.pointer.clone(), place(problem)));
        (is_enforceable, found.collect())
    }

    fn at(severity: ProblemSeverity, pointer: &str, line: u32, column: u32) -> Found {
        (severity, Some(pointer.into()), Some((line, column)))
    }

    fn in_text(line: u32, column: u32) -> Found {
        (Error, None, Some((line, column)))
    }

    #[test]
    fn every_problem_of_a_schema_is_found_in_its_place() {
        let text = r#"{
  "type": "object",
  "titel": "Über",
  "properties": {
    "größe": { "type": "text", "uniqueItems": true },
    "list": { "type": "array", "minLenght": 1, "not": {}, "items": { "format": "regex" } },
    "text": { "type": "string", "pattern": "(?=a)b" }, "end": { "contentEncoding": "base64" }
  },
  "required": ["list"]
}"#;
        let (is_enforceable, problems) = found(&GrammarSource::JsonSchema(text.into()));
        assert!(!is_enforceable);
        assert_eq!(
            problems,
            [
                at(Ignored, "/titel", 3, 3),
                at(Error, "/properties/größe/type", 5, 16),
                at(Error, "/properties/größe/uniqueItems", 5, 32),
                at(Ignored, "/properties/list/minLenght", 6, 32),
                at(Error, "/properties/list/not", 6, 48),
                at(Error, "/properties/list/items/format", 6, 70),
                at(Error, "/properties/text/pattern", 7, 33),
                at(Ignored, "/properties/end/contentEncoding", 7, 65),
            ]
        );
    }

    #[test]
    fn a_schema_that_only_has_parts_without_effect_can_be_enforced() {
        let text = r#"{ "type": "integer", "minimun": 3, "title": "t", "default": 0, "$comment": "c" }"#;
        let (is_enforceable, problems) = found(&GrammarSource::JsonSchema(text.into()));
        assert_eq!((is_enforceable, problems), (true, vec![at(Ignored, "/minimun", 1, 22)]));
        let plain = r#"{ "enum": ["a", "b"] }"#;
        assert_eq!(found(&GrammarSource::JsonSchema(plain.into())), (true, Vec::new()));
    }

    #[test]
    fn what_is_wrong_with_a_schema_as_a_whole_is_told_at_its_beginning() {
        assert_eq!(found(&GrammarSource::JsonSchema(" false".into())), (false, vec![at(Error, "", 1, 2)]));
        assert_eq!(found(&GrammarSource::JsonSchema("[]".into())), (false, vec![at(Error, "", 1, 1)]));
    }

    #[test]
    fn text_that_does_not_parse_has_one_problem_and_its_line_and_column() {
        let schema = |text: &str| found(&GrammarSource::JsonSchema(text.into()));
        assert_eq!(schema("{\n  \"é\": }"), (false, vec![in_text(2, 8)]));
        assert_eq!(schema(""), (false, vec![in_text(1, 1)]));
        assert_eq!(found(&GrammarSource::Regex("a\né(b".into())), (false, vec![in_text(2, 2)]));
        assert_eq!(found(&GrammarSource::Regex("a\\b c".into())), (false, vec![in_text(1, 2)]));
        assert_eq!(found(&GrammarSource::Regex("[0-9]+".into())), (true, Vec::new()));
        let lark = |text: &str| found(&GrammarSource::Lark(text.into()));
        assert_eq!(lark("start: \"a\"\nb = 3"), (false, vec![in_text(2, 3)]));
        assert_eq!(lark("start: /[a-z]+/"), (true, Vec::new()));
    }
}
