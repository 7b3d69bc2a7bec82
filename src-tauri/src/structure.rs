//! Structured output, checked while it is typed: what is wrong with it, what of it is passed over, and where.

use engine::{GrammarCheck, ProblemSeverity, check_grammar, params::GrammarSource};
use protocol::{StructureCheck, StructureProblem, StructureSeverity, StructuredOutput};

use crate::{error::AppError, state::AppState};

/// Characters that are checked at most: far more than any schema, and still done in a moment.
const MAX_CHARS: usize = 200_000;

/// Checks `output`, against the vocabulary too if a model is loaded.
///
/// # Errors
/// [`AppError::TaskPanicked`].
pub async fn check(state: &AppState, output: StructuredOutput) -> Result<StructureCheck, AppError> {
    let running = state.engine.running();
    // A grammar of some size takes tens of milliseconds to compile.
    let work = tokio::task::spawn_blocking(move || {
        let source = source_of(output);
        if text_of(&source).chars().nth(MAX_CHARS).is_some() {
            return too_long();
        }
        on_the_wire(match &running {
            Some(running) => running.handle.check_grammar(&source),
            None => check_grammar(&source),
        })
    });
    work.await.map_err(|_| AppError::TaskPanicked)
}

fn source_of(output: StructuredOutput) -> GrammarSource {
    match output {
        StructuredOutput::JsonSchema { schema } => GrammarSource::JsonSchema(schema),
        StructuredOutput::Regex { pattern } => GrammarSource::Regex(pattern),
        StructuredOutput::Lark { grammar } => GrammarSource::Lark(grammar),
    }
}

fn text_of(source: &GrammarSource) -> &str {
    match source {
        GrammarSource::JsonSchema(text) | GrammarSource::Regex(text) | GrammarSource::Lark(text) => text,
    }
}

fn on_the_wire(check: GrammarCheck) -> StructureCheck {
    let severity = |severity| match severity {
        ProblemSeverity::Error => StructureSeverity::Error,
        ProblemSeverity::Ignored => StructureSeverity::Ignored,
    };
    let problems = check.problems.into_iter().map(|problem| StructureProblem {
        severity: severity(problem.severity),
        pointer: problem.pointer,
        line: problem.line,
        column: problem.column,
        message: problem.message,
    });
    StructureCheck { is_enforceable: check.is_enforceable, problems: problems.collect() }
}

fn too_long() -> StructureCheck {
    let problem = StructureProblem {
        severity: StructureSeverity::Error,
        pointer: None,
        line: None,
        column: None,
        message: format!("more than {MAX_CHARS} characters"),
    };
    StructureCheck { is_enforceable: false, problems: vec![problem] }
}
