//! What a trial yields.

use engine::StepStats;
use engine::backend::Counters;
use serde::Serialize;

/// Where the time of a step goes, in ms: `forward`, `sample`, `wait` and `host` add up to it.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Profile {
    /// Host time on the forward pass; median. With overlap that of the next step, submission included.
    pub forward_ms: f64,
    /// Host time on the sampling graphs, submissions included and waits left out; median.
    pub sample_ms: f64,
    /// Blocked on the device; mean.
    pub wait_ms: f64,
    /// Host time after the read: masks, detokenising, stop checks, events; median.
    pub host_ms: f64,
    /// Part of `forward` and `sample` spent inside submissions, which can block too; mean.
    pub submit_ms: f64,
}

/// What the engine's counters say of an average step.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PerStep {
    /// Graphs submitted.
    pub evals: f64,
    /// Blocking waits.
    pub waits: f64,
    /// Arrays read by the host.
    pub host_reads: f64,
    /// Repetitions at a wider shortlist.
    pub width_misses: f64,
    /// Forward passes submitted ahead.
    pub forwards_ahead: f64,
    /// Forward passes that were still running right after the tokens before them were read.
    pub forwards_overlapped: f64,
}

/// One trial of one case and arm.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Time of each decode step in which all rows ran, after warm-up.
    pub step_ms: Vec<f64>,
    /// Gap between consecutive tokens of a row, sorted.
    pub gaps_ms: Vec<f64>,
    /// `None` for a peer, which does not say.
    pub per_step: Option<PerStep>,
    /// `None` for a peer.
    pub profile: Option<Profile>,
}

/// The value that `fraction` of `sorted` does not exceed.
pub fn quantile(sorted: &[f64], fraction: f64) -> Option<f64> {
    sorted.get((sorted.len() as f64 * fraction) as usize).copied()
}

/// Median; `None` of nothing.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

impl Measured {
    /// A trial that the engine ran. `totals`: sums over the steps in `step_ms`.
    pub fn of_engine(
        step_ms: Vec<f64>,
        mut gaps_ms: Vec<f64>,
        totals: Counters,
        stats: &StepStats,
    ) -> Measured {
        gaps_ms.sort_by(f64::total_cmp);
        let steps = step_ms.len() as f64;
        let each = |total: u64| total as f64 / steps;
        let per_step = PerStep {
            evals: each(totals.evals),
            waits: each(totals.waits),
            host_reads: each(totals.host_reads),
            width_misses: each(totals.width_misses),
            forwards_ahead: each(totals.forwards_ahead),
            forwards_overlapped: each(totals.forwards_overlapped),
        };
        let ms = |duration: std::time::Duration| duration.as_secs_f64() * 1e3;
        let profile = Profile {
            forward_ms: ms(stats.forward_p50),
            sample_ms: ms(stats.sample_p50),
            wait_ms: ms(totals.waited) / steps,
            host_ms: ms(stats.host_p50),
            submit_ms: ms(totals.submitting) / steps,
        };
        Measured { step_ms, gaps_ms, per_step: Some(per_step), profile: Some(profile) }
    }

    /// A trial that a peer ran, which tells its steps alone.
    pub fn of_peer(step_ms: Vec<f64>) -> Measured {
        let mut gaps_ms = step_ms.clone();
        gaps_ms.sort_by(f64::total_cmp);
        Measured { step_ms, gaps_ms, per_step: None, profile: None }
    }
}
