//! Rotation and one-token attention on the CPU against MLX's own operations.

use crate::by_hand::{Head, attention};
use crate::starter;
use engine::backend::{Backend, StepInput};
use mlx_backend::mx::heads::Scores;
use mlx_backend::mx::ops::Mask;
use mlx_backend::mx::{self, Array, Purpose, heads, ops};

const HEADS: i32 = 6;
const KV_HEADS: i32 = 2;
const CAPACITY: i32 = 200;

/// Numbers that differ, in -2..2.
fn numbers(count: i32, salt: u32) -> Vec<f32> {
    let word = |i: u32| (i + salt).wrapping_mul(2_654_435_761) >> 8;
    (0..count as u32).map(|i| word(i) as f32 / (1 << 22) as f32 - 2.0).collect()
}

fn array(shape: [i32; 4], salt: u32) -> Array {
    Array::from_slice(&numbers(shape.iter().product(), salt), &shape)
}

fn read(a: &Array) -> Vec<f32> {
    mx::read_f32(&ops::contiguous(a).expect("builds"), Purpose::Probe).expect("runs")
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max)
}

const fn plain(scale: f32) -> Scores<'static> {
    Scores { scale, softcap: None, sinks: None }
}

fn spans(spans: &[[i32; 2]]) -> Array {
    Array::from_slice(spans.as_flattened(), &[spans.len() as i32, 2])
}

/// Everything up to each of these columns.
fn up_to(columns: &[i32]) -> Array {
    spans(&columns.iter().map(|column| [0, *column]).collect::<Vec<_>>())
}

fn row(a: &Array, row: i32) -> Array {
    ops::slice_axis(a, 0, row, row + 1).expect("builds")
}

#[test]
fn attention_sees_a_rows_own_columns_and_a_row_keeps_its_bits_in_any_batch() {
    if !heads::supports(64) {
        return;
    }
    let columns = [0, 4, 63, 64, 15, 199, 130];
    let rows = columns.len() as i32;
    for width in [16, 64, 80, 128, 256] {
        assert!(heads::supports(width));
        // Queries as the model gives them: a view of an array [B, T, H, D].
        let q = ops::transpose_axes(&array([rows, 1, HEADS, width], 1), &[0, 2, 1, 3]).expect("builds");
        let (keys, values) =
            (array([rows, KV_HEADS, CAPACITY, width], 2), array([rows, KV_HEADS, CAPACITY, width], 3));
        let all = heads::attend(&q, &keys, &values, &up_to(&columns), plain(0.125));
        let all = all.expect("builds");
        assert_eq!(all.shape(), [rows, 1, HEADS * width]);
        let together = read(&all);
        for (index, &column) in columns.iter().enumerate() {
            let index = index as i32;
            let (q, keys, values) = (row(&q, index), row(&keys, index), row(&values, index));
            let seen = |a: &Array| ops::slice_axis(a, 2, 0, column + 1).expect("builds");
            let theirs = ops::attention(&q, &seen(&keys), &seen(&values), 0.125, Mask::Causal, None);
            let theirs = read(&theirs.expect("builds"));
            let own = (index * HEADS * width) as usize..((index + 1) * HEADS * width) as usize;
            let difference = largest_difference(&together[own.clone()], &theirs);
            // A score is a sum of `width` products of up to 4, whose rounding grows with it.
            let tolerance = 1e-5 * (width as f32 / 64.0).max(1.0);
            assert!(difference < tolerance, "width {width}, column {column}: {difference}");
            let alone = heads::attend(&q, &keys, &values, &up_to(&[column]), plain(0.125));
            assert_eq!(read(&alone.expect("builds")), together[own], "width {width}, row {index} alone");
        }
    }
}

#[test]
fn a_nan_key_spoils_its_own_row_alone() {
    if !heads::supports(64) {
        return;
    }
    let mut keys = numbers(2 * CAPACITY * 64, 5);
    keys[3 * 64] = f32::NAN;
    let keys = Array::from_slice(&keys, &[2, 1, CAPACITY, 64]);
    let values = array([2, 1, CAPACITY, 64], 6);
    let columns = up_to(&[3, 3]);
    let out =
        read(&heads::attend(&array([2, 3, 1, 64], 7), &keys, &values, &columns, plain(1.0)).expect("builds"));
    let (spoilt, clean) = out.split_at(3 * 64);
    assert!(spoilt.iter().all(|value| value.is_nan()) && clean.iter().all(|value| value.is_finite()));
}

#[test]
fn windows_caps_and_sinks_are_what_they_are_by_hand() {
    if !heads::supports(48) {
        return;
    }
    let (width, seen) = (48, [[0, 0], [3, 70], [130, 199], [64, 64]]);
    let rows = seen.len() as i32;
    let q = array([rows, HEADS, 1, width], 1);
    let (keys, values) =
        (array([rows, KV_HEADS, CAPACITY, width], 2), array([rows, KV_HEADS, CAPACITY, width], 3));
    let sinks = numbers(HEADS, 4);
    let sink_array = Array::from_slice(&sinks, &[HEADS]);
    let (all_q, all_keys, all_values) = (read(&q), read(&keys), read(&values));
    for (softcap, has_sinks) in [(None, false), (Some(2.0), false), (None, true), (Some(2.0), true)] {
        let scores = Scores { scale: 0.125, softcap, sinks: has_sinks.then_some(&sink_array) };
        let out = read(&heads::attend(&q, &keys, &values, &spans(&seen), scores).expect("builds"));
        for (index, own) in out.chunks(width as usize).enumerate() {
            let (row, head) = (index / HEADS as usize, index % HEADS as usize);
            let kv_head = row * KV_HEADS as usize + head / (HEADS / KV_HEADS) as usize;
            let at = kv_head * (CAPACITY * width) as usize;
            let expected = attention(&Head {
                q: &all_q[index * width as usize..(index + 1) * width as usize],
                keys: &all_keys[at..],
                values: &all_values[at..],
                columns: seen[row][0] as usize..seen[row][1] as usize + 1,
                scale: 0.125,
                softcap,
                sink: has_sinks.then_some(sinks[head]),
            });
            let difference = largest_difference(own, &expected);
            assert!(difference < 1e-5, "row {row}, head {head}, {softcap:?}, {has_sinks}: {difference}");
        }
    }
}

#[test]
fn what_is_not_turned_stays() {
    if !heads::supports(64) {
        return;
    }
    let (width, turned) = (64, 24);
    let x = array([2, HEADS, 3, width], 9);
    let table = |salt| array([2, 1, 3, turned], salt);
    let out = heads::turn(&x, &table(1), &table(2)).expect("builds");
    let rest = |a: &Array| read(&ops::slice_axis(a, 3, turned, width).expect("builds"));
    assert_eq!(rest(&out), rest(&x));
    let narrow = ops::slice_axis(&x, 3, 0, turned).expect("builds");
    let alone = heads::turn(&narrow, &table(1), &table(2)).expect("builds");
    assert_eq!(read(&ops::slice_axis(&out, 3, 0, turned).expect("builds")), read(&alone));
}

#[test]
fn turning_equals_mlx_rope_of_halves() {
    if !heads::supports(64) {
        return;
    }
    let (rows, tokens, width, base) = (3, 5, 64, 10_000.0_f32);
    let x = ops::transpose_axes(&array([rows, tokens, HEADS, width], 8), &[0, 2, 1, 3]).expect("builds");
    let offsets = [0, 7, 300];
    let (mut cos, mut sin) = (Vec::new(), Vec::new());
    for position in offsets.iter().flat_map(|offset| *offset..*offset + tokens) {
        let angle =
            |i: i32| (position as f32 * base.powf(-2.0 * (i % (width / 2)) as f32 / width as f32)) as f64;
        cos.extend((0..width).map(|i| angle(i).cos() as f32));
        sin.extend((0..width).map(|i| if i < width / 2 { -angle(i).sin() } else { angle(i).sin() } as f32));
    }
    let table = |values: &[f32]| Array::from_slice(values, &[rows, 1, tokens, width]);
    let ours = heads::turn(&x, &table(&cos), &table(&sin)).expect("builds");
    let theirs = ops::rope(&x, width, ops::Frequencies::Base(base), &Array::from_slice(&offsets, &[rows]))
        .expect("builds");
    // MLX takes cosines in f32: of 300 radians they are good to 2e-5.
    assert!(largest_difference(&read(&ours), &read(&theirs)) < 2e-4);
}

#[test]
fn heads_that_do_not_fit_are_an_error_that_says_so() {
    if !heads::supports(64) {
        return;
    }
    let keys = array([2, KV_HEADS, 8, 64], 1);
    let q = array([2, 5, 1, 64], 2);
    let error = heads::attend(&q, &keys, &keys, &up_to(&[0, 0]), plain(1.0)).expect_err("5 over 2");
    assert!(error.to_string().contains("do not fit"), "{error}");
    let error = heads::turn(&q, &keys, &keys).expect_err("tables of another shape");
    assert!(error.to_string().contains("do not fit"), "{error}");
}

/// Logits of the third teacher-forced step of each prompt, together.
fn third_logits(prompts: &[Vec<u32>]) -> Vec<Vec<f32>> {
    let mut backend = starter::load();
    let mut inputs: Vec<StepInput> =
        (0..).zip(prompts).map(|(id, prompt)| starter::join(&mut backend, id, prompt)).collect();
    for token in [2000, 2031, 2062] {
        backend.forward(&inputs).expect("forward runs");
        for input in &mut inputs {
            *input = StepInput { token, kv_cache_tokens: input.kv_cache_tokens + 1 };
        }
    }
    backend.probe_logits().expect("logits can be read")
}

#[test]
fn on_the_cpu_a_row_of_any_batch_has_the_very_logits_it_has_alone() {
    if !heads::supports(64) || !starter::load().facts().device.starts_with("cpu") {
        return;
    }
    // Ten rows: a full panel of the packed product and a second one of two.
    let lens = [5, 300, 62, 1, 64, 65, 20, 33, 2, 129];
    let prompts: Vec<Vec<u32>> = (0..).zip(lens).map(|(salt, len)| starter::prompt(len, salt)).collect();
    let together = third_logits(&prompts);
    for row in [0, 1, 3, 7, 9] {
        assert_eq!(third_logits(&prompts[row..=row])[0], together[row], "row {row} of {} tokens", lens[row]);
    }
}
