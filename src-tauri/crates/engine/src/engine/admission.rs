//! Who may start, and from where: memory, slots, and prefixes that others have read.

use super::{Engine, prefixes::Start};
use crate::{
    EngineError,
    backend::{Backend, SnapshotId},
    memory::{LedgerUse, Load, Need, Verdict, kv_capacity_of},
    row::{Ending, Row},
};

/// Whether a request can start now.
enum Room {
    Made,
    Later,
    Never(EngineError),
}

impl<B: Backend> Engine<B> {
    /// Starts the prefill of queued rows while there are slots and memory for them: first come, first served, but that
    /// a few may pass one that waits for memory.
    pub(super) fn admit(&mut self) {
        self.share_prefixes();
        let mut place = 0;
        while self.batch.len() + self.scheduler.prefilling().len() < self.allowed_rows {
            let Some(row) = self.scheduler.waiting(place) else { break };
            let (need, start) = (row.need(), self.best_start(row.given(), None));
            match self.make_room(need, start.pinned()) {
                Room::Made => {
                    let id = self.scheduler.start(place, self.clock.now());
                    self.begin(id, start);
                    self.has_news = true;
                }
                Room::Later if self.scheduler.may_be_passed(place) => place += 1,
                Room::Later => break,
                Room::Never(error) => {
                    let row = self.scheduler.take_waiting(place);
                    self.end(row, Ending::Failed(error));
                }
            }
        }
        self.scheduler.tell_ahead();
    }

    /// Frees what is needed to start a request, `pinned` excepted, if that is enough.
    fn make_room(&mut self, need: Need, pinned: Option<SnapshotId>) -> Room {
        match self.ledger.verdict(&self.load(pinned), need) {
            Verdict::Fits => return Room::Made,
            Verdict::FitsAfterEviction { bytes } => self.evict(bytes, pinned),
            Verdict::Never { needed_bytes } => {
                return Room::Never(self.ledger.too_large(need, needed_bytes));
            }
            Verdict::WaitsFor { .. } if !self.is_alone() => return Room::Later,
            // Nobody will free anything any more, so all that can go goes before the request is refused.
            Verdict::WaitsFor { .. } => self.evict(u64::MAX, pinned),
        }
        // Measured again: memory that was only lent to the allocator is back now.
        match self.ledger.verdict(&self.load(pinned), need) {
            Verdict::Fits => Room::Made,
            Verdict::WaitsFor { bytes } if self.is_alone() => {
                Room::Never(self.ledger.too_large(need, self.ledger.limit_bytes() + bytes))
            }
            Verdict::Never { needed_bytes } => Room::Never(self.ledger.too_large(need, needed_bytes)),
            Verdict::FitsAfterEviction { .. } | Verdict::WaitsFor { .. } => Room::Later,
        }
    }

    /// Whether nobody will free memory but the engine itself.
    fn is_alone(&self) -> bool {
        !self.is_working() && !self.is_memory_shared
    }

    /// What is spoken for now.
    pub(super) fn load(&self, pinned: Option<SnapshotId>) -> Load {
        let reading = || self.scheduler.prefilling();
        let bytes_per_token = self.facts.kv_cache_bytes_per_token;
        let measured = self.backend.memory();
        let grown = self.batch.rows().iter().chain(reading()).map(|row| kv_capacity_of(row.need())).max();
        // A batch that was larger keeps its columns.
        let allocated = measured.kv_cache_bytes / (bytes_per_token * self.batch.len() as u64).max(1);
        let private_tokens: u64 = reading().map(|row| u64::from(row.kv_cache_tokens())).sum();
        let known_bytes = self.facts.model_bytes
            + measured.kv_cache_bytes
            + private_tokens * bytes_per_token
            + self.prefixes.bytes();
        Load {
            rows: self.batch.len() + reading().len(),
            capacity_tokens: grown.unwrap_or(0).max(allocated as usize),
            private_tokens: reading().map(|row: &Row| row.given().len() - 1).sum(),
            snapshot_bytes: self.prefixes.bytes(),
            evictable_bytes: self.prefixes.evictable_bytes(pinned),
            unexplained_bytes: measured.active_bytes.saturating_sub(known_bytes),
        }
    }

    pub(super) fn ledger_use(&self) -> LedgerUse {
        self.ledger.usage(&self.load(None))
    }

    /// Frees snapshots and gives the memory back.
    pub(super) fn evict(&mut self, bytes: u64, pinned: Option<SnapshotId>) {
        let evicted = self.prefixes.evict(bytes, pinned);
        evicted.into_iter().for_each(|snapshot| self.backend.drop_snapshot(snapshot));
        self.backend.trim_memory();
    }

    /// Decides where a row begins: at a snapshot, behind a row that reads the same, or at the start.
    pub(super) fn best_start(&self, prompt: &[crate::TokenId], id: Option<crate::RequestId>) -> Start {
        if !self.shares_prefixes() {
            return Start::Cold;
        }
        let hit = self.prefixes.longest(prompt);
        let leader = self.scheduler.best_leader(prompt, id);
        let gain = crate::prefix_cache::MIN_SHARED_TOKENS;
        match (hit, leader) {
            (Some(hit), Some(leader)) if leader.tokens < hit.tokens + gain => Start::At(hit),
            (_, Some(leader)) => Start::Behind(leader),
            (Some(hit), None) => Start::At(hit),
            (None, None) => Start::Cold,
        }
    }
}
