//! KV cache of the batch, and the private one that a prompt is read into before it joins.
//!
//! Per layer, keys and values are `[B, kv_heads, capacity, head_dim]`, heads as the layer has them; row `i` occupies columns `0..len(i)`, left
//! justified, so nothing ever has to be rolled or re-padded when rows come and go. Lengths are the engine's and
//! come with every call. Columns past a row's length are masked, but must be finite: zeros from allocation on.
//! Why exactly B rows and how they are written: ADR 0006.

mod private;

pub use private::PrivateKv;

use crate::error::{MlxError, Result};
use crate::model::design::{Design, KvSource};
use crate::mx::{self, Array, Dtype, Purpose, kv_write, ops};
use engine::backend::kv_capacity_tokens;
use std::ops::Range;

/// Keys and values of one layer.
#[derive(Clone)]
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

    /// A part of the columns; a view.
    fn columns(&self, seen: Range<i32>) -> Result<LayerKv> {
        self.map(|a| ops::slice_axis(a, 2, seen.start, seen.end))
    }
}

/// Heads of one layer's keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvHeads {
    /// Key and value heads.
    pub kv_heads: i32,
    /// Width of a head.
    pub head_dim: i32,
}

/// Shape of every layer's keys and values but for rows and columns.
#[derive(Debug, Clone)]
pub struct KvShape {
    /// One for each layer that has keys and values of its own.
    pub layers: Vec<KvHeads>,
    /// Dtype of the entries.
    pub dtype: Dtype,
}

impl KvShape {
    /// Of a model whose entries have this dtype.
    pub fn of(design: &Design, dtype: Dtype) -> KvShape {
        let own = design
            .layers
            .iter()
            .map(|layer| &layer.attention)
            .filter(|attention| attention.kv == KvSource::Own);
        let layers = own.map(|own| KvHeads { kv_heads: own.kv_heads, head_dim: own.head_dim }).collect();
        KvShape { layers, dtype }
    }

    /// Bytes of one token in one row.
    pub fn bytes_per_token(&self) -> u64 {
        let entry: u64 = if self.dtype == Dtype::Float32 { 4 } else { 2 };
        self.layers.iter().map(|heads| 2 * heads.kv_heads as u64 * heads.head_dim as u64 * entry).sum()
    }
}

/// How a step's columns get into the batch's arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnWrites {
    /// Where the arrays are, even while a forward pass is running: [`kv_write`].
    InPlace,
    /// MLX's own update, which copies an array that a running forward pass still holds.
    Functional,
}

/// Where one step writes, made once for all layers.
pub struct Columns {
    /// `[B, 1, 1, 1]` i32: the column of each row.
    pub positions: Array,
    /// The same for functional writes, `[B, kv_heads, 1, head_dim]`, once for all layers with the same heads.
    spread: Vec<(KvHeads, Array)>,
}

/// KV cache of the batch.
pub struct KvCache {
    shape: KvShape,
    writes: ColumnWrites,
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
    pub fn new(shape: KvShape, writes: ColumnWrites) -> KvCache {
        KvCache { shape, writes, layers: Vec::new(), rows: 0, capacity: 0 }
    }

    /// Changes how columns are written from the next step on.
    pub fn set_writes(&mut self, writes: ColumnWrites) {
        self.writes = writes;
    }

    /// Columns allocated for each row.
    pub fn capacity(&self) -> i32 {
        self.capacity
    }

    /// Dtype of the entries.
    pub fn dtype(&self) -> Dtype {
        self.shape.dtype
    }

    /// Rows in the batch.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes allocated, empty capacity included.
    pub fn bytes(&self) -> u64 {
        self.shape.bytes_per_token() * self.rows as u64 * self.capacity as u64
    }

    /// Appends a private cache as the last row, layer by layer, so that old and new arrays of one layer exist side by
    /// side and never of all. On an error the batch is as before, or empty if even that fails.
    ///
    /// # Errors
    /// [`MlxError::Op`].
    pub fn join(&mut self, private: PrivateKv) -> Result<()> {
        let capacity = self.capacity.max(grown_capacity(private.tokens() + 1));
        let mut joining = private.into_layers()?.into_iter();
        for layer in 0..self.shape.layers.len() {
            let joined = self.joined(layer, joining.next(), capacity);
            if let Err(error) = joined.and_then(|joined| self.replace(layer, joined)) {
                drop(joining);
                self.undo_join(layer);
                return Err(error);
            }
        }
        (self.rows, self.capacity) = (self.rows + 1, capacity);
        Ok(())
    }

    /// One layer with `row` after the others; `None` is a row without tokens.
    fn joined(&self, layer: usize, row: Option<LayerKv>, capacity: i32) -> Result<LayerKv> {
        let (KvHeads { kv_heads, head_dim }, dtype) = (self.shape.layers[layer], self.shape.dtype);
        // Padded, so copied: there is always a free column, and a snapshot may share the private arrays.
        let row = match row {
            Some(kv) => kv.map(|a| pad_columns(a, capacity))?,
            None => {
                let empty = ops::zeros(&[1, kv_heads, capacity, head_dim], dtype)?;
                // Two buffers: keys and values are written apart.
                LayerKv { values: ops::zeros(&[1, kv_heads, capacity, head_dim], dtype)?, keys: empty }
            }
        };
        match self.layers.get(layer).filter(|_| self.rows > 0) {
            None => Ok(row),
            Some(batch) => Ok(LayerKv {
                keys: ops::concatenate(&[&pad_columns(&batch.keys, capacity)?, &row.keys], 0)?,
                values: ops::concatenate(&[&pad_columns(&batch.values, capacity)?, &row.values], 0)?,
            }),
        }
    }

    /// Cuts the first `done` layers back to the rows and columns that all of them had.
    fn undo_join(&mut self, done: usize) {
        let (rows, capacity) = (self.rows as i32, self.capacity);
        let cut =
            |a: &Array| ops::contiguous(&ops::slice_axis(&ops::slice_axis(a, 0, 0, rows)?, 2, 0, capacity)?);
        let undone = (0..done).try_for_each(|layer| {
            let cut = self.layers[layer].map(cut)?;
            self.replace(layer, cut)
        });
        if rows == 0 || undone.is_err() {
            self.clear();
        }
    }

    /// Keeps the listed rows, in that order.
    ///
    /// # Errors
    /// [`MlxError::Misuse`] for a row that does not exist, [`MlxError::Op`]; the batch is empty then.
    pub fn keep_rows(&mut self, keep: &[usize]) -> Result<()> {
        if keep.iter().any(|row| *row >= self.rows) {
            return Err(MlxError::Misuse { what: "keep a row past the last", rows: self.rows });
        }
        if keep.is_empty() {
            self.clear();
            return Ok(());
        }
        let indices: Vec<i32> = keep.iter().map(|row| *row as i32).collect();
        let indices = Array::from_slice(&indices, &[indices.len() as i32]);
        self.rebuild(|a| ops::take_axis(a, &indices, 0))?;
        self.rows = keep.len();
        Ok(())
    }

    /// Makes room for `needed_tokens` columns in every row.
    ///
    /// # Errors
    /// [`MlxError::Op`]; the batch is empty then.
    pub fn reserve(&mut self, needed_tokens: i32) -> Result<()> {
        if needed_tokens <= self.capacity {
            return Ok(());
        }
        let capacity = grown_capacity(needed_tokens);
        self.rebuild(|a| pad_columns(a, capacity))?;
        self.capacity = capacity;
        Ok(())
    }

    /// A copy of the first `tokens` columns of a row. Submitted, not waited for: what is submitted later may write to
    /// the row.
    ///
    /// # Errors
    /// [`MlxError::Misuse`] for a row or columns that do not exist, [`MlxError::Op`].
    pub fn copy_row(&self, row: usize, tokens: i32) -> Result<PrivateKv> {
        if row >= self.rows || !(0..=self.capacity).contains(&tokens) {
            return Err(MlxError::Misuse { what: "copy columns that no row has", rows: self.rows });
        }
        if tokens == 0 {
            return Ok(PrivateKv::default());
        }
        let index = Array::from_slice(&[row as i32], &[1]);
        // Gathered, not sliced: a slice of a row can be a view of the batch.
        let copy = |a: &Array| ops::take_axis(&ops::slice_axis(a, 2, 0, tokens)?, &index, 0);
        let layers: Result<Vec<LayerKv>> = self.layers.iter().map(|kv| kv.map(copy)).collect();
        let copied = PrivateKv::of(layers?, tokens);
        mx::submit(copied.arrays(), Purpose::Join)?;
        Ok(copied)
    }

    /// Drops every row.
    pub fn clear(&mut self) {
        (self.layers, self.rows, self.capacity) = (Vec::new(), 0, 0);
    }

    /// Changes every layer, one after the other.
    fn rebuild(&mut self, change: impl Fn(&Array) -> Result<Array>) -> Result<()> {
        let outcome = (0..self.layers.len()).try_for_each(|layer| {
            let changed = self.layers[layer].map(&change)?;
            self.replace(layer, changed)
        });
        if outcome.is_err() {
            // Half of the layers are changed: no row can go on.
            self.clear();
        }
        outcome
    }

    fn replace(&mut self, layer: usize, kv: LayerKv) -> Result<()> {
        // Evaluated now: a lazy layer would hold its old buffers.
        mx::wait([&kv.keys, &kv.values], Purpose::Join)?;
        match self.layers.get_mut(layer) {
            Some(old) => *old = kv,
            None => self.layers.push(kv),
        }
        Ok(())
    }

    /// Where a step writes: row `i` in column `lens[i]`.
    ///
    /// # Errors
    /// [`MlxError::Op`].
    pub fn columns(&self, lens: &[i32]) -> Result<Columns> {
        let rows = lens.len() as i32;
        let positions = Array::from_slice(lens, &[rows, 1, 1, 1]);
        let mut spread: Vec<(KvHeads, Array)> = Vec::new();
        if self.writes == ColumnWrites::Functional {
            for heads in &self.shape.layers {
                if spread.iter().all(|(known, _)| known != heads) {
                    let shape = [rows, heads.kv_heads, 1, heads.head_dim];
                    spread.push((*heads, ops::broadcast_to(&positions, &shape)?));
                }
            }
        }
        Ok(Columns { positions, spread })
    }

    /// Writes one column per row of one layer and returns the columns `seen` of all rows.
    ///
    /// `keys`, `values`: `[B, kv_heads, 1, head_dim]`.
    ///
    /// # Errors
    /// [`MlxError::Op`].
    pub fn write(
        &mut self,
        layer: usize,
        columns: &Columns,
        keys: &Array,
        values: &Array,
        seen: Range<i32>,
    ) -> Result<LayerKv> {
        let kv = &mut self.layers[layer];
        let heads = self.shape.layers[layer];
        match columns.spread.iter().find(|(known, _)| *known == heads) {
            None => {
                let old = [&kv.keys, &kv.values];
                [kv.keys, kv.values] = kv_write::write_columns(old, &columns.positions, [keys, values])?;
            }
            // Assigning drops the old handle, so that MLX can write into its buffer instead of copying it.
            Some((_, spread)) => {
                kv.keys = ops::put_along_axis(&kv.keys, spread, keys, 2)?;
                kv.values = ops::put_along_axis(&kv.values, spread, values, 2)?;
            }
        }
        kv.columns(seen)
    }

    /// The columns `seen` of all rows of one layer.
    ///
    /// # Errors
    /// [`MlxError::Op`].
    pub fn read(&self, layer: usize, seen: Range<i32>) -> Result<LayerKv> {
        self.layers[layer].columns(seen)
    }
}
