//! Which columns a forward pass sees, and what computes its attention over them.

use super::Kind;
use crate::error::Result;
use crate::kv_cache::KvCache;
use crate::load::Numerics;
use crate::mx::heads::{self, Scores};
use crate::mx::ops::{self, Mask};
use crate::mx::{Array, cuda};
use std::fmt;
use std::ops::Range;

/// Columns visible to a decode step are rounded up to this, so that shapes stay the same for many steps.
const VISIBLE_STEP_TOKENS: i32 = 64;

/// What one forward pass sees in layers of one kind.
pub struct View {
    /// Columns that any row sees.
    pub columns: Range<i32>,
    sight: Sight,
}

/// What tells which of the columns each row, or each token of a prompt, sees.
enum Sight {
    /// Its first and last one, `[rows, 2]` i32.
    Spans(Array),
    /// The same for the kernel on NVIDIA, of all columns that are allocated.
    CudaSpans(cuda::Spans),
    /// A boolean mask, broadcast to `[B, H, T, columns]`, for MLX's attention.
    Mask(Array),
    /// Such a mask for products and operations on scores one by one: [`by_products`].
    Products(Array),
    /// Those up to itself: a prompt, whose last token stands at the last column.
    Causal,
    /// All of them: the rows are equally long.
    Everything,
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
            return Ok(View { columns: 0..end, sight: Sight::Spans(spans(kind, start..end)) });
        }
        let columns = kind.first_seen(start)..end;
        if kind.softcap.is_none() && kind.first_seen(end - 1) == 0 {
            return Ok(View { columns, sight: Sight::Causal });
        }
        let positions: Vec<i32> = (start..end).collect();
        let mask = mask(kind, &positions, &[1, 1, tokens, 1], &columns)?;
        let sight = if kind.softcap.is_some() { Sight::Products(mask) } else { Sight::Mask(mask) };
        Ok(View { columns, sight })
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
            return Ok(View { columns: 0..visible, sight: Sight::Spans(spans(kind, lens.iter().copied())) });
        }
        let is_mlx = numerics == Numerics::Checkpoint && kind.softcap.is_none();
        // CUDA has no kernel for one query and a mask: it would take five operations instead of one.
        if is_mlx && lens.iter().all(|len| *len == lens[0]) {
            return Ok(View { columns: kind.first_seen(longest - 1)..longest, sight: Sight::Everything });
        }
        let seen = |len: &i32| kind.first_seen(*len)..len + 1;
        let most_seen = lens.iter().map(|len| seen(len).len()).max().unwrap_or(0);
        let is_cuda = cuda::attends(kind.head_dim, kind.heads / kind.kv_heads, cache.dtype());
        if is_cuda && most_seen <= cuda::MAX_ATTENDED_TOKENS {
            let spans = cuda::Spans::new(cache.capacity(), kind.kv_heads, lens.iter().map(seen));
            return Ok(View { columns: 0..cache.capacity(), sight: Sight::CudaSpans(spans) });
        }
        let first = lens.iter().map(|len| kind.first_seen(*len)).min().unwrap_or(0);
        let columns = rounded_down(first)..visible;
        let mask = mask(kind, lens, &[lens.len() as i32, 1, 1, 1], &columns)?;
        Ok(View { columns, sight: if is_mlx { Sight::Mask(mask) } else { Sight::Products(mask) } })
    }

    /// What a decode step dispatches to.
    pub fn class(&self) -> AttentionClass {
        let seen = self.columns.end - self.columns.start;
        match &self.sight {
            Sight::Spans(_) | Sight::CudaSpans(_) => AttentionClass::OwnColumns,
            Sight::Products(_) => AttentionClass::Products(seen),
            Sight::Mask(_) | Sight::Causal => AttentionClass::Boolean(seen),
            Sight::Everything => AttentionClass::Unmasked(seen),
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
        let scores = Scores { scale: kind.scale, softcap: kind.softcap, sinks };
        let joined = [rows, tokens, heads * head_dim];
        let by_mlx = |mask| ops::attention(q, keys, values, kind.scale, mask, sinks);
        let out = match &self.sight {
            Sight::Spans(spans) if tokens == 1 => return heads::attend(q, keys, values, spans, scores),
            Sight::Spans(spans) => {
                // Each token of a prompt is a row of its own over the same keys and values.
                let each = ops::transpose_axes(q, &[2, 1, 0, 3])?;
                let shared = |a: &Array| ops::broadcast_to(a, &[tokens, a.dim(1), a.dim(2), head_dim]);
                let out = heads::attend(&each, &shared(keys)?, &shared(values)?, spans, scores)?;
                return ops::reshape(&out, &joined);
            }
            Sight::CudaSpans(spans) => cuda::attend(q, keys, values, spans, scores)?,
            Sight::Mask(mask) => by_mlx(Mask::Keep(mask))?,
            Sight::Causal => by_mlx(Mask::Causal)?,
            Sight::Everything => by_mlx(Mask::Everything)?,
            Sight::Products(mask) => by_products(q, keys, values, mask, scores)?,
        };
        // One token needs no transposition: its heads lie one after the other already.
        let out = if tokens == 1 { out } else { ops::transpose_axes(&out, &[0, 2, 1, 3])? };
        ops::reshape(&out, &joined)
    }
}

/// Attention in which the query heads of a key head are the rows of one product; MLX's own repeats keys per query head
/// on the CPU, and caps no scores. `keep`: `[B, 1, T, columns]`, boolean. Returns `[B, H, T, D]`.
fn by_products(q: &Array, keys: &Array, values: &Array, keep: &Array, how: Scores<'_>) -> Result<Array> {
    let (rows, heads, tokens, head_dim) = (q.dim(0), q.dim(1), q.dim(2), q.dim(3));
    let (kv_heads, columns) = (keys.dim(1), keys.dim(2));
    let group = heads / kv_heads;
    let number = |value: f32| ops::cast(&Array::from_f32(value), q.dtype());
    let grouped = ops::reshape(q, &[rows, kv_heads, group * tokens, head_dim])?;
    let scaled = ops::multiply(&grouped, &number(how.scale)?)?;
    let mut scores = ops::matmul(&scaled, &ops::transpose_axes(keys, &[0, 1, 3, 2])?)?;
    if let Some(cap) = how.softcap {
        let capped = ops::tanh(&ops::multiply(&scores, &number(cap.recip())?)?)?;
        scores = ops::multiply(&capped, &number(cap)?)?;
    }
    scores = ops::reshape(&scores, &[rows, kv_heads, group, tokens, columns])?;
    let keep = ops::reshape(keep, &[keep.dim(0), 1, 1, keep.dim(2), columns])?;
    scores = ops::select(&keep, &scores, &number(f32::NEG_INFINITY)?)?;
    let weights = match how.sinks {
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
