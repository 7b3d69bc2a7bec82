//! A row in a batch behaves like the row alone.

use crate::support::{Bench, expected_text, params};
use engine::{
    GateMode,
    params::SamplingParams,
    testing::{Answer, Script},
};

fn endless() -> Script {
    Script { answer: Answer::Hashed { eos_one_in: 0 }, ..Script::default() }
}

#[test]
fn a_seed_gives_the_same_text_in_any_place_of_any_batch() {
    let script = endless();
    let alone = expected_text(&script, "the prompt", &params());
    for place in 0..8 {
        let mut bench = Bench::new(script.clone());
        let mut answers = Vec::new();
        for other in 0..8 {
            let prompt = if other == place { "the prompt".into() } else { format!("neighbour {other}") };
            let seed = if other == place { params().seed } else { Some(other) };
            let max_tokens = if other == place { 16 } else { 1 + 2 * other as u32 };
            answers.push(bench.submit(&prompt, SamplingParams { seed, max_tokens, ..params() }));
        }
        bench.run();
        assert_eq!(answers[place as usize].read().text, alone, "place {place}");
    }
}

#[test]
fn a_row_that_joins_late_says_what_it_says_alone() {
    let script = endless();
    let mut bench = Bench::new(script.clone());
    let mut first = bench.submit("first", SamplingParams { max_tokens: 30, ..params() });
    for _ in 0..7 {
        bench.engine.step().unwrap();
    }
    let other_seed = SamplingParams { seed: Some(8), ..params() };
    let mut late = bench.submit("late", other_seed.clone());
    let mut same_step = bench.submit("same step", params());
    bench.run();
    let long = SamplingParams { max_tokens: 30, ..params() };
    assert_eq!(first.read().text, expected_text(&script, "first", &long));
    assert_eq!(late.read().text, expected_text(&script, "late", &other_seed));
    assert_eq!(same_step.read().text, expected_text(&script, "same step", &params()));
}

#[test]
fn the_mode_of_the_gate_does_not_change_a_token() {
    let settings = [
        params(),
        SamplingParams { temperature: 0.0, ..params() },
        SamplingParams { top_k: 5, logprobs: Some(2), ..params() },
        SamplingParams { top_p: 0.9, min_p: 0.05, ..params() },
    ];
    let texts = [GateMode::Strict, GateMode::Split].map(|mode| {
        let mut bench = Bench::new(endless());
        bench.engine.set_gate_mode(mode);
        let mut answers: Vec<_> =
            settings.iter().map(|params| bench.submit("same", params.clone())).collect();
        bench.run();
        answers.iter_mut().map(|answer| answer.read().text.clone()).collect::<Vec<_>>()
    });
    assert_eq!(texts[0], texts[1]);
}

#[test]
fn a_drawn_seed_is_reported_and_repeats_the_answer() {
    let mut bench = Bench::new(endless());
    let mut drawn = bench.submit("prompt", SamplingParams { seed: None, ..params() });
    let mut another = bench.submit("prompt", SamplingParams { seed: None, ..params() });
    bench.run();
    let seed = drawn.finished().1.seed;
    assert_ne!(seed, another.finished().1.seed, "each request draws its own");
    let mut again = bench.submit("prompt", SamplingParams { seed: Some(seed), ..params() });
    bench.run();
    assert_eq!(again.read().text, drawn.text);
}

#[test]
fn a_shortlist_that_was_too_narrow_is_wide_from_then_on() {
    let script = Script { needed_width: 1024, ..endless() };
    let mut bench = Bench::new(script);
    let top_p = SamplingParams { top_p: 0.9, ..params() };
    let mut answer = bench.submit("prompt", top_p);
    bench.submit("neighbour", params());
    bench.run();
    answer.finished();
    let counters = bench.engine.counters();
    assert_eq!(counters.width_misses, 1, "the row keeps the width it needed");
    let steps = bench.stats();
    assert_eq!((steps.width_misses, steps.unplanned_waits), (1, 0));
    assert_eq!(counters.waits, steps.decode_steps + 1);
}
