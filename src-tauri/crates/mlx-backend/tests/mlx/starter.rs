//! The starter model as `cargo xtask setup` leaves it, and requests on it.

use engine::backend::{Backend, RowSampling, Sampled, StepInput};
use engine::{RequestId, TokenId};
use mlx_backend::{LoadOptions, MlxBackend};
use std::path::PathBuf;

/// Folder of the starter model.
pub fn folder() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let folder = root.join(".mlx/models/SmolLM2-135M-Instruct");
    assert!(folder.join("config.json").exists(), "no starter model in {folder:?}: run `cargo xtask setup`");
    folder
}

/// The starter model, loaded.
pub fn load() -> MlxBackend {
    let options = LoadOptions::new(16, 49_152);
    MlxBackend::load(&folder(), options).expect("the starter model loads")
}

/// Samples rows in one graph, as a step without a forward pass ahead does.
pub fn sample_fused(backend: &mut MlxBackend, rows: &[usize], sampling: &[RowSampling<'_>]) -> Vec<Sampled> {
    backend.submit_fused(rows, sampling).expect("sampling is submitted");
    backend.read_fused(rows, sampling).expect("sampling runs").sampled
}

/// Largest distance between two rows of logits.
pub fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "rows of one width");
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max)
}

/// A prompt of `len` tokens that differ by `salt`.
pub fn prompt(len: usize, salt: u32) -> Vec<TokenId> {
    (0..len as u32).map(|i| 1000 + (i * 7919 + salt * 104_729) % 40_000).collect()
}

/// Reads all of the prompt but its last token and joins the batch; returns the row's next input.
pub fn join(backend: &mut MlxBackend, id: u64, prompt: &[TokenId]) -> StepInput {
    let (last, before) = prompt.split_last().expect("a prompt has a token");
    if !before.is_empty() {
        backend.prefill(RequestId(id), before).expect("prefill runs");
    }
    backend.join(RequestId(id)).expect("join runs");
    StepInput { token: *last, kv_cache_tokens: before.len() as u32 }
}
