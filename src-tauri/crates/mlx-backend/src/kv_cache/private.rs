//! KV cache of one row outside the batch: a prompt that is being read, or a snapshot.

use super::{LayerKv, pad_columns};
use crate::error::Result;
use crate::mx::{self, Array, Purpose, ops};
use std::ops::Range;

/// B = 1, with room for more columns than it holds, so that a long prompt is not copied with every chunk.
///
/// Columns are written in place only where nobody else holds the array: MLX copies it otherwise. So a snapshot may
/// share arrays with a prompt that is read further.
#[derive(Clone, Default)]
pub struct PrivateKv {
    /// Empty while there are no tokens.
    layers: Vec<LayerKv>,
    tokens: i32,
}

impl PrivateKv {
    /// Of layers that hold `tokens` columns each.
    pub(super) fn of(layers: Vec<LayerKv>, tokens: i32) -> PrivateKv {
        PrivateKv { layers, tokens }
    }

    /// Tokens read so far.
    pub fn tokens(&self) -> i32 {
        self.tokens
    }

    /// Its layers, exactly as long as its tokens; none while it is empty.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub(super) fn into_layers(self) -> Result<Vec<LayerKv>> {
        let tokens = self.tokens;
        self.layers.into_iter().map(|kv| kv.map(|a| ops::slice_axis(a, 2, 0, tokens))).collect()
    }

    /// Appends one layer's chunk and returns the columns `seen` of the layer, which end with the chunk.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn append(&mut self, layer: usize, keys: Array, values: Array, seen: Range<i32>) -> Result<LayerKv> {
        let needed = self.tokens + keys.dim(2);
        match self.layers.get_mut(layer) {
            Some(kv) => {
                if kv.keys.dim(2) < needed {
                    *kv = kv.map(|a| pad_columns(a, needed + needed / 2))?;
                }
                let start = [0, 0, self.tokens, 0];
                // Assigning drops the old handle, so that MLX can write into its buffer instead of copying it.
                kv.keys = ops::slice_update(&kv.keys, &keys, &start)?;
                kv.values = ops::slice_update(&kv.values, &values, &start)?;
            }
            // Copied: they are views of the product that made queries, keys and values, and would keep all of it.
            None => {
                let kv = LayerKv { keys: ops::contiguous(&keys)?, values: ops::contiguous(&values)? };
                self.layers.push(kv);
            }
        }
        self.read(layer, seen)
    }

    /// The columns `seen` of one layer, which may be of a chunk that is not yet counted in.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn read(&self, layer: usize, seen: Range<i32>) -> Result<LayerKv> {
        self.layers[layer].columns(seen)
    }

    /// Computes what was appended and counts it in. Blocks.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn settle(&mut self, chunk_tokens: i32) -> Result<()> {
        mx::wait(self.arrays(), Purpose::Prefill)?;
        self.tokens += chunk_tokens;
        Ok(())
    }

    /// The first `tokens` columns, at most all of them. Blocks when that takes a copy.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn prefix(&self, tokens: i32) -> Result<PrivateKv> {
        let tokens = tokens.min(self.tokens);
        if tokens == 0 {
            return Ok(PrivateKv::default());
        }
        if self.layers.iter().all(|kv| kv.keys.dim(2) == tokens) {
            return Ok(self.clone());
        }
        let cut = |a: &Array| ops::contiguous(&ops::slice_axis(a, 2, 0, tokens)?);
        let layers: Result<Vec<LayerKv>> = self.layers.iter().map(|kv| kv.map(cut)).collect();
        let prefix = PrivateKv { layers: layers?, tokens };
        mx::wait(prefix.arrays(), Purpose::Join)?;
        Ok(prefix)
    }

    /// Every array of the cache.
    pub(super) fn arrays(&self) -> impl Iterator<Item = &Array> {
        self.layers.iter().flat_map(|kv| [&kv.keys, &kv.values])
    }
}
