//! Positions, masks and attention for ragged rows: what differs between prefill and decode, and between devices.

use crate::error::Result;
use crate::kv_cache::{Columns, KvCache, LayerKv, PrivateKv};
use crate::load::Numerics;
use crate::mx::ops::Mask;
use crate::mx::{Array, cuda, heads, ops};
use std::fmt;

/// Columns visible to a decode step are rounded up to this, so that shapes stay the same for many steps.
const VISIBLE_STEP_TOKENS: i32 = 64;

/// Columns that the longest row has after a decode step that finds `lens[row]` taken.
fn longest_after(lens: &[i32]) -> i32 {
    lens.iter().copied().max().unwrap_or(0) + 1
}

/// Columns that a masked decode step looks at in every row when it finds `lens[row]` taken.
fn visible_columns(lens: &[i32]) -> i32 {
    (longest_after(lens) + VISIBLE_STEP_TOKENS - 1) / VISIBLE_STEP_TOKENS * VISIBLE_STEP_TOKENS
}

/// How queries and keys are rotated in one forward pass.
enum Rotation {
    /// Tables computed on the host: `cos` and signed `sin`, `[B, 1, T, head_dim]`.
    Tables { cos: Array, sin: Array },
    /// MLX's kernel; `offsets` `[B]` i32.
    Kernel { offsets: Array, base: f32 },
}

/// Rotary embedding of one model.
#[derive(Debug, Clone)]
pub struct Rope {
    base: f32,
    inverse_frequencies: Vec<f32>,
    numerics: Numerics,
}

impl Rope {
    /// Frequencies base^(−2i/head_dim). Source: Su et al. 2021, arXiv:2104.09864.
    pub fn new(base: f32, head_dim: i32, numerics: Numerics) -> Rope {
        let half = head_dim / 2;
        let inverse_frequencies =
            (0..half).map(|i| f64::from(base).powf(-f64::from(i) / f64::from(half)) as f32).collect();
        Rope { base, inverse_frequencies, numerics }
    }

    fn head_dim(&self) -> i32 {
        2 * self.inverse_frequencies.len() as i32
    }

    /// Rotation for rows that start at `offsets`, `tokens` long each.
    fn rotation(&self, offsets: &[i32], tokens: i32) -> Rotation {
        if self.numerics == Numerics::Checkpoint {
            let offsets = Array::from_slice(offsets, &[offsets.len() as i32]);
            return Rotation::Kernel { offsets, base: self.base };
        }
        let head_dim = 2 * self.inverse_frequencies.len();
        let count = offsets.len() * tokens as usize * head_dim;
        let (mut cos, mut sin) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for position in offsets.iter().flat_map(|offset| *offset..*offset + tokens) {
            // Angles in f32, as every other implementation: at far positions the rounding is part of the model.
            let angles = self.inverse_frequencies.iter().map(|inverse| f64::from(position as f32 * inverse));
            cos.extend(angles.clone().chain(angles.clone()).map(|angle| angle.cos() as f32));
            sin.extend(angles.clone().map(|angle| -angle.sin() as f32));
            sin.extend(angles.map(|angle| angle.sin() as f32));
        }
        let shape = [offsets.len() as i32, 1, tokens, head_dim as i32];
        Rotation::Tables { cos: Array::from_slice(&cos, &shape), sin: Array::from_slice(&sin, &shape) }
    }
}

impl Rotation {
    /// Rotates `[B, H, T, head_dim]`.
    fn apply(&self, x: &Array) -> Result<Array> {
        match self {
            Rotation::Kernel { offsets, base } => ops::rope(x, x.dim(3), *base, offsets),
            Rotation::Tables { cos, sin } if heads::supports(x.dim(3)) => heads::turn(x, cos, sin),
            Rotation::Tables { cos, sin } => {
                let half = x.dim(3) / 2;
                let (low, high) = (ops::slice_axis(x, 3, 0, half)?, ops::slice_axis(x, 3, half, 2 * half)?);
                let swapped = ops::concatenate(&[&high, &low], 3)?;
                ops::add(&ops::multiply(x, cos)?, &ops::multiply(&swapped, sin)?)
            }
        }
    }
}

/// Where one forward pass reads and writes keys and values.
enum Target<'a> {
    Prefill {
        private: &'a mut PrivateKv,
        /// Last column that each token of the chunk sees, `[T]` i32; `None` where MLX's own attention runs.
        last_seen: Option<Array>,
    },
    Decode {
        cache: &'a mut KvCache,
        columns: Columns,
        visible: i32,
        sight: Sight,
    },
}

/// What tells a decode step which columns each row sees.
enum Sight {
    /// Its last one, `[B]` i32.
    UpTo(Array),
    /// A mask over the visible columns, broadcast to `[B, H, 1, visible]`: boolean, or added to the scores.
    Mask(Array),
    /// As many as these lengths say, of all that are allocated.
    Lengths(cuda::Lengths),
    /// All visible ones: the rows are equally long.
    Everything,
}

/// Kernels that the attention of a decode step dispatches to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionClass {
    /// A kernel of Braid's, which looks at a row's own columns only.
    OwnColumns,
    /// Products over this many columns, with a mask added to the scores.
    Added(i32),
    /// MLX's attention over this many columns, with a boolean mask.
    Boolean(i32),
    /// MLX's attention over this many columns, without a mask.
    Unmasked(i32),
}

impl fmt::Display for AttentionClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttentionClass::OwnColumns => write!(f, "own columns"),
            AttentionClass::Added(columns) => write!(f, "{columns} columns, mask added"),
            AttentionClass::Boolean(columns) => write!(f, "{columns} columns, boolean mask"),
            AttentionClass::Unmasked(columns) => write!(f, "{columns} columns, no mask"),
        }
    }
}

/// One forward pass, as its attention layers see it.
pub struct Pass<'a> {
    target: Target<'a>,
    rotation: Rotation,
    numerics: Numerics,
}

impl<'a> Pass<'a> {
    /// A chunk of `tokens` prompt tokens appended to a private cache.
    pub fn prefill(private: &'a mut PrivateKv, tokens: i32, rope: &Rope) -> Pass<'a> {
        let start = private.tokens();
        let rotation = rope.rotation(&[start], tokens);
        let is_own = rope.numerics == Numerics::FullPrecision && heads::supports(rope.head_dim());
        let last_seen = is_own.then(|| {
            let columns: Vec<i32> = (start..start + tokens).collect();
            Array::from_slice(&columns, &[tokens])
        });
        Pass { target: Target::Prefill { private, last_seen }, rotation, numerics: rope.numerics }
    }

    /// One token per row; `lens[row]` columns are taken before it.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn decode(cache: &'a mut KvCache, lens: &[i32], rope: &Rope) -> Result<Pass<'a>> {
        cache.reserve(longest_after(lens))?;
        let columns = cache.columns(lens)?;
        let is_even = lens.iter().all(|len| *len == lens[0]);
        let (visible, sight) = match rope.numerics {
            // CUDA has no kernel for one query and a mask: it would take five operations instead of one.
            Numerics::Checkpoint if is_even => (longest_after(lens), Sight::Everything),
            Numerics::Checkpoint
                if cuda::attends(cache.head_dim(), cache.dtype())
                    && longest_after(lens) <= cuda::MAX_ATTENDED_TOKENS =>
            {
                let seen = lens.iter().map(|len| len + 1);
                let lengths = cuda::Lengths::new(cache.capacity(), cache.kv_heads(), seen);
                (cache.capacity(), Sight::Lengths(lengths))
            }
            Numerics::Checkpoint => {
                let visible = visible_columns(lens);
                (visible, Sight::Mask(ops::less_equal(&ops::arange(visible)?, &columns.positions)?))
            }
            Numerics::FullPrecision if heads::supports(cache.head_dim()) => {
                (visible_columns(lens), Sight::UpTo(Array::from_slice(lens, &[lens.len() as i32])))
            }
            Numerics::FullPrecision => {
                let visible = visible_columns(lens);
                (visible, Sight::Mask(additive_mask(lens, visible)))
            }
        };
        let rotation = rope.rotation(lens, 1);
        Ok(Pass {
            target: Target::Decode { cache, columns, visible, sight },
            rotation,
            numerics: rope.numerics,
        })
    }

    /// What a decode step's attention dispatches to; `None` for prefill.
    pub fn class(&self) -> Option<AttentionClass> {
        match (&self.target, self.numerics) {
            (Target::Prefill { .. }, _) => None,
            (Target::Decode { sight: Sight::UpTo(_) | Sight::Lengths(_), .. }, _) => {
                Some(AttentionClass::OwnColumns)
            }
            (Target::Decode { sight: Sight::Everything, visible, .. }, _) => {
                Some(AttentionClass::Unmasked(*visible))
            }
            (Target::Decode { visible, .. }, Numerics::Checkpoint) => Some(AttentionClass::Boolean(*visible)),
            (Target::Decode { visible, .. }, Numerics::FullPrecision) => {
                Some(AttentionClass::Added(*visible))
            }
        }
    }

    /// Rotates queries or keys, `[B, H, T, head_dim]`.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn rotate(&self, x: &Array) -> Result<Array> {
        self.rotation.apply(x)
    }

    /// Stores keys and values of one layer and attends to all of the row: q `[B, H, T, D]`, k and v
    /// `[B, Hkv, T, D]`, rotated; returns `[B, T, H·D]`.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn attend(&mut self, layer: usize, q: &Array, k: Array, v: Array, scale: f32) -> Result<Array> {
        let (rows, heads, tokens, head_dim) = (q.dim(0), q.dim(1), q.dim(2), q.dim(3));
        let joined = [rows, tokens, heads * head_dim];
        match &mut self.target {
            Target::Prefill { private, last_seen } => {
                let kv = private.append(layer, k, v)?;
                if let Some(last_seen) = last_seen {
                    // Each token of the chunk is a row of its own over the same keys and values.
                    let rows = ops::transpose_axes(q, &[2, 1, 0, 3])?;
                    let shape = [tokens, kv.keys.dim(1), kv.keys.dim(2), head_dim];
                    let shared = |a: &Array| ops::broadcast_to(a, &shape);
                    let (keys, values) = (shared(&kv.keys)?, shared(&kv.values)?);
                    let out = heads::attend(&rows, &keys, &values, last_seen, scale)?;
                    return ops::reshape(&out, &joined);
                }
                let out = ops::attention(q, &kv.keys, &kv.values, scale, Mask::Causal)?;
                ops::reshape(&ops::transpose_axes(&out, &[0, 2, 1, 3])?, &joined)
            }
            Target::Decode { cache, columns, visible, sight } => {
                let LayerKv { keys, values } = cache.write(layer, columns, &k, &v, *visible)?;
                let out = match (sight, self.numerics) {
                    (Sight::UpTo(last), _) => return heads::attend(q, &keys, &values, last, scale),
                    (Sight::Lengths(lengths), _) => cuda::attend(q, &keys, &values, lengths, scale)?,
                    (Sight::Everything, _) => ops::attention(q, &keys, &values, scale, Mask::Everything)?,
                    (Sight::Mask(mask), Numerics::Checkpoint) => {
                        ops::attention(q, &keys, &values, scale, Mask::Keep(mask))?
                    }
                    (Sight::Mask(mask), Numerics::FullPrecision) => {
                        attend_by_groups(q, &keys, &values, scale, mask)?
                    }
                };
                ops::reshape(&out, &joined)
            }
        }
    }
}

/// `[B, 1, 1, visible]` f32: 0 where a row may look, negative infinity past its own column.
fn additive_mask(lens: &[i32], visible: i32) -> Array {
    let mut mask = Vec::with_capacity(lens.len() * visible as usize);
    for len in lens {
        mask.extend((0..visible).map(|column| if column <= *len { 0.0 } else { f32::NEG_INFINITY }));
    }
    Array::from_slice(&mask, &[lens.len() as i32, 1, 1, visible])
}

/// One-token attention in which the query heads of a key head are the rows of one product.
///
/// MLX's CPU fallback repeats keys per query head and multiplies row by row; grouped, a decode step of SmolLM2
/// does a third of the products. `mask`: as [`additive_mask`]. Returns `[B, Hkv, H/Hkv, D]`.
fn attend_by_groups(q: &Array, k: &Array, v: &Array, scale: f32, mask: &Array) -> Result<Array> {
    let (rows, heads, head_dim, kv_heads) = (q.dim(0), q.dim(1), q.dim(3), k.dim(1));
    let grouped = ops::reshape(q, &[rows, kv_heads, heads / kv_heads, head_dim])?;
    let scaled = ops::multiply(&grouped, &Array::from_f32(scale))?;
    let scores = ops::matmul(&scaled, &ops::transpose_axes(k, &[0, 1, 3, 2])?)?;
    let weights = ops::softmax(&ops::add(&scores, mask)?, -1)?;
    ops::matmul(&weights, v)
}
