//! Step time with the KV cache written in place and by MLX's own update, plain and overlapped: ADR 0006.
//!
//!     cargo run --release -p mlx-backend --example kv_write -- MODEL_FOLDER [TRIALS]
//!
//! Every arm writes the same column again and again, so that nothing grows. Arms alternate within a trial.

use engine::RequestId;
use engine::backend::{Backend, BackendError, RowSampling, StepInput};
use mlx_backend::kv_cache::ColumnWrites;
use mlx_backend::{LoadOptions, MlxBackend};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const ARMS: [(ColumnWrites, bool); 4] = [
    (ColumnWrites::Functional, false),
    (ColumnWrites::Functional, true),
    (ColumnWrites::InPlace, false),
    (ColumnWrites::InPlace, true),
];
const STEPS_PER_TRIAL: u32 = 6;

/// Steps of the whole batch at one column; time of one step.
fn steps(
    backend: &mut MlxBackend,
    rows: usize,
    tokens: u32,
    overlap: bool,
) -> Result<Duration, BackendError> {
    let inputs = vec![StepInput { token: 1000, kv_cache_tokens: tokens }; rows];
    let (all, sampling): (Vec<usize>, _) = ((0..rows).collect(), vec![RowSampling::GREEDY; rows]);
    backend.forward(&inputs)?;
    let started = Instant::now();
    for step in 0..STEPS_PER_TRIAL {
        backend.submit_fused(&all, &sampling)?;
        let is_last = step + 1 == STEPS_PER_TRIAL;
        if overlap && !is_last {
            backend.forward_ahead(&vec![tokens; rows])?;
        }
        backend.read_fused(&all, &sampling)?;
        if !overlap && !is_last {
            backend.forward(&inputs)?;
        }
    }
    Ok(started.elapsed() / STEPS_PER_TRIAL)
}

fn main() -> Result<(), BackendError> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().ok_or("the model's folder is missing")?);
    let trials: usize = args.next().map_or(Ok(7), |text| text.parse())?;
    let mut backend = MlxBackend::load(&folder, LoadOptions::new(8, 49_152))?;
    println!(
        "median (least) ms a step | MLX, plain | MLX, overlapped | in place, plain | in place, overlapped"
    );
    for tokens in [255_u32, 1023, 2047] {
        let source = RequestId(u64::from(tokens));
        let prompt: Vec<u32> = (0..tokens).map(|i| 1000 + i * 7919 % 40_000).collect();
        for chunk in prompt.chunks(512) {
            backend.prefill(source, chunk)?;
        }
        let snapshot = backend.snapshot_prefill(source)?;
        backend.drop_prefill(source);
        for rows in [1, 4, 8] {
            for row in 0..rows as u64 {
                backend.restore(RequestId(row), snapshot, tokens)?;
                backend.join(RequestId(row))?;
            }
            let mut times = vec![Vec::new(); ARMS.len()];
            for trial in 0..=trials {
                for (arm, (writes, overlap)) in ARMS.into_iter().enumerate() {
                    backend.probe_column_writes(writes);
                    let time = steps(&mut backend, rows, tokens, overlap)?;
                    // The first trial warms up.
                    if trial > 0 {
                        times[arm].push(time);
                    }
                }
            }
            let cells = times.iter_mut().map(|times| {
                times.sort();
                let ms = |time: Duration| time.as_secs_f64() * 1e3;
                format!("{:.1} ({:.1})", ms(times[times.len() / 2]), ms(times[0]))
            });
            println!("B = {rows}, {} columns | {}", tokens + 1, cells.collect::<Vec<_>>().join(" | "));
            backend.keep_rows(&[])?;
        }
        backend.drop_snapshot(snapshot);
    }
    Ok(())
}
