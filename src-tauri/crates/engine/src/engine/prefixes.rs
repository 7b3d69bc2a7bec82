//! KV snapshots: taken where a prompt or an answer ends, taken over by prompts that begin alike.

use super::Engine;
use crate::{
    BackendError, RequestId, TokenId,
    backend::{Backend, SnapshotId},
    memory::Load,
    prefix_cache::{Hit, MIN_SHARED_TOKENS},
    request::OwnerId,
    row::{Ending, Row},
    scheduler::Leader,
};

/// Where a prompt begins to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    Cold,
    /// After the tokens of a snapshot.
    At(Hit),
    /// After tokens that another row is reading.
    Behind(Leader),
}

impl Start {
    /// Snapshot that must not be evicted before the row has begun.
    pub(super) fn pinned(self) -> Option<SnapshotId> {
        match self {
            Self::At(hit) => Some(hit.snapshot),
            Self::Cold | Self::Behind(_) => None,
        }
    }
}

impl<B: Backend> Engine<B> {
    pub(super) fn shares_prefixes(&self) -> bool {
        self.max_snapshot_bytes > 0
    }

    /// Lets a row that was just admitted, or that lost its leader, begin.
    pub(super) fn begin(&mut self, id: RequestId, start: Start) {
        match start {
            Start::Cold => self.scheduler.decide(id, None),
            Start::Behind(leader) => self.scheduler.decide(id, Some(leader)),
            Start::At(hit) => {
                self.prefixes.touch(hit.snapshot);
                self.take_over(id, hit);
            }
        }
    }

    /// Opens a row's private KV cache with columns of a snapshot; without them, it reads the whole prompt itself.
    fn take_over(&mut self, id: RequestId, hit: Hit) {
        self.scheduler.decide(id, None);
        match self.backend.restore(id, hit.snapshot, hit.tokens as u32) {
            Ok(()) => {
                let now = self.clock.now();
                let row = self.scheduler.get_mut(id);
                row.into_iter().for_each(|row| row.record_restored(hit.tokens, now));
            }
            Err(error) => tracing::warn!(error = &*error, %id, "a KV snapshot could not be restored"),
        }
    }

    /// Hands what has been read on to the rows that wait for it, and keeps the prompts that are read to the end.
    pub(super) fn share_prefixes(&mut self) {
        while let Some(id) = self.scheduler.next_undecided() {
            let prompt = self.scheduler.get_mut(id).map(|row| row.given().to_vec()).unwrap_or_default();
            let start = self.best_start(&prompt, Some(id));
            self.begin(id, start);
        }
        // In order of admission: a follower may lead others.
        let reading: Vec<RequestId> = self.scheduler.prefilling().map(|row| row.id).collect();
        for id in reading {
            let Some(row) = self.scheduler.prefilling().find(|row| row.id == id) else { continue };
            let due = self.scheduler.due_followers(row);
            if row.prefill_remaining() == 0
                && let Some(owner) = row.owner()
            {
                let (tokens, kept_tokens) = (row.written_tokens(), row.prompt_tokens() - 1);
                self.keep_prompt(id, tokens, kept_tokens, owner);
            }
            if !due.is_empty() {
                self.feed(id, due);
            }
        }
    }

    /// Gives each follower the tokens that it shares with `leader`.
    fn feed(&mut self, leader: RequestId, followers: Vec<(RequestId, usize)>) {
        let snapshot = match self.backend.snapshot_prefill(leader) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                tracing::warn!(error = &*error, %leader, "a prompt could not be shared");
                return followers.into_iter().for_each(|(id, _)| self.scheduler.decide(id, None));
            }
        };
        for (id, tokens) in followers {
            self.take_over(id, Hit { snapshot, tokens });
        }
        self.backend.drop_snapshot(snapshot);
    }

    fn keep_prompt(&mut self, id: RequestId, tokens: Vec<TokenId>, kept_tokens: usize, owner: OwnerId) {
        let load = self.load(None);
        // The snapshot is the private KV cache itself, which the batch is about to copy.
        let load = Load { private_tokens: load.private_tokens.saturating_sub(tokens.len()), ..load };
        self.keep(tokens, kept_tokens, owner, load, |backend| backend.snapshot_prefill(id));
    }

    /// Keeps the KV caches of rows that left the batch, before the backend drops them. `keep`: the rows that stay.
    pub(super) fn keep_answers(&mut self, gone: &[(Row, Ending)], keep: &[usize]) {
        let places = (0..gone.len() + keep.len()).filter(|place| !keep.contains(place));
        for (place, (row, ending)) in places.zip(gone) {
            if let (Some(owner), Ending::Finished(_)) = (row.owner(), ending) {
                let tokens = row.written_tokens();
                let columns = tokens.len() as u32;
                let take = |backend: &mut B| backend.snapshot_row(place, columns);
                self.keep(tokens, row.prompt_tokens() - 1, owner, self.load(None), take);
            }
        }
    }

    /// Takes a snapshot of `tokens` if it is worth it and memory allows. `kept_tokens`: see
    /// [`crate::prefix_cache::PrefixCache::supersede`].
    fn keep(
        &mut self,
        tokens: Vec<TokenId>,
        kept_tokens: usize,
        owner: OwnerId,
        load: Load,
        take: impl FnOnce(&mut B) -> Result<SnapshotId, BackendError>,
    ) {
        let bytes = tokens.len() as u64 * self.facts.kv_cache_bytes_per_token;
        if tokens.len() < MIN_SHARED_TOKENS || bytes > self.max_snapshot_bytes {
            return;
        }
        let superseded = self.prefixes.supersede(&tokens, kept_tokens, owner);
        self.drop_snapshots(superseded);
        if self.prefixes.share(&tokens, owner).is_some() {
            return;
        }
        let (kept_bytes, evictable_bytes) = (self.prefixes.bytes(), self.prefixes.evictable_bytes(None));
        let load = Load { snapshot_bytes: kept_bytes + bytes, ..load };
        let over_limit = self.ledger.excess_bytes(&load);
        if over_limit > evictable_bytes {
            return;
        }
        let over_share = (kept_bytes + bytes).saturating_sub(self.max_snapshot_bytes);
        if over_limit.max(over_share) > 0 {
            self.evict(over_limit.max(over_share), None);
        }
        match take(&mut self.backend) {
            Ok(snapshot) => self.prefixes.insert(snapshot, tokens, owner),
            Err(error) => tracing::warn!(error = &*error, "no KV snapshot was taken"),
        }
    }

    /// Frees what was kept for `owner`; its requests that still run leave nothing behind.
    pub fn forget(&mut self, owner: OwnerId) {
        let forgotten = self.prefixes.forget(owner);
        self.drop_snapshots(forgotten);
        let rows = self.batch.rows_mut().chain(self.scheduler.rows_mut());
        rows.filter(|row| row.owner() == Some(owner)).for_each(Row::disown);
        self.has_news = true;
    }

    fn drop_snapshots(&mut self, snapshots: Vec<SnapshotId>) {
        snapshots.into_iter().for_each(|snapshot| self.backend.drop_snapshot(snapshot));
    }
}
