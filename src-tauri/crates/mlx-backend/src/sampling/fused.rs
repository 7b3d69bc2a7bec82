//! `[B, vocab] -> [B]` in one graph, one wait and one host read, whatever the rows' settings.

use super::{noise, shortlist};
use crate::error::Result;
use crate::mx::{self, Array, Dtype, Purpose, ops};
use engine::backend::{BadRow, RowSampling, Sampled};

/// Narrowest shortlist of a row with top-p alone, and the next one when it proves too narrow.
const TOP_P_WIDTHS: [u32; 2] = [256, 1024];

const NON_FINITE: u32 = 1;
const NOTHING_ALLOWED: u32 = 2;
const TOO_NARROW: u32 = 4;

/// What a row's settings ask of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Greedy,
    Untruncated,
    Truncated,
}

/// Constants of one vocabulary.
pub struct Sampler {
    vocab: i32,
    /// `[1, V]` bool: whether the tokenizer knows the id; `None` when it knows all of them.
    known: Option<Array>,
    /// `[1, V]` u32: the id's part of the noise hash.
    mixed_ids: Array,
}

/// A sampling graph that was submitted and is not read yet.
pub struct Submitted {
    /// `[b]` u32, row-contiguous, in the order of the rows: what the next forward pass can start from. The token of
    /// a bad row is any id of the vocabulary.
    pub tokens: Array,
    /// `[2b]` u32: tokens, then flags.
    packed: Array,
    /// Shortlist width of each row, 0 without one.
    widths: Vec<u32>,
    /// `[b, V]`: what a wider shortlist is made from.
    logits: Array,
}

/// What [`Sampler::read`] read.
pub struct Read {
    /// One per row, in the order of the rows.
    pub sampled: Vec<Sampled>,
    /// Whether a wider shortlist gave a token other than [`Submitted::tokens`] holds.
    pub has_replaced: bool,
}

impl Submitted {
    /// Token, flags and shortlist width of each row: one wait, one read.
    fn outcomes(&self, sampling: &[RowSampling<'_>]) -> Result<Vec<(u32, u32, u32)>> {
        let read = mx::read_submitted_u32(&self.packed, Purpose::Decode)?;
        let (tokens, flags) = read.split_at(self.widths.len());
        let width = |row: usize| self.widths[row].max(sampling[row].shortlist_width);
        Ok((0..self.widths.len()).map(|row| (tokens[row], flags[row], width(row))).collect())
    }
}

/// A sampled family: tokens and flags, each `[b]` u32, in the order of its rows.
struct Picks {
    tokens: Array,
    flags: Array,
}

impl Sampler {
    /// Prepares the constants. `vocab`: width of the logits; ids from `tokenizer_tokens` on are never sampled.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn new(vocab: u32, tokenizer_tokens: u32) -> Result<Sampler> {
        let ids = ops::reshape(&ops::cast(&ops::arange(vocab as i32)?, Dtype::Uint32)?, &[1, -1])?;
        let mixed_ids = noise::mix_ids(&ids)?;
        let known = (tokenizer_tokens < vocab).then(|| {
            let known: Vec<bool> = (0..vocab).map(|id| id < tokenizer_tokens).collect();
            Array::from_slice(&known, &[1, vocab as i32])
        });
        mx::wait(known.iter().chain([&mixed_ids]), Purpose::Load)?;
        Ok(Sampler { vocab: vocab as i32, known, mixed_ids })
    }

    /// Logits as every sampler sees them: f32, padding at negative infinity.
    pub(super) fn prepare(&self, logits: &Array) -> Result<Array> {
        let x = ops::cast(logits, Dtype::Float32)?;
        match &self.known {
            // Chosen, not added to: whatever stands in the padding must not reach the row.
            Some(known) => ops::select(known, &x, &Array::from_f32(f32::NEG_INFINITY)),
            None => Ok(x),
        }
    }

    fn family(&self, row: &RowSampling<'_>) -> Family {
        let limits_k = row.top_k > 0 && (row.top_k as i32) < self.vocab;
        match () {
            _ if row.is_greedy => Family::Greedy,
            _ if limits_k || row.top_p < 1.0 => Family::Truncated,
            _ => Family::Untruncated,
        }
    }

    /// Submits the sampling graph of `logits` `[b, V]`, `sampling[i]` for row `i`, and what `logits` still needs.
    /// One submission, no wait.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn submit(&self, logits: &Array, sampling: &[RowSampling<'_>]) -> Result<Submitted> {
        let submitted = self.build(logits, sampling)?;
        mx::submit([&submitted.tokens, &submitted.packed], Purpose::Decode)?;
        Ok(submitted)
    }

    /// Reads what [`Sampler::submit`] submitted for the same `sampling`: one wait and one read, and one more of each
    /// per shortlist width that proves too narrow.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn read(&self, submitted: &Submitted, sampling: &[RowSampling<'_>]) -> Result<Read> {
        let mut results = submitted.outcomes(sampling)?;
        let first: Vec<u32> = results.iter().map(|result| result.0).collect();
        loop {
            let narrow: Vec<usize> =
                (0..results.len()).filter(|&row| results[row].1 & TOO_NARROW != 0).collect();
            if narrow.is_empty() {
                break;
            }
            mx::count_width_miss();
            let again: Vec<RowSampling<'_>> = narrow
                .iter()
                .map(|&row| RowSampling { shortlist_width: self.wider_than(results[row].2), ..sampling[row] })
                .collect();
            let retried = self.submit(&take_rows(&submitted.logits, &narrow)?, &again)?.outcomes(&again)?;
            for (row, result) in narrow.into_iter().zip(retried) {
                results[row] = result;
            }
        }
        let has_replaced = results.iter().zip(&first).any(|(result, first)| result.0 != *first);
        let sampled = results.into_iter().map(|(token, flags, width)| sampled(token, flags, width)).collect();
        Ok(Read { sampled, has_replaced })
    }

    /// [`Sampler::submit`] and [`Sampler::read`] in one.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn sample(&self, logits: &Array, sampling: &[RowSampling<'_>]) -> Result<Vec<Sampled>> {
        let submitted = self.submit(logits, sampling)?;
        Ok(self.read(&submitted, sampling)?.sampled)
    }

    /// Next shortlist width above `width`.
    pub(super) fn wider_than(&self, width: u32) -> u32 {
        TOP_P_WIDTHS.into_iter().find(|next| *next > width).unwrap_or(self.vocab as u32)
    }

    fn build(&self, logits: &Array, sampling: &[RowSampling<'_>]) -> Result<Submitted> {
        let x = self.prepare(logits)?;
        let mut picks = Vec::new();
        let mut order = Vec::with_capacity(sampling.len());
        for family in [Family::Greedy, Family::Untruncated, Family::Truncated] {
            let rows: Vec<usize> =
                (0..sampling.len()).filter(|&row| self.family(&sampling[row]) == family).collect();
            if rows.is_empty() {
                continue;
            }
            let own: Vec<RowSampling<'_>> = rows.iter().map(|&row| sampling[row]).collect();
            let part = if rows.len() == sampling.len() { x.clone() } else { take_rows(&x, &rows)? };
            let (pick, width) = self.pick(family, &part, &own)?;
            picks.push(pick);
            order.extend(rows.into_iter().map(|row| (row, width)));
        }
        let tokens: Vec<&Array> = picks.iter().map(|pick| &pick.tokens).collect();
        let flags: Vec<&Array> = picks.iter().map(|pick| &pick.flags).collect();
        let (tokens, flags) = (in_row_order(&tokens, &order)?, in_row_order(&flags, &order)?);
        let mut widths = vec![0; sampling.len()];
        for (row, width) in order {
            widths[row] = width;
        }
        let packed = ops::concatenate(&[&tokens, &flags], 0)?;
        Ok(Submitted { tokens, packed, widths, logits: logits.clone() })
    }

    fn pick(&self, family: Family, x: &Array, rows: &[RowSampling<'_>]) -> Result<(Picks, u32)> {
        match family {
            Family::Greedy => Ok((greedy(x)?, 0)),
            Family::Untruncated => Ok((self.untruncated(x, rows)?, 0)),
            Family::Truncated => {
                let width = self.width(rows);
                Ok((self.truncated(x, rows, width)?, width))
            }
        }
    }

    /// Token and flags of one row as arrays `[1]` u32, in the graph of the caller.
    pub(super) fn pick_one(&self, x: &Array, row: &RowSampling<'_>) -> Result<(Array, Array, u32)> {
        let (picks, width) = self.pick(self.family(row), x, std::slice::from_ref(row))?;
        Ok((picks.tokens, picks.flags, width))
    }

    /// Shortlist width that every row of the family is asked to fit in.
    fn width(&self, rows: &[RowSampling<'_>]) -> u32 {
        let own = rows.iter().map(|row| match row.top_k {
            0 => row.shortlist_width.max(TOP_P_WIDTHS[0]),
            k if k as i32 >= self.vocab => row.shortlist_width.max(TOP_P_WIDTHS[0]),
            k => k.next_power_of_two(),
        });
        let width = own.max().unwrap_or(TOP_P_WIDTHS[0]);
        if width > TOP_P_WIDTHS[1] || width as i32 >= self.vocab { self.vocab as u32 } else { width }
    }

    /// Temperature and min-p over all ids.
    fn untruncated(&self, x: &Array, rows: &[RowSampling<'_>]) -> Result<Picks> {
        let scaled = ops::divide(x, &column(rows, |row| row.temperature))?;
        let scores = ops::add(&scaled, &noise::gumbel(&bases(rows), &self.mixed_ids)?)?;
        let (top, flags) = (ops::max(x, 1)?, ops::is_nan(&ops::sum(x, 1)?)?);
        let scores = if rows.iter().any(|row| row.min_p > 0.0) {
            let top = ops::divide(&top, &column(rows, |row| row.temperature))?;
            let keep = ops::greater_equal(&scaled, &ops::add(&top, &column(rows, ln_min_p))?)?;
            ops::select(&keep, &scores, &Array::from_f32(f32::NEG_INFINITY))?
        } else {
            scores
        };
        Ok(Picks { tokens: flat(&ops::argmax(&scores, 1)?)?, flags: row_flags(&flags, &top, None)? })
    }

    /// Top-k, top-p and min-p over the `width` likeliest ids.
    fn truncated(&self, x: &Array, rows: &[RowSampling<'_>], width: u32) -> Result<Picks> {
        let list = shortlist::shortlist(x, width as i32)?;
        let temperatures = column(rows, |row| row.temperature);
        let scaled = ops::divide(&list.values, &temperatures)?;
        let rank = ops::arange(scaled.dim(1))?;
        let limits: Vec<i32> = rows
            .iter()
            .map(|row| if row.top_k == 0 { self.vocab } else { (row.top_k as i32).min(self.vocab) })
            .collect();
        let in_k = ops::less(&rank, &Array::from_slice(&limits, &[rows.len() as i32, 1]))?;
        let none = Array::from_f32(f32::NEG_INFINITY);
        let within = ops::select(&in_k, &scaled, &none)?;
        let normaliser = self.normaliser(x, &within, rows, &temperatures)?;
        let probability = ops::exp(&ops::subtract(&within, &normaliser)?)?;
        let reached = ops::cumsum(&probability, 1)?;
        let top_p = column(rows, |row| row.top_p);
        let before = ops::subtract(&reached, &probability)?;
        let mut keep = ops::logical_and(&in_k, &ops::less(&before, &top_p)?)?;
        let best = ops::slice_axis(&scaled, 1, 0, 1)?;
        if rows.iter().any(|row| row.min_p > 0.0) {
            let floor = ops::add(&best, &column(rows, ln_min_p))?;
            keep = ops::logical_and(&keep, &ops::greater_equal(&scaled, &floor)?)?;
        }
        keep = ops::logical_or(&keep, &ops::equal(&rank, &Array::from_int(0))?)?;
        let mixed = ops::take_axis(&ops::reshape(&self.mixed_ids, &[-1])?, &list.ids, 0)?;
        let scores = ops::add(&scaled, &noise::gumbel(&bases(rows), &mixed)?)?;
        let place = ops::argmax(&ops::select(&keep, &scores, &none)?, 1)?;
        let tokens = flat(&ops::take_along_axis(&list.ids, &place, 1)?)?;
        let too_narrow = self.too_narrow(&reached, rows, width)?;
        let top = ops::slice_axis(&list.values, 1, 0, 1)?;
        let flags = row_flags(&ops::is_nan(&ops::sum(x, 1)?)?, &top, too_narrow.as_ref())?;
        Ok(Picks { tokens, flags })
    }

    /// ln of the mass that probabilities are relative to, `[b, 1]`: what top-k keeps, or the whole row.
    fn normaliser(
        &self,
        x: &Array,
        within: &Array,
        rows: &[RowSampling<'_>],
        temperatures: &Array,
    ) -> Result<Array> {
        let has_k = |row: &RowSampling<'_>| row.top_k > 0 && (row.top_k as i32) < self.vocab;
        let whole = |x: &Array| ops::logsumexp(&ops::divide(x, temperatures)?, 1);
        match (rows.iter().any(has_k), rows.iter().all(has_k)) {
            (_, true) => ops::logsumexp(within, 1),
            (false, _) => whole(x),
            (true, false) => {
                let flags: Vec<bool> = rows.iter().map(has_k).collect();
                let flags = Array::from_slice(&flags, &[rows.len() as i32, 1]);
                ops::select(&flags, &ops::logsumexp(within, 1)?, &whole(x)?)
            }
        }
    }

    /// Whether the shortlist ends before the row's top-p is reached, `[b, 1]`; `None` where it cannot.
    fn too_narrow(&self, reached: &Array, rows: &[RowSampling<'_>], width: u32) -> Result<Option<Array>> {
        let can_miss = |row: &RowSampling<'_>| row.top_k == 0 || row.top_k as i32 >= self.vocab;
        if width as i32 >= self.vocab || !rows.iter().any(can_miss) {
            return Ok(None);
        }
        let needed = column(rows, |row| if can_miss(row) { row.top_p } else { 0.0 });
        let end = reached.dim(1);
        Ok(Some(ops::less(&ops::slice_axis(reached, 1, end - 1, end)?, &needed)?))
    }
}

/// The row's outcome from its numbers; `flags` without [`TOO_NARROW`].
pub(super) fn sampled(token: u32, flags: u32, width: u32) -> Sampled {
    let token = match flags {
        flags if flags & NON_FINITE != 0 => Err(BadRow::NonFiniteLogits),
        flags if flags & NOTHING_ALLOWED != 0 => Err(BadRow::NothingAllowed),
        _ => Ok(token),
    };
    Sampled { token, shortlist_width: width, logprobs: None, bias_trace: None }
}

/// Whether a flag word says that the shortlist was too narrow.
pub(super) fn is_too_narrow(flags: u32) -> bool {
    flags & TOO_NARROW != 0
}

fn greedy(x: &Array) -> Result<Picks> {
    let place = ops::argmax(x, 1)?;
    let top = ops::take_along_axis(x, &place, 1)?;
    let flags = row_flags(&ops::is_nan(&ops::sum(x, 1)?)?, &top, None)?;
    Ok(Picks { tokens: flat(&place)?, flags })
}

/// Flag word of each row, `[b]` u32, from `[b, 1]` arrays: NaN in the row, its largest value, a short shortlist.
///
/// A sum is NaN when any element is, and when both infinities meet: either way the row is bad.
fn row_flags(has_nan: &Array, top: &Array, too_narrow: Option<&Array>) -> Result<Array> {
    let bit = |claim: &Array, bit: u32| {
        let word = |value: u32| Array::from_slice(&[value], &[1]);
        ops::select(claim, &word(bit), &word(0))
    };
    let infinite = ops::equal(top, &Array::from_f32(f32::INFINITY))?;
    let nothing = ops::equal(top, &Array::from_f32(f32::NEG_INFINITY))?;
    let mut flags = ops::bitwise_or(
        &bit(&ops::logical_or(has_nan, &infinite)?, NON_FINITE)?,
        &bit(&nothing, NOTHING_ALLOWED)?,
    )?;
    if let Some(too_narrow) = too_narrow {
        flags = ops::bitwise_or(&flags, &bit(too_narrow, TOO_NARROW)?)?;
    }
    flat(&flags)
}

/// Joins `[b]` parts whose rows stand in `order` and puts them into the order of the rows.
fn in_row_order(parts: &[&Array], order: &[(usize, u32)]) -> Result<Array> {
    if let [only] = parts {
        return Ok((*only).clone());
    }
    let mut places = vec![0; order.len()];
    for (place, (row, _)) in order.iter().enumerate() {
        places[*row] = place as i32;
    }
    ops::take_axis(&ops::concatenate(parts, 0)?, &Array::from_slice(&places, &[order.len() as i32]), 0)
}

fn flat(a: &Array) -> Result<Array> {
    ops::reshape(a, &[-1])
}

fn ln_min_p(row: &RowSampling<'_>) -> f32 {
    if row.min_p > 0.0 { row.min_p.ln() } else { f32::NEG_INFINITY }
}

fn column(rows: &[RowSampling<'_>], value: impl Fn(&RowSampling<'_>) -> f32) -> Array {
    let values: Vec<f32> = rows.iter().map(value).collect();
    Array::from_slice(&values, &[rows.len() as i32, 1])
}

fn bases(rows: &[RowSampling<'_>]) -> Array {
    let values: Vec<u32> = rows.iter().map(|row| row.noise_base).collect();
    Array::from_slice(&values, &[rows.len() as i32, 1])
}

/// Rows of `[B, V]`, in the order given.
///
/// # Errors
/// [`crate::MlxError::Op`].
pub fn take_rows(x: &Array, rows: &[usize]) -> Result<Array> {
    let is_all = rows.len() == x.dim(0) as usize && rows.iter().enumerate().all(|(place, row)| place == *row);
    if is_all {
        return Ok(x.clone());
    }
    let indices: Vec<i32> = rows.iter().map(|row| *row as i32).collect();
    ops::take_axis(x, &Array::from_slice(&indices, &[rows.len() as i32]), 0)
}
