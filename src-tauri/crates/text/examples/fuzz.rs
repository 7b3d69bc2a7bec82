//! Feeds damaged files to the tokenizer and the chat template: `fuzz <tokenizer|template> <seconds> [first seed]`.
//!
//! Ends with 1 at the first panic, case beyond its memory, or case of twenty seconds, and leaves the input in the folder
//! of temporary files. Each case follows from its seed alone.

#![allow(clippy::unwrap_used, dead_code, reason = "shared with the tests, which use all of it")]

#[path = "../tests/text/allocation.rs"]
mod allocation;
#[path = "../tests/text/fuzzing/mod.rs"]
mod fuzzing;

use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use fuzzing::{Corpus, Target, run};

/// A case that takes longer hangs: a rendering may take ten seconds.
const CASE_LIMIT: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let target = arguments.first().and_then(|name| Target::named(name));
    let seconds = arguments.get(1).and_then(|text| text.parse().ok());
    let (Some(target), Some(seconds)) = (target, seconds) else {
        eprintln!("usage: fuzz <tokenizer|template> <seconds> [first seed]");
        return ExitCode::from(2);
    };
    let first_seed = arguments.get(2).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let place = tempfile::tempdir().unwrap();
    fuzz(target, first_seed, Duration::from_secs(seconds), place.path())
}

fn fuzz(target: Target, first_seed: u64, time: Duration, place: &Path) -> ExitCode {
    let corpus = Corpus::read();
    let started = Instant::now();
    let (mut cases, mut accepted, mut peak_bytes, mut slowest) = (0_u64, 0_u64, 0, (Duration::ZERO, 0));
    for seed in first_seed.. {
        let began = Instant::now();
        if began.duration_since(started) >= time {
            break;
        }
        // A crash that cannot be caught is found again by its seed.
        let _ = std::fs::write(place.join("seed"), seed.to_string());
        match run(target, &corpus, seed, place) {
            Ok(outcome) if began.elapsed() < CASE_LIMIT => {
                cases += 1;
                accepted += u64::from(outcome.is_accepted);
                peak_bytes = peak_bytes.max(outcome.peak_bytes);
                slowest = slowest.max((began.elapsed(), seed));
            }
            Ok(_) => {
                eprintln!("{target:?}: seed {seed} took {:?}", began.elapsed());
                return ExitCode::FAILURE;
            }
            Err(finding) => {
                let saved = std::env::temp_dir().join(format!("fuzz-{target:?}-{seed}"));
                let written = std::fs::write(&saved, finding.input).map(|()| saved.display().to_string());
                eprintln!("{target:?}: seed {seed} {}; input: {written:?}", finding.what);
                return ExitCode::FAILURE;
            }
        }
    }
    println!(
        "{target:?}: {cases} cases in {} s, {accepted} accepted, {} MiB at most, slowest {:?} (seed {})",
        time.as_secs(),
        peak_bytes >> 20,
        slowest.0,
        slowest.1
    );
    ExitCode::SUCCESS
}
