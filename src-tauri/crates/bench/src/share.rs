//! Share of the sampler in a step: forward and sampling timed apart, with a wait between them.

use crate::case::{Arm, Case};
use crate::prompts::Prompts;
use anyhow::{Result, anyhow};
use engine::RequestId;
use engine::backend::{Backend, RowSampling, Sampled, StepInput, TokenMask};
use engine::sampling::noise::row_base;
use mlx_backend::MlxBackend;
use std::time::Instant;

const STEPS: usize = 24;
const WARM_UP_STEPS: usize = 4;

/// A backend without an engine around it.
pub struct Shares<'a> {
    backend: &'a mut MlxBackend,
    prompts: &'a Prompts,
    /// Stands for a grammar's: two tokens of three.
    mask: TokenMask,
    next_id: u64,
}

impl<'a> Shares<'a> {
    /// Borrows a backend without rows, and leaves it without rows.
    pub fn new(backend: &'a mut MlxBackend, prompts: &'a Prompts) -> Shares<'a> {
        let words = backend.facts().vocab_width.div_ceil(32);
        let word = |at: u32| {
            (0..32).filter(|bit| !(at * 32 + bit).is_multiple_of(3)).fold(0, |word, bit| word | 1 << bit)
        };
        let mask = TokenMask { words: (0..words).map(word).collect() };
        Shares { backend, prompts, mask, next_id: u64::MAX / 2 }
    }

    /// Median of sampling / (forward + sampling) over the steps of one case.
    ///
    /// # Errors
    /// The backend's own, or a row that could not be sampled.
    pub fn measure(&mut self, case: Case, arm: Arm) -> Result<f64> {
        let mut inputs = Vec::with_capacity(case.batch);
        for row in 0..case.batch {
            inputs.push(self.join(row)?);
        }
        let mut widths = vec![0; case.batch];
        let mut shares = Vec::with_capacity(STEPS);
        for _ in 0..STEPS {
            let started = Instant::now();
            self.backend.forward(&inputs).map_err(|error| anyhow!(error))?;
            self.backend.probe_forward()?;
            let forward = started.elapsed().as_secs_f64();
            let started = Instant::now();
            let sampled = self.sample(case, arm, &inputs, &widths)?;
            let sample = started.elapsed().as_secs_f64();
            shares.push(sample / (forward + sample));
            for (row, sampled) in sampled.into_iter().enumerate() {
                let token = sampled.token.map_err(|bad| anyhow!("row {row} is bad: {bad:?}"))?;
                inputs[row] = StepInput { token, kv_cache_tokens: inputs[row].kv_cache_tokens + 1 };
                widths[row] = sampled.shortlist_width;
            }
        }
        self.backend.keep_rows(&[]).map_err(|error| anyhow!(error))?;
        shares.drain(..WARM_UP_STEPS);
        crate::measured::median(shares).ok_or_else(|| anyhow!("no step was timed"))
    }

    fn sample(&mut self, case: Case, arm: Arm, inputs: &[StepInput], widths: &[u32]) -> Result<Vec<Sampled>> {
        let failed = |error| anyhow!("cannot sample: {error}");
        let mask = &self.mask;
        let settings: Vec<RowSampling<'_>> =
            (0..case.batch).map(|row| settings(case, row, inputs[row], widths[row], mask)).collect();
        let (fused, alone): (Vec<usize>, Vec<usize>) =
            (0..case.batch).partition(|row| arm.is_fused(case, *row));
        let mut sampled = Vec::with_capacity(case.batch);
        if !fused.is_empty() {
            let settings: Vec<RowSampling<'_>> = fused.iter().map(|row| settings[*row]).collect();
            self.backend.submit_fused(&fused, &settings).map_err(failed)?;
            let read = self.backend.read_fused(&fused, &settings).map_err(failed)?;
            sampled.extend(fused.iter().copied().zip(read.sampled));
        }
        for row in alone {
            sampled.push((row, self.backend.sample_row(row, &settings[row]).map_err(failed)?));
        }
        sampled.sort_by_key(|(row, _)| *row);
        Ok(sampled.into_iter().map(|(_, sampled)| sampled).collect())
    }

    fn join(&mut self, row: usize) -> Result<StepInput> {
        let prompt = self.prompts.of_row(row)?;
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
    row: usize,
    input: StepInput,
    shortlist_width: u32,
    mask: &TokenMask,
) -> RowSampling<'_> {
    let (temperature, top_p) = case.sampling.values();
    RowSampling {
        temperature,
        top_p,
        is_greedy: temperature == 0.0,
        noise_base: row_base(row as u64 + 1, input.kv_cache_tokens + 1),
        shortlist_width,
        mask: case.sampling.has_grammar(row).then_some(mask),
        logprobs: case.logprobs,
        ..RowSampling::GREEDY
    }
}
