//! Which columns a forward pass sees, and what computes its attention over them.

use super::Kind;
use crate::error::Result;
use crate::kv_cache::KvCache;
use crate::load::Numerics;
use crate::mx::ops::{self, Mask};
use crate::mx::{Array, cuda, heads};
use std::fmt;
use std::ops::Range;

/// Columns visible to a decode step are rounded up to this, so that shapes stay the same for many steps.
const VISIBLE_STEP_TOKENS: i32 = 64;

/// What one forward pass sees in layers of one kind.
pub struct View {
    /// Columns that any row sees.
    pub columns: Range<i32>,
    sight: Sight,
    computes: Computes,
}

/// What tells which of the columns each row, or each token of a prompt, sees.
enum Sight {
    /// Its first and last one, `[rows, 2]` i32.
    Spans(Array),
    /// As many as these lengths say, of all that are allocated.
    Lengths(cuda::Lengths),
    /// A boolean mask, broadcast to `[B, H, T, columns]`.
    Mask(Array),
    /// Those up to itself: a prompt, whose last token stands at the last column.
    Causal,
    /// All of them: the rows are equally long.
    Everything,
}

/// What computes attention where Braid has no kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Computes {
    /// MLX's attention.
    Mlx,
    /// Products and operations on scores one by one.
    Products,
}

/// Kernels that the attention of a decode step dispatches to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionClass {
    /// A kernel of Braid's, which looks at a row's own columns only.
    OwnColumns,
    /// Products over this many columns, with operations on the scores between them.
    Products(i32),
    /// MLX's attention over this many columns, with a boolean mask.
    Boolean(i32),
    /// MLX's attention over this many columns, without a mask.
    Unmasked(i32),
}

impl fmt::Display for AttentionClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttentionClass::OwnColumns => write!(f, "own columns"),
            AttentionClass::Products(columns) => write!(f, "{columns} columns, products"),
            AttentionClass::Boolean(columns) => write!(f, "{columns} columns, boolean mask"),
            AttentionClass::Unmasked(columns) => write!(f, "{columns} columns, no mask"),
        }
    }
}

/// Columns that the longest row has after a decode step that finds `lens[row]` taken.
pub fn longest_after(lens: &[i32]) -> i32 {
    lens.iter().copied().max().unwrap_or(0) + 1
}

fn rounded_down(columns: i32) -> i32 {
    columns / VISIBLE_STEP_TOKENS * VISIBLE_STEP_TOKENS
}

/// First and last column of each position, `[positions, 2]` i32.
fn spans(kind: &Kind, positions: impl Iterator<Item = i32>) -> Array {
    let spans: Vec<i32> = positions.flat_map(|position| [kind.first_seen(position), position]).collect();
    Array::from_slice(&spans, &[spans.len() as i32 / 2, 2])
}

/// Whether each position sees each of `columns`: `shape` is that of the positions, with a last axis of length 1.
fn mask(kind: &Kind, positions: &[i32], shape: &[i32], columns: &Range<i32>) -> Result<Array> {
    let relative = |column: &dyn Fn(i32) -> i32| {
        let relative: Vec<i32> = positions.iter().map(|position| column(*position) - columns.start).collect();
        Array::from_slice(&relative, shape)
    };
    let all = ops::arange(columns.end - columns.start)?;
    let up_to = ops::less_equal(&all, &relative(&|position| position))?;
    if positions.iter().all(|position| kind.first_seen(*position) <= columns.start) {
        return Ok(up_to);
    }
    ops::logical_and(&up_to, &ops::greater_equal(&all, &relative(&|position| kind.first_seen(position)))?)
}

impl View {
    /// Of `tokens` prompt tokens after `start` others.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn of_prompt(kind: &Kind, numerics: Numerics, start: i32, tokens: i32) -> Result<View> {
        let end = start + tokens;
        if numerics == Numerics::FullPrecision && heads::supports(kind.head_dim) {
            let sight = Sight::Spans(spans(kind, start..end));
            return Ok(View { columns: 0..end, sight, computes: Computes::Mlx });
        }
        let columns = kind.first_seen(start)..end;
        let computes = if kind.softcap.is_some() { Computes::Products } else { Computes::Mlx };
        let sight = match kind.first_seen(end - 1) {
            0 if computes == Computes::Mlx => Sight::Causal,
            _ => {
                let positions: Vec<i32> = (start..end).collect();
                Sight::Mask(mask(kind, &positions, &[1, 1, tokens, 1], &columns)?)
            }
        };
        Ok(View { columns, sight, computes })
    }

    /// Of one token per row, for which `lens[row]` columns are taken.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn of_step(kind: &Kind, numerics: Numerics, lens: &[i32], cache: &KvCache) -> Result<View> {
        let longest = longest_after(lens);
        // Rounded, so that shapes stay the same for many steps.
        let visible = rounded_down(longest + VISIBLE_STEP_TOKENS - 1);
        if numerics == Numerics::FullPrecision && heads::supports(kind.head_dim) {
            let sight = Sight::Spans(spans(kind, lens.iter().copied()));
            return Ok(View { columns: 0..visible, sight, computes: Computes::Mlx });
        }
        let is_plain = kind.softcap.is_none() && numerics == Numerics::Checkpoint;
        let computes = if is_plain { Computes::Mlx } else { Computes::Products };
        // CUDA has no kernel for one query and a mask: it would take five operations instead of one.
        if numerics == Numerics::Checkpoint && lens.iter().all(|len| *len == lens[0]) {
            return Ok(View {
                columns: kind.first_seen(longest - 1)..longest,
                sight: Sight::Everything,
                computes,
            });
        }
        let first = lens.iter().map(|len| kind.first_seen(*len)).min().unwrap_or(0);
        let sees_all = lens.iter().all(|len| kind.first_seen(*len) == 0);
        let is_own = is_plain && sees_all && !kind.has_sinks && cuda::attends(kind.head_dim, cache.dtype());
        if is_own && longest <= cuda::MAX_ATTENDED_TOKENS {
            let seen = lens.iter().map(|len| len + 1);
            let lengths = cuda::Lengths::new(cache.capacity(), kind.kv_heads, seen);
            return Ok(View { columns: 0..cache.capacity(), sight: Sight::Lengths(lengths), computes });
        }
        let columns = rounded_down(first)..visible;
        let sight = Sight::Mask(mask(kind, lens, &[lens.len() as i32, 1, 1, 1], &columns)?);
        Ok(View { columns, sight, computes })
    }

    /// What a decode step dispatches to.
    pub fn class(&self) -> AttentionClass {
        let seen = self.columns.end - self.columns.start;
        match (&self.sight, self.computes) {
            (Sight::Spans(_) | Sight::Lengths(_), _) => AttentionClass::OwnColumns,
            (_, Computes::Products) => AttentionClass::Products(seen),
            (Sight::Everything, Computes::Mlx) => AttentionClass::Unmasked(seen),
            (Sight::Mask(_) | Sight::Causal, Computes::Mlx) => AttentionClass::Boolean(seen),
        }
    }

    /// Attention over keys and values `[B, Hkv, columns, D]`: q `[B, H, T, D]` to `[B, T, H·D]`.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn attend(
        &self,
        kind: &Kind,
        q: &Array,
        keys: &Array,
        values: &Array,
        sinks: Option<&Array>,
    ) -> Result<Array> {
        let (rows, heads, tokens, head_dim) = (q.dim(0), q.dim(1), q.dim(2), q.dim(3));
        let mask = match &self.sight {
            Sight::Spans(spans) => {
                let scores = heads::Scores { scale: kind.scale, softcap: kind.softcap, sinks };
                if tokens == 1 {
                    return heads::attend(q, keys, values, spans, scores);
                }
                // Each token of a prompt is a row of its own over the same keys and values.
                let each = ops::transpose_axes(q, &[2, 1, 0, 3])?;
                let shared = |a: &Array| ops::broadcast_to(a, &[tokens, a.dim(1), a.dim(2), head_dim]);
                let out = heads::attend(&each, &shared(keys)?, &shared(values)?, spans, scores)?;
                return ops::reshape(&out, &[rows, tokens, heads * head_dim]);
            }
            Sight::Lengths(lengths) => {
                let out = cuda::attend(q, keys, values, lengths, kind.scale)?;
                return ops::reshape(&out, &[rows, tokens, heads * head_dim]);
            }
            Sight::Mask(mask) => Mask::Keep(mask),
            Sight::Causal => Mask::Causal,
            Sight::Everything => Mask::Everything,
        };
        let out = match self.computes {
            Computes::Mlx => ops::attention(q, keys, values, kind.scale, mask, sinks)?,
            Computes::Products => {
                let keep = match &self.sight {
                    Sight::Mask(mask) => Some(mask),
                    _ => None,
                };
                by_products(kind, q, keys, values, keep, sinks)?
            }
        };
        // One token needs no transposition: its heads lie one after the other already.
        let out = if tokens == 1 { out } else { ops::transpose_axes(&out, &[0, 2, 1, 3])? };
        ops::reshape(&out, &[rows, tokens, heads * head_dim])
    }
}

/// Attention in which the query heads of a key head are the rows of one product; MLX's own repeats keys per query head
/// on the CPU, and caps no scores. `keep`: `[B, 1, T, columns]`, boolean. Returns `[B, H, T, D]`.
fn by_products(
    kind: &Kind,
    q: &Array,
    keys: &Array,
    values: &Array,
    keep: Option<&Array>,
    sinks: Option<&Array>,
) -> Result<Array> {
    let (rows, heads, tokens, head_dim) = (q.dim(0), q.dim(1), q.dim(2), q.dim(3));
    let (kv_heads, columns) = (keys.dim(1), keys.dim(2));
    let group = heads / kv_heads;
    let number = |value: f32| ops::cast(&Array::from_f32(value), q.dtype());
    let grouped = ops::reshape(q, &[rows, kv_heads, group * tokens, head_dim])?;
    let scaled = ops::multiply(&grouped, &number(kind.scale)?)?;
    let mut scores = ops::matmul(&scaled, &ops::transpose_axes(keys, &[0, 1, 3, 2])?)?;
    if let Some(cap) = kind.softcap {
        let capped = ops::tanh(&ops::multiply(&scores, &number(cap.recip())?)?)?;
        scores = ops::multiply(&capped, &number(cap)?)?;
    }
    scores = ops::reshape(&scores, &[rows, kv_heads, group, tokens, columns])?;
    if let Some(keep) = keep {
        let keep = ops::reshape(keep, &[keep.dim(0), 1, 1, keep.dim(2), columns])?;
        scores = ops::select(&keep, &scores, &number(f32::NEG_INFINITY)?)?;
    }
    let weights = match sinks {
        None => ops::softmax(&scores, -1)?,
        Some(sinks) => {
            let sinks = ops::reshape(sinks, &[1, kv_heads, group, 1, 1])?;
            let sinks = ops::broadcast_to(&sinks, &[rows, kv_heads, group, tokens, 1])?;
            let weights = ops::softmax(&ops::concatenate(&[&scores, &sinks], 4)?, -1)?;
            ops::slice_axis(&weights, 4, 0, columns)?
        }
    };
    let weights = ops::reshape(&weights, &[rows, kv_heads, group * tokens, columns])?;
    ops::reshape(&ops::matmul(&weights, values)?, &[rows, heads, tokens, head_dim])
}
