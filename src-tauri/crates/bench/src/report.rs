//! Everything measured in one run, as one record per case and arm.

use crate::case::{Arm, Case};
use crate::measured::{Measured, PerStep, Profile, median, quantile};
use anyhow::{Context, Result};
use engine::backend::BackendFacts;
use serde::Serialize;
use std::path::Path;

/// One case and arm in figures: medians over the trials unless said otherwise.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    pub model: String,
    pub device: String,
    pub batch: usize,
    pub sampling: &'static str,
    pub logprobs: Option<u8>,
    pub arm: &'static str,
    /// Of all rows, from the median step.
    pub decode_tok_s: f64,
    pub decode_tok_s_trials: Vec<f64>,
    /// Of all rows, from the mean step: includes steps that something else held up.
    pub decode_tok_s_mean: f64,
    pub step_ms_p50: f64,
    pub itl_ms_p50: Option<f64>,
    pub itl_ms_p95: Option<f64>,
    /// Of the latest trial.
    pub per_step: Option<PerStep>,
    /// Of the latest trial.
    pub profile: Option<Profile>,
    /// Sampling / (forward + sampling), timed apart.
    pub sampler_share: Option<f64>,
}

struct Cell {
    case: Case,
    arm: Arm,
    trials: Vec<Measured>,
    sampler_share: Option<f64>,
}

/// Collects trials.
pub struct Report {
    model: String,
    device: String,
    cells: Vec<Cell>,
}

/// Three decimals: what a reader can use.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn medians(trials: &[Measured], value: impl Fn(&Measured) -> Option<f64>) -> Option<f64> {
    median(trials.iter().filter_map(value).collect())
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

impl Cell {
    fn line(&self, report: &Report) -> Line {
        let step_ms = |trial: &Measured| median(trial.step_ms.clone());
        let rate = |ms: f64| rounded(self.case.batch as f64 * 1e3 / ms);
        let step_ms_p50 = medians(&self.trials, step_ms).unwrap_or(f64::NAN);
        let step_ms_mean = medians(&self.trials, |trial| mean(&trial.gaps_ms)).unwrap_or(f64::NAN);
        let last = self.trials.last();
        Line {
            model: report.model.clone(),
            device: report.device.clone(),
            batch: self.case.batch,
            sampling: self.case.sampling.name(),
            logprobs: self.case.logprobs,
            arm: self.arm.name(),
            decode_tok_s: rate(step_ms_p50),
            decode_tok_s_trials: self.trials.iter().filter_map(step_ms).map(rate).collect(),
            decode_tok_s_mean: rate(step_ms_mean),
            step_ms_p50: rounded(step_ms_p50),
            itl_ms_p50: medians(&self.trials, |trial| quantile(&trial.gaps_ms, 0.5)).map(rounded),
            itl_ms_p95: medians(&self.trials, |trial| quantile(&trial.gaps_ms, 0.95)).map(rounded),
            per_step: last.and_then(|trial| trial.per_step),
            profile: last.and_then(|trial| trial.profile),
            sampler_share: self.sampler_share.map(rounded),
        }
    }
}

impl Report {
    /// An empty report on one model and device, with a place for each case and arm in the order of `plan`.
    pub fn new(model: &Path, facts: &BackendFacts, plan: &[(Case, Vec<Arm>)]) -> Report {
        let name = model.file_name().map(|name| name.to_string_lossy().into_owned());
        Report {
            model: format!("{} ({}, {})", name.unwrap_or_default(), facts.quantisation, facts.compute_dtype),
            device: facts.device.clone(),
            cells: plan
                .iter()
                .flat_map(|(case, arms)| arms.iter().map(|arm| (*case, *arm)))
                .map(|(case, arm)| Cell { case, arm, trials: Vec::new(), sampler_share: None })
                .collect(),
        }
    }

    fn cell(&mut self, case: Case, arm: Arm) -> &mut Cell {
        let planned = self.cells.iter_mut().find(|cell| cell.case == case && cell.arm == arm);
        planned.expect("only what is planned is measured")
    }

    /// Adds one trial.
    pub fn record(&mut self, case: Case, arm: Arm, measured: Measured) {
        self.cell(case, arm).trials.push(measured);
    }

    /// Sets the sampler's share of a step.
    pub fn record_share(&mut self, case: Case, arm: Arm, share: f64) {
        self.cell(case, arm).sampler_share = Some(share);
    }

    /// Figures of every case and arm that has a trial, in the order of the plan.
    pub fn lines(&self) -> Vec<Line> {
        self.cells.iter().filter(|cell| !cell.trials.is_empty()).map(|cell| cell.line(self)).collect()
    }

    /// Writes the lines as one JSON array.
    pub fn write_json(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.lines())?;
        std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
    }
}
