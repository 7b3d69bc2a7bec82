//! Kinds of attention, and the words that tell them apart.

use crate::starter::{self, largest_difference};
use engine::backend::Backend;
use mlx_backend::mx::ops::{self, Mask};
use mlx_backend::mx::{self, Array, Purpose};

/// Numbers that differ, in -1..1.
fn numbers(shape: &[i32], salt: u32) -> Array {
    let count: i32 = shape.iter().product();
    let word = |i: u32| (i + salt).wrapping_mul(2_654_435_761) >> 8;
    let values: Vec<f32> = (0..count as u32).map(|i| word(i) as f32 / (1 << 23) as f32 - 1.0).collect();
    Array::from_slice(&values, shape)
}

#[test]
fn attention_without_a_mask_is_attention_to_every_column() {
    let q = numbers(&[2, 6, 1, 16], 1);
    let (k, v) = (numbers(&[2, 3, 10, 16], 2), numbers(&[2, 3, 10, 16], 3));
    let run = |mask: Mask<'_>| {
        let out = ops::attention(&q, &k, &v, 0.25, mask, None).expect("builds");
        mx::read_f32(&out, Purpose::Probe).expect("runs")
    };
    let seen = |columns: i32| {
        ops::less(&ops::arange(10).expect("builds"), &Array::from_int(columns)).expect("builds")
    };
    let all = run(Mask::Everything);
    assert!(largest_difference(&all, &run(Mask::Keep(&seen(10)))) < 1e-6);
    assert!(largest_difference(&all, &run(Mask::Keep(&seen(9)))) > 1e-3, "the last column counts");
}

#[test]
fn the_fingerprint_changes_with_the_rows_and_with_nothing_else_on_the_cpu() {
    let mut backend = starter::load();
    let before = backend.dispatch_fingerprint();
    let mut inputs = vec![starter::join(&mut backend, 0, &starter::prompt(5, 0))];
    let fingerprint = |backend: &mut mlx_backend::MlxBackend, inputs: &[_]| {
        backend.forward(inputs).expect("forward runs");
        backend.probe_logits().expect("logits can be read");
        backend.dispatch_fingerprint()
    };
    let alone = fingerprint(&mut backend, &inputs);
    assert_ne!(before, alone, "nothing was dispatched before");
    inputs.push(starter::join(&mut backend, 1, &starter::prompt(90, 1)));
    let both = fingerprint(&mut backend, &inputs);
    assert_ne!(both, alone);
    inputs[0].kv_cache_tokens += 1;
    assert_eq!(fingerprint(&mut backend, &inputs), both, "a longer row takes the same kernels");
}

#[test]
fn memory_facts_are_of_this_machine() {
    let backend = starter::load();
    let facts = backend.facts();
    assert!(facts.memory_limit_bytes > facts.model_bytes, "the loaded model fits");
    assert!(facts.memory_limit_bytes < 1 << 50, "a number of this machine, not a default");
    let memory = backend.memory();
    assert!(memory.active_bytes >= facts.model_bytes && memory.peak_bytes >= memory.active_bytes);
    assert!(facts.device.starts_with("cpu") || facts.device.starts_with("gpu"), "{}", facts.device);
}
