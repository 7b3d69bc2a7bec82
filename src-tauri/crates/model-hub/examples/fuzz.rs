//! Feeds mutated files to everything that reads one: `fuzz <safetensors|gguf|config|index> <seconds> [first seed]`.
//!
//! Ends with 1 at the first panic, unsound result, case beyond its memory, or case that takes ten seconds; the input is
//! written to the folder of temporary files. Each case follows from its seed alone.

#![allow(clippy::unwrap_used, dead_code, reason = "shared with the tests, which use all of it")]

#[path = "../tests/model_hub/allocation.rs"]
mod allocation;
#[path = "../tests/model_hub/fuzzing/mod.rs"]
mod fuzzing;
#[path = "../tests/model_hub/random.rs"]
mod random;
#[path = "../tests/model_hub/synthetic.rs"]
mod synthetic;

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use fuzzing::{Target, run};

/// A case that takes longer hangs.
const CASE_LIMIT: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Tally {
    cases: u64,
    accepted: u64,
    peak_bytes: u64,
    slowest: Duration,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let target = arguments.first().and_then(|name| Target::ALL.into_iter().find(|each| each.name() == name));
    let seconds = arguments.get(1).and_then(|text| text.parse().ok());
    let (Some(target), Some(seconds)) = (target, seconds) else {
        eprintln!("usage: fuzz <safetensors|gguf|config|index> <seconds> [first seed]");
        return ExitCode::from(2);
    };
    let first_seed = arguments.get(2).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let running = Arc::new(AtomicU64::new(first_seed));
    let worker = {
        let running = running.clone();
        thread::spawn(move || work(target, first_seed, Duration::from_secs(seconds), &running))
    };
    let (mut last_seed, mut since) = (first_seed, Instant::now());
    while !worker.is_finished() {
        thread::sleep(Duration::from_millis(200));
        let seed = running.load(Ordering::Relaxed);
        if seed != last_seed {
            (last_seed, since) = (seed, Instant::now());
        } else if since.elapsed() > CASE_LIMIT {
            eprintln!("{}: seed {seed} hangs", target.name());
            return ExitCode::FAILURE;
        }
    }
    match worker.join() {
        Ok(Some(tally)) => {
            let Tally { cases, accepted, peak_bytes, slowest } = tally;
            println!(
                "{}: {cases} cases in {seconds} s, {accepted} accepted, {:.1} MiB at most, slowest {:.1} ms",
                target.name(),
                peak_bytes as f64 / f64::from(1 << 20),
                slowest.as_secs_f64() * 1e3
            );
            ExitCode::SUCCESS
        }
        _ => ExitCode::FAILURE,
    }
}

fn work(target: Target, first_seed: u64, time: Duration, running: &AtomicU64) -> Option<Tally> {
    let place = tempfile::tempdir().ok()?;
    let started = Instant::now();
    let mut tally = Tally::default();
    for seed in first_seed.. {
        let began = Instant::now();
        if began.duration_since(started) >= time {
            break;
        }
        running.store(seed, Ordering::Relaxed);
        match run(target, seed, place.path()) {
            Ok(outcome) => {
                tally.cases += 1;
                tally.accepted += u64::from(outcome.is_accepted);
                tally.peak_bytes = tally.peak_bytes.max(outcome.peak_bytes);
                tally.slowest = tally.slowest.max(began.elapsed());
            }
            Err((finding, input)) => {
                let saved = std::env::temp_dir().join(format!("fuzz-{}-{seed}.bin", target.name()));
                let written = std::fs::write(&saved, input).map(|()| saved.display().to_string());
                eprintln!("{}: seed {seed} {finding}; input: {written:?}", target.name());
                return None;
            }
        }
    }
    Some(tally)
}
