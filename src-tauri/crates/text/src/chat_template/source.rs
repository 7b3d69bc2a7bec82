//! What is checked of a template's text before it is parsed.

use minijinja::{
    Environment,
    machinery::{Token, WhitespaceConfig, get_compiled_template, tokenize},
};

/// Longest template; those in use have 4 to 30 thousand bytes.
const MAX_SOURCE_BYTES: usize = 512 << 10;

/// Tokens within one tag: the parser and the code generator go one call deeper for each operator of a chain.
const MAX_TAG_TOKENS: usize = 2_000;

/// Branches in a row, for the same reason.
const MAX_BRANCHES: usize = 200;

/// Products of constants: the compiler works them out before anything is metered, up to 100 MB each.
const MAX_CONSTANT_PRODUCTS: usize = 4;

/// Why a template is not even parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong {
    /// Line in the template, from 1.
    pub(super) line: usize,
}

/// Refuses a template that could exhaust the stack.
pub(super) fn check(environment: &Environment<'_>, source: &str) -> Result<(), TooLong> {
    if source.len() > MAX_SOURCE_BYTES {
        return Err(TooLong { line: 1 });
    }
    let Ok(empty) = environment.template_from_str("") else { return Ok(()) };
    let syntax = get_compiled_template(&empty).syntax_config.clone();
    let (mut tag_tokens, mut branches, mut products) = (0, 0, 0);
    let (mut after_constant, mut in_product) = (false, false);
    for token in tokenize(source, false, syntax, WhitespaceConfig::default()) {
        // A source that cannot be cut into tokens is for the parser to refuse.
        let Ok((token, span)) = token else { return Ok(()) };
        match token {
            Token::TemplateData(_) | Token::VariableStart | Token::BlockStart => tag_tokens = 0,
            Token::Ident("elif") => branches += 1,
            Token::Ident("endif") => branches = 0,
            _ => {}
        }
        tag_tokens += 1;
        products += usize::from(in_product && begins_constant(&token));
        in_product = after_constant && matches!(token, Token::Mul);
        after_constant = ends_constant(&token);
        if tag_tokens > MAX_TAG_TOKENS || branches > MAX_BRANCHES || products > MAX_CONSTANT_PRODUCTS {
            return Err(TooLong { line: span.start_line.into() });
        }
    }
    Ok(())
}

fn begins_constant(token: &Token<'_>) -> bool {
    is_literal(token)
        || matches!(token, Token::ParenOpen | Token::BracketOpen | Token::BraceOpen | Token::Minus)
}

fn ends_constant(token: &Token<'_>) -> bool {
    is_literal(token) || matches!(token, Token::ParenClose | Token::BracketClose | Token::BraceClose)
}

fn is_literal(token: &Token<'_>) -> bool {
    matches!(token, Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Int128(_) | Token::Float(_))
}

/// Replaces `{% generation %}` blocks, which mark text for training only, by blocks that always render.
pub(super) fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(open) = rest.find("{%") {
        let (before, tag_on) = rest.split_at(open);
        out.push_str(before);
        let Some(close) = tag_on.find("%}") else {
            rest = tag_on;
            break;
        };
        let (tag, after) = tag_on.split_at(close + 2);
        let replacement = match tag.trim_matches(['{', '%', '}', '-', '+']).trim() {
            "generation" => Some("if true"),
            "endgeneration" => Some("endif"),
            _ => None,
        };
        match replacement {
            Some(word) => {
                out.push_str(&tag.replace("endgeneration", "generation").replace("generation", word))
            }
            None => out.push_str(tag),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}
