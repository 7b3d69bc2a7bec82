//! Every quantisation that MLX has, loaded and multiplied, against its definition on the host.

use crate::folder::{self, Tensor};
use crate::starter;
use engine::backend::Backend;
use mlx_backend::config::ModelConfig;
use mlx_backend::load::{Numerics, Weights};
use mlx_backend::model::linear::{Bias, Linear};
use mlx_backend::mx::ops::PickOrder;
use mlx_backend::mx::quantised::{Mode, Quantisation};
use mlx_backend::mx::{self, Array, Dtype, Purpose, ops};
use mlx_backend::{LoadOptions, MlxBackend};
use serde_json::{Map, Value, json};
use std::path::Path;

const OUTPUTS: i32 = 24;
const INPUTS: i32 = 256;

fn every_quantisation() -> Vec<Quantisation> {
    let affine = [2, 3, 4, 5, 6, 8].into_iter().flat_map(|bits| {
        [32, 64, 128].into_iter().map(move |group_size| Quantisation::affine(group_size, bits))
    });
    affine.chain([Mode::Mxfp4, Mode::Mxfp8, Mode::Nvfp4].map(Mode::usual)).collect()
}

/// The tensors of a packed matrix whose names start with `prefix`.
fn tensors(prefix: &str, rows: i32, q: Quantisation, dtype: &'static str) -> Vec<Tensor> {
    matrix(prefix, [rows, INPUTS], q, dtype)
}

fn matrix(prefix: &str, shape: [i32; 2], q: Quantisation, dtype: &'static str) -> Vec<Tensor> {
    let [rows, columns] = shape;
    let (weight, scales) = (format!("{prefix}.weight"), format!("{prefix}.scales"));
    let groups = [rows, columns / q.group_size];
    let mut tensors = vec![Tensor::codes(&weight, &[rows, columns * q.bits / 32])];
    match q.mode {
        Mode::Affine => {
            tensors.push(Tensor::floats(&scales, dtype, &groups));
            tensors.push(Tensor::floats(&format!("{prefix}.biases"), dtype, &groups));
        }
        // Powers of two around 1/8, and e4m3 numbers around 1.
        Mode::Mxfp4 | Mode::Mxfp8 => tensors.push(Tensor::bytes(&scales, &groups, 122, 5)),
        Mode::Nvfp4 => tensors.push(Tensor::bytes(&scales, &groups, 0x30, 16)),
    }
    tensors
}

/// A sign, `exponent` bits with `bias`, and the rest fraction: OCP's small floats without infinities.
fn small_float(code: u32, bits: u32, exponent: u32, bias: i32) -> f64 {
    let fraction_bits = bits - 1 - exponent;
    let fraction = f64::from(code & ((1 << fraction_bits) - 1)) / f64::from(1 << fraction_bits);
    let power = (code >> fraction_bits & ((1 << exponent) - 1)) as i32;
    let size = match power {
        0 => fraction * 2_f64.powi(1 - bias),
        _ => (1.0 + fraction) * 2_f64.powi(power - bias),
    };
    if code >> (bits - 1) == 1 { -size } else { size }
}

/// The weights that `tensors` stand for, `[rows, INPUTS]`.
fn unpacked(tensors: &[Tensor], rows: i32, q: Quantisation) -> Vec<f64> {
    let codes = &tensors[0].bytes;
    let bit = |at: usize| u32::from(codes[at / 8] >> (at % 8) & 1);
    let bits = q.bits as usize;
    let floats: Vec<Vec<f32>> = match q.mode {
        Mode::Affine => tensors[1..].iter().map(Tensor::values).collect(),
        Mode::Mxfp4 | Mode::Mxfp8 | Mode::Nvfp4 => Vec::new(),
    };
    (0..(rows * INPUTS) as usize)
        .map(|index| {
            let code = (0..bits).map(|i| bit(index * bits + i) << i).sum();
            let group = index / q.group_size as usize;
            match q.mode {
                Mode::Affine => f64::from(code) * f64::from(floats[0][group]) + f64::from(floats[1][group]),
                Mode::Mxfp4 => {
                    small_float(code, 4, 2, 1) * 2_f64.powi(i32::from(tensors[1].bytes[group]) - 127)
                }
                Mode::Mxfp8 => {
                    small_float(code, 8, 4, 7) * 2_f64.powi(i32::from(tensors[1].bytes[group]) - 127)
                }
                Mode::Nvfp4 => {
                    small_float(code, 4, 2, 1) * small_float(u32::from(tensors[1].bytes[group]), 8, 4, 7)
                }
            }
        })
        .collect()
}

fn entry(q: Quantisation) -> Value {
    json!({ "group_size": q.group_size, "bits": q.bits, "mode": q.mode.name() })
}

fn with_weights<T>(
    folder: &Path,
    quantization: Value,
    tensors: &[Tensor],
    use_them: impl FnOnce(&mut Weights<'_>) -> T,
) -> T {
    let numerics = Numerics::FullPrecision;
    with_weights_as(numerics, folder, quantization, tensors, use_them)
}

fn with_weights_as<T>(
    numerics: Numerics,
    folder: &Path,
    quantization: Value,
    tensors: &[Tensor],
    use_them: impl FnOnce(&mut Weights<'_>) -> T,
) -> T {
    let config = folder::config(json!({ "quantization": quantization }));
    folder::write(folder, "config.json", config.to_string());
    folder::write(folder, "model.safetensors", folder::file(tensors));
    let config = ModelConfig::from_dir(folder).expect("the config is read");
    let mut weights = Weights::open(folder, &config, numerics).expect("the files open");
    let used = use_them(&mut weights);
    weights.finish().expect("every tensor is used");
    used
}

fn x() -> Array {
    let x: Vec<f32> = (0..3 * INPUTS as u32).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
    Array::from_slice(&x, &[3, 1, INPUTS])
}

/// Outputs of three rows together, after checking that each row alone gets the same bits.
fn products(linear: &Linear, case: &str) -> Vec<f32> {
    let x = x();
    let read = |x: &Array| mx::read_f32(&linear.apply(x).expect("builds"), Purpose::Probe).expect("runs");
    let together = read(&x);
    let width = together.len() / 3;
    for row in 0..3 {
        let alone = read(&ops::slice_axis(&x, 0, row, row + 1).expect("builds"));
        let row = row as usize;
        assert_eq!(alone, together[row * width..(row + 1) * width], "{case}: row {row} alone");
    }
    together
}

/// Largest distance of outputs from the product with `weights`, by the largest output.
fn error(outputs: &[f32], weights: &[f64]) -> f64 {
    let x = mx::read_f32(&x(), Purpose::Probe).expect("reads");
    let (mut largest, mut most) = (0.0_f64, 0.0_f64);
    let rows = weights.len() / INPUTS as usize;
    for (index, output) in outputs.iter().enumerate() {
        let (row, at) = (index / rows * INPUTS as usize, index % rows * INPUTS as usize);
        let terms = (0..INPUTS as usize).map(|i| f64::from(x[row + i]) * weights[at + i]);
        let expected: f64 = terms.sum();
        largest = largest.max((f64::from(*output) - expected).abs());
        most = most.max(expected.abs());
    }
    largest / most
}

#[test]
fn every_quantisation_multiplies_as_its_definition_says() {
    let folder = folder::empty("quantised");
    for q in every_quantisation() {
        for dtype in ["F16", "BF16", "F32"] {
            let case = format!("{} with groups of {}, {dtype} scales", q.words(), q.group_size);
            let tensors = tensors("m", OUTPUTS, q, dtype);
            let linear = with_weights(&folder, entry(q), &tensors, |weights| {
                weights.linear("m", OUTPUTS, INPUTS, Bias::Absent).expect("the matrix loads")
            });
            let error = error(&products(&linear, &case), &unpacked(&tensors, OUTPUTS, q));
            println!("{case}: {error:.1e}");
            // f32 sums of 256 terms in any order.
            assert!(error < 2e-6, "{case}: {error}");
        }
    }
}

#[test]
fn a_narrow_matrix_is_unpacked_in_the_checkpoints_own_dtype() {
    let folder = folder::empty("quantised-narrow");
    let (outputs, q) = (4, Quantisation::affine(64, 8));
    let mut all = tensors("m", outputs, q, "F32");
    let weights = unpacked(&all, outputs, q);
    all.push(Tensor::floats("norm.weight", "F32", &[INPUTS]));
    let linear = with_weights_as(Numerics::Checkpoint, &folder, entry(q), &all, |weights| {
        weights.vector("norm.weight", INPUTS).expect("the norm loads");
        weights.linear("m", outputs, INPUTS, Bias::Absent).expect("the matrix loads")
    });
    assert_eq!(linear.arrays().len(), 1, "weights alone, without scales");
    let products = linear.apply(&x()).expect("builds");
    assert!(error(&mx::read_f32(&products, Purpose::Probe).expect("runs"), &weights) < 2e-6);
}

#[test]
fn every_quantisation_stays_packed_in_the_checkpoints_own_dtype() {
    let folder = folder::empty("quantised-checkpoint");
    for q in every_quantisation() {
        for (dtype, computed, tolerance) in
            [("F16", Dtype::Float16, 0.02), ("BF16", Dtype::Bfloat16, 0.15), ("F32", Dtype::Float32, 1e-5)]
        {
            let mut all = tensors("m", OUTPUTS, q, dtype);
            let weights = unpacked(&all, OUTPUTS, q);
            // Says what floats are, also where scales are bytes.
            all.push(Tensor::floats("norm.weight", dtype, &[INPUTS]));
            let linear = with_weights_as(Numerics::Checkpoint, &folder, entry(q), &all, |weights| {
                weights.vector("norm.weight", INPUTS).expect("the norm loads");
                weights.linear("m", OUTPUTS, INPUTS, Bias::Absent).expect("the matrix loads")
            });
            assert!(linear.arrays().len() > 1, "it stays packed");
            let x = ops::cast(&x(), computed).expect("builds");
            let outputs = linear.apply(&x).expect("builds");
            assert_eq!(outputs.dtype(), computed);
            let outputs = ops::cast(&outputs, Dtype::Float32).expect("builds");
            let outputs = mx::read_f32(&outputs, Purpose::Probe).expect("runs");
            let error = error(&outputs, &weights);
            println!("{}, groups of {}, {dtype}: {error:.1e}", q.words(), q.group_size);
            // MLX's CPU rounds every sum to the dtype, a GPU the last one only.
            assert!(error < tolerance, "{}, groups of {}, {dtype}: {error}", q.words(), q.group_size);
        }
    }
}

/// The one-layer llama with every matrix packed as `q`, in groups that its widths divide into.
fn packed_llama(q: Quantisation) -> Vec<Tensor> {
    let pack = |tensor: Tensor| match tensor.shape[..] {
        [rows, columns] => {
            let prefix = tensor.name.trim_end_matches(".weight").to_owned();
            matrix(&prefix, [rows, columns], q, "BF16")
        }
        _ => vec![tensor],
    };
    folder::llama("BF16", None).into_iter().flat_map(pack).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn a_row_of_a_batch_has_the_bits_of_the_row_alone_whatever_its_weights_are() {
    if !mlx_backend::device::keeps_full_precision().expect("the device says") {
        return;
    }
    let folder = folder::empty("bits-of-rows");
    let packings = every_quantisation().into_iter().filter(|q| q.group_size <= 32).map(Some);
    for q in packings.chain([None]) {
        let tensors = q.map_or_else(|| folder::llama("BF16", None), packed_llama);
        let config = folder::config(json!({ "quantization": q.map(entry) }));
        folder::write(&folder, "config.json", config.to_string());
        folder::write(&folder, "model.safetensors", folder::file(&tensors));
        let mut backend = MlxBackend::load(&folder, LoadOptions::new(3, 48)).expect("the model loads");
        let prompts = [5, 3, 9].map(|len: u32| (0..len).map(|i| (i * 7 + len) % 48).collect::<Vec<u32>>());
        let mut alone = Vec::new();
        for prompt in &prompts {
            let input = starter::join(&mut backend, 1, prompt);
            backend.forward(&[input]).expect("forward runs");
            alone.extend(backend.probe_logits().expect("logits can be read"));
            backend.keep_rows(&[]).expect("the row leaves");
        }
        let joined = (0..).zip(&prompts).map(|(id, prompt)| starter::join(&mut backend, id, prompt));
        let inputs: Vec<_> = joined.collect();
        backend.forward(&inputs).expect("forward runs");
        let together = backend.probe_logits().expect("logits can be read");
        assert!(alone.iter().flatten().all(|logit| logit.is_finite()), "{q:?}");
        assert_eq!(alone, together, "{q:?}");
    }
}

#[test]
fn an_embedding_of_every_quantisation_looks_up_exact_rows() {
    let folder = folder::empty("quantised-embedding");
    for q in every_quantisation() {
        let tensors = tensors("e", OUTPUTS, q, "BF16");
        let rows = with_weights(&folder, entry(q), &tensors, |weights| {
            let embedding = weights.embedding("e", OUTPUTS, INPUTS).expect("the embedding loads");
            let ids = Array::from_slice(&[5_u32, 0, 23], &[1, 3]);
            let rows = embedding.look_up(&ids).expect("builds");
            assert_eq!(rows.shape(), [1, 3, INPUTS]);
            mx::read_f32(&rows, Purpose::Probe).expect("runs")
        });
        let all = unpacked(&tensors, OUTPUTS, q);
        let width = INPUTS as usize;
        let expected = [5, 0, 23].into_iter().flat_map(|id| all[id * width..][..width].to_vec());
        for (found, expected) in rows.iter().zip(expected) {
            // One rounding of code · scale and one of the sum; the small floats are exact.
            let tolerance = if q.mode == Mode::Affine { 1e-5 } else { 0.0 };
            assert!((f64::from(*found) - expected).abs() <= tolerance, "{}: {found}, {expected}", q.words());
        }
    }
}

#[test]
fn matrices_of_different_quantisation_are_one_product() {
    let folder = folder::empty("quantised-mixed");
    let parts = [
        ("a", Some(Quantisation::affine(64, 4))),
        ("b", Some(Quantisation::affine(32, 6))),
        ("c", Some(Mode::Mxfp4.usual())),
        ("d", None),
        ("e", Some(Quantisation::affine(64, 4))),
    ];
    let mut all = Vec::new();
    let mut expected = Vec::new();
    let mut quantization = Map::new();
    quantization.extend(entry(Quantisation::affine(64, 4)).as_object().cloned().unwrap_or_default());
    for (part, q) in parts {
        let name = format!("m.{part}");
        match q {
            Some(q) => {
                let tensors = tensors(&name, OUTPUTS, q, "F16");
                expected.extend(unpacked(&tensors, OUTPUTS, q));
                all.extend(tensors);
                if q != Quantisation::affine(64, 4) {
                    quantization.insert(name, entry(q));
                }
            }
            None => {
                let floats = Tensor::floats(&format!("{name}.weight"), "BF16", &[OUTPUTS, INPUTS]);
                expected.extend(floats.values().into_iter().map(f64::from));
                all.push(floats);
                quantization.insert(name, json!(false));
            }
        }
    }
    let linear = with_weights(&folder, Value::Object(quantization), &all, |weights| {
        let parts = parts.map(|(part, _)| (part, OUTPUTS));
        weights.merged("m", &parts, INPUTS, Bias::Absent).expect("the matrices merge")
    });
    // Outputs of one row stand part after part, as the rows of `expected` do.
    let error = error(&products(&linear, "mixed"), &expected);
    assert!(error < 2e-6, "{error}");
}

#[test]
fn picked_matrices_of_a_stack_multiply_as_each_alone() {
    let folder = folder::empty("quantised-experts");
    for q in every_quantisation().into_iter().map(Some).chain([None]) {
        let all = match q {
            Some(q) => tensors("m", 4 * OUTPUTS, q, "BF16"),
            None => vec![Tensor::floats("m.weight", "BF16", &[4 * OUTPUTS, INPUTS])],
        };
        let weights = match q {
            Some(q) => unpacked(&all, 4 * OUTPUTS, q),
            None => all[0].values().into_iter().map(f64::from).collect(),
        };
        let mut stacked = all.clone();
        for tensor in &mut stacked {
            let width = tensor.shape[1];
            tensor.shape = vec![4, OUTPUTS, width];
        }
        let bias = Tensor::floats("m.bias", "F32", &[4, OUTPUTS]);
        let biases = bias.values();
        stacked.push(bias);
        let quantization = q.map_or(Value::Null, entry);
        let experts = with_weights(&folder, quantization, &stacked, |weights| {
            weights.experts("m", [4, OUTPUTS, INPUTS], Bias::Present).expect("the stack loads")
        });
        let inputs = ops::reshape(&x(), &[3, 1, 1, 1, INPUTS]).expect("builds");
        let picks = [2_u32, 0, 3, 3, 1, 2];
        let outputs =
            experts.apply(&inputs, &Array::from_slice(&picks, &[3, 1, 2]), PickOrder::Any).expect("builds");
        assert_eq!(outputs.shape(), [3, 1, 2, 1, OUTPUTS]);
        let outputs = mx::read_f32(&outputs, Purpose::Probe).expect("runs");
        let x = mx::read_f32(&x(), Purpose::Probe).expect("reads");
        for (at, output) in outputs.iter().enumerate() {
            let (pick, out) = (at / OUTPUTS as usize, at % OUTPUTS as usize);
            let expert = picks[pick] as usize * OUTPUTS as usize + out;
            let row = &x[pick / 2 * INPUTS as usize..][..INPUTS as usize];
            let of_matrix = &weights[expert * INPUTS as usize..];
            let products = row.iter().zip(of_matrix).map(|(x, w)| f64::from(*x) * w);
            let expected = products.sum::<f64>() + f64::from(biases[expert]);
            assert!((f64::from(*output) - expected).abs() < 1e-3, "{q:?}: {output} is not {expected}");
        }
    }
}
