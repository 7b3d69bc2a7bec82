//! Kernels for NVIDIA against sums by hand; on other machines there is nothing to test.

use crate::by_hand::{Head, attention};
use crate::starter::largest_difference;
use mlx_backend::mx::heads::Scores;
use mlx_backend::mx::packed::Gate;
use mlx_backend::mx::{self, Array, Dtype, Purpose, cuda, ops};

/// Numbers that differ and are exact in bf16, in -1..1.
fn numbers(count: i32, salt: u32) -> Vec<f32> {
    let word = |i: u32| (i + salt).wrapping_mul(2_654_435_761) >> 25;
    (0..count as u32).map(|i| word(i) as f32 / 64.0 - 1.0).collect()
}

fn bf16(values: &[f32], shape: &[i32]) -> Array {
    ops::cast(&Array::from_slice(values, shape), Dtype::Bfloat16).expect("builds")
}

fn read(a: &Array) -> Vec<f32> {
    mx::read_f32(&ops::cast(a, Dtype::Float32).expect("builds"), Purpose::Probe).expect("runs")
}

#[test]
fn attention_on_cuda_is_what_it_is_by_hand() {
    let seen = [0..1, 3..71, 130..200, 64..65, 0..200];
    let (rows, kv_heads, capacity) = (seen.len() as i32, 2, 200);
    for (width, group) in [(64, 4), (128, 2), (128, 7), (256, 4)] {
        if !cuda::attends(width, group, Dtype::Bfloat16) {
            continue;
        }
        let heads = kv_heads * group;
        let q = numbers(rows * heads * width, 1);
        let (keys, values) =
            (numbers(rows * kv_heads * capacity * width, 2), numbers(rows * kv_heads * capacity * width, 3));
        let sinks = numbers(heads, 4);
        let arrays = [
            bf16(&keys, &[rows, kv_heads, capacity, width]),
            bf16(&values, &[rows, kv_heads, capacity, width]),
        ];
        let sink_array = bf16(&sinks, &[heads]);
        for (softcap, has_sinks) in [(None, false), (Some(2.0), false), (None, true), (Some(2.0), true)] {
            let scores = Scores { scale: 0.125, softcap, sinks: has_sinks.then_some(&sink_array) };
            let spans = cuda::Spans::new(capacity, kv_heads, seen.iter().cloned());
            let [keys_array, values_array] = &arrays;
            let q_array = bf16(&q, &[rows, heads, 1, width]);
            let out =
                read(&cuda::attend(&q_array, keys_array, values_array, &spans, scores).expect("builds"));
            for (index, own) in out.chunks(width as usize).enumerate() {
                let (row, head) = (index / heads as usize, index % heads as usize);
                let at = (row * kv_heads as usize + head / group as usize) * (capacity * width) as usize;
                let expected = attention(&Head {
                    q: &q[index * width as usize..(index + 1) * width as usize],
                    keys: &keys[at..],
                    values: &values[at..],
                    columns: seen[row].start as usize..seen[row].end as usize,
                    scale: 0.125,
                    softcap,
                    sink: has_sinks.then_some(sinks[head]),
                });
                // Half a unit in bf16's last place below one, and a little for the sums.
                let difference = largest_difference(own, &expected);
                assert!(
                    difference < 4e-3,
                    "{width} wide, row {row}, head {head}, {softcap:?}, {has_sinks}: {difference}"
                );
            }
        }
    }
}

#[test]
fn gates_on_cuda_are_what_mlx_computes() {
    if !cuda::is_available() {
        return;
    }
    let both: Vec<f32> = numbers(3 * 2 * 40, 5).into_iter().map(|value| 8.0 * value).collect();
    let x = bf16(&both, &[3, 80]);
    let part = |from, to| {
        ops::cast(&ops::slice_axis(&x, 1, from, to).expect("builds"), Dtype::Float32).expect("builds")
    };
    for gate in [Gate::Silu, Gate::GeluTanh] {
        let ours = read(&cuda::gate(&x, gate).expect("builds"));
        let theirs = ops::multiply(&gate.of(&part(0, 40)).expect("builds"), &part(40, 80)).expect("builds");
        for (a, b) in ours.iter().zip(read(&theirs)) {
            assert!((a - b).abs() <= b.abs() / 200.0 + 1e-3, "{gate:?}: {a} and {b}");
        }
    }
}
