//! Timestamps to the figures people read: TTFT, ITL, decode tokens per second.

pub mod modes;
pub mod steps;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::{event::RequestSummary, gate::SamplingPath};

/// Span of the rolling rates.
pub const RATE_WINDOW: Duration = Duration::from_secs(2);

/// Steps over which the cost of the per-row path is averaged.
const COST_SPAN: u32 = 16;

/// The value that `fraction` of `sorted` does not exceed (nearest rank); `None` if there is none.
pub(crate) fn percentile(sorted: &[Duration], fraction: f64) -> Option<Duration> {
    let rank = (fraction * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// What is measured of one request, from arrival to end.
#[derive(Debug)]
pub(crate) struct RowMetrics {
    arrived_at: Instant,
    first_token_at: Option<Instant>,
    last_token_at: Option<Instant>,
    tokens: u32,
    /// Gaps between consecutive tokens, kept sorted: percentiles are read ten times a second.
    sorted_gaps: Vec<Duration>,
    /// Tokens after the first, within the rate window.
    recent: VecDeque<Instant>,
    fused_steps: u32,
    per_row_steps: u32,
    batch_rows_sum: u64,
    logprob_sum: f64,
    logprob_tokens: u32,
    /// Running mean.
    per_row_cost: Option<Duration>,
}

impl RowMetrics {
    pub(crate) fn new(arrived_at: Instant) -> Self {
        Self {
            arrived_at,
            first_token_at: None,
            last_token_at: None,
            tokens: 0,
            sorted_gaps: Vec::new(),
            recent: VecDeque::new(),
            fused_steps: 0,
            per_row_steps: 0,
            batch_rows_sum: 0,
            logprob_sum: 0.0,
            logprob_tokens: 0,
            per_row_cost: None,
        }
    }

    /// Counts a decode step of a batch of `batch_rows` that sampled this row.
    pub(crate) fn record_step(&mut self, path: SamplingPath, batch_rows: usize) {
        match path {
            SamplingPath::Fused => self.fused_steps += 1,
            SamplingPath::PerRow => self.per_row_steps += 1,
        }
        self.batch_rows_sum += batch_rows as u64;
    }

    /// Counts a token of the answer.
    pub(crate) fn record_token(&mut self, now: Instant) {
        self.tokens += 1;
        match self.last_token_at.replace(now) {
            None => self.first_token_at = Some(now),
            Some(before) => {
                let gap = now.saturating_duration_since(before);
                let at = self.sorted_gaps.partition_point(|other| *other <= gap);
                self.sorted_gaps.insert(at, gap);
                self.recent.push_back(now);
                drop_before_window(&mut self.recent, now, |at| *at);
            }
        }
    }

    /// Notes how long it took to sample the row in a graph of its own.
    pub(crate) fn record_per_row_cost(&mut self, took: Duration) {
        let blended = |mean: Duration| mean * (COST_SPAN - 1) / COST_SPAN + took / COST_SPAN;
        self.per_row_cost = Some(self.per_row_cost.map_or(took, blended));
    }

    pub(crate) fn per_row_cost(&self) -> Option<Duration> {
        self.per_row_cost
    }

    pub(crate) fn record_logprob(&mut self, logprob: f32) {
        self.logprob_sum += f64::from(logprob);
        self.logprob_tokens += 1;
    }

    pub(crate) fn ttft(&self) -> Option<Duration> {
        Some(self.first_token_at?.saturating_duration_since(self.arrived_at))
    }

    pub(crate) fn itl(&self, fraction: f64) -> Option<Duration> {
        percentile(&self.sorted_gaps, fraction)
    }

    /// Tokens after the first within the last two seconds, over the time since the first token or those two
    /// seconds; `None` before the second token.
    pub(crate) fn recent_tok_s(&self, now: Instant) -> Option<f64> {
        let first = self.first_token_at.filter(|_| self.tokens > 1)?;
        let span = now.saturating_duration_since(first).min(RATE_WINDOW);
        let is_recent = |at: &&Instant| now.saturating_duration_since(**at) < RATE_WINDOW;
        rate(self.recent.iter().filter(is_recent).count(), span)
    }

    /// (tokens - 1) / (last token - first token).
    fn decode_tok_s(&self) -> Option<f64> {
        let span = self.last_token_at?.saturating_duration_since(self.first_token_at?);
        rate(self.sorted_gaps.len(), span).filter(|_| self.tokens > 1)
    }

    /// Figures of the whole request.
    pub(crate) fn summary(&self, prompt_tokens: u32, seed: u64) -> RequestSummary {
        let steps = self.fused_steps + self.per_row_steps;
        let mean = |sum: f64, count: u32| (count > 0).then(|| sum / f64::from(count));
        RequestSummary {
            ttft: self.ttft(),
            decode_tok_s: self.decode_tok_s(),
            itl_p50: self.itl(0.5),
            itl_p95: self.itl(0.95),
            prompt_tokens,
            cached_tokens: 0,
            answer_tokens: self.tokens,
            thinking_tokens: 0,
            fused_steps: self.fused_steps,
            per_row_steps: self.per_row_steps,
            mean_batch_rows: mean(self.batch_rows_sum as f64, steps).unwrap_or(0.0),
            mean_logprob: mean(self.logprob_sum, self.logprob_tokens),
            seed,
            tokens: Vec::new(),
        }
    }
}

/// `None` for an empty span: two tokens at the same instant have no rate.
fn rate(count: usize, span: Duration) -> Option<f64> {
    (!span.is_zero()).then(|| count as f64 / span.as_secs_f64())
}

fn drop_before_window<T>(recent: &mut VecDeque<T>, now: Instant, at: impl Fn(&T) -> Instant) {
    while recent.front().is_some_and(|oldest| now.saturating_duration_since(at(oldest)) >= RATE_WINDOW) {
        recent.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn decode_speed_leaves_out_the_time_to_the_first_token() {
        let start = Instant::now();
        let mut metrics = RowMetrics::new(start);
        for ms in [1000, 1100, 1200, 1500] {
            metrics.record_token(after(start, ms));
        }
        let summary = metrics.summary(7, 9);
        assert_eq!(summary.ttft, Some(Duration::from_secs(1)));
        assert_eq!(summary.decode_tok_s, Some(6.0), "3 gaps in half a second");
        assert_eq!(summary.itl_p50, Some(Duration::from_millis(100)));
        assert_eq!(summary.itl_p95, Some(Duration::from_millis(300)));
        assert_eq!((summary.answer_tokens, summary.prompt_tokens, summary.seed), (4, 7, 9));
    }

    #[test]
    fn one_token_has_no_speed() {
        let start = Instant::now();
        let mut metrics = RowMetrics::new(start);
        metrics.record_token(after(start, 10));
        assert_eq!(metrics.recent_tok_s(after(start, 20)), None);
        assert_eq!(metrics.summary(1, 0).decode_tok_s, None);
        assert_eq!(metrics.summary(1, 0).itl_p50, None);
    }

    #[test]
    fn the_rolling_rate_falls_when_a_row_stalls() {
        let start = Instant::now();
        let mut metrics = RowMetrics::new(start);
        for i in 0..=100 {
            metrics.record_token(after(start, 100 * i));
        }
        let live = metrics.recent_tok_s(after(start, 10_000)).expect("101 tokens");
        assert!((live - 10.0).abs() < 0.01, "{live}");
        let stalled = metrics.recent_tok_s(after(start, 11_000)).expect("101 tokens");
        assert!((stalled - 5.0).abs() < 0.6, "{stalled}");
        assert_eq!(metrics.recent_tok_s(after(start, 13_000)), Some(0.0));
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<_> = (1..=20).map(Duration::from_millis).collect();
        assert_eq!(percentile(&values, 0.5), Some(Duration::from_millis(10)));
        assert_eq!(percentile(&values, 0.95), Some(Duration::from_millis(19)));
        assert_eq!(percentile(&values[..1], 0.95), Some(Duration::from_millis(1)));
        assert_eq!(percentile(&[], 0.5), None);
    }
}
