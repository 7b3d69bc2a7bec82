//! How many bytes the tensors of a model's files take once they are on a device.

use std::collections::{BTreeMap, HashMap};

use super::KvFacts;
use crate::{TensorHeader, WeightDtype, WeightHeaders};

/// How a device keeps weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightStorage {
    /// As the files have them: GPUs.
    AsStored,
    /// In f32, but for affine 4- and 8-bit weights and packed stacks of experts, which stay packed, with affine scales and
    /// biases in f32: the CPU.
    FullPrecision,
}

const F32_BYTES: u64 = 4;
const WORD_BITS: u64 = 32;

pub(super) struct Kept {
    pub(super) weights_bytes: u64,
    pub(super) load_peak_bytes: u64,
}

/// A matrix in words of 32 bits, with what belongs to it.
struct Packed<'a> {
    words: &'a TensorHeader,
    scales: &'a TensorHeader,
    /// `None` for the formats without (mxfp4, mxfp8, nvfp4).
    biases: Option<&'a TensorHeader>,
}

pub(super) fn count(headers: &WeightHeaders, facts: KvFacts, storage: WeightStorage) -> Kept {
    let tensors: HashMap<&str, &TensorHeader> =
        headers.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let group_weights = usual_group(headers, &tensors, facts);
    let mut weights_bytes = 0_u64;
    let mut layers: BTreeMap<&str, u64> = BTreeMap::new();
    for tensor in &headers.tensors {
        let bytes = match storage {
            WeightStorage::AsStored => tensor.bytes,
            WeightStorage::FullPrecision => in_full_precision(tensor, &tensors, group_weights),
        };
        weights_bytes = weights_bytes.saturating_add(bytes);
        let layer = layers.entry(layer_of(&tensor.name)).or_default();
        *layer = layer.saturating_add(tensor.bytes);
    }
    // While matrices are stacked or unpacked, what they are made of is still there, for a layer at a time.
    let largest_layer_bytes = layers.into_values().max().unwrap_or(0);
    Kept { weights_bytes, load_peak_bytes: weights_bytes.saturating_add(largest_layer_bytes) }
}

/// `model.layers.7` of `model.layers.7.mlp.up_proj.weight`; the parent of a tensor outside layers.
fn layer_of(name: &str) -> &str {
    let mut end = 0;
    for part in name.split('.') {
        end += part.len();
        if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            return &name[..end];
        }
        end += 1;
    }
    name.rsplit_once('.').map_or(name, |(parent, _)| parent)
}

/// Bytes of a tensor in f32, with what stays packed counted as such.
fn in_full_precision(
    tensor: &TensorHeader,
    tensors: &HashMap<&str, &TensorHeader>,
    group_weights: Option<u64>,
) -> u64 {
    let sibling = |part: &str| {
        let (module, _) = tensor.name.rsplit_once('.')?;
        tensors.get(format!("{module}.{part}").as_str()).copied()
    };
    let is_part = tensor.name.ends_with(".scales") || tensor.name.ends_with(".biases");
    let words = if is_part { sibling("weight") } else { Some(tensor) };
    let packed = words
        .filter(|words| words.dtype == WeightDtype::U32)
        .and_then(|words| Some(Packed { words, scales: sibling("scales")?, biases: sibling("biases") }));
    match packed {
        None if tensor.dtype.is_float() => numbers(tensor).saturating_mul(F32_BYTES),
        None => tensor.bytes,
        Some(packed) => match (packed.stays_packed(group_weights), is_part) {
            (true, true) if tensor.dtype.is_float() => numbers(tensor).saturating_mul(F32_BYTES),
            (true, true) => tensor.bytes,
            (true, false) => tensor.bytes,
            (false, true) => 0,
            (false, false) => packed.weights(group_weights).saturating_mul(F32_BYTES),
        },
    }
}

fn numbers(tensor: &TensorHeader) -> u64 {
    tensor.bytes / tensor.dtype.bytes()
}

impl Packed<'_> {
    /// Bits of a group in words: bits per weight times weights per group.
    fn group_bits(&self) -> Option<u64> {
        let word_bits = self.words.shape.last()?.checked_mul(WORD_BITS)?;
        let groups = *self.scales.shape.last()?;
        (groups > 0 && word_bits % groups == 0).then(|| word_bits / groups)
    }

    /// Bits per weight, if group size and shapes agree with one that exists.
    fn bits(&self, group_weights: Option<u64>) -> Option<u64> {
        let group_bits = self.group_bits()?;
        if self.biases.is_none() {
            // mxfp4 and mxfp8 have groups of 32, nvfp4 of 16.
            return [(128, 4), (256, 8), (64, 4)]
                .iter()
                .find(|(bits, _)| *bits == group_bits)
                .map(|(_, bits)| *bits);
        }
        let exists = |bits: &u64| matches!(bits, 2 | 3 | 4 | 5 | 6 | 8);
        let known = group_weights.filter(|group| group_bits.is_multiple_of(*group));
        known.map(|group| group_bits / group).filter(exists).or_else(|| {
            // Another group than the rest of the model has: the fewest bits are the most weights.
            [128, 64, 32]
                .into_iter()
                .filter(|group| group_bits.is_multiple_of(*group))
                .map(|group| group_bits / group)
                .find(exists)
        })
    }

    fn stays_packed(&self, group_weights: Option<u64>) -> bool {
        let is_stack = self.words.shape.len() > 2;
        is_stack || (self.biases.is_some() && matches!(self.bits(group_weights), Some(4 | 8)))
    }

    fn weights(&self, group_weights: Option<u64>) -> u64 {
        let bits = self.bits(group_weights).unwrap_or(2);
        numbers(self.words).saturating_mul(WORD_BITS) / bits
    }
}

/// Weights per group: shapes alone say only how many bits a group has, but a matrix `[vocab, …]` is as wide as the
/// residual stream.
fn usual_group(
    headers: &WeightHeaders,
    tensors: &HashMap<&str, &TensorHeader>,
    facts: KvFacts,
) -> Option<u64> {
    headers.tensors.iter().find_map(|words| {
        let module = words.name.strip_suffix(".weight").filter(|_| words.dtype == WeightDtype::U32)?;
        let scales = tensors.get(format!("{module}.scales").as_str())?;
        let [rows, groups] = scales.shape[..] else { return None };
        let is_as_wide = rows == facts.vocab && groups > 0 && facts.hidden.is_multiple_of(groups);
        let group = is_as_wide.then(|| facts.hidden / groups)?;
        [32, 64, 128].contains(&group).then_some(group)
    })
}
