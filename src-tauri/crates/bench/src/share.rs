//! Share of the sampler in a step: forward and sampling timed apart, with a wait between them.

use crate::scenario::{self, Arm, Case};
use anyhow::{Result, anyhow};
use engine::RequestId;
use engine::backend::{Backend, BackendError, RowSampling, Sampled, StepInput};
use engine::sampling::noise::row_base;
use mlx_backend::MlxBackend;
use std::path::Path;
use std::time::Instant;
use text::Tokenizer;

const STEPS: usize = 24;
const WARM_UP_STEPS: usize = 4;

/// A backend without an engine around it.
pub struct Shares {
    backend: MlxBackend,
    tokenizer: Tokenizer,
    next_id: u64,
}

impl Shares {
    /// Loads the model.
    pub fn load(model: &Path) -> Result<Shares> {
        let (backend, tokenizer) = scenario::load(model)?;
        Ok(Shares { backend, tokenizer, next_id: 0 })
    }

    /// Median of sampling / (forward + sampling) over the steps of one case.
    pub fn measure(&mut self, case: Case, arm: Arm) -> Result<f64> {
        let mut inputs = Vec::with_capacity(case.batch);
        for row in 0..case.batch {
            inputs.push(self.join(row)?);
        }
        let rows: Vec<usize> = (0..case.batch).collect();
        let mut widths = vec![0; case.batch];
        let mut shares = Vec::with_capacity(STEPS);
        for _ in 0..STEPS {
            let started = Instant::now();
            self.backend.forward(&inputs).map_err(|error| anyhow!(error))?;
            self.backend.probe_forward()?;
            let forward = started.elapsed().as_secs_f64();
            let sampling: Vec<RowSampling<'_>> =
                rows.iter().map(|row| settings(case, arm, *row, inputs[*row], widths[*row])).collect();
            let started = Instant::now();
            let sampled = match arm {
                Arm::Strict => {
                    rows.iter().map(|row| self.backend.sample_row(*row, &sampling[*row])).collect()
                }
                _ => self.fused(&rows, &sampling),
            };
            let sampled = sampled.map_err(|error| anyhow!(error))?;
            let sample = started.elapsed().as_secs_f64();
            shares.push(sample / (forward + sample));
            for row in 0..case.batch {
                let token = sampled[row].token.map_err(|bad| anyhow!("row {row} is bad: {bad:?}"))?;
                inputs[row] = StepInput { token, kv_cache_tokens: inputs[row].kv_cache_tokens + 1 };
                widths[row] = sampled[row].shortlist_width;
            }
        }
        self.backend.keep_rows(&[]).map_err(|error| anyhow!(error))?;
        shares.drain(..WARM_UP_STEPS);
        shares.sort_by(f64::total_cmp);
        Ok(shares[shares.len() / 2])
    }

    fn fused(&mut self, rows: &[usize], sampling: &[RowSampling<'_>]) -> Result<Vec<Sampled>, BackendError> {
        self.backend.submit_fused(rows, sampling)?;
        Ok(self.backend.read_fused(rows, sampling)?.sampled)
    }

    fn join(&mut self, row: usize) -> Result<StepInput> {
        let prompt = scenario::prompt(&self.tokenizer, row)?;
        let Some((last, before)) = prompt.split_last() else {
            return Err(anyhow!("the chat template renders an empty prompt"));
        };
        let id = RequestId(self.next_id);
        self.next_id += 1;
        self.backend.prefill(id, before).map_err(|error| anyhow!(error))?;
        self.backend.join(id).map_err(|error| anyhow!(error))?;
        Ok(StepInput { token: *last, kv_cache_tokens: before.len() as u32 })
    }
}

fn settings(
    case: Case,
    arm: Arm,
    row: usize,
    input: StepInput,
    shortlist_width: u32,
) -> RowSampling<'static> {
    let (temperature, top_p) = case.sampling.values();
    RowSampling {
        temperature,
        top_p,
        is_greedy: temperature == 0.0,
        noise_base: row_base(row as u64 + 1, input.kv_cache_tokens + 1),
        shortlist_width,
        logprobs: (arm == Arm::Strict && row == 0).then_some(0),
        ..RowSampling::GREEDY
    }
}
