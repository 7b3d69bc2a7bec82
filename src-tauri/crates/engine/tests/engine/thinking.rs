//! Thinking before the answer, and what may cut it short.

use crate::support::{Answer as Told, Bench, params};
use engine::{
    EngineConfig, EngineEvent, FinishReason, GateMode, Reason, TextPart,
    params::{GrammarSource, SamplingParams},
    testing::{Answer, Script, thinking_tokenizer},
};

const OPENED: &str = "why?<think>\n";

fn bench(says: &str) -> Bench {
    let script = Script { answer: Answer::spoken(says), ..Script::default() };
    Bench::with_config(script, EngineConfig::new(thinking_tokenizer().unwrap()))
}

fn roomy() -> SamplingParams {
    SamplingParams { max_tokens: 200, temperature: 0.0, ..params() }
}

/// Thinking and answer, joined from the events.
fn parts(answer: &mut Told) -> (String, String) {
    let (mut thinking, mut said) = (String::new(), String::new());
    for event in &answer.read().events {
        match event {
            EngineEvent::Text { part: TextPart::Thinking, delta, .. } => thinking.push_str(delta),
            EngineEvent::Text { part: TextPart::Answer, delta, .. } => said.push_str(delta),
            _ => {}
        }
    }
    (thinking, said)
}

fn ask(
    prompt: &str,
    says: &str,
    params: SamplingParams,
) -> (Told, (String, String), FinishReason, (u32, u32)) {
    let mut bench = bench(says);
    let mut answer = bench.submit(prompt, params);
    bench.run();
    let (reason, summary) = answer.finished();
    let parts = parts(&mut answer);
    (answer, parts, reason, (summary.thinking_tokens, summary.answer_tokens))
}

#[test]
fn thinking_is_told_apart_and_counted_apart_whoever_opened_it() {
    let split = ("it is so".to_string(), "Because.".to_string());
    let (_, parts, reason, tokens) = ask(OPENED, "it is so\n</think>\n\nBecause.", roomy());
    assert_eq!((parts, reason), (split.clone(), FinishReason::EndOfTurn));
    assert_eq!(tokens, (17, 10), "the closing tag is thinking, the empty line after it is not");
    let (_, parts, _, tokens) = ask("why?", "<think>it is so</think>Because.", roomy());
    assert_eq!((parts, tokens), (split, (7 + 8 + 8, 8)));
    let (_, parts, _, tokens) = ask("why?", "Because.", roomy());
    assert_eq!((parts, tokens), ((String::new(), "Because.".into()), (0, 8)));
}

#[test]
fn max_tokens_counts_both_parts_and_stop_sequences_look_at_the_answer_only() {
    let says = "stop here\n</think>\n\nDo not stop here";
    let limited = SamplingParams { max_tokens: 6, ..roomy() };
    let (_, parts, reason, tokens) = ask(OPENED, says, limited);
    assert_eq!((parts.0.as_str(), reason, tokens), ("stop h", FinishReason::MaxTokens, (6, 0)));
    let stop = SamplingParams { stop: vec!["stop".into()], ..roomy() };
    let (_, parts, reason, _) = ask(OPENED, says, stop);
    assert_eq!((parts.0.as_str(), parts.1.as_str()), ("stop here", "Do not "));
    assert_eq!(reason, FinishReason::StopSequence);
}

#[test]
fn a_spent_budget_forces_the_closing_and_reports_no_logprobs_for_it() {
    let says = "abcdefghijklmnopqrstuvwxyz";
    let budget = SamplingParams { thinking_budget: Some(5), logprobs: Some(1), max_tokens: 25, ..roomy() };
    for mode in [GateMode::Strict, GateMode::Split, GateMode::Folded] {
        let mut bench = bench(says);
        bench.engine.set_gate_mode(mode);
        let mut answer = bench.submit(OPENED, budget.clone());
        let mut neighbour = bench.submit("how?", SamplingParams { max_tokens: 25, ..roomy() });
        while !bench.engine.is_idle() {
            bench.steps(1);
            answer.read();
        }
        let (thinking, said) = parts(&mut answer);
        assert_eq!((thinking.as_str(), said.as_str()), ("abcde", "qrstuvwxy"), "{mode:?}");
        assert_eq!(neighbour.read().text, says[..25], "{mode:?}");
        let entries = answer.events.iter().flat_map(|event| match event {
            EngineEvent::Logprobs { entries } => entries.clone(),
            _ => Vec::new(),
        });
        let forced: Vec<bool> = entries
            .map(|entry| {
                assert_eq!(entry.logprobs.is_none(), entry.is_forced);
                entry.is_forced
            })
            .collect();
        let expected: Vec<bool> = (0..25).map(|at| (5..16).contains(&at)).collect();
        assert_eq!(forced, expected, "a line break, the tag, an empty line");
        let overridden = answer.paths().iter().any(|path| path.reasons.contains(&Reason::ThinkingOverride));
        assert!(overridden, "{mode:?}");
    }
}

#[test]
fn a_budget_of_zero_closes_before_the_first_word() {
    let none = SamplingParams { thinking_budget: Some(0), ..roomy() };
    let (_, parts, _, tokens) = ask(OPENED, "___________yes", none.clone());
    assert_eq!((parts, tokens), ((String::new(), "yes".into()), (11, 3)), "eleven forced tokens hide eleven");
    let (_, parts, _, _) = ask("why?", "<think>___________yes", none);
    assert_eq!(parts, (String::new(), "yes".into()), "the model opened it itself");
}

#[test]
fn a_grammar_begins_after_the_thinking_and_never_sees_a_forced_token() {
    let digits = SamplingParams { grammar: Some(GrammarSource::Regex("[0-9]{3}".into())), ..roomy() };
    let cut = SamplingParams { thinking_budget: Some(2), ..digits.clone() };
    let (_, parts, reason, tokens) = ask(OPENED, "so___________123", cut);
    assert_eq!((parts, reason), (("so".into(), "123".into()), FinishReason::EndOfTurn));
    assert_eq!(tokens, (13, 3));
    let (_, parts, reason, _) = ask(OPENED, "so</think>123", digits.clone());
    assert_eq!((parts, reason), (("so".into(), "123".into()), FinishReason::EndOfTurn));
    let (_, parts, _, tokens) = ask("why?", "<think>123", digits.clone());
    assert_eq!((parts.0.as_str(), parts.1.len(), tokens), ("", 3, (0, 3)), "no tag where it was not opened");
    let short = SamplingParams { max_tokens: 2, ..digits };
    assert_eq!(ask(OPENED, "so</think>123", short).2, FinishReason::Incomplete, "the grammar never began");
}

#[test]
fn a_budget_goes_with_its_row_when_a_neighbour_leaves_and_another_joins() {
    let mut bench = bench(&"abcdefghij".repeat(20));
    let plain = SamplingParams { max_tokens: 60, ..roomy() };
    let biased = SamplingParams { logit_bias: vec![(u32::from(b'z'), 100.0)], max_tokens: 4, ..roomy() };
    let mut leaving = bench.submit("bias", biased);
    let mut staying = bench.submit("plain", plain.clone());
    let budget = SamplingParams { thinking_budget: Some(30), ..plain.clone() };
    let mut thinking = bench.submit(OPENED, budget);
    bench.steps(12);
    let mut joining = bench.submit("late", plain);
    bench.run();
    assert_eq!(leaving.read().text, "zzzz");
    let said = "abcdefghij".repeat(6);
    assert_eq!((staying.read().text.as_str(), joining.read().text.as_str()), (said.as_str(), said.as_str()));
    let (thought, answered) = parts(&mut thinking);
    assert_eq!((thought.len(), thought.as_str()), (30, &said[..30]));
    assert_eq!(answered, &said[41..], "the eleven tokens of the closing are not the model's");
}
