//! What it costs the engine to be watched.

use std::time::{Duration, Instant};

use crate::support::{Chat, PROMPTS, prompt};
use engine::{EnginePhase, NewRequest, params::SamplingParams};

const ROWS: usize = 8;
const ROUNDS: usize = 8;
const STEPS: usize = 30;
/// As often as the overlay is told.
const EVERY: Duration = Duration::from_millis(250);

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Runs steps; a watcher takes a snapshot whenever it is due. Returns what each step took, with its snapshot.
fn steps(chat: &mut Chat, mut due: Option<Instant>) -> Vec<Duration> {
    let step = |_| {
        let started_at = Instant::now();
        chat.engine.step().unwrap();
        if let Some(at) = due.filter(|at| *at <= Instant::now()) {
            drop(chat.engine.snapshot(EnginePhase::Ready));
            due = Some(at + EVERY);
        }
        started_at.elapsed()
    };
    (0..STEPS).map(step).collect()
}

#[test]
fn a_snapshot_of_eight_rows_is_small_beside_a_step() {
    let mut chat = Chat::load();
    let endless = chat.tokenizer.eos_ids().iter().map(|id| (*id, -100.0)).collect();
    let params = SamplingParams { max_tokens: 2_000, logit_bias: endless, ..SamplingParams::default() };
    let submit = |question: &&str| {
        let request = NewRequest {
            prompt: prompt(&chat.tokenizer, question),
            answer_so_far: Vec::new(),
            params: params.clone().validate().unwrap(),
            owner: None,
            arrived_at: Instant::now(),
        };
        chat.engine.submit(request).unwrap().1
    };
    let receivers: Vec<_> = PROMPTS[..ROWS].iter().map(submit).collect();
    while chat.engine.snapshot(EnginePhase::Ready).steps.batch_rows < ROWS as u64 {
        chat.engine.step().unwrap();
    }
    // The strip of bars is full, as in a long answer.
    (0..5).for_each(|_| _ = steps(&mut chat, None));
    let (mut unwatched, mut watched) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        unwatched.extend(steps(&mut chat, None));
        watched.extend(steps(&mut chat, Some(Instant::now())));
    }
    let snapshot = |_| {
        let started_at = Instant::now();
        drop(chat.engine.snapshot(EnginePhase::Ready));
        started_at.elapsed()
    };
    let one = median((0..200).map(snapshot).collect());
    let (unwatched, watched) = (median(unwatched), median(watched));
    let share = one.as_secs_f64() / EVERY.as_secs_f64();
    println!(
        "{ROWS} rows, {} steps each way: step p50 {unwatched:?} unwatched, {watched:?} watched; a snapshot {one:?}, \
         {:.3} % of the engine's time at 4 a second",
        ROUNDS * STEPS,
        share * 100.0,
    );
    assert!(share < 0.01, "a snapshot takes {one:?}");
    drop(receivers);
}
