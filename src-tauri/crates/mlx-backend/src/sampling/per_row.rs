//! The fallback: one row, its own graph, its own wait. Also where logprobs are made.

use super::fused::{Sampler, is_too_narrow, sampled};
use super::shortlist;
use crate::error::Result;
use crate::mx::{self, Array, Dtype, Purpose, ops};
use engine::backend::{RowSampling, Sampled, TokenLogprobs};

/// Widest shortlist needed for the alternatives of a token.
const LOGPROBS_WIDTH: i32 = 32;

impl Sampler {
    /// Samples `logits` `[1, V]`.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn sample_alone(&self, logits: &Array, row: &RowSampling<'_>) -> Result<Sampled> {
        let mut row = *row;
        loop {
            let x = self.prepare(logits)?;
            let (token, flags, width) = self.pick_one(&x, &row)?;
            let width = width.max(row.shortlist_width);
            let (token, flags, logprobs) = match row.logprobs {
                None => {
                    let read = mx::read_u32(&ops::concatenate(&[&token, &flags], 0)?, Purpose::Decode)?;
                    (read[0], read[1], None)
                }
                Some(alternatives) => {
                    let (token, flags, logprobs) = read_with_logprobs(&x, &token, &flags, alternatives)?;
                    (token, flags, Some(logprobs))
                }
            };
            if is_too_narrow(flags) {
                mx::count_width_miss();
                row.shortlist_width = self.wider_than(width);
                continue;
            }
            return Ok(Sampled { logprobs, ..sampled(token, flags, width) });
        }
    }
}

/// Token, flags and logprobs in one f32 array and one read: ids below 2^24 are exact in f32.
fn read_with_logprobs(
    x: &Array,
    token: &Array,
    flags: &Array,
    alternatives: u8,
) -> Result<(u32, u32, TokenLogprobs)> {
    let f32s = |a: &Array| ops::cast(a, Dtype::Float32);
    let flat = |a: &Array| ops::reshape(a, &[-1]);
    let mass = flat(&ops::logsumexp(x, 1)?)?;
    let chosen = flat(&ops::take_along_axis(x, &ops::reshape(token, &[1, 1])?, 1)?)?;
    let list = shortlist::shortlist(x, LOGPROBS_WIDTH.min(x.dim(1)))?;
    let packed = ops::concatenate(
        &[
            &f32s(token)?,
            &f32s(flags)?,
            &ops::subtract(&chosen, &mass)?,
            &f32s(&flat(&list.ids)?)?,
            &ops::subtract(&flat(&list.values)?, &mass)?,
        ],
        0,
    )?;
    let read = mx::read_f32(&packed, Purpose::Decode)?;
    let (ids, values) = read[3..].split_at((read.len() - 3) / 2);
    let top = ids.iter().zip(values).take(usize::from(alternatives));
    let logprobs =
        TokenLogprobs { chosen: read[2], top: top.map(|(id, value)| (*id as u32, *value)).collect() };
    Ok((read[0] as u32, read[1] as u32, logprobs))
}
