//! The three kinds of work that settings ask for: greedy, untruncated (temperature and min-p over all ids) and
//! truncated (top-k and top-p over a shortlist). Each runs on its own rows only.

use super::fused::{Sampler, column, flat, none};
use super::noise;
use super::rows::Kept;
use crate::error::Result;
use crate::mx::{Array, ops};
use engine::backend::RowSampling;

/// Narrowest shortlist of a row with top-p alone, and the next one when it proves too narrow.
const TOP_P_WIDTHS: [u32; 2] = [256, 1024];

/// What a row's settings ask of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Greedy,
    Untruncated,
    Truncated,
}

impl Family {
    pub(super) const ALL: [Family; 3] = [Family::Greedy, Family::Untruncated, Family::Truncated];
}

/// What a family found, in the order of its rows.
pub(super) struct Picks {
    /// `[b]` u32.
    pub tokens: Array,
    /// `[b]` f32: the row's largest logit.
    pub tops: Array,
    /// `[b]` bool: whether the shortlist ended before top-p was reached; `None` where none can.
    pub too_narrow: Option<Array>,
    /// Width of the shortlist, 0 without one.
    pub width: u32,
}

impl Picks {
    /// Joins the picks of groups of rows and puts them into the order of the rows.
    pub(super) fn in_row_order(mut groups: Vec<(Vec<usize>, Picks)>) -> Result<Picks> {
        if groups.len() == 1 {
            return Ok(groups.remove(0).1);
        }
        let order: Vec<usize> = groups.iter().flat_map(|(rows, _)| rows).copied().collect();
        let mut places = vec![0; order.len()];
        for (place, row) in order.iter().enumerate() {
            places[*row] = place as i32;
        }
        let places = Array::from_slice(&places, &[order.len() as i32]);
        let join = |parts: Vec<&Array>| ops::take_axis(&ops::concatenate(&parts, 0)?, &places, 0);
        let tokens = join(groups.iter().map(|(_, picks)| &picks.tokens).collect())?;
        let tops = join(groups.iter().map(|(_, picks)| &picks.tops).collect())?;
        let too_narrow = if groups.iter().any(|(_, picks)| picks.too_narrow.is_some()) {
            let wide_enough: Vec<Array> = groups
                .iter()
                .map(|(rows, _)| Array::from_slice(&vec![false; rows.len()], &[rows.len() as i32]))
                .collect();
            let parts = groups.iter().zip(&wide_enough);
            Some(join(
                parts.map(|((_, picks), enough)| picks.too_narrow.as_ref().unwrap_or(enough)).collect(),
            )?)
        } else {
            None
        };
        Ok(Picks { tokens, tops, too_narrow, width: 0 })
    }
}

impl Sampler {
    pub(super) fn family(&self, row: &RowSampling<'_>) -> Family {
        match () {
            _ if row.is_greedy || row.forced.is_some() => Family::Greedy,
            _ if self.limits_k(row) || row.top_p < 1.0 => Family::Truncated,
            _ => Family::Untruncated,
        }
    }

    fn limits_k(&self, row: &RowSampling<'_>) -> bool {
        row.top_k > 0 && row.top_k < self.vocab()
    }

    /// Next shortlist width above `width`.
    pub(super) fn wider_than(&self, width: u32) -> u32 {
        TOP_P_WIDTHS.into_iter().find(|next| *next > width).unwrap_or(self.vocab())
    }

    /// Samples rows of one family, `x` `[b, V]` f32.
    pub(super) fn pick(&self, family: Family, x: &Array, rows: &[RowSampling<'_>]) -> Result<Picks> {
        match family {
            Family::Greedy => greedy(x),
            Family::Untruncated => self.untruncated(x, rows),
            Family::Truncated => self.truncated(x, rows),
        }
    }

    /// Shortlist width that every row of the family is asked to fit in.
    fn width(&self, rows: &[RowSampling<'_>]) -> u32 {
        let own = rows.iter().map(|row| match self.limits_k(row) {
            true => row.top_k.next_power_of_two(),
            false => row.shortlist_width.max(TOP_P_WIDTHS[0]),
        });
        let width = own.max().unwrap_or(TOP_P_WIDTHS[0]);
        if width > TOP_P_WIDTHS[1] || width >= self.vocab() { self.vocab() } else { width }
    }

    /// Temperature, min-p and XTC over all ids.
    fn untruncated(&self, x: &Array, rows: &[RowSampling<'_>]) -> Result<Picks> {
        let temperatures = column(rows, |row| row.temperature);
        let top = ops::max(x, 1)?;
        let mut floors = None;
        if rows.iter().any(|row| row.min_p > 0.0) {
            floors = Some(ops::add(&ops::divide(&top, &temperatures)?, &column(rows, ln_min_p))?);
        }
        let mut ceilings = None;
        if rows.iter().any(|row| row.xtc_threshold.is_some()) {
            let scaled = ops::divide(x, &temperatures)?;
            let within = match &floors {
                Some(floors) => ops::select(&ops::greater_equal(&scaled, floors)?, &scaled, &none())?,
                None => scaled,
            };
            ceilings = Some(least_top_choice(&within, &self.form().log_mass(&within, None)?, rows)?);
        }
        let kept = Kept {
            temperatures: &temperatures,
            floors: floors.as_ref(),
            ceilings: ceilings.as_ref(),
            bases: &bases(rows),
        };
        let tokens = flat(&self.form().draw(x, self.mixed_ids(), &kept)?)?;
        Ok(Picks { tokens, tops: flat(&top)?, too_narrow: None, width: 0 })
    }

    /// Top-k, top-p, min-p and XTC over the likeliest ids.
    fn truncated(&self, x: &Array, rows: &[RowSampling<'_>]) -> Result<Picks> {
        let width = self.width(rows);
        let list = self.form().shortlist(x, width as i32)?;
        let temperatures = column(rows, |row| row.temperature);
        let scaled = ops::divide(&list.values, &temperatures)?;
        let rank = ops::arange(scaled.dim(1))?;
        let limits: Vec<i32> = rows
            .iter()
            .map(|row| if self.limits_k(row) { row.top_k as i32 } else { self.vocab() as i32 })
            .collect();
        let in_k = ops::less(&rank, &Array::from_slice(&limits, &[rows.len() as i32, 1]))?;
        let within = ops::select(&in_k, &scaled, &none())?;
        let mut keep = in_k;
        let mut too_narrow = None;
        if rows.iter().any(|row| row.top_p < 1.0) {
            let normaliser = self.normaliser(x, &within, rows, &temperatures)?;
            let probability = ops::exp(&ops::subtract(&within, &normaliser)?)?;
            let reached = ops::cumsum(&probability, 1)?;
            let before = ops::subtract(&reached, &probability)?;
            // A row without top-p takes part with a limit that rounding cannot reach.
            let limit = |row: &RowSampling<'_>| if row.top_p < 1.0 { row.top_p } else { f32::INFINITY };
            keep = ops::logical_and(&keep, &ops::less(&before, &column(rows, limit))?)?;
            too_narrow = self.too_narrow(&reached, rows, width)?;
        }
        if rows.iter().any(|row| row.min_p > 0.0) {
            let floor = ops::add(&ops::slice_axis(&scaled, 1, 0, 1)?, &column(rows, ln_min_p))?;
            keep = ops::logical_and(&keep, &ops::greater_equal(&scaled, &floor)?)?;
        }
        keep = ops::logical_or(&keep, &ops::equal(&rank, &Array::from_int(0))?)?;
        if rows.iter().any(|row| row.xtc_threshold.is_some()) {
            let within = ops::select(&keep, &scaled, &none())?;
            let ceilings = least_top_choice(&within, &ops::logsumexp(&within, 1)?, rows)?;
            keep = ops::logical_and(&keep, &ops::less_equal(&scaled, &ceilings)?)?;
        }
        let mixed = ops::take_axis(&ops::reshape(self.mixed_ids(), &[-1])?, &list.ids, 0)?;
        let scores = ops::add(&scaled, &noise::gumbel(&bases(rows), &mixed)?)?;
        let place = ops::argmax(&ops::select(&keep, &scores, &none())?, 1)?;
        let tokens = flat(&ops::take_along_axis(&list.ids, &place, 1)?)?;
        let tops = flat(&ops::slice_axis(&list.values, 1, 0, 1)?)?;
        Ok(Picks { tokens, tops, too_narrow, width })
    }

    /// ln of the mass that probabilities are relative to, `[b, 1]`: what top-k keeps, or the whole row.
    fn normaliser(
        &self,
        x: &Array,
        within: &Array,
        rows: &[RowSampling<'_>],
        temperatures: &Array,
    ) -> Result<Array> {
        let whole = |x: &Array| self.form().log_mass(x, Some(temperatures));
        let flags: Vec<bool> = rows.iter().map(|row| self.limits_k(row)).collect();
        match (flags.contains(&true), flags.contains(&false)) {
            (_, false) => ops::logsumexp(within, 1),
            (false, _) => whole(x),
            (true, true) => {
                let flags = Array::from_slice(&flags, &[rows.len() as i32, 1]);
                ops::select(&flags, &ops::logsumexp(within, 1)?, &whole(x)?)
            }
        }
    }

    /// Whether the shortlist ends before the row's top-p is reached, `[b]`; `None` where it cannot.
    fn too_narrow(&self, reached: &Array, rows: &[RowSampling<'_>], width: u32) -> Result<Option<Array>> {
        if width >= self.vocab() || rows.iter().all(|row| self.limits_k(row)) {
            return Ok(None);
        }
        let needed = column(rows, |row| if self.limits_k(row) { 0.0 } else { row.top_p });
        let end = reached.dim(1);
        Ok(Some(flat(&ops::less(&ops::slice_axis(reached, 1, end - 1, end)?, &needed)?)?))
    }
}

fn greedy(x: &Array) -> Result<Picks> {
    let place = ops::argmax(x, 1)?;
    let tops = flat(&ops::take_along_axis(x, &place, 1)?)?;
    Ok(Picks { tokens: flat(&place)?, tops, too_narrow: None, width: 0 })
}

/// The least likely kept logit that reaches the row's XTC threshold, `[b, 1]`: what is likelier goes. Infinity for rows
/// where none does. `within`: `[b, n]` in any order, negative infinity where not kept; `log_mass`: `[b, 1]` of it.
fn least_top_choice(within: &Array, log_mass: &Array, rows: &[RowSampling<'_>]) -> Result<Array> {
    // Rows without XTC: nothing reaches infinity.
    let ln_threshold = column(rows, |row| row.xtc_threshold.map_or(f32::INFINITY, f32::ln));
    let reaches = ops::greater_equal(within, &ops::add(log_mass, &ln_threshold)?)?;
    ops::negative(&ops::max(&ops::select(&reaches, &ops::negative(within)?, &none())?, 1)?)
}

fn ln_min_p(row: &RowSampling<'_>) -> f32 {
    if row.min_p > 0.0 { row.min_p.ln() } else { f32::NEG_INFINITY }
}

fn bases(rows: &[RowSampling<'_>]) -> Array {
    let values: Vec<u32> = rows.iter().map(|row| row.noise_base).collect();
    Array::from_slice(&values, &[rows.len() as i32, 1])
}
