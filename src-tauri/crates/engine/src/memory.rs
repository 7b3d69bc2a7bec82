//! How much device memory is spoken for, and whether one more request fits. Pure arithmetic.
//!
//! A request is admitted only if everything fits even when every admitted row grows to its last token: no row is
//! ever stopped half way for want of memory. What frees it again is a row that ends; snapshots give way at any time.

use crate::{
    EngineError,
    backend::{BackendFacts, kv_capacity_tokens},
};

/// Copies of the logits, `[B, vocab]` f32, that sampling may hold at once.
const SAMPLER_LOGITS_COPIES: u64 = 6;
const LOGITS_BYTES: u64 = 4;
/// Kept free for activations of a prefill chunk and the runtime, unless a sixteenth of the limit is less.
const MAX_RESERVE_BYTES: u64 = 256 << 20;

/// What one request can come to need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) prompt_tokens: usize,
    /// Prompt and answer so far.
    pub(crate) given_tokens: usize,
    /// Prompt and the longest answer it may give.
    pub(crate) final_tokens: usize,
}

impl Need {
    pub(crate) fn new(
        prompt_tokens: usize,
        given_tokens: usize,
        max_tokens: u32,
        context_tokens: u32,
    ) -> Self {
        let longest = prompt_tokens.saturating_add(max_tokens as usize);
        Self { prompt_tokens, given_tokens, final_tokens: longest.min(context_tokens as usize) }
    }
}

/// Columns that the batch's KV cache grows to for a request, at most.
pub(crate) fn kv_capacity_of(need: Need) -> usize {
    kv_capacity_tokens(need.final_tokens)
}

/// What the admitted requests have and can come to need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Load {
    /// Rows of the batch and prompts being read.
    pub(crate) rows: usize,
    /// Columns that every row of the batch may come to have, empty ones included.
    pub(crate) capacity_tokens: usize,
    /// Tokens that private KV caches hold or will hold.
    pub(crate) private_tokens: usize,
    pub(crate) snapshot_bytes: u64,
    /// Of those, what can be evicted.
    pub(crate) evictable_bytes: u64,
    /// Measured beyond what the ledger knows of.
    pub(crate) unexplained_bytes: u64,
}

/// Whether one more request fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fits,
    /// Once this many bytes of snapshots are gone.
    FitsAfterEviction {
        bytes: u64,
    },
    /// Until rows that run free this many bytes; all snapshots are counted as gone.
    WaitsFor {
        bytes: u64,
    },
    /// Not even alone.
    Never {
        needed_bytes: u64,
    },
}

/// Memory spoken for, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LedgerUse {
    /// What the engine may plan with.
    pub limit_bytes: u64,
    /// Weights.
    pub weights_bytes: u64,
    /// KV cache of the batch, grown to the last token of every admitted row, empty columns included.
    pub kv_cache_bytes: u64,
    /// Private KV caches of prompts being read, each grown to the whole prompt.
    pub prefill_bytes: u64,
    /// KV snapshots kept for prompts that begin alike.
    pub snapshot_bytes: u64,
    /// Kept free for what comes and goes: buffers copied when rows join, logits, activations.
    pub reserved_bytes: u64,
}

impl LedgerUse {
    /// What admission would still give to new requests: all but what is spoken for, snapshots given up.
    pub fn free_bytes(&self) -> u64 {
        self.limit_bytes.saturating_sub(self.total_bytes() - self.snapshot_bytes)
    }

    /// All of it.
    pub fn total_bytes(&self) -> u64 {
        self.weights_bytes
            + self.kv_cache_bytes
            + self.prefill_bytes
            + self.snapshot_bytes
            + self.reserved_bytes
    }
}

/// The constants of the sum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ledger {
    limit_bytes: u64,
    weights_bytes: u64,
    bytes_per_token: u64,
    layers: u64,
    logits_bytes_per_row: u64,
    reserve_bytes: u64,
}

impl Ledger {
    pub(crate) fn new(facts: &BackendFacts) -> Self {
        Self {
            limit_bytes: facts.memory_limit_bytes,
            weights_bytes: facts.model_bytes,
            bytes_per_token: facts.kv_cache_bytes_per_token,
            layers: u64::from(facts.layers.max(1)),
            logits_bytes_per_row: u64::from(facts.vocab_width) * LOGITS_BYTES * SAMPLER_LOGITS_COPIES,
            reserve_bytes: MAX_RESERVE_BYTES.min(facts.memory_limit_bytes / 16),
        }
    }

    fn kv_bytes(&self, tokens: usize) -> u64 {
        self.bytes_per_token * tokens as u64
    }

    /// What is spoken for under `load`.
    pub(crate) fn usage(&self, load: &Load) -> LedgerUse {
        let row_bytes = self.kv_bytes(load.capacity_tokens);
        let kv_cache_bytes = row_bytes * load.rows as u64;
        // Growing and joining go layer by layer: one layer is there twice.
        let copied_bytes = kv_cache_bytes / self.layers;
        let logits_bytes = self.logits_bytes_per_row * load.rows as u64;
        LedgerUse {
            limit_bytes: self.limit_bytes,
            weights_bytes: self.weights_bytes,
            kv_cache_bytes,
            prefill_bytes: self.kv_bytes(load.private_tokens),
            snapshot_bytes: load.snapshot_bytes,
            reserved_bytes: copied_bytes + logits_bytes + self.reserve_bytes.max(load.unexplained_bytes),
        }
    }

    pub(crate) fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Bytes beyond the limit under `load`.
    pub(crate) fn excess_bytes(&self, load: &Load) -> u64 {
        self.usage(load).total_bytes().saturating_sub(self.limit_bytes)
    }

    /// `load` with one more request.
    fn with(load: &Load, need: Need) -> Load {
        Load {
            rows: load.rows + 1,
            capacity_tokens: load.capacity_tokens.max(kv_capacity_of(need)),
            private_tokens: load.private_tokens + need.given_tokens - 1,
            ..*load
        }
    }

    /// Whether a request fits beside `load`.
    pub(crate) fn verdict(&self, load: &Load, need: Need) -> Verdict {
        let missing_bytes = self.excess_bytes(&Self::with(load, need));
        match missing_bytes.checked_sub(load.evictable_bytes) {
            _ if missing_bytes == 0 => Verdict::Fits,
            None | Some(0) => Verdict::FitsAfterEviction { bytes: missing_bytes },
            Some(_) if self.excess_alone(need) > 0 => {
                Verdict::Never { needed_bytes: self.limit_bytes + self.excess_alone(need) }
            }
            Some(bytes) => Verdict::WaitsFor { bytes },
        }
    }

    fn excess_alone(&self, need: Need) -> u64 {
        self.excess_bytes(&Self::with(&Load::default(), need))
    }

    /// Refuses what would not fit even alone.
    ///
    /// # Errors
    /// [`EngineError::TooLarge`].
    pub(crate) fn check(&self, need: Need) -> Result<(), EngineError> {
        match self.excess_alone(need) {
            0 => Ok(()),
            excess => Err(self.too_large(need, self.limit_bytes + excess)),
        }
    }

    pub(crate) fn too_large(&self, need: Need, needed_bytes: u64) -> EngineError {
        let fitting_answer_tokens = self.fitting_answer_tokens(need) as u32;
        EngineError::TooLarge { needed_bytes, limit_bytes: self.limit_bytes, fitting_answer_tokens }
    }

    /// The longest answer that would fit after the same prompt, if it is longer than the answer so far; else 0.
    fn fitting_answer_tokens(&self, need: Need) -> usize {
        let fits = |answer: usize| {
            self.excess_alone(Need { final_tokens: need.prompt_tokens + answer, ..need }) == 0
        };
        // Answers that fit are the shorter ones: the boundary lies in `low..high`.
        let (mut low, mut high) = (0, need.final_tokens - need.prompt_tokens + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) { low = middle } else { high = middle }
        }
        if need.prompt_tokens + low > need.given_tokens { low } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 bytes a token in 2 layers, 1,000 bytes of weights, no logits.
    fn ledger(limit_bytes: u64) -> Ledger {
        Ledger {
            limit_bytes,
            weights_bytes: 1_000,
            bytes_per_token: 10,
            layers: 2,
            logits_bytes_per_row: 0,
            reserve_bytes: 100,
        }
    }

    fn need(prompt_tokens: usize, final_tokens: usize) -> Need {
        Need { prompt_tokens, given_tokens: prompt_tokens, final_tokens }
    }

    #[test]
    fn a_row_is_counted_with_its_empty_columns_its_prompt_and_what_joining_copies() {
        let load = Ledger::with(&Load { rows: 1, capacity_tokens: 256, ..Load::default() }, need(101, 300));
        let used = ledger(1 << 20).usage(&load);
        assert_eq!(used.kv_cache_bytes, 2 * 512 * 10, "both rows grow to the longer one's 512 columns");
        assert_eq!(used.prefill_bytes, 1_000, "all of the prompt but its last token");
        assert_eq!(used.reserved_bytes, 5_120 + 100, "one of two layers, and the reserve");
        assert_eq!(used.total_bytes(), 1_000 + 10_240 + 1_000 + 5_220);
    }

    #[test]
    fn what_is_free_is_what_a_request_may_come_to_need() {
        let load = Load { rows: 1, capacity_tokens: 256, snapshot_bytes: 500, ..Load::default() };
        let spoken_for = 1_000 + 2_560 + 1_280 + 100;
        let free = |limit| ledger(limit).usage(&load).free_bytes();
        assert_eq!(free(spoken_for + 7_777), 7_777, "snapshots give way");
        assert_eq!(free(spoken_for - 1), 0);
    }

    #[test]
    fn a_verdict_says_how_much_is_missing() {
        // One row of 256 columns: 1,000 + 2,560 + 90 + 1,280 + 100.
        let small = need(10, 256);
        let alone = 5_030;
        assert_eq!(ledger(alone).verdict(&Load::default(), small), Verdict::Fits);
        let cached = Load { snapshot_bytes: 500, evictable_bytes: 500, ..Load::default() };
        assert_eq!(ledger(alone + 500).verdict(&cached, small), Verdict::Fits);
        assert_eq!(ledger(alone + 100).verdict(&cached, small), Verdict::FitsAfterEviction { bytes: 400 });
        let pinned = Load { evictable_bytes: 0, ..cached };
        assert_eq!(ledger(alone + 100).verdict(&pinned, small), Verdict::WaitsFor { bytes: 400 });
        let beside = Load { rows: 1, capacity_tokens: 256, ..cached };
        assert_eq!(
            ledger(alone).verdict(&beside, small),
            Verdict::WaitsFor { bytes: 2_560 + 1_280 },
            "with the snapshots gone, the other row's share is missing"
        );
        let never = ledger(alone - 1).verdict(&beside, small);
        assert_eq!(never, Verdict::Never { needed_bytes: alone });
    }

    #[test]
    fn memory_nobody_knows_of_counts_where_it_exceeds_the_reserve() {
        let with = |unexplained_bytes| Load { unexplained_bytes, ..Load::default() };
        let ledger = ledger(5_030);
        assert_eq!(ledger.verdict(&with(100), need(10, 256)), Verdict::Fits);
        assert_eq!(ledger.verdict(&with(101), need(10, 256)), Verdict::WaitsFor { bytes: 1 });
    }

    #[test]
    fn a_refusal_says_what_would_fit() {
        let error = ledger(5_030).check(need(10, 2_000)).expect_err("2048 columns");
        let EngineError::TooLarge { needed_bytes, limit_bytes, fitting_answer_tokens } = error else {
            panic!("{error:?}")
        };
        assert_eq!((needed_bytes, limit_bytes), (1_000 + 20_480 + 90 + 10_240 + 100, 5_030));
        assert_eq!(fitting_answer_tokens, 246, "256 columns with the prompt's 10");
        assert!(ledger(5_030).check(need(10, 10 + 246)).is_ok());
        assert!(ledger(5_030).check(need(10, 10 + 247)).is_err());
        let hopeless = ledger(5_000).check(need(10, 300));
        assert!(matches!(hopeless, Err(EngineError::TooLarge { fitting_answer_tokens: 0, .. })));
    }
}
