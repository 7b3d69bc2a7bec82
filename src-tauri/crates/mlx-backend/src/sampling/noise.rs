//! Counter noise on the device: [`engine::sampling::noise`] over arrays.

use crate::error::Result;
use crate::mx::{Array, Dtype, ops};
use engine::sampling::noise::{C1, C2, FMIX1, FMIX2, HASHED_BYTES, MAX_UNIFORM, ROUND_ADD};

fn word(value: u32) -> Array {
    Array::from_slice(&[value], &[1])
}

fn rotate_left(a: &Array, bits: u32) -> Result<Array> {
    ops::bitwise_or(&ops::left_shift(a, &word(bits))?, &ops::right_shift(a, &word(32 - bits))?)
}

fn xor_shift(a: &Array, bits: u32) -> Result<Array> {
    ops::bitwise_xor(a, &ops::right_shift(a, &word(bits))?)
}

/// The part of the hash that depends on the id alone: ids u32 to u32, same shape.
///
/// # Errors
/// [`crate::MlxError::Op`].
pub fn mix_ids(ids: &Array) -> Result<Array> {
    ops::multiply(&rotate_left(&ops::multiply(ids, &word(C1))?, 15)?, &word(C2))
}

/// Gumbel noise: row bases `[b, 1]` u32 and mixed ids `[b or 1, n]` u32 to `[b, n]` f32.
///
/// # Errors
/// [`crate::MlxError::Op`].
pub fn gumbel(bases: &Array, mixed_ids: &Array) -> Result<Array> {
    let hash = rotate_left(&ops::bitwise_xor(bases, mixed_ids)?, 13)?;
    let hash = ops::add(&ops::multiply(&hash, &word(5))?, &word(ROUND_ADD))?;
    let hash = xor_shift(&ops::bitwise_xor(&hash, &word(HASHED_BYTES))?, 16)?;
    let hash = xor_shift(&ops::multiply(&hash, &word(FMIX1))?, 13)?;
    let hash = xor_shift(&ops::multiply(&hash, &word(FMIX2))?, 16)?;
    let number = |value: f32| Array::from_f32(value);
    let uniform = ops::add(&ops::cast(&hash, Dtype::Float32)?, &number(0.5))?;
    let uniform = ops::multiply(&uniform, &number(1.0 / 4_294_967_296.0))?;
    let uniform = ops::minimum(&uniform, &number(MAX_UNIFORM))?;
    let exponential = ops::negative(&ops::log1p(&ops::negative(&uniform)?)?)?;
    ops::negative(&ops::log(&exponential)?)
}
