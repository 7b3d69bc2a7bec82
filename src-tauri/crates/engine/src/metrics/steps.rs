//! What recent decode steps took and did.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{RATE_WINDOW, drop_before_window, percentile};
use crate::{backend::Counters, gate::Reason, overlap::OverlapOff};

/// Decode steps that are remembered.
pub const REMEMBERED_STEPS: usize = 120;

/// One decode step, for a strip of bars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepBar {
    /// Counts decode steps since the engine started, from 1.
    pub step: u64,
    /// Rows in the batch.
    pub batch_rows: u64,
    /// Rows that went per row.
    pub per_row_rows: u64,
    /// Time of the step, from read to read.
    pub step_time: Duration,
}

/// Medians over the remembered decode steps, and what the latest one did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StepStats {
    /// Tokens per second of all rows over the last two seconds of decoding; 0 when idle.
    pub total_tok_s: f64,
    /// Rows in the latest decode step; 0 when idle.
    pub batch_rows: u64,
    /// Decode steps since the engine started.
    pub decode_steps: u64,
    /// Steps in which every row was fused.
    pub fused_steps: u64,
    /// Steps in which some row went per row.
    pub per_row_steps: u64,
    /// Median time of a step, from read to read.
    pub step_p50: Duration,
    /// Median host time to build the forward graph.
    pub forward_p50: Duration,
    /// Median host time to build the sampling graphs, waits left out.
    pub sample_p50: Duration,
    /// Median time blocked on the device, in waits and in submissions.
    pub wait_p50: Duration,
    /// Median host time after the read: detokenising, stop checks, events.
    pub host_p50: Duration,
    /// Evaluations submitted by the latest decode step.
    pub evals_per_step: u64,
    /// Blocking waits of the latest decode step.
    pub waits_per_step: u64,
    /// Host reads of the latest decode step.
    pub host_reads_per_step: u64,
    /// Why the latest decode step submitted no forward pass ahead; `None` if it did, or before the first step.
    pub overlap_off: Option<OverlapOff>,
    /// Steps since the engine started that submitted the next forward pass ahead.
    pub overlapped_steps: u64,
    /// Forward passes since the engine started that were still running right after the tokens before them were read.
    pub forwards_overlapped: u64,
    /// Forward passes since the engine started that were repeated, because a shortlist had proved too narrow.
    pub replays: u64,
    /// Median time spent inside submissions, which can block too.
    pub submit_p50: Duration,
    /// What was true of the latest batch as a whole; see [`crate::gate::GatePlan::batch_reasons`].
    pub batch_reasons: Vec<Reason>,
    /// Steps repeated at a wider shortlist since the engine started.
    pub width_misses: u64,
    /// Steps whose waits were not those the gate planned, width misses allowed for; anything but 0 is a defect.
    pub unplanned_waits: u64,
    /// Latest decode steps, oldest first, at most [`REMEMBERED_STEPS`].
    pub recent: Vec<StepBar>,
}

/// One finished decode step, as measured.
#[derive(Debug, Clone)]
pub(crate) struct StepSample {
    pub(crate) batch_rows: usize,
    pub(crate) per_row_rows: usize,
    /// Rows that gave a token.
    pub(crate) tokens: usize,
    pub(crate) expected_waits: u64,
    pub(crate) batch_reasons: Vec<Reason>,
    /// Why no forward pass was submitted ahead; `None` if one was.
    pub(crate) overlap_off: Option<OverlapOff>,
    /// Whether the forward pass repeated one that was submitted ahead.
    pub(crate) is_replay: bool,
    pub(crate) started_at: Instant,
    /// From the read of the step before to the read of this one; from the start, if something came in between.
    pub(crate) wall: Duration,
    /// Building and submitting forward passes, of this step and of the next one.
    pub(crate) forward: Duration,
    /// Building and waiting together.
    pub(crate) sampling: Duration,
    pub(crate) host: Duration,
    /// What the step added to the backend's totals.
    pub(crate) counted: Counters,
}

/// Remembers decode steps.
#[derive(Debug, Default)]
pub(crate) struct StepMetrics {
    recent: VecDeque<(u64, StepSample)>,
    decode_steps: u64,
    fused_steps: u64,
    overlapped_steps: u64,
    forwards_overlapped: u64,
    replays: u64,
    width_misses: u64,
    unplanned_waits: u64,
    /// Ends of steps within the rate window, with the tokens each gave.
    tokens: VecDeque<(Instant, usize)>,
    /// Start of the first step since the batch was last empty.
    busy_since: Option<Instant>,
}

impl StepSample {
    /// Time that the device kept the host: a submission blocks too while much is unfinished.
    fn blocked(&self) -> Duration {
        self.counted.waited + self.counted.submitting
    }
}

impl StepMetrics {
    /// Number of the step that is running or comes next, from 1.
    pub(crate) fn next_step(&self) -> u64 {
        self.decode_steps + 1
    }

    pub(crate) fn record(&mut self, sample: StepSample, now: Instant) {
        self.decode_steps += 1;
        self.fused_steps += u64::from(sample.per_row_rows == 0);
        self.width_misses += sample.counted.width_misses;
        self.overlapped_steps += u64::from(sample.overlap_off.is_none());
        self.forwards_overlapped += sample.counted.forwards_overlapped;
        self.replays += u64::from(sample.is_replay);
        let planned = sample.expected_waits + sample.counted.width_misses;
        if sample.counted.waits != planned {
            self.unplanned_waits += 1;
            tracing::warn!(planned, waits = sample.counted.waits, "a decode step waited as it should not");
        }
        self.busy_since.get_or_insert(sample.started_at);
        self.tokens.push_back((now, sample.tokens));
        drop_before_window(&mut self.tokens, now, |entry| entry.0);
        if self.recent.len() == REMEMBERED_STEPS {
            self.recent.pop_front();
        }
        self.recent.push_back((self.decode_steps, sample));
    }

    /// Notes that the batch is empty: rates start over with the next step.
    pub(crate) fn record_idle(&mut self) {
        self.busy_since = None;
        self.tokens.clear();
    }

    pub(crate) fn stats(&self, now: Instant) -> StepStats {
        let latest = self.recent.back().map(|(_, sample)| sample);
        let counted = latest.map(|sample| sample.counted).unwrap_or_default();
        StepStats {
            total_tok_s: self.total_tok_s(now),
            batch_rows: latest.filter(|_| self.busy_since.is_some()).map_or(0, |s| s.batch_rows as u64),
            decode_steps: self.decode_steps,
            fused_steps: self.fused_steps,
            per_row_steps: self.decode_steps - self.fused_steps,
            step_p50: self.median(|sample| sample.wall),
            forward_p50: self.median(|sample| sample.forward),
            sample_p50: self.median(|sample| sample.sampling.saturating_sub(sample.blocked())),
            wait_p50: self.median(StepSample::blocked),
            host_p50: self.median(|sample| sample.host),
            evals_per_step: counted.evals,
            waits_per_step: counted.waits,
            host_reads_per_step: counted.host_reads,
            overlap_off: latest.and_then(|sample| sample.overlap_off),
            overlapped_steps: self.overlapped_steps,
            forwards_overlapped: self.forwards_overlapped,
            replays: self.replays,
            submit_p50: self.median(|sample| sample.counted.submitting),
            batch_reasons: latest.map_or_else(Vec::new, |sample| sample.batch_reasons.clone()),
            width_misses: self.width_misses,
            unplanned_waits: self.unplanned_waits,
            recent: self.recent.iter().map(|(step, sample)| bar(*step, sample)).collect(),
        }
    }

    fn total_tok_s(&self, now: Instant) -> f64 {
        let Some(since) = self.busy_since else { return 0.0 };
        let span = now.saturating_duration_since(since).min(RATE_WINDOW);
        let is_recent = |at: Instant| now.saturating_duration_since(at) < RATE_WINDOW;
        let tokens: usize = self.tokens.iter().filter(|entry| is_recent(entry.0)).map(|entry| entry.1).sum();
        if span.is_zero() { 0.0 } else { tokens as f64 / span.as_secs_f64() }
    }

    fn median(&self, of: impl Fn(&StepSample) -> Duration) -> Duration {
        let mut values: Vec<_> = self.recent.iter().map(|(_, sample)| of(sample)).collect();
        values.sort_unstable();
        percentile(&values, 0.5).unwrap_or_default()
    }
}

fn bar(step: u64, sample: &StepSample) -> StepBar {
    StepBar {
        step,
        batch_rows: sample.batch_rows as u64,
        per_row_rows: sample.per_row_rows as u64,
        step_time: sample.wall,
    }
}
