//! The benchmark that a person starts with one click.

use crate::GateMode;
use serde::{Deserialize, Serialize};
use specta::Type;
use specta_typescript::Number;

/// How far a benchmark is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct BenchmarkProgress {
    /// Measurements that are done.
    pub done_runs: u32,
    /// Measurements in all, warm-ups included.
    pub total_runs: u32,
    /// Rows of the measurement that runs.
    pub batch_rows: u32,
    /// Its mode of the gate.
    pub gate_mode: GateMode,
}

/// Medians over the trials of one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct BenchmarkArm {
    /// Rows in the batch.
    pub batch_rows: u32,
    /// Mode of the gate.
    pub gate_mode: GateMode,
    /// Whether one row asks for JSON, which the gate sends its own way.
    pub has_json_row: bool,
    /// Trials.
    pub trials: u32,
    /// Decode tokens per second of all rows.
    #[specta(type = Number)]
    pub total_tok_s: f64,
    /// Slowest trial.
    #[specta(type = Number)]
    pub min_tok_s: f64,
    /// Fastest trial.
    #[specta(type = Number)]
    pub max_tok_s: f64,
    /// Median gap between two tokens of one row.
    #[specta(type = Number)]
    pub itl_ms_p50: f64,
    /// 95th percentile of that gap.
    #[specta(type = Number)]
    pub itl_ms_p95: f64,
    /// Median arrival to first token.
    #[specta(type = Number)]
    pub ttft_ms_p50: f64,
}

/// What a benchmark measured, and on what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct BenchmarkReport {
    /// Unix time of its end.
    #[specta(type = Number)]
    pub at_ms: i64,
    /// Arms in the order in which they are shown.
    pub arms: Vec<BenchmarkArm>,
    /// The whole report as Markdown: figures, machine, model, how it was measured. Contains no text of a person.
    pub markdown: String,
}
