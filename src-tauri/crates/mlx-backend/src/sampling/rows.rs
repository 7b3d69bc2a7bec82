//! What the sampler asks of whole rows of logits, in two forms with the same results.

use super::shortlist::{self, Shortlist};
use super::{fused::none, noise};
use crate::error::Result;
use crate::mx::{Array, ops, scan};

/// How rows are worked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// MLX's operations, on any device.
    Operations,
    /// Scans of our own, where [`scan::is_available`].
    Scans,
}

/// What [`Form::draw`] keeps of each row; `[b, 1]` each.
pub(super) struct Kept<'a> {
    /// f32.
    pub temperatures: &'a Array,
    /// Least scaled logit, f32; `None` keeps all.
    pub floors: Option<&'a Array>,
    /// Largest scaled logit, f32; `None` keeps all.
    pub ceilings: Option<&'a Array>,
    /// u32.
    pub bases: &'a Array,
}

impl Form {
    /// The faster one on the default device.
    pub fn of_device() -> Form {
        if scan::is_available() { Form::Scans } else { Form::Operations }
    }

    /// ln Σ e^(x / temperature), `[b, 1]`, of `x` `[b, n]`; temperature 1 where `None`.
    pub(super) fn log_mass(self, x: &Array, temperatures: Option<&Array>) -> Result<Array> {
        match (self, temperatures) {
            (Form::Scans, Some(temperatures)) => scan::log_mass(x, temperatures),
            (Form::Scans, None) => scan::log_mass(x, &same(x, 1.0)),
            (Form::Operations, Some(temperatures)) => ops::logsumexp(&ops::divide(x, temperatures)?, 1),
            (Form::Operations, None) => ops::logsumexp(x, 1),
        }
    }

    /// The `width` likeliest ids of each row of `x` `[b, V]`.
    pub(super) fn shortlist(self, x: &Array, width: i32) -> Result<Shortlist> {
        match self {
            Form::Scans => {
                let [values, ids] = scan::shortlist(x, width.min(x.dim(1)))?;
                Ok(Shortlist { ids, values })
            }
            Form::Operations => shortlist::shortlist(x, width),
        }
    }

    /// The kept id with the largest scaled logit plus noise, `[b, 1]` u32. `mixed_ids`: `[1, V]` u32.
    pub(super) fn draw(self, x: &Array, mixed_ids: &Array, kept: &Kept<'_>) -> Result<Array> {
        if self == Form::Scans {
            let draws = scan::Draws {
                temperatures: kept.temperatures,
                floors: &kept.floors.map_or_else(|| same(x, f32::NEG_INFINITY), Array::clone),
                ceilings: &kept.ceilings.map_or_else(|| same(x, f32::INFINITY), Array::clone),
                bases: kept.bases,
            };
            return scan::draw(x, mixed_ids, &draws);
        }
        let scaled = ops::divide(x, kept.temperatures)?;
        let mut scores = ops::add(&scaled, &noise::gumbel(kept.bases, mixed_ids)?)?;
        if let Some(floors) = kept.floors {
            scores = ops::select(&ops::greater_equal(&scaled, floors)?, &scores, &none())?;
        }
        if let Some(ceilings) = kept.ceilings {
            scores = ops::select(&ops::less_equal(&scaled, ceilings)?, &scores, &none())?;
        }
        ops::argmax(&scores, 1)
    }
}

/// One value for every row of `x`, `[b, 1]` f32.
fn same(x: &Array, value: f32) -> Array {
    Array::from_slice(&vec![value; x.dim(0) as usize], &[x.dim(0), 1])
}
