//! KV snapshots: what they hold stays as it was, and what is restored computes what was read.

use crate::starter::{self, largest_difference};
use engine::RequestId;
use engine::backend::{Backend, RowSampling, SnapshotId, StepInput};
use mlx_backend::MlxBackend;

/// Logits after `prompt`, whose first `from.1` tokens come from a snapshot, in a batch of one.
fn logits_restored(backend: &mut MlxBackend, prompt: &[u32], from: (SnapshotId, u32)) -> Vec<f32> {
    let id = RequestId(900);
    let (snapshot, cached) = from;
    let read = prompt.len() - 1;
    backend.restore(id, snapshot, cached).expect("the snapshot is kept");
    if (cached as usize) < read {
        backend.prefill(id, &prompt[cached as usize..read]).expect("prefill runs");
    }
    logits_of(backend, id, prompt)
}

/// Logits after `prompt`, read without a snapshot, in a batch of one.
fn logits_cold(backend: &mut MlxBackend, prompt: &[u32]) -> Vec<f32> {
    let id = RequestId(901);
    backend.prefill(id, &prompt[..prompt.len() - 1]).expect("prefill runs");
    logits_of(backend, id, prompt)
}

fn logits_of(backend: &mut MlxBackend, id: RequestId, prompt: &[u32]) -> Vec<f32> {
    backend.keep_rows(&[]).expect("the batch empties");
    backend.join(id).expect("join runs");
    let last = prompt.len() - 1;
    let input = StepInput { token: prompt[last], kv_cache_tokens: last as u32 };
    backend.forward(&[input]).expect("forward runs");
    backend.probe_logits().expect("logits can be read").remove(0)
}

#[test]
fn a_restored_prefix_gives_the_logits_of_a_cold_prompt() {
    let mut backend = starter::load();
    let prompt = starter::prompt(90, 1);
    backend.prefill(RequestId(1), &prompt[..80]).expect("prefill runs");
    let snapshot = backend.snapshot_prefill(RequestId(1)).expect("a snapshot is taken");
    // The prompt is read on: the snapshot must not grow with it.
    backend.prefill(RequestId(1), &starter::prompt(9, 7)).expect("prefill runs");
    backend.drop_prefill(RequestId(1));
    let cold = logits_cold(&mut backend, &prompt);
    for cached in [80, 79, 33, 1, 0] {
        let restored = logits_restored(&mut backend, &prompt, (snapshot, cached));
        let difference = largest_difference(&restored, &cold);
        assert!(difference < 1e-4, "{cached} tokens restored: {difference}");
    }
    let whole = logits_restored(&mut backend, &prompt[..81], (snapshot, 80));
    assert!(
        largest_difference(&whole, &logits_cold(&mut backend, &prompt[..81])) < 1e-4,
        "nothing left to read"
    );
}

#[test]
fn a_snapshot_of_a_row_stays_as_it_was_while_the_row_decodes_under_a_forward_pass() {
    let mut backend = starter::load();
    let prompts = [starter::prompt(20, 2), starter::prompt(35, 3)];
    let mut inputs: Vec<StepInput> =
        prompts.iter().zip(0..).map(|(prompt, id)| starter::join(&mut backend, id, prompt)).collect();
    let (rows, sampling) = ([0, 1], [RowSampling::GREEDY; 2]);
    let mut history = prompts[1].clone();
    let mut snapshot = None;
    backend.forward(&inputs).expect("forward runs");
    for step in 0..12 {
        backend.submit_fused(&rows, &sampling).expect("sampling is submitted");
        let columns: Vec<u32> = inputs.iter().map(|input| input.kv_cache_tokens + 1).collect();
        backend.forward_ahead(&columns).expect("the next forward pass is submitted");
        if step == 4 {
            // Taken while the forward pass that writes column 39 is under way; 37 columns are asked for.
            snapshot = Some(backend.snapshot_row(1, 37).expect("a snapshot is taken"));
        }
        let read = backend.read_fused(&rows, &sampling).expect("sampling runs");
        history.push(read.sampled[1].token.expect("the row is good"));
        for (input, column) in inputs.iter_mut().zip(columns) {
            input.kv_cache_tokens = column;
        }
    }
    let snapshot = snapshot.expect("taken in step 4");
    // Columns that the snapshot was copied from get other tokens, in the same arrays.
    for column in [3, 17, 36] {
        inputs[1] = StepInput { token: 7, kv_cache_tokens: column };
        backend.forward(&inputs).expect("forward runs");
        backend.probe_logits().expect("logits can be read");
    }
    let prompt = &history[..38];
    let restored = logits_restored(&mut backend, prompt, (snapshot, 37));
    let difference = largest_difference(&restored, &logits_cold(&mut backend, prompt));
    assert!(difference < 1e-4, "{difference}");
}

#[test]
fn rows_restored_from_one_snapshot_do_not_write_into_each_other() {
    let mut backend = starter::load();
    let prompt = starter::prompt(31, 4);
    backend.prefill(RequestId(1), &prompt[..30]).expect("prefill runs");
    let snapshot = backend.snapshot_prefill(RequestId(1)).expect("a snapshot is taken");
    backend.drop_prefill(RequestId(1));
    for id in [2, 3] {
        backend.restore(RequestId(id), snapshot, 30).expect("the snapshot is kept");
        backend.join(RequestId(id)).expect("join runs");
    }
    let input = |token| StepInput { token, kv_cache_tokens: 30 };
    backend.forward(&[input(prompt[30]), input(2001)]).expect("forward runs");
    let together = backend.probe_logits().expect("logits can be read");
    let expected = logits_restored(&mut backend, &prompt, (snapshot, 30));
    assert!(largest_difference(&together[0], &expected) < 1e-4, "the row with the prompt's own token");
    let mut other = prompt[..30].to_vec();
    other.push(2001);
    let expected = logits_restored(&mut backend, &other, (snapshot, 30));
    assert!(largest_difference(&together[1], &expected) < 1e-4, "the row with another token");
}

#[test]
fn a_dropped_snapshot_gives_its_memory_back() {
    let mut backend = starter::load();
    let prompt = starter::prompt(512, 6);
    backend.prefill(RequestId(1), &prompt).expect("prefill runs");
    let snapshot = backend.snapshot_prefill(RequestId(1)).expect("a snapshot is taken");
    backend.drop_prefill(RequestId(1));
    let held = backend.memory().active_bytes;
    backend.drop_snapshot(snapshot);
    let freed = held - backend.memory().active_bytes;
    let expected = 512 * backend.facts().kv_cache_bytes_per_token;
    // Allocations are rounded up a little.
    assert!((expected..expected * 11 / 10).contains(&freed), "{freed} bytes freed, {expected} held");
}

#[test]
fn what_cannot_be_restored_is_an_error_and_opens_nothing() {
    let mut backend = starter::load();
    backend.prefill(RequestId(1), &starter::prompt(8, 0)).expect("prefill runs");
    let snapshot = backend.snapshot_prefill(RequestId(1)).expect("a snapshot is taken");
    backend.restore(RequestId(2), snapshot, 9).expect_err("nine columns of eight");
    backend.drop_snapshot(snapshot);
    backend.restore(RequestId(2), snapshot, 8).expect_err("the snapshot is gone");
    backend.snapshot_row(0, 1).expect_err("no row is in the batch");
}
