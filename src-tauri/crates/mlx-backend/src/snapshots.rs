//! KV snapshots by their names.

use crate::kv_cache::PrivateKv;
use engine::backend::SnapshotId;
use std::collections::HashMap;

/// Snapshots that are kept.
#[derive(Default)]
pub struct Snapshots {
    kept: HashMap<SnapshotId, PrivateKv>,
    next: u64,
}

impl Snapshots {
    /// Keeps `kv` under a name that was never used.
    pub fn keep(&mut self, kv: PrivateKv) -> SnapshotId {
        let id = SnapshotId(self.next);
        self.next += 1;
        self.kept.insert(id, kv);
        id
    }

    /// The snapshot called `id`.
    pub fn get(&self, id: SnapshotId) -> Option<&PrivateKv> {
        self.kept.get(&id)
    }

    /// Frees the snapshot called `id`.
    pub fn remove(&mut self, id: SnapshotId) {
        self.kept.remove(&id);
    }

    /// Frees all of them. Their names stay used.
    pub fn clear(&mut self) {
        self.kept.clear();
    }
}
