//! A failed evaluation is an error, and the backend works again after a reset.

use crate::starter;
use engine::RequestId;
use engine::backend::{Backend, RowSampling, StepInput};
use mlx_backend::mx::{self, Array, Dtype, Purpose, kv_write, ops};

/// An evaluation that fails while it runs: a column past the end of a KV cache.
#[cfg(target_os = "linux")]
fn fail_natively() -> mlx_backend::MlxError {
    let cache = ops::zeros(&[1, 2, 4, 8], Dtype::Float32).expect("builds");
    let fresh = ops::zeros(&[1, 2, 1, 8], Dtype::Float32).expect("builds");
    let column = Array::from_slice(&[4_i32], &[1]);
    let written = kv_write::write_columns([&cache, &cache], &column, [&fresh, &fresh]).expect("builds");
    mx::wait(&written, Purpose::Probe).expect_err("column 4 of 4 does not exist")
}

fn greedy_tokens(backend: &mut mlx_backend::MlxBackend, first: StepInput, steps: usize) -> Vec<u32> {
    let mut input = first;
    (0..steps)
        .map(|_| {
            backend.forward(&[input]).expect("forward runs");
            let sampled = starter::sample_fused(backend, &[0], &[RowSampling::GREEDY]);
            let token = sampled[0].token.expect("the row is good");
            input = StepInput { token, kv_cache_tokens: input.kv_cache_tokens + 1 };
            token
        })
        .collect()
}

#[cfg(target_os = "linux")]
#[test]
fn after_a_native_error_and_a_reset_the_same_prompt_gives_the_same_tokens() {
    let mut backend = starter::load();
    let prompt = starter::prompt(15, 1);
    let first = starter::join(&mut backend, 1, &prompt);
    let expected = greedy_tokens(&mut backend, first, 6);
    backend.prefill(RequestId(2), &prompt).expect("prefill runs");
    let snapshot = backend.snapshot_prefill(RequestId(2)).expect("a snapshot is taken");

    let error = fail_natively();
    assert!(error.to_string().contains("past the KV cache"), "{error}");

    backend.reset().expect("the backend recovers");
    assert_eq!(backend.memory().kv_cache_bytes, 0, "no row is left");
    backend.restore(RequestId(3), snapshot, 3).expect_err("no snapshot is left");
    let first = starter::join(&mut backend, 4, &prompt);
    assert_eq!(greedy_tokens(&mut backend, first, 6), expected);
    let again = starter::join(&mut backend, 5, &prompt);
    assert_eq!(again.kv_cache_tokens, 14, "a second row joins on the new stream");
}

#[test]
fn a_reset_with_a_forward_pass_under_way_leaves_nothing_behind() {
    let mut backend = starter::load();
    let prompt = starter::prompt(15, 1);
    let first = starter::join(&mut backend, 1, &prompt);
    backend.forward(&[first]).expect("forward runs");
    backend.submit_fused(&[0], &[RowSampling::GREEDY]).expect("sampling is submitted");
    backend.forward_ahead(&[15]).expect("the next forward pass is submitted");
    backend.reset().expect("the backend recovers");
    backend.submit_fused(&[0], &[RowSampling::GREEDY]).expect_err("no logits are left");
    backend.read_fused(&[0], &[RowSampling::GREEDY]).expect_err("nothing is submitted");
}
