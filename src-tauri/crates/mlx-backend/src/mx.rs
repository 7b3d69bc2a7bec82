//! The only door to MLX's evaluator: every submission, wait and host read passes here and is counted by purpose.
//!
//! Counters are per thread, as MLX's streams are: one engine thread owns the model. Nothing else in this crate
//! evaluates an array; `clippy.toml` forbids the methods of [`Array`] that would.

pub mod cuda;
pub mod device_facts;
pub mod heads;
pub mod kv_write;
pub mod ops;
pub mod packed;
pub mod quantised;
pub mod scan;

use crate::error::{MlxError, Result};
use engine::backend::Counters;
use mlx_rs::transforms;
pub use mlx_rs::{Array, Dtype};
use std::cell::RefCell;
use std::time::Instant;

/// What an evaluation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Weights at load.
    Load,
    /// Prompt tokens into a private KV cache.
    Prefill,
    /// Rows joining, leaving or growing.
    Join,
    /// A decode step: forward and sampling in one graph.
    Decode,
    /// Tests and measurements.
    Probe,
}

const PURPOSES: usize = 5;

#[derive(Default)]
struct Counts {
    by_purpose: [Counters; PURPOSES],
}

thread_local! {
    static COUNTS: RefCell<Counts> = RefCell::default();
}

fn count(purpose: Purpose, change: impl FnOnce(&mut Counters)) {
    COUNTS.with_borrow_mut(|counts| change(&mut counts.by_purpose[purpose as usize]));
}

/// Totals of this thread for one purpose.
pub fn counters(purpose: Purpose) -> Counters {
    COUNTS.with_borrow(|counts| counts.by_purpose[purpose as usize])
}

/// Adds a width miss to the decode totals.
pub fn count_width_miss() {
    count(Purpose::Decode, |counters| counters.width_misses += 1);
}

/// Submits `arrays` for evaluation and returns without waiting for them. MLX itself makes the caller wait while it
/// has too much unfinished work; that shows in [`Counters::submitting`].
///
/// # Errors
/// [`MlxError::Op`] when MLX cannot schedule the graph.
pub fn submit<'a>(arrays: impl IntoIterator<Item = &'a Array>, purpose: Purpose) -> Result<()> {
    let started = Instant::now();
    let outcome = transforms::async_eval(arrays).map_err(|error| ops::failure("async_eval", Some(error)));
    count(purpose, |counters| {
        counters.evals += 1;
        counters.submitting += started.elapsed();
    });
    outcome
}

/// Whether a submitted array has been computed. Never waits.
///
/// # Errors
/// [`MlxError::Op`].
pub fn is_available(array: &Array) -> Result<bool> {
    let mut available = false;
    // SAFETY: the handle is valid for the call, which writes one flag.
    let status = unsafe { mlx_sys::_mlx_array_is_available(&mut available, array.as_ptr()) };
    if status == 0 { Ok(available) } else { Err(ops::failure("is_available", None)) }
}

/// Counts a forward pass submitted ahead of its tokens' read.
pub fn count_forward_ahead() {
    count(Purpose::Decode, |counters| counters.forwards_ahead += 1);
}

/// Counts a forward pass ahead that was still running when the tokens before it had been read.
pub fn count_overlap() {
    count(Purpose::Decode, |counters| counters.forwards_overlapped += 1);
}

/// Evaluates `arrays` and waits for them: one evaluation, one wait.
///
/// # Errors
/// [`MlxError::Op`] when MLX cannot run the graph.
pub fn wait<'a>(arrays: impl IntoIterator<Item = &'a Array>, purpose: Purpose) -> Result<()> {
    count(purpose, |counters| counters.evals += 1);
    wait_submitted(arrays, purpose)
}

/// Waits for arrays that [`submit`] has submitted.
///
/// # Errors
/// [`MlxError::Op`] when MLX could not run the graph.
fn wait_submitted<'a>(arrays: impl IntoIterator<Item = &'a Array>, purpose: Purpose) -> Result<()> {
    let started = Instant::now();
    let outcome = transforms::eval(arrays).map_err(|error| ops::failure("eval", Some(error)));
    count(purpose, |counters| {
        counters.waits += 1;
        counters.waited += started.elapsed();
    });
    outcome
}

/// Waits for one row-contiguous u32 array that [`submit`] has submitted and copies it out: one of each.
///
/// # Errors
/// As [`read_u32`].
pub fn read_submitted_u32(array: &Array, purpose: Purpose) -> Result<Vec<u32>> {
    wait_submitted([array], purpose)?;
    copy_out(array, purpose, "u32")
}

/// Evaluates one row-contiguous u32 array, waits for it and copies it out: one of each.
///
/// # Errors
/// [`MlxError::Op`] when the graph fails, [`MlxError::Read`] when the array is not row-contiguous u32.
pub fn read_u32(array: &Array, purpose: Purpose) -> Result<Vec<u32>> {
    read(array, purpose, "u32")
}

/// Evaluates one row-contiguous f32 array, waits for it and copies it out: one of each.
///
/// # Errors
/// As [`read_u32`].
pub fn read_f32(array: &Array, purpose: Purpose) -> Result<Vec<f32>> {
    read(array, purpose, "f32")
}

fn read<T: mlx_rs::ArrayElement + Copy>(
    array: &Array,
    purpose: Purpose,
    expected: &'static str,
) -> Result<Vec<T>> {
    wait([array], purpose)?;
    copy_out(array, purpose, expected)
}

/// Copies out an array that is evaluated, so without another wait.
#[allow(clippy::disallowed_methods, reason = "the one place that reads")]
fn copy_out<T: mlx_rs::ArrayElement + Copy>(
    array: &Array,
    purpose: Purpose,
    expected: &'static str,
) -> Result<Vec<T>> {
    count(purpose, |counters| counters.host_reads += 1);
    match array.try_as_slice::<T>() {
        Ok(slice) => Ok(slice.to_vec()),
        Err(error) => Err(MlxError::Read { expected, found: error.to_string() }),
    }
}
