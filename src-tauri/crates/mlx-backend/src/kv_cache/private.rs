//! KV cache of one row outside the batch: a prompt that is being read, or a snapshot.

use super::LayerKv;
use crate::error::Result;
use crate::mx::{self, Array, Purpose, ops};

/// B = 1, exactly as long as the tokens in it.
///
/// Its arrays are never written to, so a snapshot may share them with a prompt that is read further or joins.
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

    /// Its layers, none while it is empty.
    pub(super) fn into_layers(self) -> Vec<LayerKv> {
        self.layers
    }

    /// Appends one layer's chunk and returns all of its keys and values.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn append(&mut self, layer: usize, keys: Array, values: Array) -> Result<&LayerKv> {
        match self.layers.get_mut(layer) {
            Some(kv) => {
                kv.keys = ops::concatenate(&[&kv.keys, &keys], 2)?;
                kv.values = ops::concatenate(&[&kv.values, &values], 2)?;
            }
            // Copied: they are views of the product that made queries, keys and values, and would keep all of it.
            None => {
                self.layers.push(LayerKv { keys: ops::contiguous(&keys)?, values: ops::contiguous(&values)? })
            }
        }
        Ok(&self.layers[layer])
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
        if tokens >= self.tokens {
            return Ok(self.clone());
        }
        if tokens == 0 {
            return Ok(PrivateKv::default());
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
