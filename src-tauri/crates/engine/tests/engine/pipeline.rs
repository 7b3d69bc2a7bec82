//! The next forward pass, submitted before the tokens are read.

use crate::support::{Answer, Bench, expected_text, params};
use engine::{
    FinishReason, GateMode, OverlapMode, OverlapOff, Reason, RequestId, SamplingPath,
    params::SamplingParams,
    testing::{Answer as Says, Call, Script},
};
use std::{sync::atomic::Ordering, time::Duration};

const MS: Duration = Duration::from_millis(1);

fn endless() -> Script {
    Script { answer: Says::Hashed { eos_one_in: 0 }, max_rows: 4, ..Script::default() }
}

fn overlapped(script: Script) -> Bench {
    let mut bench = Bench::new(script);
    bench.engine.set_overlap(OverlapMode::On);
    bench
}

fn tokens(max_tokens: u32) -> SamplingParams {
    SamplingParams { max_tokens, ..params() }
}

fn calls(bench: &Bench) -> Vec<Call> {
    bench.engine.backend().log().lock().unwrap().iter().map(|logged| logged.call.clone()).collect()
}

fn forget_calls(bench: &Bench) {
    bench.engine.backend().log().lock().unwrap().clear();
}

#[test]
fn a_step_submits_the_next_forward_before_it_reads() {
    let mut bench = overlapped(endless());
    let answers = [bench.submit("a", tokens(50)), bench.submit("b", tokens(50))];
    bench.steps(1);
    forget_calls(&bench);
    bench.steps(3);
    let ids: Vec<RequestId> = answers.iter().map(|answer| answer.id).collect();
    let step = [Call::SampleFused(vec![0, 1]), Call::ForwardAhead(ids)];
    assert_eq!(calls(&bench), [step.clone(), step.clone(), step].concat(), "and none of its own");
    let before = bench.engine.counters();
    bench.steps(1);
    let counted = bench.engine.counters().since(before);
    assert_eq!((counted.evals, counted.waits, counted.host_reads), (2, 1, 1), "two submissions, one wait");
    let stats = bench.stats();
    assert_eq!((stats.overlap_off, stats.overlapped_steps, stats.unplanned_waits), (None, 5, 0));
}

#[test]
fn without_overlap_a_step_submits_once() {
    let mut bench = Bench::new(endless());
    bench.engine.set_overlap(OverlapMode::Off);
    let _answers = [bench.submit("a", tokens(50)), bench.submit("b", tokens(50))];
    bench.steps(3);
    let before = bench.engine.counters();
    bench.steps(1);
    let counted = bench.engine.counters().since(before);
    assert_eq!((counted.evals, counted.waits, counted.host_reads), (1, 1, 1));
    assert_eq!(bench.stats().overlap_off, Some(OverlapOff::SwitchedOff));
    assert_eq!(bench.stats().overlapped_steps, 0);
}

#[test]
fn waits_stay_one_per_step_whatever_the_batch_size() {
    for rows in 1..=16 {
        let mut bench = overlapped(Script { max_rows: 16, ..endless() });
        let _answers: Vec<_> = (0..rows).map(|i| bench.submit(&format!("prompt {i}"), tokens(30))).collect();
        bench.run();
        let stats = bench.stats();
        assert_eq!(bench.engine.counters().waits, stats.decode_steps, "{rows} rows");
        assert_eq!(stats.unplanned_waits, 0);
        assert!(stats.overlapped_steps > 20, "{rows} rows: {}", stats.overlapped_steps);
    }
}

/// Time of a step when the host takes `host` between two of them.
fn step_time(overlap: OverlapMode, host: Duration) -> (Duration, Option<OverlapOff>) {
    let mut bench = Bench::new(Script { step: 20 * MS, ..endless() });
    bench.engine.set_overlap(overlap);
    let _answer = bench.submit("a", tokens(200));
    for _ in 0..150 {
        bench.steps(1);
        bench.clock.advance(host);
    }
    (bench.stats().step_p50, bench.stats().overlap_off)
}

#[test]
fn overlap_hides_the_hosts_work_and_the_adaptive_mode_finds_out() {
    let (sync, _) = step_time(OverlapMode::Off, 5 * MS);
    let (overlapped, _) = step_time(OverlapMode::On, 5 * MS);
    assert_eq!((sync, overlapped), (25 * MS, 20 * MS), "measured from read to read");
    assert_eq!(step_time(OverlapMode::Adaptive, 5 * MS), (20 * MS, None));
    let nothing_to_hide = step_time(OverlapMode::Adaptive, Duration::ZERO);
    assert_eq!(nothing_to_hide, (20 * MS, Some(OverlapOff::KvCopyCostly)), "as fast without");
}

#[test]
fn nobody_joins_while_a_forward_is_in_flight() {
    let mut bench = overlapped(Script { prefill_per_token: MS, step: 20 * MS, ..endless() });
    let mut first = bench.submit("first", tokens(60));
    bench.steps(6);
    assert!(bench.engine.backend().is_ahead());
    forget_calls(&bench);
    let mut one_token = bench.submit("x", tokens(20));
    let mut longer = bench.submit(&"long ".repeat(30), tokens(20));
    bench.steps(30);
    let log = calls(&bench);
    let joins: Vec<_> = (0..log.len()).filter(|&at| matches!(log[at], Call::Join(_))).collect();
    assert_eq!(joins.len(), 2);
    for at in joins {
        let last_pass = log[..at].iter().rev().find_map(|call| match call {
            Call::ForwardAhead(_) => Some("ahead, not sampled"),
            Call::SampleFused(_) | Call::Forward(_) => Some("sampled"),
            _ => None,
        });
        assert_eq!(last_pass, Some("sampled"), "call {at} of {log:?}");
    }
    bench.run();
    assert_eq!(first.read().text, expected_text(&endless(), "first", &tokens(60)));
    assert_eq!(one_token.read().text, expected_text(&endless(), "x", &tokens(20)));
    assert_eq!(longer.read().text, expected_text(&endless(), &"long ".repeat(30), &tokens(20)));
}

#[test]
fn a_growing_batch_runs_without_overlap() {
    let mut bench = overlapped(Script { prefill_per_token: MS, step: 20 * MS, ..endless() });
    let _decoding = bench.submit("d", tokens(500));
    bench.steps(5);
    assert_eq!(bench.stats().overlap_off, None);
    let reading = bench.submit(&"x".repeat(2_000), tokens(5));
    bench.steps(12);
    assert_eq!(bench.stats().overlap_off, Some(OverlapOff::BatchGrowing));
    bench.engine.cancel(reading.id);
    bench.steps(2);
    assert_eq!(bench.stats().overlap_off, None, "nothing sticks");
}

#[test]
fn rows_that_all_end_get_no_forward_to_waste() {
    let mut bench = overlapped(endless());
    let mut answers = [bench.submit("a", tokens(5)), bench.submit("b", tokens(5))];
    bench.run();
    assert_eq!(bench.stats().overlap_off, Some(OverlapOff::LastTokens));
    assert_eq!(bench.engine.counters().forwards_ahead, 4, "for five tokens");
    answers.iter_mut().for_each(|answer| assert_eq!(answer.finished().0, FinishReason::MaxTokens));
}

#[test]
fn a_leaving_row_takes_its_logits_in_flight_along() {
    let script = Script { answer: Says::Hashed { eos_one_in: 5 }, ..endless() };
    let prompts = ["a", "b", "c", "d"];
    let mut bench = overlapped(script.clone());
    let mut answers = prompts.map(|prompt| bench.submit(prompt, tokens(60)));
    bench.run();
    let log = calls(&bench);
    assert!(log.iter().any(|call| matches!(call, Call::KeepRows(keep) if !keep.is_empty())));
    let forwards = log.iter().filter(|call| matches!(call, Call::Forward(_))).count();
    assert_eq!(forwards, 1, "rows that end do not cost the others a pass");
    for (answer, prompt) in answers.iter_mut().zip(prompts) {
        assert_eq!(answer.read().text, expected_text(&script, prompt, &tokens(60)));
    }
}

#[test]
fn a_pass_from_a_replaced_token_is_run_again_and_counted() {
    let script = Script { needed_width: 1024, ..endless() };
    let narrow = SamplingParams { top_p: 0.9, ..tokens(30) };
    let mut bench = overlapped(script.clone());
    let mut plain = bench.submit("p", tokens(30));
    let mut wide = bench.submit("w", narrow.clone());
    bench.run();
    assert_eq!((bench.stats().replays, bench.stats().width_misses), (1, 1), "the width sticks to the row");
    assert_eq!(bench.stats().unplanned_waits, 0);
    assert_eq!(plain.read().text, expected_text(&script, "p", &tokens(30)));
    assert_eq!(wide.read().text, expected_text(&script, "w", &narrow));
}

#[test]
fn a_per_row_neighbour_turns_overlap_off_while_it_is_there() {
    let mut bench = overlapped(endless());
    let _plain = bench.submit("plain", tokens(60));
    let _odd = bench.submit("odd", SamplingParams { logprobs: Some(2), ..tokens(10) });
    bench.steps(5);
    assert_eq!(bench.stats().overlap_off, Some(OverlapOff::PerRowRows));
    bench.steps(10);
    assert_eq!((bench.stats().batch_rows, bench.stats().overlap_off), (1, None));

    let mut folded = overlapped(endless());
    folded.engine.set_gate_mode(GateMode::Folded);
    let _plain = folded.submit("plain", tokens(60));
    let mut odd = folded.submit("odd", SamplingParams { logprobs: Some(2), ..tokens(10) });
    folded.steps(5);
    assert_eq!(folded.stats().overlap_off, None, "what rides inside the graph stays pipelined");
    let path = odd.paths().pop().expect("there were steps");
    assert_eq!((path.path, path.reasons), (SamplingPath::Fused, vec![Reason::Logprobs(2)]));
}

#[test]
fn a_mode_that_changes_with_a_forward_in_flight_uses_it() {
    let mut bench = overlapped(endless());
    let mut answers =
        [bench.submit("a", tokens(20)), bench.submit("b", SamplingParams { top_k: 5, ..tokens(20) })];
    bench.steps(5);
    assert!(bench.engine.backend().is_ahead());
    bench.engine.set_gate_mode(GateMode::Strict);
    forget_calls(&bench);
    bench.steps(1);
    assert_eq!(calls(&bench), [Call::SampleRow(0), Call::SampleRow(1)], "no pass is thrown away");
    bench.engine.set_overlap(OverlapMode::Off);
    bench.run();
    assert_eq!(answers[0].read().text, expected_text(&endless(), "a", &tokens(20)));
    let other = SamplingParams { top_k: 5, ..tokens(20) };
    assert_eq!(answers[1].read().text, expected_text(&endless(), "b", &other));
}

#[test]
fn a_device_without_room_for_a_copy_runs_without_overlap() {
    let script = Script { memory_limit_bytes: 1 << 20, ..endless() };
    let foreign_bytes = script.foreign_bytes.clone();
    let mut bench = overlapped(script);
    let _answer = bench.submit("a", tokens(60));
    bench.steps(10);
    assert_eq!(bench.stats().overlap_off, None);
    // Room for the KV cache of 10 tokens as it is, not for a second one.
    foreign_bytes.store((1 << 20) - 50, Ordering::Relaxed);
    bench.steps(1);
    assert_eq!(bench.stats().overlap_off, Some(OverlapOff::MemoryPressure));
    foreign_bytes.store(0, Ordering::Relaxed);
    bench.steps(1);
    assert_eq!(bench.stats().overlap_off, None, "nothing sticks");
}

fn cancel_in_flight(bench: &mut Bench, answers: &[Answer]) {
    assert!(bench.engine.backend().is_ahead(), "a forward is in flight");
    answers.iter().for_each(|answer| bench.engine.cancel(answer.id));
}

#[test]
fn cancelled_rows_leave_a_forward_in_flight_to_the_others() {
    let mut bench = overlapped(endless());
    let mut gone = [bench.submit("a", tokens(90)), bench.submit("c", tokens(90))];
    let mut stays = bench.submit("b", tokens(20));
    bench.steps(5);
    forget_calls(&bench);
    cancel_in_flight(&mut bench, &gone);
    bench.engine.cancel(gone[0].id);
    bench.steps(1);
    assert!(!calls(&bench).iter().any(|call| matches!(call, Call::Forward(_))), "their pass goes on");
    bench.run();
    assert_eq!(stays.read().text, expected_text(&endless(), "b", &tokens(20)));
    for (answer, prompt) in gone.iter_mut().zip(["a", "c"]) {
        assert_eq!((answer.finished().0, answer.endings()), (FinishReason::Cancelled, 1));
        let whole = expected_text(&endless(), prompt, &tokens(90));
        assert_eq!(answer.text, whole[..5], "not a token more than were read");
    }
}

#[test]
fn the_last_row_cancelled_with_a_forward_in_flight_leaves_nothing() {
    let mut bench = overlapped(endless());
    let mut answer = bench.submit("a", tokens(90));
    bench.steps(5);
    cancel_in_flight(&mut bench, std::slice::from_ref(&answer));
    bench.steps(1);
    assert_eq!((answer.finished().0, answer.endings()), (FinishReason::Cancelled, 1));
    assert!(bench.engine.is_idle());
    assert_eq!(calls(&bench).last(), Some(&Call::KeepRows(vec![])));
    let (counted, log) = (bench.engine.counters(), calls(&bench).len());
    bench.steps(10);
    assert_eq!((bench.engine.counters(), calls(&bench).len()), (counted, log), "idle costs nothing");
    let mut next = bench.submit("next", tokens(20));
    bench.run();
    assert_eq!(next.read().text, expected_text(&endless(), "next", &tokens(20)));
}

#[test]
fn a_cancel_before_the_finishing_step_ends_the_row_once() {
    for overlap in [OverlapMode::Off, OverlapMode::On] {
        let mut bench = Bench::new(endless());
        bench.engine.set_overlap(overlap);
        let mut finishing = bench.submit("a", tokens(6));
        let mut other = bench.submit("b", tokens(20));
        bench.steps(5);
        bench.engine.cancel(finishing.id);
        bench.steps(1);
        bench.engine.cancel(finishing.id);
        bench.run();
        assert_eq!((finishing.finished().0, finishing.endings()), (FinishReason::Cancelled, 1));
        assert_eq!(other.read().text, expected_text(&endless(), "b", &tokens(20)));
        assert_eq!(other.endings(), 1);
    }
}
