//! Times greedy decode steps of several batch sizes in turns: what the kernels cost, without the engine.
//!
//! `cargo run --release -p mlx-backend --example decode_steps -- MODEL_FOLDER STEPS PROMPT_TOKENS B...`
//! Sizes take turns of two steps, so that what else the machine does falls on all of them alike.

use engine::RequestId;
use engine::backend::{Backend, BackendError, RowSampling, StepInput};
use mlx_backend::{LoadOptions, MlxBackend};
use std::path::Path;
use std::time::{Duration, Instant};

type Error = Box<dyn std::error::Error>;

/// One batch and the times of its steps.
struct Arm {
    backend: MlxBackend,
    inputs: Vec<StepInput>,
    steps: Vec<Duration>,
}

impl Arm {
    fn new(model: &Path, rows: usize, prompt_tokens: usize) -> Result<Arm, Error> {
        let options = LoadOptions::new(rows, 49_152);
        let mut backend = MlxBackend::load(model, options)?;
        let mut inputs = Vec::new();
        for row in 0..rows {
            let id = RequestId(row as u64);
            let prompt: Vec<u32> = (0..prompt_tokens).map(|i| (1000 + i * 31 + row * 7) as u32).collect();
            backend.prefill(id, &prompt).map_err(|error| error.to_string())?;
            backend.join(id).map_err(|error| error.to_string())?;
            inputs.push(StepInput { token: 1000, kv_cache_tokens: prompt_tokens as u32 });
        }
        Ok(Arm { backend, inputs, steps: Vec::new() })
    }

    fn step(&mut self) -> Result<(), BackendError> {
        let rows: Vec<usize> = (0..self.inputs.len()).collect();
        let sampling = vec![RowSampling::GREEDY; rows.len()];
        let started = Instant::now();
        self.backend.forward(&self.inputs)?;
        self.backend.submit_fused(&rows, &sampling)?;
        let read = self.backend.read_fused(&rows, &sampling)?;
        self.steps.push(started.elapsed());
        for (input, sampled) in self.inputs.iter_mut().zip(&read.sampled) {
            let token = sampled.token.as_ref().map_err(|bad| format!("{bad:?}"))?;
            *input = StepInput { token: *token, kv_cache_tokens: input.kv_cache_tokens + 1 };
        }
        Ok(())
    }
}

/// Steps at the start of each arm that count for nothing.
const WARM_UP_STEPS: usize = 4;

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, steps, prompt_tokens, sizes @ ..] = arguments.as_slice() else {
        return Err("arguments: MODEL_FOLDER STEPS PROMPT_TOKENS B...".into());
    };
    let (steps, prompt_tokens) = (steps.parse::<usize>()?, prompt_tokens.parse()?);
    let mut arms = Vec::new();
    for size in sizes {
        arms.push(Arm::new(Path::new(model), size.parse()?, prompt_tokens)?);
    }
    for _ in 0..(WARM_UP_STEPS + steps).div_ceil(2) {
        for arm in &mut arms {
            arm.step().and_then(|()| arm.step()).map_err(|error| error.to_string())?;
        }
    }
    for arm in &mut arms {
        arm.steps.drain(..WARM_UP_STEPS);
        arm.steps.sort();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let (least, median) = (ms(arm.steps[0]), ms(arm.steps[arm.steps.len() / 2]));
        let rate = 1e3 * arm.inputs.len() as f64 / median;
        println!("B = {}: {least:.2} ms at least, {median:.2} median, {rate:.0} tok/s", arm.inputs.len());
    }
    Ok(())
}
