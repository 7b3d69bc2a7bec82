//! `[B, vocab] -> [B]` in one graph, one wait and one host read, whatever the rows' settings.

use super::edits::MaskTable;
use super::families::{Family, Picks};
use super::noise;
use super::reports::Layout;
use super::rows::Form;
use crate::error::Result;
use crate::mx::{self, Array, Dtype, Purpose, ops};
use engine::TokenId;
use engine::backend::{BadRow, RowSampling, Sampled};

const NON_FINITE: u32 = 1;
const NOTHING_ALLOWED: u32 = 2;
const TOO_NARROW: u32 = 3;

/// Constants of one vocabulary.
pub struct Sampler {
    vocab: u32,
    /// `[1, V]` bool: whether the tokenizer knows the id; `None` when it knows all of them.
    known: Option<Array>,
    /// `[1, V]` u32: the id's part of the noise hash.
    mixed_ids: Array,
    masks: MaskTable,
    form: Form,
}

/// A sampling graph that is not read yet.
pub struct Submitted {
    /// `[b]` u32, row-contiguous, in the order of the rows: what the next forward pass can start from. The token of
    /// a bad row is any id of the vocabulary.
    pub tokens: Array,
    /// `[n]` u32: tokens, verdicts, reports.
    packed: Array,
    layout: Layout,
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

/// What a graph says of one row.
pub(super) struct Outcome {
    pub sampled: Sampled,
    /// The shortlist's width, if it was too narrow: the token may be wrong then.
    pub too_narrow: Option<u32>,
}

impl Sampler {
    /// Prepares the constants. `vocab`: width of the logits; ids from `tokenizer_tokens` on are never sampled.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn new(vocab: u32, tokenizer_tokens: u32) -> Result<Sampler> {
        Sampler::in_form(Form::of_device(), vocab, tokenizer_tokens)
    }

    /// [`Sampler::new`] that works through rows in the form given.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn in_form(form: Form, vocab: u32, tokenizer_tokens: u32) -> Result<Sampler> {
        let ids = ops::reshape(&ops::cast(&ops::arange(vocab as i32)?, Dtype::Uint32)?, &[1, -1])?;
        let mixed_ids = noise::mix_ids(&ids)?;
        let known = (tokenizer_tokens < vocab).then(|| {
            let known: Vec<bool> = (0..vocab).map(|id| id < tokenizer_tokens).collect();
            Array::from_slice(&known, &[1, vocab as i32])
        });
        let masks = MaskTable::new(form);
        mx::wait(known.iter().chain([&mixed_ids]).chain(masks.arrays()), Purpose::Load)?;
        Ok(Sampler { vocab, known, mixed_ids, masks, form })
    }

    pub(super) fn masks(&self) -> &MaskTable {
        &self.masks
    }

    pub(super) fn vocab(&self) -> u32 {
        self.vocab
    }

    pub(super) fn form(&self) -> Form {
        self.form
    }

    pub(super) fn mixed_ids(&self) -> &Array {
        &self.mixed_ids
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
        let mut outcomes = submitted.outcomes(&submitted.read()?, sampling);
        let mut has_replaced = false;
        loop {
            let is_narrow = |row: &usize| outcomes[*row].too_narrow.is_some();
            let narrow: Vec<usize> = (0..outcomes.len()).filter(is_narrow).collect();
            if narrow.is_empty() {
                break;
            }
            mx::count_width_miss();
            let widened = |row: &usize| self.widened(&sampling[*row], &outcomes[*row]);
            let again: Vec<RowSampling<'_>> = narrow.iter().map(widened).collect();
            let retried = self.submit(&take_rows(&submitted.logits, &narrow)?, &again)?;
            for (row, outcome) in narrow.into_iter().zip(retried.outcomes(&retried.read()?, &again)) {
                has_replaced |= outcome.sampled.token != outcomes[row].sampled.token;
                outcomes[row] = outcome;
            }
        }
        Ok(Read { sampled: outcomes.into_iter().map(|outcome| outcome.sampled).collect(), has_replaced })
    }

    /// [`Sampler::submit`] and [`Sampler::read`] in one.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn sample(&self, logits: &Array, sampling: &[RowSampling<'_>]) -> Result<Vec<Sampled>> {
        let submitted = self.submit(logits, sampling)?;
        Ok(self.read(&submitted, sampling)?.sampled)
    }

    /// The row with the next shortlist width, after an outcome that was too narrow.
    pub(super) fn widened<'a>(&self, row: &RowSampling<'a>, outcome: &Outcome) -> RowSampling<'a> {
        RowSampling { shortlist_width: self.wider_than(outcome.too_narrow.unwrap_or(0)), ..*row }
    }

    /// Builds the graph of the rows of `logits` `[b, V]`.
    pub(super) fn build(&self, logits: &Array, sampling: &[RowSampling<'_>]) -> Result<Submitted> {
        let stages = self.masks.edit(self.prepare(logits)?, sampling)?;
        let (picks, widths) = self.pick_all(&stages.masked, sampling)?;
        let tokens = force(picks.tokens, sampling)?;
        let verdicts = verdicts(&ops::sum(&stages.biased, 1)?, &picks.tops, picks.too_narrow.as_ref())?;
        let layout = Layout::new(sampling, self.vocab as i32);
        let reports = layout.build(self, &stages, sampling, &tokens)?;
        let parts: Vec<&Array> = [&tokens, &verdicts].into_iter().chain(&reports).collect();
        let packed = ops::concatenate(&parts, 0)?;
        Ok(Submitted { tokens, packed, layout, widths, logits: logits.clone() })
    }

    /// Logits as every sampler sees them: f32, padding at negative infinity.
    fn prepare(&self, logits: &Array) -> Result<Array> {
        let x = ops::cast(logits, Dtype::Float32)?;
        match &self.known {
            // Chosen, not added to: whatever stands in the padding must not reach the row.
            Some(known) => ops::select(known, &x, &none()),
            None => Ok(x),
        }
    }

    /// Picks of all rows in their order, each family on its own rows, and the shortlist width of each row.
    fn pick_all(&self, x: &Array, sampling: &[RowSampling<'_>]) -> Result<(Picks, Vec<u32>)> {
        let mut groups: Vec<(Vec<usize>, Picks)> = Vec::new();
        let mut widths = vec![0; sampling.len()];
        for family in Family::ALL {
            let of_family = |row: &usize| self.family(&sampling[*row]) == family;
            let rows: Vec<usize> = (0..sampling.len()).filter(of_family).collect();
            if rows.is_empty() {
                continue;
            }
            let own: Vec<RowSampling<'_>> = rows.iter().map(|&row| sampling[row]).collect();
            let picks = self.pick(family, &take_rows(x, &rows)?, &own)?;
            rows.iter().for_each(|&row| widths[row] = picks.width);
            groups.push((rows, picks));
        }
        Ok((Picks::in_row_order(groups)?, widths))
    }
}

impl Submitted {
    fn read(&self) -> Result<Vec<u32>> {
        mx::read_submitted_u32(&self.packed, Purpose::Decode)
    }

    /// The array that holds everything there is to read, `[n]` u32.
    pub(super) fn packed(&self) -> &Array {
        &self.packed
    }

    /// One outcome per row from the words of [`Submitted::packed`].
    pub(super) fn outcomes(&self, words: &[u32], sampling: &[RowSampling<'_>]) -> Vec<Outcome> {
        let count = sampling.len();
        let (tokens, words) = words.split_at(count);
        let (verdicts, reports) = words.split_at(count);
        let mut outcomes: Vec<Outcome> = (0..count)
            .map(|row| Outcome {
                sampled: Sampled {
                    token: match verdicts[row] {
                        NON_FINITE => Err(BadRow::NonFiniteLogits),
                        NOTHING_ALLOWED => Err(BadRow::NothingAllowed),
                        _ => Ok(tokens[row]),
                    },
                    shortlist_width: sampling[row].shortlist_width,
                    logprobs: None,
                    bias_trace: None,
                },
                too_narrow: (verdicts[row] == TOO_NARROW).then_some(self.widths[row]),
            })
            .collect();
        self.layout.read(reports, sampling, |row, report| {
            let sampled = &mut outcomes[row].sampled;
            if sampled.token.is_ok() {
                (sampled.logprobs, sampled.bias_trace) = (report.logprobs, report.bias_trace);
            }
        });
        outcomes
    }
}

/// What is to be said of each row, `[b]` u32, from the sums `[b, 1]` of the logits that it is judged by, its largest
/// logit `[b]`, and whether its shortlist was too narrow `[b]`.
///
/// A sum is below infinity exactly when no logit is NaN or positive infinity: both infinities together make a NaN.
fn verdicts(sums: &Array, tops: &Array, too_narrow: Option<&Array>) -> Result<Array> {
    let word = |value: u32| Array::from_slice(&[value], &[1]);
    let fine = match too_narrow {
        Some(too_narrow) => ops::select(too_narrow, &word(TOO_NARROW), &word(0))?,
        None => word(0),
    };
    let is_finite = ops::less(&flat(sums)?, &Array::from_f32(f32::INFINITY))?;
    let is_nothing = ops::equal(tops, &none())?;
    ops::select(&is_finite, &ops::select(&is_nothing, &word(NOTHING_ALLOWED), &fine)?, &word(NON_FINITE))
}

/// Tokens `[b]` with those of forced rows in their place.
fn force(tokens: Array, sampling: &[RowSampling<'_>]) -> Result<Array> {
    if sampling.iter().all(|row| row.forced.is_none()) {
        return Ok(tokens);
    }
    let count = [sampling.len() as i32];
    let is_forced: Vec<bool> = sampling.iter().map(|row| row.forced.is_some()).collect();
    let forced: Vec<TokenId> = sampling.iter().map(|row| row.forced.unwrap_or(0)).collect();
    ops::select(&Array::from_slice(&is_forced, &count), &Array::from_slice(&forced, &count), &tokens)
}

/// Negative infinity: the logit of what cannot be.
pub(super) fn none() -> Array {
    Array::from_f32(f32::NEG_INFINITY)
}

pub(super) fn flat(a: &Array) -> Result<Array> {
    ops::reshape(a, &[-1])
}

/// One number per row, `[b, 1]` f32.
pub(super) fn column(rows: &[RowSampling<'_>], value: impl Fn(&RowSampling<'_>) -> f32) -> Array {
    let values: Vec<f32> = rows.iter().map(value).collect();
    Array::from_slice(&values, &[rows.len() as i32, 1])
}

/// Rows of `[B, n]`, in the order given.
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
