//! Models that come and go: progress, memory given back, and a decode that goes on meanwhile.

use crate::starter;
use engine::backend::{Backend, RowSampling, StepInput};
use engine::{LoadStep, RequestId};
use mlx_backend::device::{self, DeviceMemoryKind};
use mlx_backend::{LoadOptions, MlxBackend, MlxError, MlxLoading};
use std::path::PathBuf;

fn start() -> MlxLoading {
    MlxBackend::start_load(&starter::folder(), LoadOptions::new(4, 49_152))
}

/// Memory in use by MLX, in bytes, with nothing kept for reuse.
fn active_bytes() -> u64 {
    device::give_back_memory();
    device::active_bytes()
}

/// Loads to the end; returns the progress of each slice but the last.
fn finish(loading: &mut MlxLoading, mut after_slice: impl FnMut()) -> (MlxBackend, Vec<(u64, u64)>) {
    let mut progress = Vec::new();
    loop {
        match loading.read_slice().expect("the starter model loads") {
            LoadStep::Reading { done_bytes, total_bytes } => progress.push((done_bytes, total_bytes)),
            LoadStep::Ready(backend) => return (backend, progress),
        }
        after_slice();
    }
}

/// Decodes one step of a single row; returns its token as the next input.
fn decode(backend: &mut MlxBackend, input: StepInput) -> StepInput {
    backend.forward(&[input]).expect("forward runs");
    let sampled = starter::sample_fused(backend, &[0], &[RowSampling::GREEDY]);
    let token = sampled[0].token.expect("the row is good");
    StepInput { token, kv_cache_tokens: input.kv_cache_tokens + 1 }
}

/// The starter model, its file of weights changed.
fn damaged(name: &str, damage: impl FnOnce(Vec<u8>) -> Vec<u8>) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    std::fs::copy(starter::folder().join("config.json"), folder.join("config.json")).expect("it is copied");
    let weights = std::fs::read(starter::folder().join("model.safetensors")).expect("it can be read");
    std::fs::write(folder.join("model.safetensors"), damage(weights)).expect("it can be written");
    folder
}

#[test]
fn a_load_tells_bytes_that_grow_to_the_models_size() {
    let (backend, progress) = finish(&mut start(), || ());
    let total = backend.facts().model_bytes;
    assert!(progress.len() > 3, "{} slices of {total} bytes", progress.len());
    assert_eq!(progress[0], (0, total), "nothing is read before everything is checked");
    assert!(progress.is_sorted_by(|a, b| a.0 < b.0 && b.1 == total), "{progress:?}");
    assert!(progress.iter().all(|(done, _)| *done < total), "the last slice makes it ready");
}

#[test]
fn two_loads_under_a_decode_leave_its_tokens_alone_and_unloading_gives_all_memory_back() {
    let before = active_bytes();
    let mut running = starter::load();
    let mut input = starter::join(&mut running, 1, &starter::prompt(20, 1));
    let mut expected = Vec::new();
    for _ in 0..40 {
        input = decode(&mut running, input);
        expected.push(input.token);
    }
    running.keep_rows(&[]).expect("the row leaves");
    let loaded = active_bytes();
    for load in 1..=2_u64 {
        let mut input = starter::join(&mut running, load + 1, &starter::prompt(20, 1));
        let mut tokens = Vec::new();
        let (new, _) = finish(&mut start(), || {
            input = decode(&mut running, input);
            tokens.push(input.token);
        });
        assert_eq!(tokens, expected[..tokens.len()], "the new model is read beside the old");
        let model_bytes = new.facts().model_bytes;
        running.prefill(RequestId(90), &starter::prompt(9, 2)).expect("prefill runs");
        running.snapshot_prefill(RequestId(90)).expect("a snapshot is taken");
        let old = std::mem::replace(&mut running, new);
        let left = old.unload().active_bytes;
        assert!(left.abs_diff(loaded) < 1 << 20, "load {load}: {left} bytes where {loaded} were");
        println!("load {load}: {} slices beside a decode, {model_bytes} bytes, {left} left", tokens.len());
    }
    running.forward(&[]).expect_err("no row came along");
    let input = starter::join(&mut running, 4, &starter::prompt(20, 1));
    decode(&mut running, input);
    running.forward_ahead(&[21]).expect_err("nothing is submitted");
    let left = running.unload().active_bytes;
    assert!(left.abs_diff(before) < 1 << 16, "{left} bytes where {before} were before any model");
}

#[test]
fn a_model_unloaded_in_the_middle_of_a_step_gives_its_memory_back() {
    let before = active_bytes();
    let mut backend = starter::load();
    let first = starter::join(&mut backend, 1, &starter::prompt(15, 1));
    backend.forward(&[first]).expect("forward runs");
    backend.submit_fused(&[0], &[RowSampling::GREEDY]).expect("sampling is submitted");
    backend.forward_ahead(&[15]).expect("the next forward pass is submitted");
    let left = backend.unload().active_bytes;
    assert!(left.abs_diff(before) < 1 << 16, "{left} bytes where {before} were");
}

#[test]
fn a_load_that_is_dropped_leaves_nothing_allocated() {
    let before = active_bytes();
    for slices in 1..4 {
        let mut loading = start();
        for _ in 0..slices {
            loading.read_slice().expect("the starter model loads");
        }
        drop(loading);
        let left = device::active_bytes();
        assert!(left.abs_diff(before) < 1 << 16, "{left} bytes after {slices} slices, {before} before");
    }
}

#[test]
fn a_load_that_fails_leaves_nothing_allocated_and_the_running_model_unharmed() {
    let mut running = starter::load();
    let first = starter::join(&mut running, 1, &starter::prompt(20, 1));
    let second = decode(&mut running, first);
    let before = active_bytes();
    let short = damaged("cut-off", |mut weights| {
        weights.truncate(weights.len() / 2);
        weights
    });
    let garbage = damaged("no-header", |mut weights| {
        weights[8..4096].fill(b'x');
        weights
    });
    // Whole when it is opened, cut off while it is being read.
    let shrinking = damaged("shrinking", |weights| weights);
    for folder in [short, garbage, shrinking.clone()] {
        let mut loading = MlxBackend::start_load(&folder, LoadOptions::new(4, 49_152));
        let error = loop {
            match loading.read_slice() {
                Ok(LoadStep::Reading { done_bytes: 0, .. }) if folder == shrinking => {
                    damaged("shrinking", |mut weights| {
                        weights.truncate(weights.len() / 2);
                        weights
                    });
                }
                Ok(LoadStep::Reading { .. }) => {}
                Ok(LoadStep::Ready(_)) => panic!("{folder:?} is damaged"),
                Err(error) => break error,
            }
        };
        println!("{}: {error}", folder.display());
        let over = loading.read_slice().err();
        assert!(matches!(over, Some(MlxError::Misuse { .. })), "{over:?}");
        let left = active_bytes();
        assert!(left.abs_diff(before) < 1 << 16, "{left} bytes after {error}, {before} before");
    }
    let third = decode(&mut running, second);
    running.keep_rows(&[]).expect("the row leaves");
    let first = starter::join(&mut running, 2, &starter::prompt(20, 1));
    let second = decode(&mut running, first);
    assert_eq!(decode(&mut running, second), third, "the same tokens as before the failures");
}

#[test]
fn a_smaller_context_holds_and_a_larger_one_does_not() {
    for (asked, given) in [(Some(512), 512), (None, 8192), (Some(1 << 20), 8192)] {
        let options = LoadOptions { context_tokens: asked, ..LoadOptions::new(1, 49_152) };
        let backend = MlxBackend::load(&starter::folder(), options).expect("the starter model loads");
        assert_eq!(backend.facts().context_tokens, given, "{asked:?}");
    }
}

#[test]
fn a_loaded_model_takes_what_is_free_and_leaves_the_limit() {
    let empty = device::memory_now().expect("the device says");
    assert!(empty.free_bytes <= empty.limit_bytes && empty.limit_bytes <= empty.total_bytes, "{empty:?}");
    let backend = starter::load();
    let loaded = device::memory_now().expect("the device says");
    if device::keeps_full_precision().expect("the device says") {
        assert_eq!(loaded.kind, DeviceMemoryKind::Host);
        assert_eq!(loaded.limit_bytes, empty.limit_bytes);
        let room = loaded.limit_bytes - loaded.free_bytes;
        assert!(room >= backend.facts().model_bytes, "{loaded:?}");
    }
}
