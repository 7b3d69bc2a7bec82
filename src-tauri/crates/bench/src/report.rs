//! Medians, spread, a table and a JSON array.

use crate::scenario::{Arm, Case, Measured};
use anyhow::{Context, Result};
use engine::backend::BackendFacts;
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct Line {
    model: String,
    device: String,
    batch: usize,
    arm: &'static str,
    sampling: &'static str,
    decode_tok_s: f64,
    decode_tok_s_trials: Vec<f64>,
    step_ms_p50: f64,
    itl_ms_p50: Option<f64>,
    itl_ms_p95: Option<f64>,
    waits_per_step: Option<u64>,
    evals_per_step: Option<u64>,
    sampler_share: Option<f64>,
}

struct Cell {
    case: Case,
    arm: Arm,
    trials: Vec<Measured>,
    sampler_share: Option<f64>,
}

/// Everything measured in one run.
pub struct Report {
    model: String,
    device: String,
    cells: Vec<Cell>,
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn medians(trials: &[Measured], value: impl Fn(&Measured) -> Option<f64>) -> Option<f64> {
    median(trials.iter().filter_map(value).collect())
}

/// Three decimals: what a reader can use.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

impl Cell {
    fn line(&self, report: &Report) -> Line {
        let step_ms = |trial: &Measured| median(trial.step_ms.clone());
        let rate = |ms: f64| rounded(self.case.batch as f64 * 1e3 / ms);
        let step_ms_p50 = medians(&self.trials, step_ms).unwrap_or(f64::NAN);
        let last = self.trials.last();
        Line {
            model: report.model.clone(),
            device: report.device.clone(),
            batch: self.case.batch,
            arm: self.arm.name(),
            sampling: self.case.sampling.name(),
            decode_tok_s: rate(step_ms_p50),
            decode_tok_s_trials: self.trials.iter().filter_map(step_ms).map(rate).collect(),
            step_ms_p50: rounded(step_ms_p50),
            itl_ms_p50: medians(&self.trials, |trial| trial.itl_ms_p50).map(rounded),
            itl_ms_p95: medians(&self.trials, |trial| trial.itl_ms_p95).map(rounded),
            waits_per_step: last.and_then(|trial| trial.waits_per_step),
            evals_per_step: last.and_then(|trial| trial.evals_per_step),
            sampler_share: self.sampler_share.map(rounded),
        }
    }
}

impl Report {
    /// An empty report on one model and device.
    pub fn new(model: &Path, facts: &BackendFacts) -> Report {
        let name = model.file_name().map(|name| name.to_string_lossy().into_owned());
        Report {
            model: format!("{} ({})", name.unwrap_or_default(), facts.compute_dtype),
            device: facts.device.clone(),
            cells: Vec::new(),
        }
    }

    fn cell(&mut self, case: Case, arm: Arm) -> &mut Cell {
        let known = self.cells.iter().position(|cell| cell.case == case && cell.arm == arm);
        let index = known.unwrap_or_else(|| {
            self.cells.push(Cell { case, arm, trials: Vec::new(), sampler_share: None });
            self.cells.len() - 1
        });
        &mut self.cells[index]
    }

    /// Adds one trial.
    pub fn record(&mut self, case: Case, arm: Arm, measured: Measured) {
        self.cell(case, arm).trials.push(measured);
    }

    /// Sets the sampler's share of a step.
    pub fn record_share(&mut self, case: Case, arm: Arm, share: f64) {
        self.cell(case, arm).sampler_share = Some(share);
    }

    /// Prints a Markdown table with the ratio to mlx-lm in the same run.
    pub fn print(&self) {
        println!("{} on {}; median of the trials, their range in brackets\n", self.model, self.device);
        println!(
            "| B | sampling | arm | tok/s | vs mlx-lm | step ms | ITL p50 / p95 ms | waits | evals | sampler |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|");
        for cell in &self.cells {
            let line = cell.line(self);
            let peer = self.cells.iter().find(|other| other.arm == Arm::MlxLm && other.case == cell.case);
            let ratio = peer.map(|peer| line.decode_tok_s / peer.line(self).decode_tok_s);
            let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".into());
            let (low, high) = line
                .decode_tok_s_trials
                .iter()
                .fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(*rate), high.max(*rate)));
            println!(
                "| {} | {} | {} | {:.1} [{low:.1}–{high:.1}] | {} | {:.1} | {} | {} | {} | {} |",
                line.batch,
                line.sampling,
                line.arm,
                line.decode_tok_s,
                or_dash(ratio.map(|ratio| format!("{ratio:.2}x"))),
                line.step_ms_p50,
                or_dash(
                    line.itl_ms_p50.zip(line.itl_ms_p95).map(|(p50, p95)| format!("{p50:.1} / {p95:.1}"))
                ),
                or_dash(line.waits_per_step.map(|waits| waits.to_string())),
                or_dash(line.evals_per_step.map(|evals| evals.to_string())),
                or_dash(line.sampler_share.map(|share| format!("{:.1} %", share * 100.0))),
            );
        }
    }

    /// Writes one JSON object per line of the table.
    pub fn write_json(&self, path: &Path) -> Result<()> {
        let lines: Vec<Line> = self.cells.iter().map(|cell| cell.line(self)).collect();
        let text = serde_json::to_string_pretty(&lines)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}
