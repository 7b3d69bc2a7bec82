//! The CPU product of packed weights against MLX's own dequantised one.

use mlx_backend::mx::ops::{self, Quantisation};
use mlx_backend::mx::{self, Array, Purpose, packed};

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

fn rows_of(x: &[f32], inputs: i32) -> Array {
    Array::from_slice(x, &[1, x.len() as i32 / inputs, inputs])
}

#[test]
fn the_packed_product_equals_the_dequantised_one_and_a_row_keeps_its_bits_in_any_batch() {
    for (bits, group_size, inputs, outputs) in
        [(4, 32, 576, 192), (4, 64, 192, 67), (4, 128, 256, 1), (8, 32, 576, 65), (8, 64, 128, 300)]
    {
        let quantisation = Quantisation { group_size, bits };
        assert!(packed::supports(quantisation) || !cfg!(target_os = "linux"));
        let [codes, scales, biases] = weights(outputs, inputs, quantisation);
        let packed_weights = [&codes, &scales, &biases];
        let dense = ops::dequantize(packed_weights, quantisation).expect("dequantises");
        let dense = ops::transpose(&dense).expect("transposes");
        let x = numbers(19 * inputs as usize, 9);
        for rows in [1, 2, 3, 5, 7, 8, 9, 19] {
            let part = &x[..rows * inputs as usize];
            let product =
                packed::matmul(&rows_of(part, inputs), packed_weights, quantisation).expect("builds");
            assert_eq!(product.shape(), [1, rows as i32, outputs]);
            let ours = mx::read_f32(&product, Purpose::Probe).expect("runs");
            let theirs = ops::matmul(&rows_of(part, inputs), &dense).expect("builds");
            let theirs = mx::read_f32(&theirs, Purpose::Probe).expect("runs");
            let scale = theirs.iter().fold(1.0_f32, |most, value| most.max(value.abs()));
            for (a, b) in ours.iter().zip(&theirs) {
                // f32 sums of `inputs` terms in another order.
                assert!((a - b).abs() < 2e-5 * scale, "{bits} bits, {rows} rows: {a} and {b}");
            }
            let last = &part[(rows - 1) * inputs as usize..];
            let alone = packed::matmul(&rows_of(last, inputs), packed_weights, quantisation).expect("builds");
            let alone = mx::read_f32(&alone, Purpose::Probe).expect("runs");
            assert_eq!(alone, ours[(rows - 1) * outputs as usize..], "{bits} bits, row {rows} alone");
        }
    }
}

#[test]
fn weights_that_do_not_fit_are_an_error_that_says_so() {
    let quantisation = Quantisation { group_size: 32, bits: 4 };
    let [codes, scales, biases] = weights(8, 64, quantisation);
    let wide = rows_of(&numbers(96, 0), 96);
    let error = packed::matmul(&wide, [&codes, &scales, &biases], quantisation).expect_err("96 is not 64");
    assert!(error.to_string().contains("do not fit"), "{error}");
}
