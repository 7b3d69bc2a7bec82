//! How prefill and decode share the engine: pure arithmetic over measured times.
//!
//! While rows decode, a prefill chunk is cut to about 60 ms, and as many decode steps follow it as keep the mean ITL
//! within half as much again: with a chunk of P and steps of D, `N = ceil(P / (0.5 * D))` steps give a mean gap of
//! `D + P/N <= 1.5 * D`. While nothing decodes, a chunk takes about 250 ms: nobody can be kept waiting for tokens, but
//! a request to stop can, and a newcomer.
//!
//! The shortest prompt goes first, but one that has waited half a second goes before it and after a single decode
//! step. So a prompt waits at most that half second and, with n prompts overdue at once, n chunks and n steps: where
//! many long prompts meet, reading them wins over the mean ITL.

use std::time::{Duration, Instant};

/// Chunks are multiples of this, so that shapes repeat.
const CHUNK_STEP_TOKENS: usize = 32;
/// Largest chunk.
const MAX_CHUNK_TOKENS: usize = 2048;
/// First chunk while no row decodes: large enough to tell the rate, small enough for a slow device.
const UNMEASURED_CHUNK_TOKENS: usize = 256;
/// Time that one chunk may take while no row decodes.
const IDLE_BUDGET: Duration = Duration::from_millis(250);
/// Allowed growth of the mean ITL while a prompt is read.
const ITL_INFLATION: f64 = 0.5;
/// A row that has waited this long for a chunk goes first, after a single decode step.
pub(crate) const MAX_PARKED: Duration = Duration::from_millis(500);
/// Weight of the latest measurement in the running means.
const NEWEST_WEIGHT: f64 = 0.5;

/// A row that waits for its next chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parked {
    pub(crate) remaining_tokens: usize,
    /// Fewest go first.
    pub(crate) rank_tokens: usize,
    pub(crate) since: Instant,
}

/// The chunk to run now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Index into the parked rows.
    pub(crate) parked: usize,
    pub(crate) tokens: usize,
}

/// Measures chunks and steps, and decides which comes next.
#[derive(Debug)]
pub(crate) struct Pacer {
    budget: Duration,
    tokens_per_second: Option<f64>,
    step_seconds: Option<f64>,
    last_chunk: Duration,
    steps_since_chunk: u32,
}

impl Pacer {
    /// `budget`: time that one chunk may take while rows decode.
    pub(crate) fn new(budget: Duration) -> Self {
        Self {
            budget,
            tokens_per_second: None,
            step_seconds: None,
            last_chunk: Duration::ZERO,
            steps_since_chunk: 0,
        }
    }

    /// Notes a chunk that `decoding_rows` had to wait for.
    pub(crate) fn record_chunk(&mut self, tokens: usize, decoding_rows: usize, took: Duration) {
        // The last few tokens of a prompt cost more apiece; they say nothing of whole chunks.
        let is_telling = tokens >= CHUNK_STEP_TOKENS || self.tokens_per_second.is_none();
        if is_telling && !took.is_zero() {
            blend(&mut self.tokens_per_second, tokens as f64 / took.as_secs_f64());
        }
        self.last_chunk = if decoding_rows > 0 { took } else { Duration::ZERO };
        self.steps_since_chunk = 0;
    }

    pub(crate) fn record_step(&mut self, took: Duration) {
        blend(&mut self.step_seconds, took.as_secs_f64());
        self.steps_since_chunk += 1;
    }

    /// The chunk to run now, or `None` if a decode step comes first.
    pub(crate) fn next_chunk(&self, now: Instant, decoding_rows: usize, parked: &[Parked]) -> Option<Chunk> {
        let overdue = |row: &Parked| now.saturating_duration_since(row.since) >= MAX_PARKED;
        let is_overdue = parked.iter().any(overdue);
        let steps_owed = if is_overdue { 1 } else { self.steps_owed() };
        if decoding_rows > 0 && self.steps_since_chunk < steps_owed {
            return None;
        }
        // Overdue rows by age, then the others by what is left.
        let order = |row: &Parked| match overdue(row) {
            true => (None, Some(row.since)),
            false => (Some(row.rank_tokens), None),
        };
        let (index, row) = parked.iter().enumerate().min_by_key(|(_, row)| order(row))?;
        let limit = match decoding_rows {
            0 => self.chunk_tokens(IDLE_BUDGET, UNMEASURED_CHUNK_TOKENS),
            _ => self.chunk_tokens(self.budget, CHUNK_STEP_TOKENS),
        };
        Some(Chunk { parked: index, tokens: limit.min(row.remaining_tokens) })
    }

    /// Tokens that fit `budget` at the measured rate; `unmeasured` before there is one.
    fn chunk_tokens(&self, budget: Duration, unmeasured: usize) -> usize {
        let Some(rate) = self.tokens_per_second else { return unmeasured };
        let fitting = rate * budget.as_secs_f64();
        let whole_steps = fitting as usize / CHUNK_STEP_TOKENS * CHUNK_STEP_TOKENS;
        whole_steps.clamp(CHUNK_STEP_TOKENS, MAX_CHUNK_TOKENS)
    }

    /// Decode steps that must follow the last chunk.
    fn steps_owed(&self) -> u32 {
        match self.step_seconds {
            Some(step) if step > 0.0 => {
                (self.last_chunk.as_secs_f64() / (ITL_INFLATION * step)).ceil().max(1.0) as u32
            }
            _ => 1,
        }
    }
}

fn blend(mean: &mut Option<f64>, newest: f64) {
    *mean = Some(mean.map_or(newest, |old| old + NEWEST_WEIGHT * (newest - old)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn parked(remaining_tokens: usize, since: Instant) -> Parked {
        Parked { remaining_tokens, rank_tokens: remaining_tokens, since }
    }

    fn pacer(tokens_per_second: usize, step: Duration) -> Pacer {
        let mut pacer = Pacer::new(60 * MS);
        pacer.record_chunk(tokens_per_second, 0, Duration::from_secs(1));
        pacer.record_step(step);
        pacer
    }

    #[test]
    fn chunks_fit_60_ms_while_rows_decode_and_250_ms_when_none_does() {
        let now = Instant::now();
        for (rate, beside, alone) in
            [(10, 32, 32), (1_000, 32, 224), (1_100, 64, 256), (5_000, 288, 1_248), (1_000_000, 2_048, 2_048)]
        {
            let pacer = pacer(rate, 20 * MS);
            let chunk = pacer.next_chunk(now, 1, &[parked(9_999, now)]).expect("a step has run");
            assert_eq!(chunk.tokens, beside, "{rate} tok/s");
            let chunk = pacer.next_chunk(now, 0, &[parked(9_999, now)]).expect("nothing decodes");
            assert_eq!(chunk.tokens, alone, "{rate} tok/s");
        }
    }

    #[test]
    fn the_first_chunk_is_small_enough_for_any_device() {
        let now = Instant::now();
        let pacer = Pacer::new(60 * MS);
        let tokens = |rows| pacer.next_chunk(now, rows, &[parked(9_999, now)]).map(|chunk| chunk.tokens);
        assert_eq!((tokens(0), tokens(1)), (Some(256), None), "beside others, a step comes first");
    }

    #[test]
    fn the_last_tokens_of_a_prompt_do_not_shrink_the_next_chunks() {
        let now = Instant::now();
        let mut pacer = pacer(5_000, 20 * MS);
        pacer.record_chunk(3, 0, 30 * MS);
        let chunk = pacer.next_chunk(now, 0, &[parked(9_999, now)]).expect("nothing decodes");
        assert_eq!(chunk.tokens, 1_248);
    }

    #[test]
    fn a_chunk_that_nobody_waited_for_is_not_owed_for() {
        let now = Instant::now();
        let mut pacer = pacer(5_000, 20 * MS);
        pacer.record_chunk(1_248, 0, 250 * MS);
        pacer.record_step(20 * MS);
        assert!(pacer.next_chunk(now, 1, &[parked(9_999, now)]).is_some(), "one step is enough");
    }

    #[test]
    fn a_chunk_never_exceeds_what_is_left() {
        let now = Instant::now();
        let chunk = pacer(100_000, MS).next_chunk(now, 1, &[parked(7, now)]);
        assert_eq!(chunk, Some(Chunk { parked: 0, tokens: 7 }));
    }

    #[test]
    fn enough_steps_follow_a_chunk_to_bound_the_mean_itl() {
        for (chunk_ms, step_ms, expected) in [(60, 58, 3), (775, 58, 27), (60, 20, 6), (5, 100, 1)] {
            let now = Instant::now();
            let mut pacer = Pacer::new(60 * MS);
            pacer.record_step(step_ms * MS);
            pacer.record_chunk(64, 2, chunk_ms * MS);
            let mut steps = 0;
            while pacer.next_chunk(now, 2, &[parked(100, now)]).is_none() {
                pacer.record_step(step_ms * MS);
                steps += 1;
            }
            assert_eq!(steps, expected, "P = {chunk_ms} ms, D = {step_ms} ms");
            assert!(f64::from(step_ms) + f64::from(chunk_ms) / f64::from(steps) <= 1.5 * f64::from(step_ms));
        }
    }

    #[test]
    fn the_shortest_goes_first_until_another_is_overdue() {
        let start = Instant::now();
        let pacer = pacer(1_000, 20 * MS);
        let rows = [parked(900, start), parked(40, start + 300 * MS)];
        let first = pacer.next_chunk(start + 400 * MS, 1, &rows).expect("a step has run");
        assert_eq!(first.parked, 1);
        let later = pacer.next_chunk(start + 500 * MS, 1, &rows).expect("a step has run");
        assert_eq!(later.parked, 0, "it has waited half a second");
    }

    #[test]
    fn an_overdue_row_waits_for_one_step_only() {
        let now = Instant::now() + Duration::from_secs(1);
        let mut pacer = Pacer::new(60 * MS);
        pacer.record_step(10 * MS);
        pacer.record_chunk(32, 1, 4_000 * MS);
        let rows = [parked(900, now - MAX_PARKED)];
        assert_eq!(pacer.next_chunk(now, 1, &rows), None, "decode must not starve either");
        pacer.record_step(10 * MS);
        assert!(pacer.next_chunk(now, 1, &rows).is_some());
    }

    #[test]
    fn no_parked_prompt_starves_among_a_stream_of_shorter_ones() {
        let start = Instant::now();
        let mut now = start;
        let mut pacer = Pacer::new(60 * MS);
        let mut long = parked(20_000, now);
        let mut longest_wait = Duration::ZERO;
        // A new 30-token prompt arrives after every chunk: by length alone the long one would never run.
        while now < start + Duration::from_secs(60) && long.remaining_tokens > 0 {
            let rows = [long, parked(30, now)];
            match pacer.next_chunk(now, 3, &rows) {
                None => {
                    now += 20 * MS;
                    pacer.record_step(20 * MS);
                }
                Some(chunk) => {
                    let took = chunk.tokens as u32 * MS;
                    if chunk.parked == 0 {
                        longest_wait = longest_wait.max(now - long.since);
                        long.remaining_tokens -= chunk.tokens;
                    }
                    now += took;
                    pacer.record_chunk(chunk.tokens, 3, took);
                    if chunk.parked == 0 {
                        long.since = now;
                    }
                }
            }
        }
        assert!(longest_wait > Duration::ZERO, "the long prompt had a chunk");
        assert!(
            longest_wait <= MAX_PARKED + 100 * MS,
            "{longest_wait:?}: one chunk and one step late at most"
        );
    }
}
