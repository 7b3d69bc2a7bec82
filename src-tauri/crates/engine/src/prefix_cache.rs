//! Which prompts begin like something whose KV cache is still there. Pure: knows tokens and sizes, not arrays.
//!
//! An entry is a snapshot and the tokens of its columns. KV caches here hold every column, never a ring of the last
//! few, so an entry can be cut anywhere: a prompt uses the longest prefix it shares with any entry. Tokens say all
//! there is to say, because a cache lives and dies with one loaded model.

use crate::{TokenId, backend::SnapshotId, request::OwnerId};

/// Prefixes shorter than this are read again: restoring them gains nothing.
pub(crate) const MIN_SHARED_TOKENS: usize = 32;

/// Columns of a snapshot that a prompt can start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) snapshot: SnapshotId,
    pub(crate) tokens: usize,
}

#[derive(Debug)]
struct Entry {
    snapshot: SnapshotId,
    tokens: Vec<TokenId>,
    /// Those who want it kept; nobody else keeps it alive.
    owners: Vec<OwnerId>,
    used: u64,
}

/// Snapshots by the tokens they hold.
#[derive(Debug)]
pub(crate) struct PrefixCache {
    entries: Vec<Entry>,
    /// Counts uses: the entry with the lowest count was used longest ago.
    uses: u64,
    bytes_per_token: u64,
}

/// Tokens that two sequences have in common from the start.
pub(crate) fn shared_tokens(a: &[TokenId], b: &[TokenId]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Tokens of `prompt` that can be taken over from a sequence that starts with `tokens`: at most all but the last,
/// whose logits are needed; 0 if it is not worth it.
pub(crate) fn usable_tokens(prompt: &[TokenId], tokens: &[TokenId]) -> usize {
    let shared = shared_tokens(&prompt[..prompt.len() - 1], tokens);
    if shared < MIN_SHARED_TOKENS { 0 } else { shared }
}

impl PrefixCache {
    pub(crate) fn new(bytes_per_token: u64) -> Self {
        Self { entries: Vec::new(), uses: 0, bytes_per_token }
    }

    fn bytes_of(&self, tokens: usize) -> u64 {
        tokens as u64 * self.bytes_per_token
    }

    /// Bytes of all snapshots.
    pub(crate) fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| self.bytes_of(entry.tokens.len())).sum()
    }

    /// Bytes of all snapshots but `pinned`.
    pub(crate) fn evictable_bytes(&self, pinned: Option<SnapshotId>) -> u64 {
        let others = self.entries.iter().filter(|entry| Some(entry.snapshot) != pinned);
        others.map(|entry| self.bytes_of(entry.tokens.len())).sum()
    }

    /// The longest usable prefix of `prompt`, give or take the one token that the end of a prompt lacks, from the
    /// shortest entry that has it: a longer one that goes on differently is then left to age.
    pub(crate) fn longest(&self, prompt: &[TokenId]) -> Option<Hit> {
        let usable = |entry: &Entry| usable_tokens(prompt, &entry.tokens);
        let longest = self.entries.iter().map(usable).filter(|tokens| *tokens > 0).max()?;
        let as_long = self.entries.iter().filter(|entry| usable(entry) + 1 >= longest);
        let shortest = as_long.min_by_key(|entry| entry.tokens.len())?;
        Some(Hit { snapshot: shortest.snapshot, tokens: usable(shortest) })
    }

    /// Notes that a snapshot was used.
    pub(crate) fn touch(&mut self, snapshot: SnapshotId) {
        self.uses += 1;
        let entry = self.entries.iter_mut().find(|entry| entry.snapshot == snapshot);
        entry.into_iter().for_each(|entry| entry.used = self.uses);
    }

    /// Makes `owner` a keeper of the entry with exactly these tokens. Returns its snapshot, if there is one.
    pub(crate) fn share(&mut self, tokens: &[TokenId], owner: OwnerId) -> Option<SnapshotId> {
        let entry = self.entries.iter_mut().find(|entry| entry.tokens == tokens)?;
        if !entry.owners.contains(&owner) {
            entry.owners.push(owner);
        }
        let snapshot = entry.snapshot;
        self.touch(snapshot);
        Some(snapshot)
    }

    /// Adds a snapshot of `tokens`.
    pub(crate) fn insert(&mut self, snapshot: SnapshotId, tokens: Vec<TokenId>, owner: OwnerId) {
        self.uses += 1;
        self.entries.push(Entry { snapshot, tokens, owners: vec![owner], used: self.uses });
    }

    /// Gives up what `owner` no longer needs now that it has an entry of `tokens`: shorter entries that these tokens
    /// contain. One of `kept_tokens` stays: the end of the prompt, which the next turn starts from when the template
    /// drops the thinking from the answer, so that the long answer can go first. Returns snapshots to free.
    pub(crate) fn supersede(
        &mut self,
        tokens: &[TokenId],
        kept_tokens: usize,
        owner: OwnerId,
    ) -> Vec<SnapshotId> {
        self.disown(owner, |entry| {
            let length = entry.tokens.len();
            length < tokens.len() && length != kept_tokens && tokens.starts_with(&entry.tokens)
        })
    }

    /// Frees everything that only `owner` kept. Returns snapshots to free.
    pub(crate) fn forget(&mut self, owner: OwnerId) -> Vec<SnapshotId> {
        self.disown(owner, |_| true)
    }

    fn disown(&mut self, owner: OwnerId, mut is_given_up: impl FnMut(&Entry) -> bool) -> Vec<SnapshotId> {
        let is_orphaned = |entry: &mut Entry| {
            if is_given_up(entry) {
                entry.owners.retain(|other| *other != owner);
            }
            entry.owners.is_empty()
        };
        self.entries.extract_if(.., is_orphaned).map(|entry| entry.snapshot).collect()
    }

    /// Evicts the entries used longest ago, `pinned` excepted, until `bytes` are free or none is left. Returns
    /// snapshots to free.
    pub(crate) fn evict(&mut self, bytes: u64, pinned: Option<SnapshotId>) -> Vec<SnapshotId> {
        let mut freed = 0;
        let mut gone = Vec::new();
        while freed < bytes {
            let others = self.entries.iter().enumerate().filter(|(_, entry)| Some(entry.snapshot) != pinned);
            let Some((index, _)) = others.min_by_key(|(_, entry)| entry.used) else { break };
            let entry = self.entries.remove(index);
            freed += self.bytes_of(entry.tokens.len());
            gone.push(entry.snapshot);
        }
        gone
    }

    /// Forgets every entry.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: OwnerId = OwnerId(1);
    const B: OwnerId = OwnerId(2);

    fn tokens(length: u32) -> Vec<TokenId> {
        (0..length).collect()
    }

    fn hit(snapshot: u64, tokens: usize) -> Option<Hit> {
        Some(Hit { snapshot: SnapshotId(snapshot), tokens })
    }

    /// Entry `i` holds the first `lengths[i]` numbers.
    fn cache_holding(lengths: &[u32]) -> PrefixCache {
        let mut cache = PrefixCache::new(10);
        for (i, length) in lengths.iter().enumerate() {
            cache.insert(SnapshotId(i as u64), tokens(*length), A);
        }
        cache
    }

    #[test]
    fn a_hit_leaves_a_token_to_read_and_is_long_enough() {
        let cache = cache_holding(&[100]);
        assert_eq!(cache.longest(&tokens(100)), hit(0, 99), "an exact hit");
        assert_eq!(cache.longest(&tokens(60)), hit(0, 59), "an entry longer than the prompt");
        assert_eq!(cache.longest(&tokens(400)), hit(0, 100));
        assert_eq!(cache.longest(&tokens(33)), hit(0, 32));
        assert_eq!(cache.longest(&tokens(32)), None, "31 are not worth it");
        assert_eq!(cache.longest(&[7]), None);
    }

    #[test]
    fn an_entry_is_cut_where_the_prompt_goes_on_differently() {
        let cache = cache_holding(&[40, 200]);
        let mut prompt = tokens(150);
        prompt[120] = 9_999;
        assert_eq!(cache.longest(&prompt), hit(1, 120), "the longest, whichever entry it is in");
        prompt[40] = 9_999;
        assert_eq!(cache.longest(&prompt), hit(0, 40), "the shorter entry when both have as much");
        let with_prompt_end = cache_holding(&[119, 200]);
        prompt = tokens(150);
        prompt[120] = 9_999;
        assert_eq!(with_prompt_end.longest(&prompt), hit(0, 119), "or one token less");
    }

    #[test]
    fn the_entry_used_longest_ago_goes_first_and_a_pinned_one_never() {
        let mut cache = cache_holding(&[50, 60, 70]);
        assert_eq!(cache.bytes(), 1_800);
        cache.touch(SnapshotId(0));
        assert_eq!(cache.evict(1, Some(SnapshotId(1))), [SnapshotId(2)], "0 was touched, 1 is pinned");
        assert_eq!(cache.evict(9_999, Some(SnapshotId(1))), [SnapshotId(0)]);
        assert_eq!((cache.bytes(), cache.evictable_bytes(Some(SnapshotId(1)))), (600, 0));
    }

    #[test]
    fn an_entry_goes_with_its_last_owner() {
        let mut cache = cache_holding(&[50]);
        assert_eq!(cache.share(&tokens(50), B), Some(SnapshotId(0)));
        assert_eq!(cache.share(&tokens(49), B), None, "another entry");
        assert_eq!(cache.forget(A), []);
        assert_eq!(cache.forget(B), [SnapshotId(0)]);
        assert_eq!(cache.longest(&tokens(50)), None);
    }

    #[test]
    fn a_longer_entry_replaces_the_owners_shorter_ones_but_the_end_of_its_prompt() {
        let mut cache = cache_holding(&[40, 80, 100]);
        cache.share(&tokens(40), B);
        assert_eq!(cache.supersede(&tokens(100), 80, A), [], "40 is still kept by another");
        assert_eq!(cache.longest(&tokens(81)), hit(1, 80));
        assert_eq!(cache.supersede(&tokens(100), 0, A), [SnapshotId(1)], "a later turn");
        let mut other = tokens(100);
        other[10] = 9_999;
        assert_eq!(cache.supersede(&other, 0, B), [], "40 is not a prefix of it");
    }
}
