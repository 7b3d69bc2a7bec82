//! KV cache of the batch, and the private one that a prompt is read into before it joins.
//!
//! Per layer, keys and values are `[B, kv_heads, capacity, head_dim]`; row `i` occupies columns `0..len(i)`, left
//! justified, so nothing ever has to be rolled or re-padded when rows come and go. Lengths are the engine's and
//! come with every call. Columns past a row's length are masked, but must be finite: zeros from allocation on.

use crate::error::{MlxError, Result};
use crate::mx::{self, Array, Dtype, Purpose, ops};
use engine::backend::kv_capacity_tokens;

/// Keys and values of one layer.
pub struct LayerKv {
    /// `[B, kv_heads, capacity, head_dim]`.
    pub keys: Array,
    /// As `keys`.
    pub values: Array,
}

impl LayerKv {
    fn map(&self, change: impl Fn(&Array) -> Result<Array>) -> Result<LayerKv> {
        Ok(LayerKv { keys: change(&self.keys)?, values: change(&self.values)? })
    }
}

/// KV cache of a prompt that has not joined: B = 1, exactly as long as the tokens read.
#[derive(Default)]
pub struct PrivateKv {
    /// Empty before the first chunk.
    layers: Vec<LayerKv>,
    tokens: i32,
}

impl PrivateKv {
    /// Tokens read so far.
    pub fn tokens(&self) -> i32 {
        self.tokens
    }

    /// Appends one layer's chunk and returns all of its keys and values.
    ///
    /// # Errors
    /// [`MlxError::Op`].
    pub fn append(&mut self, layer: usize, keys: Array, values: Array) -> Result<&LayerKv> {
        match self.layers.get_mut(layer) {
            Some(kv) => {
                kv.keys = ops::concatenate(&[&kv.keys, &keys], 2)?;
                kv.values = ops::concatenate(&[&kv.values, &values], 2)?;
            }
            None => self.layers.push(LayerKv { keys, values }),
        }
        Ok(&self.layers[layer])
    }

    /// Computes what was appended and counts it in. Blocks.
    ///
    /// # Errors
    /// [`MlxError::Op`].
    pub fn settle(&mut self, chunk_tokens: i32) -> Result<()> {
        let arrays = self.layers.iter().flat_map(|kv| [&kv.keys, &kv.values]);
        mx::wait(arrays, Purpose::Prefill)?;
        self.tokens += chunk_tokens;
        Ok(())
    }
}

/// Shape of every layer's keys and values but for rows and columns.
#[derive(Debug, Clone, Copy)]
pub struct KvShape {
    /// Layers.
    pub layers: usize,
    /// Key and value heads.
    pub kv_heads: i32,
    /// Width of a head.
    pub head_dim: i32,
    /// Dtype of the entries.
    pub dtype: Dtype,
}

impl KvShape {
    /// Bytes of one token in one row.
    pub fn bytes_per_token(&self) -> u64 {
        let entry: u64 = if self.dtype == Dtype::Float32 { 4 } else { 2 };
        2 * self.layers as u64 * self.kv_heads as u64 * self.head_dim as u64 * entry
    }
}

/// KV cache of the batch.
pub struct KvCache {
    shape: KvShape,
    layers: Vec<LayerKv>,
    rows: usize,
    capacity: i32,
}

fn grown_capacity(needed: i32) -> i32 {
    kv_capacity_tokens(needed as usize) as i32
}

fn pad_columns(a: &Array, capacity: i32) -> Result<Array> {
    let missing = capacity - a.dim(2);
    if missing == 0 {
        return Ok(a.clone());
    }
    let padding = ops::zeros(&[a.dim(0), a.dim(1), missing, a.dim(3)], a.dtype())?;
    ops::concatenate(&[a, &padding], 2)
}

impl KvCache {
    /// A cache without rows.
    pub fn new(shape: KvShape) -> KvCache {
        KvCache { shape, layers: Vec::new(), rows: 0, capacity: 0 }
    }

    /// Rows in the batch.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes allocated, empty capacity included.
    pub fn bytes(&self) -> u64 {
        self.shape.bytes_per_token() * self.rows as u64 * self.capacity as u64
    }

    /// Appends a private cache as the last row. On an error the batch is as before.
    ///
    /// # Errors
    /// [`MlxError::Op`].
    pub fn join(&mut self, private: PrivateKv) -> Result<()> {
        let KvShape { layers, kv_heads, head_dim, dtype } = self.shape;
        let capacity = self.capacity.max(grown_capacity(private.tokens + 1));
        let mut joined = Vec::with_capacity(layers);
        for layer in 0..layers {
            let row = match private.layers.get(layer) {
                Some(kv) => kv.map(|a| pad_columns(a, capacity))?,
                None => {
                    let empty = [1, kv_heads, capacity, head_dim];
                    LayerKv { keys: ops::zeros(&empty, dtype)?, values: ops::zeros(&empty, dtype)? }
                }
            };
            joined.push(match self.layers.get(layer) {
                None => row,
                Some(batch) => LayerKv {
                    keys: ops::concatenate(&[&pad_columns(&batch.keys, capacity)?, &row.keys], 0)?,
                    values: ops::concatenate(&[&pad_columns(&batch.values, capacity)?, &row.values], 0)?,
                },
            });
        }
        self.replace(joined, self.rows + 1, capacity)
    }

    /// Keeps the listed rows, in that order.
    ///
    /// # Errors
    /// [`MlxError::Misuse`] for a row that does not exist, [`MlxError::Op`].
    pub fn keep_rows(&mut self, keep: &[usize]) -> Result<()> {
        if keep.iter().any(|row| *row >= self.rows) {
            return Err(MlxError::Misuse { what: "keep a row past the last", rows: self.rows });
        }
        if keep.is_empty() {
            (self.layers, self.rows, self.capacity) = (Vec::new(), 0, 0);
            return Ok(());
        }
        let indices: Vec<i32> = keep.iter().map(|row| *row as i32).collect();
        let indices = Array::from_slice(&indices, &[indices.len() as i32]);
        let kept: Result<Vec<LayerKv>> =
            self.layers.iter().map(|kv| kv.map(|a| ops::take_axis(a, &indices, 0))).collect();
        self.replace(kept?, keep.len(), self.capacity)
    }

    /// Makes room for `needed_tokens` columns in every row.
    ///
    /// # Errors
    /// [`MlxError::Op`].
    pub fn reserve(&mut self, needed_tokens: i32) -> Result<()> {
        if needed_tokens <= self.capacity {
            return Ok(());
        }
        let capacity = grown_capacity(needed_tokens);
        let grown: Result<Vec<LayerKv>> =
            self.layers.iter().map(|kv| kv.map(|a| pad_columns(a, capacity))).collect();
        self.replace(grown?, self.rows, capacity)
    }

    fn replace(&mut self, layers: Vec<LayerKv>, rows: usize, capacity: i32) -> Result<()> {
        // Evaluated now: lazy chains would hold the old buffers and defeat in-place writes.
        mx::wait(layers.iter().flat_map(|kv| [&kv.keys, &kv.values]), Purpose::Join)?;
        (self.layers, self.rows, self.capacity) = (layers, rows, capacity);
        Ok(())
    }

    /// Writes one column per row of one layer and returns the first `visible` columns of all rows.
    ///
    /// `columns`: `[B, kv_heads, 1, head_dim]` i32, the column of each row. `keys`, `values`: the same shape.
    ///
    /// # Errors
    /// [`MlxError::Op`].
    pub fn write(
        &mut self,
        layer: usize,
        columns: &Array,
        keys: &Array,
        values: &Array,
        visible: i32,
    ) -> Result<LayerKv> {
        let kv = &mut self.layers[layer];
        // Assigning drops the old handle, so that MLX can write into its buffer instead of copying it.
        kv.keys = ops::put_along_axis(&kv.keys, columns, keys, 2)?;
        kv.values = ops::put_along_axis(&kv.values, columns, values, 2)?;
        kv.map(|a| ops::slice_axis(a, 2, 0, visible))
    }
}
