//! Who may start when memory is short, and that it comes back.

use crate::support::{Bench, expected_text, params};
use engine::{
    EngineError, EnginePhase, FinishReason, LedgerUse, RowPhase,
    params::SamplingParams,
    testing::{Answer as Says, Call, Script},
};
use std::time::Duration;

/// Bytes of one row of 256 columns, with what joining copies and the logits of its sampling.
const ROW: u64 = 2 * 256 * 4 + 272 * 4 * 6;

/// Room for `rows` rows of 256 columns, their prompts of up to 100 tokens, and the reserve.
fn room_for(rows: u64) -> Script {
    Script {
        answer: Says::Hashed { eos_one_in: 0 },
        memory_limit_bytes: (rows * (ROW + 400)) * 16 / 15,
        ..Script::default()
    }
}

fn ledger(bench: &Bench) -> LedgerUse {
    bench.engine.snapshot(EnginePhase::Ready).ledger.unwrap()
}

fn decoding(bench: &Bench) -> usize {
    let rows = bench.engine.snapshot(EnginePhase::Ready).rows;
    rows.iter().filter(|row| row.phase != RowPhase::Queued).count()
}

/// Prompts that share no prefix.
fn prompt(i: usize, tokens: usize) -> String {
    char::from(b'A' + i as u8).to_string().repeat(tokens)
}

#[test]
fn as_many_rows_run_as_fit_and_the_others_wait_their_turn() {
    let script = room_for(3);
    let mut bench = Bench::new(script.clone());
    let mut answers: Vec<_> = (0..6).map(|i| bench.submit(&prompt(i, 20), params())).collect();
    let mut most = 0;
    while !bench.engine.is_idle() {
        bench.steps(1);
        most = most.max(decoding(&bench));
        let used = ledger(&bench);
        assert!(used.total_bytes() <= used.limit_bytes, "{used:?}");
    }
    assert_eq!(most, 3);
    for (i, answer) in answers.iter_mut().enumerate() {
        assert_eq!(answer.finished().0, FinishReason::MaxTokens);
        assert_eq!(answer.text, expected_text(&script, &prompt(i, 20), &params()));
    }
}

#[test]
fn what_can_never_fit_is_refused_with_numbers() {
    let mut bench = Bench::new(room_for(1));
    let refused = |bench: &mut Bench, prompt: &str, max_tokens| match bench.try_submit(
        prompt,
        SamplingParams { max_tokens, ..params() },
        None,
    ) {
        Err(EngineError::TooLarge { needed_bytes, limit_bytes, fitting_answer_tokens }) => {
            assert!(needed_bytes > limit_bytes);
            fitting_answer_tokens
        }
        other => panic!("{:?}", other.map(|answer| answer.id)),
    };
    let fitting = refused(&mut bench, &prompt(0, 20), 2_000);
    assert_eq!(fitting, 236, "256 columns with the prompt's 20");
    assert_eq!(refused(&mut bench, &prompt(0, 3_000), 16), 0, "not even the prompt");
    let fits = SamplingParams { max_tokens: fitting, ..params() };
    let mut answer = bench.submit(&prompt(0, 20), fits);
    bench.run();
    assert_eq!(answer.finished().1.answer_tokens, fitting);
}

#[test]
fn snapshots_give_way_to_requests() {
    let mut bench = Bench::new(room_for(2));
    let mut first = bench.submit_turn(1, &prompt(0, 200), params());
    bench.run();
    first.finished();
    assert!(bench.engine.backend().snapshots() > 0);
    let before = bench.calls().len();
    let rest: Vec<_> = (1..3).map(|i| bench.submit(&prompt(i, 90), params())).collect();
    bench.steps(1);
    assert_eq!(decoding(&bench), 2, "both run, the snapshots are gone");
    let calls = bench.calls();
    let drops = calls[before..].iter().position(|call| matches!(call, Call::DropSnapshot(_)));
    let trim = calls[before..].iter().position(|call| *call == Call::TrimMemory);
    assert!(drops.unwrap() < trim.unwrap(), "freed, then given back");
    drop(rest);
}

#[test]
fn the_snapshot_that_a_request_starts_from_is_not_evicted_for_it() {
    // Besides two rows, room for one of the four snapshots.
    let memory_limit_bytes = room_for(2).memory_limit_bytes + 400 * 16 / 15;
    let mut bench = Bench::new(Script { memory_limit_bytes, ..room_for(2) });
    for (owner, letter) in [(1, 0), (2, 1)] {
        let mut answer = bench.submit_turn(owner, &prompt(letter, 100), params());
        bench.run();
        answer.finished();
    }
    assert_eq!(bench.engine.backend().snapshots(), 4);
    let running = bench.submit(&prompt(2, 20), SamplingParams { max_tokens: 200, ..params() });
    bench.steps(2);
    // What it starts from was used longest ago, so it would go first.
    let again = bench.submit_turn(1, &prompt(0, 100), params());
    bench.steps(1);
    assert_eq!(bench.engine.backend().snapshots(), 1);
    let rows = bench.engine.snapshot(EnginePhase::Ready).rows;
    assert_eq!(rows.iter().find(|row| row.id == again.id).unwrap().cached_tokens, 99);
    drop(running);
}

#[test]
fn memory_is_given_back_before_a_request_is_refused() {
    let script = room_for(1);
    let mut bench = Bench::new(Script { untrimmed_bytes: script.memory_limit_bytes, ..script });
    let mut answer = bench.submit(&prompt(0, 20), params());
    bench.run();
    assert_eq!(answer.finished().0, FinishReason::MaxTokens);
    assert!(bench.calls().contains(&Call::TrimMemory));
}

#[test]
fn small_requests_pass_a_large_one_a_few_times_and_no_more() {
    let mut bench = Bench::new(room_for(3));
    let submit = |bench: &mut Bench, i, max_tokens| {
        bench.submit(&prompt(i, 20), SamplingParams { max_tokens, ..params() })
    };
    // Beside the running row, the large one does not fit: both would grow to its columns.
    let mut running = submit(&mut bench, 0, 200);
    bench.steps(1);
    let mut large = submit(&mut bench, 1, 900);
    let mut small: Vec<_> = (2..12).map(|i| submit(&mut bench, i, 5)).collect();
    bench.run();
    let mut order: Vec<_> = Vec::new();
    for call in bench.calls() {
        if let Call::Join(id) = call {
            order.push(id);
        }
    }
    let place = order.iter().position(|id| *id == large.id).unwrap();
    assert_eq!(place, 1 + 4, "after the running one and four that passed it");
    assert_eq!(running.finished().0, FinishReason::MaxTokens);
    assert_eq!(large.finished().1.answer_tokens, 900);
    small.iter_mut().for_each(|answer| _ = answer.finished());
}

#[test]
fn a_cancel_in_any_phase_returns_every_byte() {
    let script = Script { prefill_per_token: Duration::from_millis(1), ..room_for(8) };
    let mut bench = Bench::new(script);
    let empty = ledger(&bench);
    let long = SamplingParams { max_tokens: 100, ..params() };
    let decoding = bench.submit(&prompt(0, 30), long.clone());
    bench.steps(3);
    let reading = bench.submit(&prompt(1, 100), long.clone());
    let following = bench.submit(&prompt(1, 100), long.clone());
    bench.steps(1);
    let phases: Vec<_> = bench.engine.snapshot(EnginePhase::Ready).rows.iter().map(|row| row.phase).collect();
    assert_eq!(phases, [RowPhase::Decoding, RowPhase::Prefilling, RowPhase::Prefilling]);
    let mut before = ledger(&bench).total_bytes();
    for (gone, name) in [(following, "follower"), (reading, "reader"), (decoding, "decoding row")] {
        bench.engine.cancel(gone.id);
        bench.steps(1);
        let after = ledger(&bench).total_bytes();
        assert!(after < before, "{name}: {after} of {before}");
        before = after;
    }
    assert!(bench.engine.is_idle());
    assert_eq!(ledger(&bench), empty);
}

#[test]
fn a_cancelled_request_that_waits_for_memory_lets_the_next_one_start() {
    let mut bench = Bench::new(room_for(2));
    let running = bench.submit(&prompt(0, 20), SamplingParams { max_tokens: 200, ..params() });
    bench.steps(1);
    let mut large = bench.submit(&prompt(1, 20), SamplingParams { max_tokens: 300, ..params() });
    bench.steps(1);
    assert_eq!(decoding(&bench), 1, "the large one waits");
    bench.engine.cancel(large.id);
    let mut next = bench.submit(&prompt(2, 20), params());
    bench.steps(1);
    assert_eq!(large.finished().0, FinishReason::Cancelled);
    assert_eq!(decoding(&bench), 2);
    drop(running);
    bench.run();
    next.finished();
}
