//! Answers that have to match, beside answers that need not.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::{Answer as Told, Bench, expected_text, params, request};
use engine::{
    EngineError, FinishReason, GateMode, Reason, SamplingPath,
    params::{GrammarSource, SamplingParams},
    sampling::noise::token_hash,
    testing::{Answer, FakeRow, Script},
};

fn matching(schema: &Value, seed: u64) -> SamplingParams {
    SamplingParams {
        grammar: Some(GrammarSource::JsonSchema(schema.to_string())),
        seed: Some(seed),
        max_tokens: 400,
        ..params()
    }
}

/// Any byte at any place, from the whole history; what closes something is likelier, so that answers end.
fn babble() -> Script {
    let logits = |row: &FakeRow| {
        let history = row.tokens.iter().fold(0, |hash, token| token_hash(hash, *token));
        let mut logits: Vec<f32> = (0..272).map(|id| (token_hash(history, id) >> 24) as f32 / 64.0).collect();
        for (closing, bonus) in [(b'"', 5.0), (b'}', 3.0), (b']', 3.0), (b',', 1.0)] {
            logits[usize::from(closing)] += bonus;
        }
        logits
    };
    Script { answer: Answer::Custom(Arc::new(logits)), ..Script::default() }
}

fn schemas() -> [Value; 6] {
    [
        json!({
            "type": "object", "additionalProperties": false, "required": ["name", "age", "tags"],
            "properties": {
                "name": { "type": "string", "maxLength": 20 },
                "age": { "type": "integer", "minimum": 0, "maximum": 120 },
                "tags": { "type": "array", "items": { "enum": ["a", "b", "c"] }, "maxItems": 4 }
            }
        }),
        json!({ "type": "array", "minItems": 2, "maxItems": 3, "items": { "type": "boolean" } }),
        json!({ "anyOf": [{ "type": "null" }, { "type": "string", "minLength": 1, "maxLength": 5 }] }),
        json!({ "enum": ["rot", "grün", 3, null] }),
        json!({
            "type": "object", "additionalProperties": false, "required": ["at"],
            "properties": { "at": { "$ref": "#/$defs/point" }, "next": { "$ref": "#/$defs/point" } },
            "$defs": { "point": {
                "type": "object", "additionalProperties": false, "required": ["x", "y"],
                "properties": { "x": { "type": "integer", "minimum": -9, "maximum": 9 }, "y": { "const": 1 } }
            } }
        }),
        json!({ "const": { "ok": [true, "\n"] } }),
    ]
}

/// Whether `value` is valid, by the keywords of [`schemas`].
fn is_valid(value: &Value, schema: &Value, root: &Value) -> bool {
    let keywords = schema.as_object().unwrap();
    keywords.iter().all(|(keyword, limit)| match (keyword.as_str(), value) {
        ("type", _) => match limit.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "integer" => value.is_i64(),
            "boolean" => value.is_boolean(),
            "null" => value.is_null(),
            other => panic!("type {other}"),
        },
        ("enum", _) => limit.as_array().unwrap().contains(value),
        ("const", _) => limit == value,
        ("anyOf", _) => limit.as_array().unwrap().iter().any(|schema| is_valid(value, schema, root)),
        ("$ref", _) => is_valid(value, root.pointer(&limit.as_str().unwrap()[1..]).unwrap(), root),
        ("required", Value::Object(map)) => {
            limit.as_array().unwrap().iter().all(|name| map.contains_key(name.as_str().unwrap()))
        }
        ("properties", Value::Object(map)) => {
            map.iter().all(|(name, value)| limit.get(name).is_some_and(|part| is_valid(value, part, root)))
        }
        ("items", Value::Array(list)) => list.iter().all(|value| is_valid(value, limit, root)),
        ("minItems", Value::Array(list)) => list.len() as u64 >= limit.as_u64().unwrap(),
        ("maxItems", Value::Array(list)) => list.len() as u64 <= limit.as_u64().unwrap(),
        ("minLength", Value::String(text)) => text.chars().count() as u64 >= limit.as_u64().unwrap(),
        ("maxLength", Value::String(text)) => text.chars().count() as u64 <= limit.as_u64().unwrap(),
        ("minimum", Value::Number(number)) => number.as_i64() >= limit.as_i64(),
        ("maximum", Value::Number(number)) => number.as_i64() <= limit.as_i64(),
        ("additionalProperties" | "$defs", _) => true,
        ("required" | "properties" | "items" | "minItems" | "maxItems", _) => false,
        ("minLength" | "maxLength" | "minimum" | "maximum", _) => false,
        other => panic!("keyword {other:?}"),
    })
}

fn plain(seed: u64) -> SamplingParams {
    SamplingParams { seed: Some(seed), max_tokens: 60, ..params() }
}

fn alone(prompt: &str, params: SamplingParams) -> (String, FinishReason) {
    let mut bench = Bench::new(babble());
    let mut answer = bench.submit(prompt, params);
    bench.run();
    let reason = answer.finished().0;
    (answer.text, reason)
}

#[test]
fn every_answer_under_a_schema_is_valid_and_no_neighbour_changes_a_token() {
    let mut finished = 0;
    for (which, schema) in schemas().iter().enumerate() {
        for rows in [1, 2, 3, 4, 8] {
            let mode = [GateMode::Strict, GateMode::Split, GateMode::Folded][(which + rows) % 3];
            let mut bench = Bench::new(babble());
            bench.engine.set_gate_mode(mode);
            let params = |row: usize| match row % 2 {
                0 => matching(schema, (which * 100 + row) as u64),
                _ => plain(row as u64),
            };
            let prompt = |row: usize| format!("{row} of the batch");
            let answers: Vec<Told> = (0..rows).map(|row| bench.submit(&prompt(row), params(row))).collect();
            bench.run();
            for (row, mut answer) in answers.into_iter().enumerate() {
                let reason = answer.finished().0;
                if rows == 8 || rows == 3 {
                    let solo = alone(&prompt(row), params(row));
                    assert_eq!(
                        (answer.text.as_str(), reason),
                        (solo.0.as_str(), solo.1),
                        "{mode:?}, row {row}"
                    );
                }
                if row % 2 == 0 && reason == FinishReason::EndOfTurn {
                    let value: Value = serde_json::from_str(&answer.text).unwrap();
                    assert!(is_valid(&value, schema, schema), "{} under {schema}", answer.text);
                    finished += 1;
                } else if row % 2 == 0 {
                    assert_eq!(reason, FinishReason::Incomplete, "{}", answer.text);
                }
            }
        }
    }
    assert!(finished >= 50, "only {finished} of 66 answers came to an end");
}

#[test]
fn a_mask_is_its_rows_own_and_goes_with_it() {
    let script = Script { answer: Answer::Hashed { eos_one_in: 0 }, ..Script::default() };
    for mode in [GateMode::Strict, GateMode::Split, GateMode::Folded] {
        let mut bench = Bench::new(script.clone());
        bench.engine.set_gate_mode(mode);
        let digits = GrammarSource::Regex("[0-9]{6}".into());
        let masked = SamplingParams { grammar: Some(digits), ..plain(3) };
        let mut first = bench.submit("first", SamplingParams { max_tokens: 3, ..plain(1) });
        let mut row = bench.submit("masked", masked);
        let mut last = bench.submit("last", plain(2));
        bench.run();
        assert_eq!(row.finished().0, FinishReason::EndOfTurn, "six digits need no end");
        assert!(row.text.len() == 6 && row.text.bytes().all(|byte| byte.is_ascii_digit()), "{}", row.text);
        for (answer, prompt, seed, max_tokens) in [(&mut first, "first", 1, 3), (&mut last, "last", 2, 60)] {
            let params = SamplingParams { max_tokens, ..plain(seed) };
            assert_eq!(answer.read().text, expected_text(&script, prompt, &params), "{mode:?}");
        }
        let (paths, expected) = (row.paths(), (mode == GateMode::Folded).then_some(SamplingPath::Fused));
        assert_eq!(paths[0].path, expected.unwrap_or(SamplingPath::PerRow));
        assert!(paths[0].reasons.contains(&Reason::StructuredMask), "{paths:?}");
        let settled = last.paths().pop().unwrap();
        assert_eq!((settled.path, settled.caused_by), (SamplingPath::Fused, None), "nothing sticks");
    }
}

#[test]
fn an_answer_that_ends_before_it_matches_is_incomplete_and_keeps_its_text() {
    let speak = |text: &str, params: SamplingParams| {
        let mut bench = Bench::new(Script { answer: Answer::spoken(text), ..Script::default() });
        let mut answer = bench.submit("say it", params);
        bench.run();
        let reason = answer.finished().0;
        (answer.text, reason)
    };
    let list = json!({ "type": "array", "items": { "type": "integer" } });
    let tokens = |max_tokens| SamplingParams { max_tokens, temperature: 0.0, ..matching(&list, 1) };
    assert_eq!(speak("[1, 2]", tokens(4)), ("[1, ".into(), FinishReason::Incomplete));
    assert_eq!(speak("[1, 2]", tokens(40)), ("[1, 2]".into(), FinishReason::EndOfTurn));
    let open = SamplingParams { grammar: Some(GrammarSource::Regex("[a-z]+".into())), ..tokens(4) };
    assert_eq!(
        speak("abcdef", open.clone()),
        ("abcd".into(), FinishReason::MaxTokens),
        "it matches all along"
    );
    let stop = SamplingParams { stop: vec!["c".into()], ..open };
    assert_eq!(speak("abcdef", stop), ("ab".into(), FinishReason::Incomplete), "the match was cut");
    let (text, reason) = speak(&format!("[{}", "7".repeat(300)), tokens(300));
    assert_eq!((text.len(), reason), (50, FinishReason::Incomplete), "digits without end: {text}");
}

#[test]
fn a_grammar_without_a_next_token_ends_its_row_alone() {
    let mut bench = Bench::new(Script { answer: Answer::Hashed { eos_one_in: 0 }, ..Script::default() });
    let dead_end = GrammarSource::Lark("start: /[a-z]{3}/ <|im_start|>".into());
    let mut answers: Vec<Told> = (0..4)
        .map(|row| {
            let grammar = (row == 2).then(|| dead_end.clone());
            bench.submit(&format!("row {row}"), SamplingParams { grammar, ..plain(row) })
        })
        .collect();
    bench.run();
    assert!(matches!(answers[2].failed(), EngineError::GrammarDeadEnd));
    assert_eq!(answers[2].text.len(), 3, "its text stays");
    for row in [0, 1, 3] {
        assert_eq!(answers[row].finished().0, FinishReason::MaxTokens);
        let script = Script { answer: Answer::Hashed { eos_one_in: 0 }, ..Script::default() };
        assert_eq!(answers[row].text, expected_text(&script, &format!("row {row}"), &plain(row as u64)));
    }
}

#[test]
fn a_grammar_that_cannot_be_used_is_refused_before_the_queue() {
    let mut bench = Bench::new(babble());
    let unenforced = matching(&json!({ "uniqueItems": true }), 1).validate().unwrap();
    let refused = bench.engine.submit(request("p", unenforced, &bench.clock)).unwrap_err();
    assert!(matches!(refused, EngineError::Grammar { at, .. } if at == "/uniqueItems"));
    assert!(bench.engine.is_idle());
}
