//! The likeliest ids of each row, in order, without sorting the vocabulary.
//!
//! Cut into chunks, an id of the top `W` can be beaten by at most `W − 1` chunk maxima, so the `W` chunks with the
//! largest maxima hold all of them. Ties stay exact: chunks are chosen by a stable sort and then put in order of
//! their ids, so the lowest id comes first among equals, as in a stable sort of everything.

use crate::error::Result;
use crate::mx::{Array, Dtype, ops};

/// The first `width` of a row's ids by descending value, lowest id first among equals.
pub struct Shortlist {
    /// `[b, width]` u32.
    pub ids: Array,
    /// `[b, width]` f32, descending.
    pub values: Array,
}

/// Chunk length that sorts the fewest elements: V/c maxima and W·c candidates, so c near √(V/W).
fn chunk_len(vocab: i32, width: i32) -> i32 {
    let ideal = (f64::from(vocab) / f64::from(width)).sqrt();
    1 << (ideal.log2().round() as i32).max(0)
}

fn descending(values: &Array, width: i32) -> Result<Array> {
    ops::slice_axis(&ops::argsort(&ops::negative(values)?, -1)?, values.ndim() - 1, 0, width)
}

/// Shortlist of `x` `[b, V]` f32.
///
/// # Errors
/// [`crate::MlxError::Op`].
pub fn shortlist(x: &Array, width: i32) -> Result<Shortlist> {
    let (rows, vocab) = (x.dim(0), x.dim(1));
    let chunk = chunk_len(vocab, width);
    let chunks = (vocab + chunk - 1) / chunk;
    if chunk < 2 || chunks <= width {
        let ids = descending(x, width.min(vocab))?;
        return Ok(Shortlist { values: ops::take_along_axis(x, &ids, -1)?, ids });
    }
    let missing = chunks * chunk - vocab;
    let padded = if missing > 0 {
        let padding = ops::broadcast_to(&Array::from_f32(f32::NEG_INFINITY), &[rows, missing])?;
        ops::concatenate(&[x, &padding], 1)?
    } else {
        x.clone()
    };
    let grid = ops::reshape(&padded, &[rows, chunks, chunk])?;
    let maxima = ops::reshape(&ops::max(&grid, 2)?, &[rows, chunks])?;
    let chosen = ops::cast(&ops::sort(&descending(&maxima, width)?, -1)?, Dtype::Uint32)?;
    let chosen = ops::reshape(&chosen, &[rows, width, 1])?;
    let picked = ops::take_along_axis(&grid, &ops::broadcast_to(&chosen, &[rows, width, chunk])?, 1)?;
    let picked = ops::reshape(&picked, &[rows, width * chunk])?;
    let within = ops::cast(&ops::arange(chunk)?, Dtype::Uint32)?;
    let first = ops::multiply(&chosen, &Array::from_slice(&[chunk as u32], &[1]))?;
    let ids = ops::reshape(&ops::add(&first, &within)?, &[rows, width * chunk])?;
    let order = descending(&picked, width)?;
    Ok(Shortlist {
        ids: ops::take_along_axis(&ids, &order, -1)?,
        values: ops::take_along_axis(&picked, &order, -1)?,
    })
}

#[cfg(test)]
mod tests {
    use super::chunk_len;

    #[test]
    fn chunks_are_near_the_square_root() {
        assert_eq!(chunk_len(49_152, 256), 16);
        assert_eq!(chunk_len(151_936, 64), 64, "√2374 is 48.7: nearer to 64 than to 32, by ratio");
        assert_eq!(chunk_len(4, 4), 1);
    }
}
