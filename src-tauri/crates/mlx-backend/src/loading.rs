//! A model folder on its way into memory, slice by slice.

use crate::MlxBackend;
use crate::config::ModelConfig;
use crate::device::{self, ComputeDevice};
use crate::error::{MlxError, Result};
use crate::load::{Numerics, Weights};
use crate::model::{self, decoder::Decoder};
use crate::mx::{self, Purpose, ops};
use engine::{BackendError, LoadStep, Loading};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What the folder does not say.
#[derive(Debug, Clone, Copy)]
pub struct LoadOptions {
    /// Most rows a batch can hold.
    pub max_rows: usize,
    /// Ids the tokenizer knows; the model's logits may be wider.
    pub tokenizer_tokens: u32,
    /// Context window to run with, in tokens, if it is to be smaller than the model's.
    pub context_tokens: Option<u32>,
}

impl LoadOptions {
    /// With the model's own context window.
    pub fn new(max_rows: usize, tokenizer_tokens: u32) -> LoadOptions {
        LoadOptions { max_rows, tokenizer_tokens, context_tokens: None }
    }
}

/// Time that a slice is meant to take: rows that decode meanwhile wait for it.
const SLICE_TIME: Duration = Duration::from_millis(40);
/// Bytes of the first slice, before it is known how fast they come.
const FIRST_SLICE_BYTES: u64 = 4 << 20;
/// Bytes of a slice, at most and at least. One array is the smallest slice, whatever its size.
const MAX_SLICE_BYTES: u64 = 64 << 20;
const MIN_SLICE_BYTES: u64 = 1 << 20;

/// A load of [`MlxBackend`]. Its first slice reads the config and the headers of the files and checks that every tensor
/// is there and used; the others bring weights to the device in the order in which the model holds them.
///
/// It belongs to the thread that advances it, which will run the model.
pub struct MlxLoading {
    dir: PathBuf,
    options: LoadOptions,
    stage: Stage,
}

enum Stage {
    Asked,
    Reading(Box<Reading>),
    /// Done or failed.
    Over,
}

struct Reading {
    device: ComputeDevice,
    config: ModelConfig,
    model: Decoder,
    /// Arrays of the model that are on the device.
    done_arrays: usize,
    done_bytes: u64,
    total_bytes: u64,
    slice_bytes: u64,
}

impl MlxLoading {
    pub(crate) fn new(dir: &Path, options: LoadOptions) -> MlxLoading {
        MlxLoading { dir: dir.to_owned(), options, stage: Stage::Asked }
    }

    /// Reads the next slice.
    ///
    /// # Errors
    /// As [`ModelConfig::from_dir`] and [`Weights`] in the first slice, [`MlxError::Op`] and [`MlxError::OutOfMemory`] in
    /// the others; nothing stays allocated. [`MlxError::Misuse`] after the last slice or an error.
    pub fn read_slice(&mut self) -> Result<LoadStep<MlxBackend>> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Asked => {
                let reading = Reading::open(&self.dir)?;
                Ok(self.go_on(reading))
            }
            Stage::Reading(mut reading) => match reading.read() {
                Ok(()) if reading.is_done() => {
                    let Reading { device, config, model, .. } = *reading;
                    Ok(LoadStep::Ready(MlxBackend::new(&config, model, device, self.options)?))
                }
                Ok(()) => Ok(self.go_on(*reading)),
                Err(error) => {
                    drop(reading);
                    device::give_back_memory();
                    Err(error)
                }
            },
            Stage::Over => Err(MlxError::Misuse { what: "a load that is over was advanced", rows: 0 }),
        }
    }

    fn go_on(&mut self, reading: Reading) -> LoadStep<MlxBackend> {
        let (done_bytes, total_bytes) = (reading.done_bytes, reading.total_bytes);
        self.stage = Stage::Reading(Box::new(reading));
        LoadStep::Reading { done_bytes, total_bytes }
    }
}

impl Drop for MlxLoading {
    fn drop(&mut self) {
        if let Stage::Reading(reading) = std::mem::replace(&mut self.stage, Stage::Over) {
            drop(reading);
            device::give_back_memory();
        }
    }
}

impl Loading<MlxBackend> for MlxLoading {
    fn advance(&mut self) -> Result<LoadStep<MlxBackend>, BackendError> {
        Ok(self.read_slice()?)
    }
}

impl Reading {
    fn open(dir: &Path) -> Result<Reading> {
        let device = ComputeDevice::open()?;
        if device.numerics == Numerics::FullPrecision {
            ops::disable_compile();
        }
        let config = ModelConfig::from_dir(dir)?;
        let mut weights = Weights::open(dir, &config, device.numerics)?;
        let model = model::load(&mut weights)?;
        weights.finish()?;
        let total_bytes = model.arrays().iter().map(|array| array.nbytes() as u64).sum();
        Ok(Reading {
            device,
            config,
            model,
            done_arrays: 0,
            done_bytes: 0,
            total_bytes,
            slice_bytes: FIRST_SLICE_BYTES,
        })
    }

    fn is_done(&self) -> bool {
        self.done_arrays == self.model.arrays().len()
    }

    /// Brings the next slice to the device.
    fn read(&mut self) -> Result<()> {
        let arrays = self.model.arrays();
        let mut slice = Vec::new();
        let mut slice_bytes = 0;
        for array in &arrays[self.done_arrays..] {
            let bytes = array.nbytes() as u64;
            if !slice.is_empty() && slice_bytes + bytes > self.slice_bytes {
                break;
            }
            slice_bytes += bytes;
            slice.push(*array);
        }
        let started = Instant::now();
        mx::wait(slice.iter().copied(), Purpose::Load)?;
        self.done_arrays += slice.len();
        self.done_bytes += slice_bytes;
        self.slice_bytes = next_slice_bytes(self.slice_bytes, slice_bytes, started.elapsed());
        Ok(())
    }
}

/// Bytes for a slice of [`SLICE_TIME`], at the speed of the latest; at most twice as many as were allowed before.
fn next_slice_bytes(allowed_bytes: u64, slice_bytes: u64, took: Duration) -> u64 {
    let bytes = slice_bytes as f64 * (SLICE_TIME.as_secs_f64() / took.as_secs_f64().max(1e-6));
    (bytes as u64).min(2 * allowed_bytes).clamp(MIN_SLICE_BYTES, MAX_SLICE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_grow_and_shrink_with_the_speed_at_which_they_come() {
        let next = |slice_bytes, ms| next_slice_bytes(8 << 20, slice_bytes, Duration::from_millis(ms));
        assert_eq!(next(8 << 20, 1), 16 << 20, "fast: at most doubled");
        assert_eq!(next(8 << 20, 80), 4 << 20, "twice the time: half as many");
        assert_eq!(next(8 << 20, 60_000), MIN_SLICE_BYTES);
        assert_eq!(next_slice_bytes(MAX_SLICE_BYTES, MAX_SLICE_BYTES, Duration::ZERO), MAX_SLICE_BYTES);
    }
}
