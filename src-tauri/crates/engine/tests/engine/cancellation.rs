//! Stop stops, in every phase, and keeps what was said.

use crate::support::{Bench, expected_text, params};
use engine::{
    EngineEvent, EnginePhase, FinishReason, RowPhase,
    params::SamplingParams,
    testing::{Answer, Call, Scenario, Script},
};
use std::time::Duration;

fn endless() -> Script {
    Script { answer: Answer::Hashed { eos_one_in: 0 }, max_rows: 2, ..Script::default() }
}

fn long() -> SamplingParams {
    SamplingParams { max_tokens: 1000, ..params() }
}

#[test]
fn a_queued_request_ends_at_once_and_the_next_moves_up() {
    let mut bench = Bench::new(endless());
    let running = [bench.submit("a", long()), bench.submit("b", long())];
    let mut queued = bench.submit("c", params());
    let mut behind = bench.submit("d", params());
    bench.steps(1);
    let ahead = |answer: &mut crate::support::Answer| {
        answer.read().events.iter().rev().find_map(|event| match event {
            EngineEvent::Queued { ahead } => Some(*ahead),
            _ => None,
        })
    };
    assert_eq!((ahead(&mut queued), ahead(&mut behind)), (Some(0), Some(1)));
    bench.engine.cancel(queued.id);
    bench.steps(1);
    assert_eq!(queued.finished().0, FinishReason::Cancelled);
    assert_eq!(ahead(&mut behind), Some(0));
    drop(running);
    bench.run();
    assert_eq!(behind.finished().0, FinishReason::MaxTokens);
}

#[test]
fn a_long_prompt_ends_between_chunks_and_frees_its_cache() {
    let script = Script { prefill_per_token: Duration::from_millis(1), context_tokens: 65_536, ..endless() };
    let mut bench = Bench::new(script.clone());
    let mut neighbour = bench.submit("neighbour", SamplingParams { max_tokens: 40, ..params() });
    bench.steps(2);
    let mut reading = bench.submit(&"x".repeat(30_000), params());
    bench.steps(6);
    assert_eq!(bench.engine.backend().private_rows(), 1, "it is being read");
    bench.engine.cancel(reading.id);
    bench.steps(1);
    assert_eq!(reading.finished().0, FinishReason::Cancelled);
    assert_eq!(bench.engine.backend().private_rows(), 0);
    bench.run();
    let expected = expected_text(&script, "neighbour", &SamplingParams { max_tokens: 40, ..params() });
    assert_eq!(neighbour.read().text, expected);
}

#[test]
fn a_decoding_row_ends_within_a_step_and_keeps_its_text() {
    let mut bench = Bench::new(endless());
    let mut stopped = bench.submit("stopped", long());
    let mut survivor = bench.submit("survivor", params());
    bench.steps(5);
    let said = stopped.read().text.clone();
    assert!(!said.is_empty());
    bench.engine.cancel(stopped.id);
    bench.engine.cancel(stopped.id);
    bench.steps(1);
    assert_eq!(stopped.finished().0, FinishReason::Cancelled);
    assert_eq!(stopped.text, said, "not a token more");
    bench.run();
    assert_eq!(survivor.read().text, expected_text(&endless(), "survivor", &params()));
    assert_eq!((stopped.endings(), survivor.endings()), (1, 1));
}

#[test]
fn text_held_back_for_a_stop_string_is_shown_when_cancelled() {
    let script = Script { answer: Answer::spoken("abcabcabc"), ..endless() };
    let mut bench = Bench::new(script);
    let mut answer = bench.submit("p", SamplingParams { stop: vec!["abcx".into()], ..params() });
    bench.steps(2);
    assert_eq!(answer.read().text, "", "it may still be the stop string");
    bench.engine.cancel(answer.id);
    bench.steps(1);
    answer.finished();
    assert_eq!(answer.text, "ab");
}

#[test]
fn several_cancels_in_one_step_leave_the_others_alone() {
    let script = Script { max_rows: 4, ..endless() };
    let mut bench = Bench::new(script.clone());
    let mut answers: Vec<_> = ["a", "b", "c", "d"].map(|prompt| bench.submit(prompt, params())).into();
    bench.steps(4);
    bench.engine.cancel(answers[0].id);
    bench.engine.cancel(answers[2].id);
    bench.run();
    for (answer, prompt) in answers.iter_mut().zip(["a", "b", "c", "d"]) {
        let expected = expected_text(&script, prompt, &params());
        match answer.finished().0 {
            FinishReason::Cancelled => assert!(expected.starts_with(&answer.text)),
            _ => assert_eq!(answer.text, expected),
        }
    }
}

#[test]
fn a_cancel_that_comes_too_late_changes_nothing() {
    let mut bench = Bench::new(endless());
    let mut answer = bench.submit("p", SamplingParams { max_tokens: 1, ..params() });
    bench.run();
    bench.engine.cancel(answer.id);
    bench.steps(1);
    assert_eq!(answer.finished().0, FinishReason::MaxTokens);
    assert_eq!(answer.endings(), 1);
}

#[test]
fn a_dropped_receiver_cancels_in_every_phase() {
    let script = Script { prefill_per_token: Duration::from_millis(5), context_tokens: 65_536, ..endless() };
    let mut bench = Bench::new(script);
    let decoding = bench.submit("d", long());
    bench.steps(2);
    let reading = bench.submit(&"x".repeat(30_000), params());
    let queued = bench.submit("q", params());
    bench.steps(4);
    let phases: Vec<_> = bench.engine.snapshot(EnginePhase::Ready).rows.iter().map(|row| row.phase).collect();
    assert_eq!(phases, [RowPhase::Decoding, RowPhase::Prefilling, RowPhase::Queued]);
    drop((decoding, reading, queued));
    bench.steps(1);
    assert!(bench.engine.is_idle());
    assert_eq!(bench.engine.backend().private_rows(), 0);
}

#[test]
fn an_engine_whose_last_row_was_cancelled_asks_nothing_of_the_backend() {
    let mut bench = Bench::new(Scenario::LongAnswers);
    let answer = bench.submit("p", long());
    bench.steps(3);
    bench.engine.cancel(answer.id);
    bench.steps(1);
    let log = bench.engine.backend().log();
    let calls = log.lock().unwrap().len();
    bench.steps(10);
    assert_eq!(log.lock().unwrap().len(), calls);
    assert_eq!(log.lock().unwrap().last().unwrap().call, Call::KeepRows(vec![]));
    assert_eq!((bench.stats().total_tok_s, bench.stats().batch_rows), (0.0, 0));
}
