//! What decode steps took in each mode of the gate, to compare the modes by.

use std::time::Duration;

use super::percentile;
use crate::gate::GateMode;

/// Steps of one mode and size that are remembered, the latest.
const REMEMBERED: usize = 256;
const MODES: [GateMode; 3] = [GateMode::Strict, GateMode::Split, GateMode::Folded];

/// What decode steps took in one mode of the gate, with as many rows as the latest batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModeEffect {
    /// The mode.
    pub mode: GateMode,
    /// Rows in the batch.
    pub batch_rows: u64,
    /// Steps that were measured, the latest 256 at most.
    pub steps: u64,
    /// Median time of a step, from read to read.
    pub step_p50: Duration,
}

/// The latest step times of one mode and size. Allocates once, with the first.
#[derive(Debug, Default)]
struct Ring {
    times: Vec<Duration>,
    next: usize,
}

impl Ring {
    fn push(&mut self, took: Duration) {
        if self.times.len() < REMEMBERED {
            if self.times.is_empty() {
                self.times.reserve_exact(REMEMBERED);
            }
            self.times.push(took);
        } else {
            self.times[self.next] = took;
            self.next = (self.next + 1) % REMEMBERED;
        }
    }

    fn median(&self) -> Option<Duration> {
        let mut times = self.times.clone();
        times.sort_unstable();
        percentile(&times, 0.5)
    }
}

/// Remembers what steps took, by mode and size of the batch.
#[derive(Debug)]
pub(crate) struct ModeTimes {
    /// By mode, then by rows from 1.
    rings: [Vec<Ring>; 3],
    latest_rows: usize,
}

impl ModeTimes {
    /// Of batches of `max_rows` at most.
    pub(crate) fn new(max_rows: usize) -> Self {
        let rings = || (0..max_rows).map(|_| Ring::default()).collect();
        Self { rings: [rings(), rings(), rings()], latest_rows: 0 }
    }

    /// Notes a step of `rows` rows, at least one.
    pub(crate) fn record(&mut self, mode: GateMode, rows: usize, took: Duration) {
        self.latest_rows = rows;
        if let Some(ring) = self.rings[mode as usize].get_mut(rows - 1) {
            ring.push(took);
        }
    }

    /// The modes in which batches of the latest size have run.
    pub(crate) fn effects(&self) -> Vec<ModeEffect> {
        let effect = |mode: GateMode| {
            let ring = self.rings[mode as usize].get(self.latest_rows.checked_sub(1)?)?;
            let (batch_rows, steps) = (self.latest_rows as u64, ring.times.len() as u64);
            Some(ModeEffect { mode, batch_rows, steps, step_p50: ring.median()? })
        };
        MODES.into_iter().filter_map(effect).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn effect(mode: GateMode, batch_rows: u64, steps: u64, ms: u32) -> ModeEffect {
        ModeEffect { mode, batch_rows, steps, step_p50: ms * MS }
    }

    #[test]
    fn modes_are_compared_at_the_size_of_the_latest_batch() {
        let mut times = ModeTimes::new(4);
        assert_eq!(times.effects(), []);
        for took in [9, 5, 7] {
            times.record(GateMode::Strict, 4, took * MS);
        }
        times.record(GateMode::Folded, 2, 2 * MS);
        assert_eq!(times.effects(), [effect(GateMode::Folded, 2, 1, 2)]);
        times.record(GateMode::Split, 4, 6 * MS);
        assert_eq!(times.effects(), [effect(GateMode::Strict, 4, 3, 7), effect(GateMode::Split, 4, 1, 6)]);
    }

    #[test]
    fn only_the_latest_steps_count_and_no_step_allocates_after_the_first() {
        let mut times = ModeTimes::new(1);
        times.record(GateMode::Split, 1, MS);
        let allocated = times.rings[GateMode::Split as usize][0].times.capacity();
        (0..300).for_each(|_| times.record(GateMode::Split, 1, MS));
        (0..200).for_each(|_| times.record(GateMode::Split, 1, 3 * MS));
        assert_eq!(times.effects(), [effect(GateMode::Split, 1, 256, 3)], "200 of the latest 256");
        assert_eq!(times.rings[GateMode::Split as usize][0].times.capacity(), allocated);
        assert_eq!(allocated, REMEMBERED);
    }
}
