//! Structured rows beside plain ones, on the real model, in every gate mode.

use crate::support::{Chat, MODES, PROMPTS};
use engine::{
    FinishReason,
    params::{GrammarSource, SamplingParams},
};

const SCHEMAS: [(&str, &str); 6] = [
    (
        "Describe a person as JSON with name and age.",
        r#"{"type":"object","properties":{"name":{"type":"string","maxLength":20},"age":{"type":"integer","minimum":0,"maximum":120}},"required":["name","age"],"additionalProperties":false}"#,
    ),
    (
        "Name three colours as a JSON array.",
        r#"{"type":"array","items":{"enum":["red","green","blue","yellow"]},"minItems":3,"maxItems":3}"#,
    ),
    (
        "Is water wet? Answer as JSON.",
        r#"{"type":"object","properties":{"answer":{"type":"boolean"},"reason":{"type":"string","maxLength":30}},"required":["answer","reason"],"additionalProperties":false}"#,
    ),
    (
        "Give a point in the plane as JSON.",
        r#"{"type":"object","properties":{"x":{"type":"number"},"y":{"type":"number"}},"required":["x","y"],"additionalProperties":false}"#,
    ),
    (
        "Rate this film from 1 to 5, as JSON.",
        r#"{"type":"object","properties":{"stars":{"type":"integer","enum":[1,2,3,4,5]},"note":{"anyOf":[{"type":"null"},{"type":"string","maxLength":16}]}},"required":["stars","note"],"additionalProperties":false}"#,
    ),
    (
        "Write a date as JSON.",
        r#"{"type":"object","properties":{"date":{"type":"string","pattern":"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}},"required":["date"],"additionalProperties":false}"#,
    ),
];

#[test]
fn every_finished_structured_answer_is_valid_whatever_runs_beside_it() {
    let mut chat = Chat::load();
    let (mut finished, mut incomplete) = (0, 0);
    for (round, rows) in [1_usize, 2, 3, 4, 8, 1, 8].into_iter().enumerate() {
        chat.engine.set_gate_mode(MODES[round % MODES.len()]);
        let structured = rows.div_ceil(2);
        let mut answers = Vec::new();
        for row in 0..structured {
            let (question, schema) = SCHEMAS[(round + row) % SCHEMAS.len()];
            let params = SamplingParams {
                temperature: 0.8,
                seed: Some((round * 16 + row) as u64),
                max_tokens: 80,
                grammar: Some(GrammarSource::JsonSchema(schema.into())),
                ..SamplingParams::default()
            };
            answers.push((chat.ask(question, params), Some(schema)));
        }
        for (row, question) in PROMPTS.iter().enumerate().take(rows).skip(structured) {
            let params = SamplingParams {
                temperature: 0.8,
                seed: Some(row as u64),
                max_tokens: 40,
                ..SamplingParams::default()
            };
            answers.push((chat.ask(question, params), None));
        }
        chat.run();
        for (answer, schema) in &mut answers {
            let reason = answer.finished();
            let Some(schema) = schema else { continue };
            match reason {
                FinishReason::EndOfTurn => {
                    finished += 1;
                    let value = serde_json::from_str(&answer.text).expect("a finished answer parses");
                    let schema = serde_json::from_str(schema).unwrap();
                    let validator = jsonschema::validator_for(&schema).unwrap();
                    assert!(validator.is_valid(&value), "{} does not match {schema}", answer.text);
                }
                FinishReason::Incomplete => incomplete += 1,
                other => panic!("a structured answer ended with {other:?}: {}", answer.text),
            }
        }
    }
    println!("{finished} structured answers finished and validate, {incomplete} ended incomplete");
    assert!(finished > incomplete, "most answers finish");
}
