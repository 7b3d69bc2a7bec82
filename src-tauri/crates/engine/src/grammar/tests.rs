use serde_json::{Value, json};
use text::Tokenizer;

use super::*;
use crate::{
    params::GrammarSource,
    testing::{END_OF_TEXT, END_OF_TURN, SpecialTags, VOCAB_TOKENS, byte_tokenizer, tag_token_tokenizer},
};

const VOCAB_WIDTH: u32 = 272;

fn grammars() -> Grammars {
    static TOKENIZER: std::sync::OnceLock<Tokenizer> = std::sync::OnceLock::new();
    let tokenizer = TOKENIZER.get_or_init(|| byte_tokenizer().expect("a temporary folder can be written"));
    Grammars::new(tokenizer.clone())
}

fn compile(source: &GrammarSource) -> Result<Grammar, EngineError> {
    grammars().compile(source, VOCAB_WIDTH)
}

fn schema(schema: &Value) -> GrammarSource {
    GrammarSource::JsonSchema(schema.to_string())
}

fn pattern(pattern: &str) -> GrammarSource {
    GrammarSource::Regex(pattern.into())
}

/// Follows `text` byte by byte; `None` where the grammar does not allow the next one.
fn say(grammar: &mut Grammar, text: &str) -> Option<Progress> {
    let mut progress = Progress::GoesOn;
    for byte in text.bytes() {
        let token = TokenId::from(byte);
        let is_allowed = grammar.forced().map_or_else(|| grammar.mask().allows(token), |only| only == token);
        if !is_allowed || progress == Progress::Complete {
            return None;
        }
        progress = grammar.follow(token).expect("the token is allowed");
        if progress != Progress::Complete && grammar.needs_preparing() {
            grammar.prepare().expect("bytes can follow");
        }
    }
    Some(progress)
}

fn refusal(source: &GrammarSource) -> (String, String) {
    match compile(source) {
        Err(EngineError::Grammar { at, reason }) => (at, reason),
        other => panic!("{source:?} is not refused: {other:?}"),
    }
}

#[test]
fn masks_never_show_padding_or_control_tokens_and_an_end_only_where_the_answer_matches() {
    let mut grammar = compile(&pattern("[ab]{1,2}")).expect("a plain pattern");
    let allowed = |grammar: &Grammar| allowed_tokens(grammar.mask()).collect::<Vec<_>>();
    assert_eq!(grammar.mask().words.len(), 9, "272 bits");
    assert_eq!(allowed(&grammar), [97, 98], "nothing matches yet");
    assert_eq!(say(&mut grammar, "a"), Some(Progress::GoesOn));
    assert_eq!(allowed(&grammar), [97, 98, END_OF_TURN, END_OF_TEXT], "every token that ends a turn");
    assert_eq!(
        say(&mut grammar, "b"),
        Some(Progress::Complete),
        "no step is wasted on an end that is certain"
    );
    for special in [SpecialTags::Yes, SpecialTags::No] {
        let tags = Grammars::new(tag_token_tokenizer(special).expect("a temporary folder can be written"));
        let any = tags.compile(&pattern("(?s:.)+"), VOCAB_WIDTH).expect("any text");
        assert!(allowed(&any).iter().all(|token| *token < END_OF_TURN), "no tag of thinking either");
    }
}

#[test]
fn a_mask_fits_logits_of_any_width() {
    for width in [64, 97, VOCAB_TOKENS, 272, 300] {
        let grammar = grammars().compile(&pattern("[ -z]+"), width).expect("a plain pattern");
        assert_eq!(grammar.mask().words.len(), (width as usize).div_ceil(32));
        assert!(allowed_tokens(grammar.mask()).all(|token| token < width.min(VOCAB_TOKENS)));
    }
}

#[test]
fn json_is_followed_with_little_white_space() {
    let pair = schema(&json!({
        "type": "object", "properties": { "n": { "type": "integer" }, "s": { "enum": ["x", "yy"] } },
        "required": ["n", "s"], "additionalProperties": false
    }));
    for text in ["{\"n\":-12,\"s\":\"yy\"}", "{\"n\": 3, \"s\": \"x\"}", "{\n  \"n\": 0,\n  \"s\": \"x\"\n}"]
    {
        assert_eq!(say(&mut compile(&pair).expect("enforced"), text), Some(Progress::Complete), "{text}");
    }
    for text in ["{\"n\":\"a\"", "{ \"s\"", "{  ", "{\n                 ", "{\"n\":1}", " {"] {
        assert_eq!(say(&mut compile(&pair).expect("enforced"), text), None, "{text}");
    }
}

#[test]
fn what_a_grammar_leaves_no_choice_about_is_forced() {
    let mut grammar = compile(&schema(&json!({ "const": { "key": true } }))).expect("enforced");
    let mut forced = 0;
    for byte in "{\"key\":true}".bytes() {
        forced += usize::from(grammar.forced() == Some(byte.into()));
        assert!(say(&mut grammar, &char::from(byte).to_string()).is_some());
    }
    assert!(forced >= "key\"".len() + "rue".len(), "{forced} of 12 bytes; white space leaves a choice");
}

#[test]
fn a_token_that_is_not_allowed_and_a_grammar_without_a_next_token_are_the_rows_errors() {
    let mut grammar = compile(&pattern("[ab]+")).expect("a plain pattern");
    assert!(matches!(grammar.follow(TokenId::from(b'x')), Err(EngineError::GrammarFailed { .. })));
    let turns = GrammarSource::Lark("start: /[ab]/ <|im_start|>".into());
    let mut grammar = compile(&turns).expect("it begins with text");
    assert_eq!(grammar.follow(TokenId::from(b'a')).expect("allowed"), Progress::GoesOn);
    assert!(matches!(grammar.prepare(), Err(EngineError::GrammarDeadEnd)), "control tokens are no text");
}

#[test]
fn what_a_schema_cannot_have_enforced_is_refused_by_its_pointer() {
    let of = |name: &str, part: Value| json!({ "type": "object", "properties": { name: part } });
    let cases = [
        (json!({ "not": { "type": "string" } }), "/not"),
        (of("a/b~", json!({ "type": "array", "uniqueItems": true })), "/properties/a~1b~0/uniqueItems"),
        (json!({ "$defs": { "x": { "if": {} } }, "$ref": "#/$defs/x" }), "/$defs/x/if"),
        (json!({ "anyOf": [{}, { "items": { "format": "regex" } }] }), "/anyOf/1/items/format"),
        (json!({ "x-guidance": { "lenient": true } }), "/x-guidance"),
        (of("p", json!({ "type": "string", "pattern": "(?=a)b" })), "/properties/p/pattern"),
        (of("o", json!({ "oneOf": [{ "minimum": 1 }, { "maximum": 3 }] })), "/properties/o/oneOf"),
        (of("r", json!({ "$ref": "#/$defs/none" })), "/properties/r/$ref"),
        (of("t", json!({ "type": "text" })), "/properties/t/type"),
        (json!({ "type": "string", "minLength": 5, "maxLength": 3 }), "/minLength"),
        (json!({ "enum": [] }), "/enum"),
        (json!(false), ""),
        (json!({ "items": 3 }), "/items"),
        (json!({ "type": "object", "properties": [] }), "/properties"),
    ];
    for (unenforced, at) in cases {
        let (found, reason) = refusal(&schema(&unenforced));
        assert_eq!(found, at, "{unenforced}: {reason}");
        assert!(!reason.is_empty());
    }
    let inert = json!({ "type": "integer", "format": "int32", "default": 0, "title": "t", "examples": [{ "not": 1 }] });
    assert!(compile(&schema(&inert)).is_ok(), "what restricts nothing is no reason");
}

#[test]
fn malformed_sources_are_refused_with_their_place() {
    let at = |source| refusal(&source).0;
    assert_eq!(at(GrammarSource::JsonSchema("{\n  \"type\": }".into())), "line 2, column 11");
    assert_eq!(at(pattern("ab(c")), "line 1, column 3");
    assert_eq!(at(pattern("[z-a]")), "line 1, column 2");
    assert_eq!(at(GrammarSource::Lark("start: \"a\"\nb = 3".into())), "line 2, column 3");
    assert_eq!(at(GrammarSource::Lark("start: missing".into())), "line 1, column 8");
}

#[test]
fn an_answer_that_could_leave_a_run_and_does_not_has_stalled() {
    let mut list =
        compile(&schema(&json!({ "type": "array", "items": { "type": "integer" } }))).expect("enforced");
    assert_eq!(say(&mut list, &format!("[{}", "1".repeat(48))), Some(Progress::GoesOn));
    assert_eq!(list.follow(TokenId::from(b'1')).expect("allowed"), Progress::Stalled, "the 49th digit");
    let mut digits = compile(&pattern("[0-9]{200}")).expect("a plain pattern");
    let number: String = (0..200).map(|i: u32| char::from(b'0' + (i * i % 11 % 10) as u8)).collect();
    assert_eq!(say(&mut digits, &number), Some(Progress::Complete), "nothing but digits is allowed");
}

/// The starter model's tokenizer: tokens of several bytes, as grammars meet them in use. Absent outside `xtask test`.
fn starter_tokenizer() -> Option<Tokenizer> {
    let dir = std::env::var_os("BRAID_STARTER_MODEL")?;
    Some(Tokenizer::from_dir(dir.as_ref()).expect("the starter model has a tokenizer"))
}

#[test]
fn tokens_of_several_bytes_spell_what_a_schema_allows() {
    let Some(tokenizer) = starter_tokenizer() else { return };
    let grammars = Grammars::new(tokenizer.clone());
    let person = schema(&json!({
        "type": "object", "additionalProperties": false, "required": ["name", "age"],
        "properties": { "name": { "type": "string" }, "age": { "type": "integer" } }
    }));
    let mut grammar = grammars.compile(&person, 49_152).expect("enforced");
    let text = "{\"name\": \"Ada 日本 \\u0007 \\\"x\\\"\", \"age\": 36}";
    let ids = tokenizer.encode(text, text::SpecialTokens::AsText).expect("any text");
    let mut said = Vec::new();
    let mut progress = Progress::GoesOn;
    while progress != Progress::Complete {
        // Where nothing is forced, the model says the longest token of the text that is allowed.
        let rest = &text.as_bytes()[said.len()..];
        let fits = |id: &TokenId| {
            !tokenizer.token_bytes(*id).is_empty() && rest.starts_with(&tokenizer.token_bytes(*id))
        };
        let next = grammar.forced().filter(fits).or_else(|| {
            assert_eq!(grammar.forced(), None, "what is forced is what the text says");
            ids.iter()
                .copied()
                .chain(allowed_tokens(grammar.mask()))
                .filter(fits)
                .filter(|id| grammar.mask().allows(*id))
                .max_by_key(|id| tokenizer.token_bytes(*id).len())
        });
        let next = next.unwrap_or_else(|| panic!("nothing goes on after {}", String::from_utf8_lossy(&said)));
        said.extend(tokenizer.token_bytes(next));
        progress = grammar.follow(next).expect("the token is allowed");
        if progress != Progress::Complete && grammar.needs_preparing() {
            grammar.prepare().expect("more can follow");
        }
    }
    assert_eq!(String::from_utf8_lossy(&said), text);
}

#[test]
fn a_pattern_may_be_anchored_at_its_ends_only() {
    for anchored in ["^[0-9]{2}$", "\\A[0-9]{2}\\z", "^1|[0-9]2$"] {
        let mut grammar = compile(&pattern(anchored)).expect("ends are where the answer ends");
        assert_eq!(say(&mut grammar, "12"), Some(Progress::Complete), "{anchored}");
    }
    assert_eq!(refusal(&pattern(r"(ab)\b c")).0, "line 1, column 5");
    assert_eq!(refusal(&pattern("^a\nb$c$")).0, "line 2, column 2");
}
