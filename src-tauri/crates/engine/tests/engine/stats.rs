//! Figures, on a clock that only the script moves.

use crate::support::{Bench, params};
use engine::{
    EnginePhase, ForcedReference, GateMode, SamplingPath,
    metrics::steps::REMEMBERED_STEPS,
    params::SamplingParams,
    testing::{Answer, Script},
};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn timed() -> Script {
    Script {
        answer: Answer::Hashed { eos_one_in: 0 },
        prefill_per_token: 10 * MS,
        step: 20 * MS,
        max_rows: 4,
        ..Script::default()
    }
}

#[test]
fn ttft_counts_from_arrival_and_speed_from_the_first_token() {
    let mut bench = Bench::new(timed());
    let mut answer = bench.submit("0123456789a", SamplingParams { max_tokens: 11, ..params() });
    bench.clock.advance(300 * MS);
    bench.run();
    let (_, summary) = answer.finished();
    assert_eq!(summary.ttft, Some(420 * MS), "300 waiting, 10 tokens of prompt, one step");
    assert_eq!(summary.decode_tok_s, Some(50.0), "10 gaps in 200 ms");
    assert_eq!((summary.itl_p50, summary.itl_p95), (Some(20 * MS), Some(20 * MS)));
    assert_eq!((summary.prompt_tokens, summary.answer_tokens, summary.fused_steps), (11, 11, 11));
    assert_eq!((summary.mean_batch_rows, summary.seed), (1.0, 7));
}

#[test]
fn a_request_that_never_spoke_has_no_speed() {
    let mut bench = Bench::new(timed());
    let mut answer = bench.submit("prompt", params());
    bench.engine.cancel(answer.id);
    bench.run();
    let (_, summary) = answer.finished();
    assert_eq!((summary.ttft, summary.decode_tok_s, summary.itl_p50), (None, None, None));
    assert_eq!((summary.answer_tokens, summary.mean_batch_rows), (0, 0.0));
}

#[test]
fn totals_add_up_over_the_rows() {
    let mut bench = Bench::new(timed());
    let answers: Vec<_> =
        ["a", "b", "c", "d"].map(|p| bench.submit(p, SamplingParams { max_tokens: 500, ..params() })).into();
    bench.steps(200);
    let snapshot = bench.engine.snapshot(EnginePhase::Ready);
    let steps = &snapshot.steps;
    assert_eq!((steps.batch_rows, steps.decode_steps, steps.fused_steps), (4, 200, 200));
    assert!((steps.total_tok_s - 200.0).abs() < 1e-9, "4 tokens every 20 ms: {}", steps.total_tok_s);
    assert_eq!((steps.step_p50, steps.forward_p50), (20 * MS, 20 * MS));
    assert_eq!((steps.evals_per_step, steps.waits_per_step, steps.host_reads_per_step), (1, 1, 1));
    assert_eq!(steps.recent.len(), REMEMBERED_STEPS);
    assert_eq!(
        steps.recent.last().map(|bar| (bar.step, bar.batch_rows, bar.per_row_rows)),
        Some((200, 4, 0))
    );
    assert_eq!(snapshot.rows.len(), 4);
    for (row, answer) in snapshot.rows.iter().zip(&answers) {
        assert_eq!(row.id, answer.id, "in order of arrival");
        assert!((row.decode_tok_s.unwrap() - 50.0).abs() < 1e-9);
        assert_eq!((row.answer_tokens, row.kv_cache_tokens, row.itl_p50), (200, 200, Some(20 * MS)));
    }
    assert_eq!(snapshot.memory.unwrap().kv_cache_bytes, 4 * 200 * 4);
}

#[test]
fn an_idle_engine_shows_no_speed_and_keeps_its_last_steps() {
    let mut bench = Bench::new(timed());
    let mut answer = bench.submit("a", params());
    bench.run();
    answer.finished();
    let steps = bench.stats();
    assert_eq!((steps.total_tok_s, steps.batch_rows), (0.0, 0));
    assert_eq!((steps.decode_steps, steps.recent.len()), (16, 16));
}

#[test]
fn a_change_of_path_is_told_once_with_its_step() {
    let mut bench = Bench::new(timed());
    let mut answer = bench.submit("a", SamplingParams { max_tokens: 30, ..params() });
    let mut other = bench.submit("b", SamplingParams { max_tokens: 30, temperature: 0.3, ..params() });
    bench.steps(5);
    answer.read();
    bench.engine.set_gate_mode(GateMode::Strict);
    bench.steps(5);
    let paths: Vec<_> = answer.paths().iter().map(|path| (path.path, path.since_step)).collect();
    assert_eq!(paths, [(SamplingPath::Fused, 1), (SamplingPath::PerRow, 6)]);
    bench.run();
    let (_, summary) = other.finished();
    assert_eq!((summary.fused_steps, summary.per_row_steps), (5, 25));
}

#[test]
fn mean_batch_rows_follow_the_neighbours() {
    let mut bench = Bench::new(timed());
    let mut long = bench.submit("a", SamplingParams { max_tokens: 20, ..params() });
    let mut short = bench.submit("b", SamplingParams { max_tokens: 10, ..params() });
    bench.run();
    assert_eq!(long.finished().1.mean_batch_rows, 1.5);
    assert_eq!(short.finished().1.mean_batch_rows, 2.0);
}

#[test]
fn the_modes_of_the_gate_are_compared_at_the_present_size_of_the_batch() {
    let mut bench = Bench::new(timed());
    let long = SamplingParams { max_tokens: 1000, ..params() };
    let first = bench.submit("a", long.clone());
    bench.steps(10);
    let second = bench.submit("b", long);
    bench.engine.set_gate_mode(GateMode::Strict);
    bench.steps(5);
    bench.engine.forget_steps();
    bench.engine.set_forced_reference(ForcedReference::On);
    bench.steps(3);
    bench.engine.set_forced_reference(ForcedReference::Off);
    bench.engine.set_gate_mode(GateMode::Folded);
    bench.steps(2);
    let snapshot = bench.engine.snapshot(EnginePhase::Ready);
    let effects: Vec<_> =
        snapshot.mode_effects.iter().map(|of| (of.mode, of.batch_rows, of.steps, of.step_p50)).collect();
    let expected = [(GateMode::Strict, 2, 5, 20 * MS), (GateMode::Folded, 2, 2, 20 * MS)];
    assert_eq!(effects, expected, "not what one row took, nor what the reference did");
    drop(first);
    bench.steps(2);
    let alone = bench.engine.snapshot(EnginePhase::Ready).mode_effects;
    assert_eq!((alone.len(), alone[0].batch_rows, alone[0].mode), (2, 1, GateMode::Split), "as before");
    drop(second);
}
