//! What a row can ask to be told beside its token: log-probabilities, and what its bias changed.

use super::edits::Stages;
use super::fused::{Sampler, flat, take_rows};
use crate::error::Result;
use crate::mx::{Array, Dtype, ops};
use engine::backend::{BiasTrace, RowSampling, TokenLogprobs};
use std::collections::BTreeMap;

/// Which rows report what, in the order of the rows, and so where the numbers lie in the one array that is read.
pub(super) struct Layout {
    with_logprobs: Vec<usize>,
    alternatives: usize,
    with_trace: Vec<usize>,
}

impl Layout {
    pub(super) fn new(rows: &[RowSampling<'_>], vocab: i32) -> Layout {
        let places = |wants: fn(&RowSampling<'_>) -> bool| -> Vec<usize> {
            (0..rows.len()).filter(|&place| wants(&rows[place])).collect()
        };
        let most = rows.iter().filter_map(|row| row.logprobs).max().unwrap_or(0);
        Layout {
            with_logprobs: places(|row| row.logprobs.is_some()),
            alternatives: usize::from(most).min(vocab as usize),
            with_trace: places(|row| row.wants_bias_trace),
        }
    }

    /// The reports as `[n]` u32 arrays; floats as their bits, so that ids and floats fit one array. Never `[b, V]`.
    ///
    /// `tokens`: `[b]` u32.
    pub(super) fn build(
        &self,
        sampler: &Sampler,
        stages: &Stages,
        rows: &[RowSampling<'_>],
        tokens: &Array,
    ) -> Result<Vec<Array>> {
        let mut parts = Vec::new();
        let tokens = ops::reshape(tokens, &[-1, 1])?;
        if !self.with_logprobs.is_empty() {
            let raw = take_rows(&stages.raw, &self.with_logprobs)?;
            let log_mass = sampler.form().log_mass(&raw, None)?;
            parts.push(bits(&logprob(&raw, &log_mass, &take_rows(&tokens, &self.with_logprobs)?)?)?);
            if self.alternatives > 0 {
                let list = sampler.form().shortlist(&raw, self.alternatives as i32)?;
                parts.push(flat(&list.ids)?);
                parts.push(bits(&ops::subtract(&list.values, &log_mass)?)?);
            }
        }
        if !self.with_trace.is_empty() {
            let tokens = take_rows(&tokens, &self.with_trace)?;
            let with = take_rows(&stages.masked, &self.with_trace)?;
            let without = sampler.masks().unbiased(stages, rows, &self.with_trace)?;
            parts.push(flat(&ops::argmax(&without, 1)?)?);
            for x in [with, without] {
                parts.push(bits(&logprob(&x, &sampler.form().log_mass(&x, None)?, &tokens)?)?);
            }
        }
        Ok(parts)
    }

    /// Hands out, by place in the batch, what [`Layout::build`] made, read as `words`.
    pub(super) fn read(
        &self,
        words: &[u32],
        rows: &[RowSampling<'_>],
        mut receive: impl FnMut(usize, Report),
    ) {
        let mut reports: BTreeMap<usize, Report> = BTreeMap::new();
        let (count, each) = (self.with_logprobs.len(), self.alternatives);
        let (chosen, words) = words.split_at(count);
        let (ids, words) = words.split_at(count * each);
        let (values, words) = words.split_at(count * each);
        for (nth, &place) in self.with_logprobs.iter().enumerate() {
            let own = nth * each..(nth + 1) * each;
            let values = values[own.clone()].iter().map(|bits| f32::from_bits(*bits));
            let asked = usize::from(rows[place].logprobs.unwrap_or(0));
            let listed = ids[own].iter().copied().zip(values).take(asked);
            // What cannot be sampled at all is no alternative.
            let top = listed.filter(|(_, value)| *value > f32::NEG_INFINITY).collect();
            let logprobs = TokenLogprobs { chosen: f32::from_bits(chosen[nth]), top };
            reports.entry(place).or_default().logprobs = Some(logprobs);
        }
        let traced = self.with_trace.len();
        for (nth, &place) in self.with_trace.iter().enumerate() {
            let word = |part: usize| words[part * traced + nth];
            let trace = BiasTrace {
                unbiased_likeliest: word(0),
                logprob_with: f32::from_bits(word(1)),
                logprob_without: f32::from_bits(word(2)),
            };
            reports.entry(place).or_default().bias_trace = Some(trace);
        }
        reports.into_iter().for_each(|(place, report)| receive(place, report));
    }
}

/// What one row is told.
#[derive(Default)]
pub(super) struct Report {
    pub logprobs: Option<TokenLogprobs>,
    pub bias_trace: Option<BiasTrace>,
}

/// Log-softmax of one id per row: `x` `[r, V]`, `log_mass` and `tokens` `[r, 1]`, result `[r, 1]`.
fn logprob(x: &Array, log_mass: &Array, tokens: &Array) -> Result<Array> {
    ops::subtract(&ops::take_along_axis(x, tokens, 1)?, log_mass)
}

fn bits(x: &Array) -> Result<Array> {
    ops::view(&flat(x)?, Dtype::Uint32)
}
