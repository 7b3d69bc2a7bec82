//! Matrices with bias vectors, against their definition.

use mlx_backend::model::linear::{Linear, Matrix, Product};
use mlx_backend::mx::packed::Input;
use mlx_backend::mx::{self, Array, Purpose};

#[test]
fn stacked_matrices_add_each_its_own_bias_before_the_residual() {
    let matrix = |from: i32, rows: i32| Matrix::Dense {
        product: Product::Mlx,
        weight: Array::from_slice(&(from..from + rows * 2).map(|i| i as f32).collect::<Vec<_>>(), &[rows, 2]),
    };
    let biases = [Array::from_slice(&[100.0_f32], &[1]), Array::from_slice(&[200.0_f32, 300.0], &[2])];
    let linear = Linear::merge(vec![matrix(1, 1), matrix(3, 2)], &biases).expect("merges");
    let x = Array::from_slice(&[1.0_f32, 10.0], &[1, 1, 2]);
    let residual = Array::from_slice(&[0.5_f32, 0.25, 0.125], &[1, 1, 3]);
    let read = |array| mx::read_f32(&array, Purpose::Probe).expect("runs");
    // Rows of the stacked matrix are (1, 2), (3, 4) and (5, 6).
    assert_eq!(read(linear.apply(&x).expect("builds")), [121.0, 243.0, 365.0]);
    let moved = linear.apply_to(Input::Plain(&x), Some(&residual)).expect("builds");
    assert_eq!(read(moved), [121.5, 243.25, 365.125]);
    assert_eq!(linear.arrays().len(), 2, "weights and vector count as the model's memory");
}
