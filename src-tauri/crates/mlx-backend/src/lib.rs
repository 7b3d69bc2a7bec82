//! Executes the engine's steps on MLX: loads a model folder, keeps the KV cache, runs forward passes, samples.
//!
//! The only crate that names mlx-rs or mlx-sys. Everything here belongs to the thread that built it: arrays,
//! streams and caches never leave it. Every evaluation, wait and host read goes through [`mx`] and is counted.
//!
//! Flow of a decode step: [`MlxBackend::forward`] builds logits `[B, vocab]` lazily, and `submit_fused` submits them
//! with the sampling graph. `forward_ahead` then builds the next forward pass from the tokens on the device and submits
//! it apart, so that `read_fused`, the one blocking wait, does not wait for it.

pub mod attention;
pub mod config;
pub mod device;
mod error;
pub mod kv_cache;
pub mod load;
mod loading;
pub mod model;
pub mod mx;
pub mod sampling;
mod snapshots;

pub use error::MlxError;
pub use loading::{LoadOptions, MlxLoading};

use crate::attention::{AttentionClasses, Pass, Plan};
use crate::config::ModelConfig;
use crate::device::ComputeDevice;
use crate::error::Result;
use crate::kv_cache::{ColumnWrites, KvCache, KvShape, PrivateKv};
use crate::load::Numerics;
use crate::model::decoder::Decoder;
use crate::mx::{Array, Dtype, Purpose, kv_write, ops};
use crate::sampling::fused::{Sampler, Submitted, take_rows};
use crate::snapshots::Snapshots;
use engine::backend::{
    Backend, BackendError, BackendFacts, Counters, FusedRead, MemoryUse, RowSampling, Sampled, SnapshotId,
    StepInput,
};
use engine::{LoadStep, RequestId, TokenId};
use mlx_rs::memory;
use std::collections::HashMap;
use std::path::Path;

/// A loaded model and the state of its batch.
pub struct MlxBackend {
    facts: BackendFacts,
    model: Decoder,
    plan: Plan,
    cache: KvCache,
    private: HashMap<RequestId, PrivateKv>,
    snapshots: Snapshots,
    sampler: Sampler,
    logits: Option<Array>,
    submitted: Option<Submitted>,
    /// Whether `logits` are those of a forward pass ahead.
    is_ahead: bool,
    /// Attention of the latest forward pass; `None` before the first.
    attention: Option<AttentionClasses>,
    forwards: u64,
}

/// Forward passes between two clearings of MLX's freed buffers: sizes that no longer occur pile up there.
const FORWARDS_PER_CLEARING: u64 = 512;

fn dtype_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bfloat16 => "bf16",
        Dtype::Float16 => "f16",
        Dtype::Float32 => "f32",
        _ => "other",
    }
}

fn memory_use(kv_cache_bytes: u64) -> MemoryUse {
    let peak_bytes = memory::peak_memory().unwrap_or(0) as u64;
    MemoryUse { kv_cache_bytes, active_bytes: device::active_bytes(), peak_bytes }
}

/// In place on the CPU, where the write exists; GPUs have MLX's own.
fn column_writes(numerics: Numerics) -> ColumnWrites {
    match numerics {
        Numerics::FullPrecision if kv_write::IS_SUPPORTED => ColumnWrites::InPlace,
        _ => ColumnWrites::Functional,
    }
}

impl MlxBackend {
    /// Begins to load the model folder `dir` on the default device: see [`MlxLoading`]. Nothing happens yet.
    pub fn start_load(dir: &Path, options: LoadOptions) -> MlxLoading {
        MlxLoading::new(dir, options)
    }

    /// Loads the model folder `dir` at one go. Call it on the thread that will run the model.
    ///
    /// # Errors
    /// As [`MlxLoading::read_slice`]; nothing stays allocated.
    pub fn load(dir: &Path, options: LoadOptions) -> Result<MlxBackend> {
        let mut loading = MlxLoading::new(dir, options);
        loop {
            if let LoadStep::Ready(backend) = loading.read_slice()? {
                return Ok(backend);
            }
        }
    }

    /// A model whose weights are on the device.
    fn new(
        config: &ModelConfig,
        model: Decoder,
        device: ComputeDevice,
        options: LoadOptions,
    ) -> Result<MlxBackend> {
        let numerics = device.numerics;
        let dtype = model.compute_dtype();
        let kv_shape = KvShape::of(&config.design, dtype);
        let facts = BackendFacts {
            vocab_width: config.vocab as u32,
            context_tokens: config.context_tokens.min(options.context_tokens.unwrap_or(u32::MAX)),
            model_bytes: model.arrays().iter().map(|array| array.nbytes() as u64).sum(),
            kv_cache_bytes_per_token: kv_shape.bytes_per_token(),
            layers: config.layers as u32,
            max_rows: options.max_rows,
            architecture: config.architecture.clone(),
            quantisation: match config.quantisation.most() {
                Some(quantisation) => quantisation.words(),
                None => dtype_name(dtype).into(),
            },
            compute_dtype: dtype_name(dtype).into(),
            device: device.words,
            memory_limit_bytes: device.memory_limit_bytes,
        };
        tracing::info!(architecture = %facts.architecture, device = %facts.device, bytes = facts.model_bytes, "model loaded");
        Ok(MlxBackend {
            facts,
            model,
            plan: Plan::new(&config.design, numerics),
            cache: KvCache::new(kv_shape, column_writes(numerics)),
            private: HashMap::new(),
            snapshots: Snapshots::default(),
            sampler: Sampler::new(config.vocab as u32, options.tokenizer_tokens)?,
            logits: None,
            submitted: None,
            is_ahead: false,
            attention: None,
            forwards: 0,
        })
    }

    /// Waits for what the device still computes, whatever becomes of it: its buffers are not free before.
    fn settle(&self) {
        let submitted = self.submitted.iter().map(|submitted| &submitted.tokens);
        let ahead = self.logits.iter().filter(|_| self.is_ahead);
        if let Err(error) = mx::wait(submitted.chain(ahead), Purpose::Load) {
            tracing::debug!(%error, "the last step of an unloaded model failed");
        }
    }

    fn logits(&self) -> Result<&Array> {
        self.logits
            .as_ref()
            .ok_or(MlxError::Misuse { what: "sample before a forward pass", rows: self.cache.rows() })
    }

    fn run_prefill(&mut self, id: RequestId, tokens: &[TokenId]) -> Result<()> {
        let count = tokens.len() as i32;
        let private = self.private.entry(id).or_default();
        let ids = Array::from_slice(tokens, &[1, count]);
        let mut pass = Pass::prefill(private, count, &self.plan)?;
        self.model.hidden(&ids, &mut pass)?;
        private.settle(count)
    }

    fn run_join(&mut self, id: RequestId) -> Result<()> {
        if self.cache.rows() >= self.facts.max_rows {
            return Err(MlxError::BatchFull { max_rows: self.facts.max_rows });
        }
        let private = self.private.remove(&id).unwrap_or_default();
        self.cache.join(private)
    }

    fn run_forward(&mut self, inputs: &[StepInput]) -> Result<()> {
        let rows = self.cache.rows();
        if inputs.is_empty() || inputs.len() != rows {
            return Err(MlxError::Misuse { what: "forward with another number of inputs", rows });
        }
        let tokens: Vec<TokenId> = inputs.iter().map(|input| input.token).collect();
        let lens: Vec<i32> = inputs.iter().map(|input| input.kv_cache_tokens as i32).collect();
        self.is_ahead = false;
        self.build_forward(&Array::from_slice(&tokens, &[rows as i32, 1]), &lens)
    }

    fn run_forward_ahead(&mut self, columns: &[u32]) -> Result<()> {
        let rows = self.cache.rows();
        let misuse = |what| MlxError::Misuse { what, rows };
        let submitted = self.submitted.as_ref().ok_or(misuse("forward ahead of nothing submitted"))?;
        if submitted.tokens.dim(0) as usize != rows || columns.len() != rows {
            return Err(misuse("forward ahead from a part of the batch"));
        }
        let ids = ops::reshape(&submitted.tokens, &[rows as i32, 1])?;
        let lens: Vec<i32> = columns.iter().map(|column| *column as i32).collect();
        self.build_forward(&ids, &lens)?;
        // Apart from the sampling graph: one submission has one event, and the tokens must not wait for this.
        mx::submit([self.logits()?], Purpose::Decode)?;
        mx::count_forward_ahead();
        self.is_ahead = true;
        Ok(())
    }

    /// Logits `[B, vocab]` of ids `[B, 1]`, written to the columns `lens`.
    fn build_forward(&mut self, ids: &Array, lens: &[i32]) -> Result<()> {
        // Logits that were not computed would hold the KV cache as it was, and every write would copy it.
        self.logits = None;
        self.forwards += 1;
        if self.forwards.is_multiple_of(FORWARDS_PER_CLEARING) {
            device::give_back_memory();
        }
        let mut pass = Pass::decode(&mut self.cache, lens, &self.plan)?;
        self.attention = pass.classes();
        let hidden = self.model.hidden(ids, &mut pass)?;
        let logits = self.model.logits(&hidden)?;
        self.logits = Some(ops::reshape(&logits, &[lens.len() as i32, -1])?);
        Ok(())
    }

    fn run_read_fused(&mut self, sampling: &[RowSampling<'_>]) -> Result<FusedRead> {
        let submitted = self
            .submitted
            .take()
            .ok_or(MlxError::Misuse { what: "read before a submission", rows: self.cache.rows() })?;
        let read = self.sampler.read(&submitted, sampling)?;
        if self.is_ahead && !mx::is_available(self.logits()?)? {
            mx::count_overlap();
        }
        Ok(FusedRead { sampled: read.sampled, is_ahead_stale: self.is_ahead && read.has_replaced })
    }

    fn run_restore(&mut self, id: RequestId, snapshot: SnapshotId, tokens: i32) -> Result<()> {
        let misuse = |what| MlxError::Misuse { what, rows: self.cache.rows() };
        let kept = self.snapshots.get(snapshot).ok_or(misuse("restore a snapshot that is not kept"))?;
        if tokens > kept.tokens() {
            return Err(misuse("restore more than the snapshot holds"));
        }
        self.private.insert(id, kept.prefix(tokens)?);
        Ok(())
    }

    fn run_reset(&mut self) -> Result<()> {
        (self.logits, self.submitted, self.is_ahead) = (None, None, false);
        self.private.clear();
        self.snapshots.clear();
        self.cache.clear();
        ops::renew_stream()?;
        device::give_back_memory();
        // Proves that the device still computes before the engine relies on it.
        mx::wait([&ops::zeros(&[1], Dtype::Float32)?], Purpose::Load)
    }

    fn run_keep_rows(&mut self, keep: &[usize]) -> Result<()> {
        self.cache.keep_rows(keep)?;
        let logits = self.logits.take().filter(|_| self.is_ahead && !keep.is_empty());
        self.is_ahead = logits.is_some();
        self.logits = logits.map(|logits| take_rows(&logits, keep)).transpose()?;
        Ok(())
    }

    /// Logits of the latest forward pass, `[B][vocab]` f32, copied to the host. For tests and measurements.
    ///
    /// # Errors
    /// [`MlxError::Misuse`] before a forward pass, [`MlxError::Op`].
    pub fn probe_logits(&self) -> Result<Vec<Vec<f32>>> {
        let logits = ops::cast(self.logits()?, Dtype::Float32)?;
        let width = logits.dim(1) as usize;
        let all = mx::read_f32(&logits, Purpose::Probe)?;
        Ok(all.chunks(width).map(<[f32]>::to_vec).collect())
    }

    /// Changes how the KV cache is written, with no forward pass under way. For measurements.
    pub fn probe_column_writes(&mut self, writes: ColumnWrites) {
        self.cache.set_writes(writes);
    }

    /// Rotates and attends as a device with these numerics would, from the next pass on; weights stay as they are. So a
    /// CPU can check what otherwise only a GPU runs, but for Braid's kernels there. For tests.
    pub fn probe_numerics(&mut self, numerics: Numerics) {
        self.plan.set_numerics(numerics);
    }

    /// Waits for the latest forward pass, so that what follows can be timed apart. For measurements.
    ///
    /// # Errors
    /// As [`Self::probe_logits`].
    pub fn probe_forward(&self) -> Result<()> {
        mx::wait([self.logits()?], Purpose::Probe)
    }
}

impl Backend for MlxBackend {
    fn facts(&self) -> &BackendFacts {
        &self.facts
    }

    fn prefill(&mut self, id: RequestId, tokens: &[TokenId]) -> Result<(), BackendError> {
        let outcome = self.run_prefill(id, tokens);
        if outcome.is_err() {
            self.private.remove(&id);
        }
        Ok(outcome?)
    }

    fn drop_prefill(&mut self, id: RequestId) {
        self.private.remove(&id);
    }

    fn join(&mut self, id: RequestId) -> Result<(), BackendError> {
        Ok(self.run_join(id)?)
    }

    fn keep_rows(&mut self, keep: &[usize]) -> Result<(), BackendError> {
        Ok(self.run_keep_rows(keep)?)
    }

    fn forward(&mut self, inputs: &[StepInput]) -> Result<(), BackendError> {
        Ok(self.run_forward(inputs)?)
    }

    fn submit_fused(&mut self, rows: &[usize], sampling: &[RowSampling<'_>]) -> Result<(), BackendError> {
        let logits = take_rows(self.logits()?, rows)?;
        // From here on these logits belong to the step that is being sampled.
        self.is_ahead = false;
        self.submitted = Some(self.sampler.submit(&logits, sampling)?);
        Ok(())
    }

    fn forward_ahead(&mut self, columns: &[u32]) -> Result<(), BackendError> {
        Ok(self.run_forward_ahead(columns)?)
    }

    fn read_fused(&mut self, _: &[usize], sampling: &[RowSampling<'_>]) -> Result<FusedRead, BackendError> {
        Ok(self.run_read_fused(sampling)?)
    }

    fn sample_row(&mut self, row: usize, sampling: &RowSampling<'_>) -> Result<Sampled, BackendError> {
        let row = row as i32;
        let logits = ops::slice_axis(self.logits()?, 0, row, row + 1)?;
        Ok(self.sampler.sample_alone(&logits, sampling)?)
    }

    fn snapshot_prefill(&mut self, id: RequestId) -> Result<SnapshotId, BackendError> {
        let kept = match self.private.get(&id) {
            Some(private) => private.prefix(private.tokens())?,
            None => PrivateKv::default(),
        };
        Ok(self.snapshots.keep(kept))
    }

    fn snapshot_row(&mut self, row: usize, tokens: u32) -> Result<SnapshotId, BackendError> {
        Ok(self.snapshots.keep(self.cache.copy_row(row, tokens as i32)?))
    }

    fn restore(&mut self, id: RequestId, snapshot: SnapshotId, tokens: u32) -> Result<(), BackendError> {
        Ok(self.run_restore(id, snapshot, tokens as i32)?)
    }

    fn drop_snapshot(&mut self, snapshot: SnapshotId) {
        self.snapshots.remove(snapshot);
    }

    fn trim_memory(&mut self) {
        device::give_back_memory();
    }

    fn reset(&mut self) -> Result<(), BackendError> {
        Ok(self.run_reset()?)
    }

    fn dispatch_fingerprint(&self) -> String {
        let rows = self.cache.rows();
        match &self.attention {
            // Which product a number of rows takes depends on the chip and the matrix: each number is its own class.
            Some(attention) => format!("{}, {rows} rows, {attention}", self.facts.device),
            None => format!("{}, nothing dispatched", self.facts.device),
        }
    }

    fn counters(&self) -> Counters {
        mx::counters(Purpose::Decode)
    }

    fn memory(&self) -> MemoryUse {
        memory_use(self.cache.bytes())
    }

    fn unload(self) -> MemoryUse {
        self.settle();
        drop(self);
        device::give_back_memory();
        memory_use(0)
    }
}
