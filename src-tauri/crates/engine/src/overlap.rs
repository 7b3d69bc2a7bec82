//! Whether the next forward pass is submitted before this step's tokens are read.
//!
//! Overlap hides the host's work behind the device's, but while two forward passes are under way the KV cache cannot
//! be written in place everywhere, and copies of it may cost more than the host's work does. Which of the two wins
//! depends on the machine and on the size of the batch, so it is measured.

use std::{collections::HashMap, time::Duration};

/// Whether forward passes may be submitted ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OverlapMode {
    /// Never.
    Off,
    /// Whenever the batch allows it.
    On,
    /// Where it proves faster than waiting, measured for each size of the batch.
    #[default]
    Adaptive,
}

/// Why a step submitted no forward pass ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverlapOff {
    /// [`OverlapMode::Off`].
    SwitchedOff,
    /// A request reads its prompt or waits to join.
    BatchGrowing,
    /// Some row goes per row: its token is not on the device in time.
    PerRowRows,
    /// Steps without it proved faster at this size of the batch: copies of the KV cache cost more than it hides.
    KvCopyCostly,
    /// Steps without it are being measured, to compare.
    Measuring,
    /// The device has no room for a second copy of the KV cache.
    MemoryPressure,
    /// Every row reaches its limit with this step's token.
    LastTokens,
}

impl OverlapOff {
    /// Whether the measured step times decided, and not the batch.
    fn is_by_measurement(self) -> bool {
        matches!(self, Self::KvCopyCostly | Self::Measuring)
    }
}

/// What decides about overlap besides the measured step times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OverlapFacts {
    /// Whether every row is in the fused graph.
    pub(crate) is_all_fused: bool,
    /// Whether a request reads its prompt or waits to join.
    pub(crate) is_growing: bool,
    /// Whether some row is certain not to reach its limit with this step's token.
    pub(crate) has_continuing_row: bool,
    /// Whether the device has room for a second copy of the KV cache.
    pub(crate) has_room: bool,
}

/// What makes steps alike: within one size both ways to run them cost about the same every time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BatchSize {
    rows: usize,
    /// Longest KV cache, rounded up to a power of two from 256 on.
    kv_cache_tokens: u32,
}

impl BatchSize {
    pub(crate) fn new(rows: usize, longest_kv_cache_tokens: u32) -> Self {
        Self { rows, kv_cache_tokens: longest_kv_cache_tokens.next_power_of_two().max(256) }
    }
}

/// How a step that was measured had run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arm {
    /// Neither took over a forward pass nor submitted one ahead.
    Sync,
    /// Did both.
    Overlapped,
}

/// Steps that are measured of each arm before one is chosen.
const TRIAL_STEPS: usize = 6;
/// Steps after which a choice is measured again.
const RETRIAL_STEPS: u32 = 2048;

/// Decides about overlap, step by step.
#[derive(Debug)]
pub(crate) struct OverlapPolicy {
    pub(crate) mode: OverlapMode,
    trials: HashMap<BatchSize, Trial>,
}

impl OverlapPolicy {
    pub(crate) fn new(mode: OverlapMode) -> Self {
        Self { mode, trials: HashMap::new() }
    }

    /// Why the step must not submit a forward pass ahead; `None` if it is to.
    pub(crate) fn decide(&self, facts: OverlapFacts, size: BatchSize) -> Option<OverlapOff> {
        if self.mode == OverlapMode::Off {
            return Some(OverlapOff::SwitchedOff);
        }
        let by_batch = [
            (!facts.is_all_fused, OverlapOff::PerRowRows),
            (facts.is_growing, OverlapOff::BatchGrowing),
            (!facts.has_continuing_row, OverlapOff::LastTokens),
            (!facts.has_room, OverlapOff::MemoryPressure),
        ];
        if let Some((_, off)) = by_batch.into_iter().find(|(holds, _)| *holds) {
            return Some(off);
        }
        match self.mode {
            OverlapMode::Adaptive => self.trials.get(&size).and_then(Trial::off),
            OverlapMode::On | OverlapMode::Off => None,
        }
    }

    /// Notes that a step of this size ran as `arm` says and took `took` from read to read. `off`: what was decided
    /// for it; what the batch decided is no trial.
    pub(crate) fn record(&mut self, size: BatchSize, arm: Arm, off: Option<OverlapOff>, took: Duration) {
        if self.mode == OverlapMode::Adaptive && off.is_none_or(OverlapOff::is_by_measurement) {
            self.trials.entry(size).or_default().record(arm, took);
        }
    }
}

/// What is known of one size of the batch.
#[derive(Debug, Default)]
struct Trial {
    overlapped: Vec<Duration>,
    sync: Vec<Duration>,
    /// The faster arm, and for how many steps it is still taken for granted.
    verdict: Option<(Arm, u32)>,
}

impl Trial {
    fn off(&self) -> Option<OverlapOff> {
        match self.verdict {
            Some((Arm::Overlapped, _)) => None,
            Some((Arm::Sync, _)) => Some(OverlapOff::KvCopyCostly),
            None => (self.overlapped.len() >= TRIAL_STEPS).then_some(OverlapOff::Measuring),
        }
    }

    fn record(&mut self, arm: Arm, took: Duration) {
        match &mut self.verdict {
            Some((_, 0)) => *self = Self::default(),
            Some((_, steps_left)) => *steps_left -= 1,
            None => {
                let steps = match arm {
                    Arm::Overlapped => &mut self.overlapped,
                    Arm::Sync => &mut self.sync,
                };
                if steps.len() < TRIAL_STEPS {
                    steps.push(took);
                }
                self.judge();
            }
        }
    }

    fn judge(&mut self) {
        if self.overlapped.len().min(self.sync.len()) < TRIAL_STEPS {
            return;
        }
        // The median: a step that compiles or cleans up counts for nothing.
        let median = |steps: &mut Vec<Duration>| {
            steps.sort_unstable();
            steps[TRIAL_STEPS / 2]
        };
        let is_worth_it = median(&mut self.overlapped) < median(&mut self.sync);
        self.verdict = Some((if is_worth_it { Arm::Overlapped } else { Arm::Sync }, RETRIAL_STEPS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const FINE: OverlapFacts =
        OverlapFacts { is_all_fused: true, is_growing: false, has_continuing_row: true, has_room: true };

    /// Runs `steps` on a machine where a step of each arm takes what `cost` says. Returns how each was decided.
    fn run(
        policy: &mut OverlapPolicy,
        size: BatchSize,
        steps: usize,
        cost: impl Fn(Arm) -> Duration,
    ) -> Vec<Option<OverlapOff>> {
        let step = |_| {
            let off = policy.decide(FINE, size);
            let arm = if off.is_none() { Arm::Overlapped } else { Arm::Sync };
            policy.record(size, arm, off, cost(arm));
            off
        };
        (0..steps).map(step).collect()
    }

    fn sync_costs(sync: Duration, overlapped: Duration) -> impl Fn(Arm) -> Duration {
        move |arm| if arm == Arm::Sync { sync } else { overlapped }
    }

    #[test]
    fn the_faster_way_is_kept_after_a_short_trial_of_both() {
        let size = BatchSize::new(4, 300);
        for (sync, overlapped, expected) in
            [(10, 8, None), (8, 10, Some(OverlapOff::KvCopyCostly)), (9, 9, Some(OverlapOff::KvCopyCostly))]
        {
            let mut policy = OverlapPolicy::new(OverlapMode::Adaptive);
            let decided = run(&mut policy, size, 500, sync_costs(sync * MS, overlapped * MS));
            assert_eq!(decided[..TRIAL_STEPS], [None; TRIAL_STEPS]);
            assert_eq!(decided[TRIAL_STEPS..2 * TRIAL_STEPS], [Some(OverlapOff::Measuring); TRIAL_STEPS]);
            assert!(
                decided[2 * TRIAL_STEPS..].iter().all(|off| *off == expected),
                "{sync} against {overlapped}"
            );
        }
    }

    #[test]
    fn each_size_of_the_batch_is_judged_by_itself_and_remembered() {
        let mut policy = OverlapPolicy::new(OverlapMode::Adaptive);
        let (small, large) = (BatchSize::new(1, 100), BatchSize::new(8, 4000));
        assert_eq!(small, BatchSize::new(1, 256), "within one capacity nothing changes");
        run(&mut policy, small, 50, sync_costs(10 * MS, 8 * MS));
        run(&mut policy, large, 50, sync_costs(30 * MS, 45 * MS));
        assert_eq!(policy.decide(FINE, large), Some(OverlapOff::KvCopyCostly));
        assert_eq!(policy.decide(FINE, small), None, "no second trial");
    }

    #[test]
    fn a_choice_is_tried_again_now_and_then() {
        let mut policy = OverlapPolicy::new(OverlapMode::Adaptive);
        let size = BatchSize::new(2, 300);
        run(&mut policy, size, 100, sync_costs(10 * MS, 8 * MS));
        let later = run(&mut policy, size, 4000, sync_costs(8 * MS, 10 * MS));
        assert_eq!(later.last(), Some(&Some(OverlapOff::KvCopyCostly)), "the machine has changed");
        let slow = later.iter().filter(|off| off.is_none()).count();
        assert!(slow <= RETRIAL_STEPS as usize + TRIAL_STEPS, "{slow} steps on the slower arm");
    }

    #[test]
    fn a_few_odd_steps_do_not_decide() {
        let mut policy = OverlapPolicy::new(OverlapMode::Adaptive);
        let size = BatchSize::new(2, 300);
        for step in 0..2 * TRIAL_STEPS {
            let off = policy.decide(FINE, size);
            let arm = if off.is_none() { Arm::Overlapped } else { Arm::Sync };
            let took = if step < 2 {
                900
            } else if arm == Arm::Sync {
                10
            } else {
                8
            };
            policy.record(size, arm, off, took * MS);
        }
        assert_eq!(policy.decide(FINE, size), None);
    }

    #[test]
    fn the_batch_can_forbid_it_whatever_was_measured() {
        let size = BatchSize::new(1, 1);
        for mode in [OverlapMode::On, OverlapMode::Adaptive] {
            let policy = OverlapPolicy::new(mode);
            let off = |facts| policy.decide(facts, size);
            assert_eq!(off(FINE), None);
            assert_eq!(off(OverlapFacts { is_all_fused: false, ..FINE }), Some(OverlapOff::PerRowRows));
            assert_eq!(off(OverlapFacts { is_growing: true, ..FINE }), Some(OverlapOff::BatchGrowing));
            assert_eq!(off(OverlapFacts { has_continuing_row: false, ..FINE }), Some(OverlapOff::LastTokens));
            assert_eq!(off(OverlapFacts { has_room: false, ..FINE }), Some(OverlapOff::MemoryPressure));
        }
        let policy = OverlapPolicy::new(OverlapMode::Off);
        assert_eq!(policy.decide(FINE, size), Some(OverlapOff::SwitchedOff));
    }

    #[test]
    fn steps_that_the_batch_decided_are_no_trial() {
        let mut policy = OverlapPolicy::new(OverlapMode::Adaptive);
        let size = BatchSize::new(1, 1);
        for _ in 0..100 {
            policy.record(size, Arm::Sync, Some(OverlapOff::BatchGrowing), MS);
        }
        assert_eq!(policy.decide(FINE, size), None, "the first trial is still to come");
        assert!(policy.trials.is_empty());
    }
}
