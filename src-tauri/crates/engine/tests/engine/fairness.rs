//! A long prompt neither freezes the others nor waits for ever.

use crate::support::{Bench, expected_text, params};
use engine::{
    clock::Clock,
    params::SamplingParams,
    testing::{Answer, Call, LoggedCall, Script},
};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

fn script(prefill_us: u64, step: Duration) -> Script {
    Script {
        answer: Answer::Hashed { eos_one_in: 0 },
        prefill_per_token: Duration::from_micros(prefill_us),
        step,
        max_rows: 8,
        context_tokens: 65_536,
        ..Script::default()
    }
}

fn forwards(log: &[LoggedCall]) -> Vec<Instant> {
    log.iter().filter(|logged| matches!(logged.call, Call::Forward(_))).map(|logged| logged.at).collect()
}

fn long() -> SamplingParams {
    SamplingParams { max_tokens: 10_000, ..params() }
}

#[test]
fn seven_rows_keep_talking_while_a_long_prompt_is_read() {
    for (prefill_us, step) in [(500, 20 * MS), (1_900, 58 * MS), (100, 5 * MS)] {
        let mut bench = Bench::new(script(prefill_us, step));
        let talking: Vec<_> = (0..7).map(|i| bench.submit(&format!("{i}"), long())).collect();
        bench.steps(20);
        let log = bench.engine.backend().log();
        let reading = bench.submit(&"x".repeat(20_000), params());
        log.lock().unwrap().clear();
        while !log.lock().unwrap().iter().any(|logged| logged.call == Call::Join(reading.id)) {
            bench.steps(1);
        }
        let calls = log.lock().unwrap().clone();
        let tokens = forwards(&calls);
        let gaps: Vec<Duration> = tokens.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<Duration>() / gaps.len() as u32;
        assert!(mean <= step.mul_f64(1.5) + MS, "mean ITL {mean:?} for steps of {step:?}");
        // The rate is not known before the first chunk, which is the smallest there is.
        let longest = gaps.iter().max().unwrap();
        let smallest_chunk = Duration::from_micros(32 * prefill_us);
        assert!(*longest <= step + smallest_chunk.max(60 * MS), "{longest:?}");
        let chunks: Vec<_> =
            calls.iter().filter(|logged| matches!(logged.call, Call::Prefill(..))).map(|c| c.at).collect();
        let parked = chunks.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(parked <= 500 * MS + step + 60 * MS, "a chunk at least every half second: {parked:?}");
        drop(talking);
    }
}

#[test]
fn a_prompt_alone_is_read_in_the_largest_chunks() {
    let mut bench = Bench::new(script(100, 5 * MS));
    let log = bench.engine.backend().log();
    let answer = bench.submit(&"x".repeat(5_000), params());
    bench.run();
    let chunks: Vec<_> = log
        .lock()
        .unwrap()
        .iter()
        .filter_map(|logged| match logged.call {
            Call::Prefill(id, tokens) => {
                assert_eq!(id, answer.id);
                Some(tokens)
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        chunks,
        [256, 2048, 2048, 647],
        "all but the last prompt token, the first chunk to learn the rate"
    );
}

#[test]
fn every_one_of_several_long_prompts_makes_progress() {
    let step = 20 * MS;
    let mut bench = Bench::new(script(500, step));
    let talking = bench.submit("talk", long());
    bench.steps(10);
    let log = bench.engine.backend().log();
    let reading: Vec<_> = [("x", 9_000), ("y", 6_000), ("z", 12_000)]
        .map(|(letter, tokens)| bench.submit(&letter.repeat(tokens), params()))
        .into();
    let mut last_chunk: Vec<_> = reading.iter().map(|answer| (answer.id, None, Duration::ZERO)).collect();
    bench.steps(600);
    for logged in log.lock().unwrap().iter() {
        let Call::Prefill(id, _) = logged.call else { continue };
        let Some((_, last, longest)) = last_chunk.iter_mut().find(|entry| entry.0 == id) else { continue };
        if let Some(before) = last.replace(logged.at) {
            *longest = (*longest).max(logged.at - before);
        }
    }
    for (id, last, longest) in last_chunk {
        assert!(last.is_some(), "{id} was read");
        let bound = 500 * MS + 3 * (60 * MS + step);
        assert!(longest <= bound, "{id} waited {longest:?} for a chunk");
    }
    drop((talking, reading));
}

#[test]
fn chunk_sizes_do_not_change_the_answer() {
    let prompt = "a prompt of some length ".repeat(50);
    for prefill_us in [1, 30, 200, 60_000] {
        let script = script(prefill_us, 10 * MS);
        let mut bench = Bench::new(script.clone());
        let talking = bench.submit("talk", SamplingParams { max_tokens: 400, ..params() });
        bench.steps(3);
        let mut answer = bench.submit(&prompt, params());
        bench.run();
        assert_eq!(answer.read().text, expected_text(&script, &prompt, &params()), "{prefill_us} us a token");
        drop(talking);
    }
}

#[test]
fn slots_go_in_order_of_arrival() {
    let mut bench = Bench::new(Script { max_rows: 1, ..script(10, 5 * MS) });
    let log = bench.engine.backend().log();
    let answers: Vec<_> =
        ["a long prompt first", "b", "c"].map(|prompt| bench.submit(prompt, params())).into();
    bench.run();
    let joined: Vec<_> = log
        .lock()
        .unwrap()
        .iter()
        .filter_map(|logged| match logged.call {
            Call::Join(id) => Some(id),
            _ => None,
        })
        .collect();
    assert_eq!(joined, answers.iter().map(|answer| answer.id).collect::<Vec<_>>());
}

#[test]
fn a_newcomer_with_6000_tokens_beside_three_rows_starts_in_time_and_delays_nobody_much() {
    for (prefill_us, step) in [(500, 20 * MS), (100, 5 * MS), (1_500, 120 * MS)] {
        let mut bench = Bench::new(script(prefill_us, step));
        let talking: Vec<_> = (0..3).map(|i| bench.submit(&format!("{i}"), long())).collect();
        bench.steps(20);
        let log = bench.engine.backend().log();
        let mut newcomer = bench.submit(&"x".repeat(6_000), params());
        log.lock().unwrap().clear();
        while newcomer.read().text.is_empty() {
            bench.steps(1);
        }
        let tokens = forwards(&log.lock().unwrap());
        let longest = tokens.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(longest <= step + 60 * MS, "{longest:?} between two tokens of a talking row");
        let budget_tokens = (60_000 / prefill_us / 32 * 32).max(32) as u32;
        let chunk = budget_tokens * Duration::from_micros(prefill_us);
        let steps_each = (chunk.as_secs_f64() / (0.5 * step.as_secs_f64())).ceil().max(1.0) as u32;
        // The first chunk is smaller, the rate being unknown, and the first token takes a step.
        let chunks = 5_999_u32.div_ceil(budget_tokens) + 1;
        let bound = chunks * (chunk + steps_each * step) + 2 * step;
        bench.run_until_done(&mut newcomer);
        let ttft = newcomer.finished().1.ttft.unwrap();
        assert!(ttft <= bound, "{ttft:?} of {bound:?}");
        drop(talking);
    }
}

#[test]
fn a_prompt_that_waits_for_an_equal_one_costs_the_talking_rows_nothing() {
    let step = 20 * MS;
    let mut bench = Bench::new(script(500, step));
    let talking: Vec<_> = (0..3).map(|i| bench.submit(&format!("{i}"), long())).collect();
    bench.steps(20);
    let log = bench.engine.backend().log();
    let mut reading: Vec<_> = (0..2).map(|_| bench.submit(&"x".repeat(6_000), params())).collect();
    log.lock().unwrap().clear();
    while reading[1].read().text.is_empty() {
        bench.steps(1);
    }
    let tokens = forwards(&log.lock().unwrap());
    let mean = (tokens[tokens.len() - 1] - tokens[0]) / (tokens.len() - 1) as u32;
    assert!(mean <= step.mul_f64(1.5) + MS, "{mean:?} between two tokens");
    assert_eq!(bench.tokens_read(), 5_999);
    drop(talking);
}

#[test]
fn stop_takes_effect_within_a_quarter_of_a_second_on_a_slow_device() {
    let mut bench = Bench::new(script(4_000, 50 * MS));
    let mut reading = bench.submit(&"x".repeat(20_000), params());
    bench.steps(1);
    for _ in 0..5 {
        let before = bench.clock.now();
        bench.steps(1);
        let chunk = bench.clock.now() - before;
        assert!(chunk <= 250 * MS && chunk >= 100 * MS, "{chunk:?}");
    }
    bench.engine.cancel(reading.id);
    bench.steps(1);
    reading.finished();
}
