//! The CPU product of packed and of f32 weights against MLX's own.

use mlx_backend::mx::packed::{self, Gate, Input};
use mlx_backend::mx::quantised::{self, Packed, Quantisation};
use mlx_backend::mx::{self, Array, Dtype, Purpose, ops};

/// Numbers that differ, in -1..1.
fn numbers(count: usize, salt: u32) -> Vec<f32> {
    let word = |i: u32| (i + salt).wrapping_mul(2_654_435_761) >> 8;
    (0..count as u32).map(|i| word(i) as f32 / (1 << 23) as f32 - 1.0).collect()
}

/// Packed weights `[outputs, inputs]` with random codes, scales and biases.
fn weights(outputs: i32, inputs: i32, quantisation: Quantisation) -> [Array; 3] {
    let words = outputs * inputs * quantisation.bits / 32;
    let codes: Vec<u32> = (0..words as u32).map(|i| i.wrapping_mul(2_246_822_519) ^ (i << 13)).collect();
    let groups = [outputs, inputs / quantisation.group_size];
    let count = (groups[0] * groups[1]) as usize;
    [
        Array::from_slice(&codes, &[outputs, inputs * quantisation.bits / 32]),
        Array::from_slice(&numbers(count, 1), &groups),
        Array::from_slice(&numbers(count, 2), &groups),
    ]
}

fn rows_of(x: &[f32], width: i32) -> Array {
    Array::from_slice(x, &[1, x.len() as i32 / width, width])
}

/// What a product is taken with.
#[derive(Clone, Copy)]
enum Weights<'a> {
    Packed([&'a Array; 3], Quantisation),
    Dense(&'a Array),
}

/// A product of the CPU kernel and of MLX's operations on the weights in f32, both on the host.
fn both(input: Input<'_>, residual: Option<&Array>, weights: Weights<'_>) -> [Vec<f32>; 2] {
    let (ours, dense) = match weights {
        Weights::Packed(packed, quantisation) => {
            let ours = packed::matmul(input, residual, packed, quantisation);
            let [weight, scales, biases] = packed.map(Array::clone);
            let packed = Packed { weight, scales, biases: Some(biases), quantisation };
            (ours, quantised::dequantize(&packed, Dtype::Float32).expect("builds"))
        }
        Weights::Dense(weights) => (packed::dense_matmul(input, residual, weights), weights.clone()),
    };
    let ours = ours.expect("builds");
    let dense = ops::transpose(&dense).expect("builds");
    let mut theirs = ops::matmul(&input.computed().expect("builds"), &dense).expect("builds");
    if let Some(residual) = residual {
        theirs = ops::add(residual, &theirs).expect("builds");
    }
    assert_eq!(ours.shape(), theirs.shape());
    [ours, theirs].map(|product| mx::read_f32(&product, Purpose::Probe).expect("runs"))
}

fn assert_close([ours, theirs]: &[Vec<f32>; 2], case: &str) {
    let scale = theirs.iter().fold(1.0_f32, |most, value| most.max(value.abs()));
    for (a, b) in ours.iter().zip(theirs) {
        // f32 sums of as many terms as there are inputs, in another order.
        assert!((a - b).abs() < 2e-5 * scale, "{case}: {a} and {b}");
    }
}

/// Every form of product with `weights` `[outputs, inputs]`, for every number of rows up to two panels and a bit.
fn check(weights: Weights<'_>, inputs: i32, outputs: i32, case: &str) {
    let norm = Array::from_slice(&numbers(inputs as usize, 3), &[inputs]);
    // Wide enough for every form; large enough for the gate to be anything from shut to open.
    let x: Vec<f32> = numbers(19 * 2 * inputs as usize, 9).into_iter().map(|value| 8.0 * value).collect();
    let added = numbers(19 * outputs as usize, 4);
    for rows in [1, 2, 3, 5, 7, 8, 9, 19] {
        let of_row = |first: usize, rows: usize, form: usize| -> [Vec<f32>; 2] {
            let width = if form >= 2 { 2 * inputs } else { inputs };
            let part = rows_of(&x[first * width as usize..(first + rows) * width as usize], width);
            let residual =
                rows_of(&added[first * outputs as usize..(first + rows) * outputs as usize], outputs);
            match form {
                0 => both(Input::Plain(&part), None, weights),
                1 => both(Input::Normed { x: &part, weight: &norm, eps: 1e-5 }, None, weights),
                2 => both(Input::Gated(&part, Gate::Silu), Some(&residual), weights),
                _ => both(Input::Gated(&part, Gate::GeluTanh), Some(&residual), weights),
            }
        };
        for form in 0..4 {
            let case = format!("{case}, {rows} rows, form {form}");
            let together = of_row(0, rows, form);
            assert_close(&together, &case);
            let [alone, _] = of_row(rows - 1, 1, form);
            assert_eq!(alone, together[0][(rows - 1) * outputs as usize..], "{case}: last row alone");
        }
    }
}

#[test]
fn the_packed_product_equals_the_dequantised_one_and_a_row_keeps_its_bits_in_any_batch() {
    for (bits, group_size, inputs, outputs) in
        [(4, 32, 576, 192), (4, 64, 192, 67), (4, 128, 256, 1), (8, 32, 576, 65), (8, 64, 128, 300)]
    {
        let quantisation = Quantisation::affine(group_size, bits);
        assert!(packed::supports(quantisation) || !cfg!(target_os = "linux"));
        let [codes, scales, biases] = weights(outputs, inputs, quantisation);
        let weights = Weights::Packed([&codes, &scales, &biases], quantisation);
        check(weights, inputs, outputs, &format!("{bits} bits"));
    }
}

#[test]
fn the_dense_product_equals_mlxs_and_a_row_keeps_its_bits_in_any_batch() {
    for (inputs, outputs) in [(576, 192), (192, 67), (32, 1), (1024, 300)] {
        assert!(packed::supports_dense(inputs) || !cfg!(target_os = "linux"));
        let weights = Array::from_slice(&numbers((inputs * outputs) as usize, 1), &[outputs, inputs]);
        check(Weights::Dense(&weights), inputs, outputs, &format!("{inputs} inputs"));
    }
}

#[test]
fn a_gate_far_from_zero_is_shut_or_open_and_a_nan_stays_one() {
    let quantisation = Quantisation::affine(32, 8);
    let [codes, scales, biases] = weights(1, 32, quantisation);
    let product = |gate: f32, activation: Gate| {
        let both: Vec<f32> = (0..64).map(|i| if i < 32 { gate } else { 1.0 }).collect();
        let packed = [&codes, &scales, &biases];
        let out = packed::matmul(Input::Gated(&rows_of(&both, 64), activation), None, packed, quantisation);
        mx::read_f32(&out.expect("builds"), Purpose::Probe).expect("runs")[0]
    };
    for activation in [Gate::Silu, Gate::GeluTanh] {
        let open = product(100.0, activation);
        assert!((product(200.0, activation) / open - 2.0).abs() < 1e-5, "{activation:?}(x) is x for large x");
        assert!(product(-1000.0, activation).abs() < 1e-30, "{activation:?}(x) is 0 for large -x");
        assert!(product(f32::NAN, activation).is_nan());
    }
}

#[test]
fn weights_that_do_not_fit_are_an_error_that_says_so() {
    let quantisation = Quantisation::affine(32, 4);
    let [codes, scales, biases] = weights(8, 64, quantisation);
    let packed = [&codes, &scales, &biases];
    let wide = rows_of(&numbers(96, 0), 96);
    let error = packed::matmul(Input::Plain(&wide), None, packed, quantisation).expect_err("96 is not 64");
    assert!(error.to_string().contains("do not fit"), "{error}");
    let x = rows_of(&numbers(64, 0), 64);
    let error =
        packed::matmul(Input::Plain(&x), Some(&wide), packed, quantisation).expect_err("96 is not 8 either");
    assert!(error.to_string().contains("do not fit"), "{error}");
}
