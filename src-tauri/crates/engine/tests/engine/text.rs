//! What becomes of a row's tokens: text, and an end.

use crate::support::{Bench, params};
use engine::{
    EngineEvent, FinishReason,
    params::SamplingParams,
    testing::{Answer, END_OF_TURN, Script},
};

fn speak(text: &str, params: SamplingParams) -> (String, FinishReason, u32) {
    let mut bench =
        Bench::new(Script { answer: Answer::spoken(text), context_tokens: 40, ..Script::default() });
    let mut answer = bench.submit("say it", params);
    bench.run();
    let (reason, summary) = answer.finished();
    (answer.text, reason, summary.answer_tokens)
}

fn roomy() -> SamplingParams {
    SamplingParams { max_tokens: 100, ..params() }
}

#[test]
fn the_token_that_ends_the_turn_is_no_text_and_no_answer_token() {
    assert_eq!(speak("hello", roomy()), ("hello".into(), FinishReason::EndOfTurn, 5));
    assert_eq!(speak("", roomy()), (String::new(), FinishReason::EndOfTurn, 0));
}

#[test]
fn characters_are_whole_however_many_tokens_they_take() {
    let text = "né 日本 👩‍👩‍👧";
    let mut bench = Bench::new(Script { answer: Answer::spoken(text), ..Script::default() });
    let mut answer = bench.submit("p", roomy());
    while !bench.engine.is_idle() {
        bench.steps(1);
        assert!(text.starts_with(answer.read().text.as_str()), "{:?}", answer.text);
    }
    assert_eq!(answer.text, text);
}

#[test]
fn a_character_cut_off_by_the_limit_is_left_out() {
    let params = SamplingParams { max_tokens: 4, ..params() };
    assert_eq!(speak("ab日本", params), ("ab".into(), FinishReason::MaxTokens, 4));
}

#[test]
fn a_stop_string_across_tokens_is_removed_and_the_text_before_it_kept() {
    let stop =
        |stops: &[&str]| SamplingParams { stop: stops.iter().map(ToString::to_string).collect(), ..roomy() };
    assert_eq!(speak("one</s>two", stop(&["</s>"])), ("one".into(), FinishReason::StopSequence, 7));
    assert_eq!(speak("one</ s>", stop(&["</s>"])), ("one</ s>".into(), FinishReason::EndOfTurn, 8));
    assert_eq!(
        speak("end<", stop(&["<e"])),
        ("end<".into(), FinishReason::EndOfTurn, 4),
        "held back, then shown"
    );
    assert_eq!(speak("東京です", stop(&["です"])), ("東京".into(), FinishReason::StopSequence, 12));
}

#[test]
fn limits_end_an_answer_exactly() {
    let one = SamplingParams { max_tokens: 1, ..params() };
    assert_eq!(speak("hello", one), ("h".into(), FinishReason::MaxTokens, 1));
    let text = "x".repeat(90);
    let (said, reason, tokens) = speak(&text, roomy());
    assert_eq!(
        (said.len(), reason, tokens),
        (34, FinishReason::ContextFull, 34),
        "6 prompt tokens, 40 in all"
    );
}

#[test]
fn logprobs_cover_every_sampled_token_and_the_one_that_ended_the_row() {
    let mut bench = Bench::new(Script { answer: Answer::spoken("ab"), ..Script::default() });
    let mut answer = bench.submit("p", SamplingParams { logprobs: Some(2), ..roomy() });
    let mut plain = bench.submit("q", roomy());
    bench.run();
    let (_, summary) = answer.finished();
    let entries: Vec<_> = answer
        .events
        .iter()
        .flat_map(|event| match event {
            EngineEvent::Logprobs { entries } => entries.clone(),
            _ => Vec::new(),
        })
        .collect();
    let tokens: Vec<_> = entries.iter().map(|entry| entry.token).collect();
    assert_eq!(tokens, [u32::from(b'a'), u32::from(b'b'), END_OF_TURN]);
    for entry in &entries {
        let logprobs = entry.logprobs.as_ref().expect("asked for, and not forced");
        assert_eq!((logprobs.top.len(), logprobs.top[0].0), (2, entry.token));
    }
    assert!(summary.mean_logprob.is_some_and(|mean| mean <= 0.0 && mean > -1e-3));
    assert_eq!((summary.per_row_steps, summary.fused_steps), (3, 0));
    let (_, summary) = plain.finished();
    assert_eq!((summary.per_row_steps, summary.fused_steps), (0, 3), "its neighbour stays fused");
    assert_eq!(summary.mean_logprob, None);
    assert!(!plain.events.iter().any(|event| matches!(event, EngineEvent::Logprobs { .. })));
}

#[test]
fn events_not_read_yet_are_merged() {
    let mut bench = Bench::new(Script { answer: Answer::spoken("hello there"), ..Script::default() });
    let mut answer = bench.submit("prompt", roomy());
    bench.run();
    answer.read();
    let kinds: Vec<_> = answer
        .events
        .iter()
        .map(|event| match event {
            EngineEvent::Resumed { .. } => "resumed",
            EngineEvent::Queued { .. } => "queued",
            EngineEvent::Prefilling { done_tokens: 5, total_tokens: 6 } => "read",
            EngineEvent::Prefilling { .. } => "reading",
            EngineEvent::Path { .. } => "path",
            EngineEvent::Text { answer_tokens: 11, .. } => "text",
            EngineEvent::Text { .. } => "part of the text",
            EngineEvent::Logprobs { .. } => "logprobs",
            EngineEvent::Finished { .. } => "finished",
            EngineEvent::Failed { .. } => "failed",
        })
        .collect();
    assert_eq!(kinds, ["read", "path", "text", "finished"]);
    assert_eq!(answer.text, "hello there");
}
