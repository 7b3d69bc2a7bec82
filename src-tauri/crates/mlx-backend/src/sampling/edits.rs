//! What changes logits before they are sampled: penalties, bias, mask. [`engine::sampling`] fixes the order.
//!
//! Only edits that some row asks for enter the graph. A row that does not ask goes through the edit of its
//! neighbours unchanged, bit for bit: its penalty is 1, its bias 0, its mask all ones.

use super::fused::{column, none, take_rows};
use super::rows::Form;
use crate::error::Result;
use crate::mx::{Array, Dtype, ops, scan};
use engine::TokenId;
use engine::backend::{Penalties, RowSampling};

/// Logits `[b, V]` f32 at the stages that later work starts from; equal where nothing lies between.
pub(super) struct Stages {
    /// As the model gave them, padding at negative infinity.
    pub raw: Array,
    /// After penalties.
    penalised: Array,
    /// After penalties and bias: what rows are judged by.
    pub biased: Array,
    /// After penalties, bias and mask: what is sampled.
    pub masked: Array,
}

/// Turns the words of masks into booleans, a byte at a time.
pub(super) struct MaskTable {
    /// `[256, 8]` bool: the bits of each byte, lowest first.
    bits: Array,
    form: Form,
}

impl MaskTable {
    pub(super) fn new(form: Form) -> MaskTable {
        let bits: Vec<bool> = (0..256 * 8).map(|place| ((place / 8) >> (place % 8)) & 1 == 1).collect();
        MaskTable { bits: Array::from_slice(&bits, &[256, 8]), form }
    }

    pub(super) fn arrays(&self) -> [&Array; 1] {
        [&self.bits]
    }

    /// Applies every edit of `rows` to `raw` `[b, V]`.
    pub(super) fn edit(&self, raw: Array, rows: &[RowSampling<'_>]) -> Result<Stages> {
        let penalised = penalise(&raw, rows)?;
        let biased = add_bias(&penalised, rows)?;
        let masked = self.mask(&biased, rows)?;
        Ok(Stages { raw, penalised, biased, masked })
    }

    /// Logits of the rows at `places` as they would be sampled without bias.
    pub(super) fn unbiased(
        &self,
        stages: &Stages,
        rows: &[RowSampling<'_>],
        places: &[usize],
    ) -> Result<Array> {
        let own: Vec<RowSampling<'_>> = places.iter().map(|&place| rows[place]).collect();
        self.mask(&take_rows(&stages.penalised, places)?, &own)
    }

    /// Ids that a row's mask does not allow become negative infinity.
    fn mask(&self, x: &Array, rows: &[RowSampling<'_>]) -> Result<Array> {
        if rows.iter().all(|row| row.mask.is_none()) {
            return Ok(x.clone());
        }
        let (count, vocab) = (x.dim(0), x.dim(1));
        let words = words_of(rows, (vocab as usize).div_ceil(32))?;
        if self.form == Form::Scans {
            return scan::mask(x, &words);
        }
        let bits = ops::take_axis(&self.bits, &ops::view(&words, Dtype::Uint8)?, 0)?;
        let keep = ops::slice_axis(&ops::reshape(&bits, &[count, -1])?, 1, 0, vocab)?;
        ops::select(&keep, x, &none())
    }
}

/// Mask words `[b, width]` u32. Masks are uploaded only for the rows that have one; the others share a row of ones.
fn words_of(rows: &[RowSampling<'_>], width: usize) -> Result<Array> {
    let masks: Vec<&[u32]> = rows.iter().filter_map(|row| row.mask.map(|mask| &mask.words[..])).collect();
    let mut words: Vec<u32> = Vec::with_capacity((masks.len() + 1) * width);
    for mask in &masks {
        let given = mask.len().min(width);
        words.extend_from_slice(&mask[..given]);
        words.resize(words.len() + width - given, 0);
    }
    if masks.len() == rows.len() {
        return Ok(Array::from_slice(&words, &[rows.len() as i32, width as i32]));
    }
    words.resize(words.len() + width, u32::MAX);
    let mut next = 0;
    let places: Vec<i32> = rows
        .iter()
        .map(|row| {
            let own = if row.mask.is_some() { next } else { masks.len() as i32 };
            next += i32::from(row.mask.is_some());
            own
        })
        .collect();
    let distinct = Array::from_slice(&words, &[masks.len() as i32 + 1, width as i32]);
    ops::take_axis(&distinct, &Array::from_slice(&places, &[rows.len() as i32]), 0)
}

/// Lists of one row each, padded to one length by repeating an entry, which then is written twice with one value.
struct Sparse {
    /// `[b, n]` u32.
    ids: Array,
    /// `[b, n]` f32.
    values: Array,
}

impl Sparse {
    /// `None` if every list is empty. Ids at or above `vocab` are left out: no token has them.
    fn new(mut lists: Vec<Vec<(TokenId, f32)>>, vocab: i32) -> Option<Sparse> {
        for list in &mut lists {
            list.retain(|(id, _)| (*id as i32) < vocab);
        }
        let longest = lists.iter().map(Vec::len).max().filter(|longest| *longest > 0)?;
        let shape = [lists.len() as i32, longest as i32];
        let (mut ids, mut values) = (Vec::new(), Vec::new());
        for list in &lists {
            let filler = list.last().copied().unwrap_or((0, 0.0));
            let padded = list.iter().copied().chain(std::iter::repeat(filler)).take(longest);
            for (id, value) in padded {
                ids.push(id);
                values.push(value);
            }
        }
        Some(Sparse { ids: Array::from_slice(&ids, &shape), values: Array::from_slice(&values, &shape) })
    }
}

fn penalise(x: &Array, rows: &[RowSampling<'_>]) -> Result<Array> {
    let subtracted = |penalties: Penalties<'_>| {
        let entry = |seen: &engine::backend::SeenToken| (seen.token, penalties.subtracted(seen.answer_count));
        penalties.seen.iter().map(entry).collect()
    };
    let lists = rows.iter().map(|row| row.penalties.map(subtracted).unwrap_or_default()).collect();
    let Some(list) = Sparse::new(lists, x.dim(1)) else { return Ok(x.clone()) };
    let mut seen = ops::take_along_axis(x, &list.ids, 1)?;
    let repetition = |row: &RowSampling<'_>| row.penalties.map_or(1.0, |penalties| penalties.repetition);
    if rows.iter().any(|row| repetition(row) != 1.0) {
        let factors = column(rows, repetition);
        let is_positive = ops::less(&Array::from_f32(0.0), &seen)?;
        let (lowered, raised) = (ops::divide(&seen, &factors)?, ops::multiply(&seen, &factors)?);
        seen = ops::select(&is_positive, &lowered, &raised)?;
    }
    let seen = ops::subtract(&seen, &list.values)?;
    ops::put_along_axis(x, &list.ids, &seen, 1)
}

fn add_bias(x: &Array, rows: &[RowSampling<'_>]) -> Result<Array> {
    let lists = rows.iter().map(|row| row.bias.to_vec()).collect();
    let Some(list) = Sparse::new(lists, x.dim(1)) else { return Ok(x.clone()) };
    let biased = ops::add(&ops::take_along_axis(x, &list.ids, 1)?, &list.values)?;
    ops::put_along_axis(x, &list.ids, &biased, 1)
}
