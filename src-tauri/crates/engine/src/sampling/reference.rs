//! The sampler of one row in plain Rust: slow, obvious, and what the others are tested against.

use std::cmp::Ordering;

use super::noise::{gumbel, token_hash};
use crate::{
    TokenId,
    backend::{BadRow, BiasTrace, RowSampling, TokenLogprobs},
};

/// A token that survived so far, with its logit divided by the temperature.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidate {
    id: TokenId,
    scaled: f32,
}

/// Samples one row.
///
/// `logits`: `[vocab]`, raw. `tokenizer_size`: ids from here on are padding and cannot be sampled, whatever their
/// logits hold. Noise is keyed by token id, so the order of the candidates does not matter.
///
/// # Errors
/// [`BadRow::NonFiniteLogits`] if a logit is NaN or positive infinity; [`BadRow::NothingAllowed`] if every logit is
/// negative infinity once penalties, bias and mask are applied.
pub fn sample(logits: &[f32], tokenizer_size: u32, sampling: &RowSampling<'_>) -> Result<TokenId, BadRow> {
    let logits = edit(logits, tokenizer_size, sampling)?;
    let likeliest = likeliest(&logits)?;
    if let Some(forced) = sampling.forced {
        return Ok(forced);
    }
    if sampling.is_greedy {
        return Ok(likeliest);
    }
    let perturbed = |token: &Candidate| token.scaled + gumbel(token_hash(sampling.noise_base, token.id));
    let kept = filter(&logits, sampling);
    let best = kept
        .iter()
        .copied()
        .reduce(|best, next| if perturbed(&next) > perturbed(&best) { next } else { best });
    Ok(best.map_or(likeliest, |token| token.id))
}

/// The tokens that [`sample`] draws from, likeliest first.
///
/// # Errors
/// As [`sample`].
pub fn support(
    logits: &[f32],
    tokenizer_size: u32,
    sampling: &RowSampling<'_>,
) -> Result<Vec<TokenId>, BadRow> {
    let logits = edit(logits, tokenizer_size, sampling)?;
    let likeliest = likeliest(&logits)?;
    if let Some(forced) = sampling.forced {
        return Ok(vec![forced]);
    }
    if sampling.is_greedy {
        return Ok(vec![likeliest]);
    }
    Ok(filter(&logits, sampling).iter().map(|token| token.id).collect())
}

/// What the bias changed for `chosen`.
///
/// # Errors
/// As [`sample`].
pub fn bias_trace(
    logits: &[f32],
    tokenizer_size: u32,
    sampling: &RowSampling<'_>,
    chosen: TokenId,
) -> Result<BiasTrace, BadRow> {
    let with = edit(logits, tokenizer_size, sampling)?;
    let without = edit(logits, tokenizer_size, &RowSampling { bias: &[], ..*sampling })?;
    Ok(BiasTrace {
        unbiased_likeliest: likeliest(&without)?,
        logprob_with: LogSoftmax::new(&with)?.of(chosen),
        logprob_without: LogSoftmax::new(&without)?.of(chosen),
    })
}

/// Log-probabilities of `chosen` and of the `top` likeliest tokens: log-softmax of the raw logits over the
/// tokenizer's ids, before temperature and filters.
///
/// # Errors
/// As [`sample`].
pub fn logprobs(
    logits: &[f32],
    tokenizer_size: u32,
    chosen: TokenId,
    top: u8,
) -> Result<TokenLogprobs, BadRow> {
    let logits = known(logits, tokenizer_size);
    check_finite(logits)?;
    let softmax = LogSoftmax::new(logits)?;
    let top = rank(logits, 1.0).into_iter().take(top.into()).map(|token| (token.id, softmax.of(token.id)));
    Ok(TokenLogprobs { chosen: softmax.of(chosen), top: top.collect() })
}

fn known(logits: &[f32], tokenizer_size: u32) -> &[f32] {
    &logits[..logits.len().min(tokenizer_size as usize)]
}

/// Logits of the tokenizer's ids after penalties, bias and mask: what greedy rows compare and temperature divides.
///
/// # Errors
/// [`BadRow::NonFiniteLogits`] as [`sample`]; a row with nothing left is no error here.
pub fn edit(logits: &[f32], tokenizer_size: u32, sampling: &RowSampling<'_>) -> Result<Vec<f32>, BadRow> {
    let mut logits = known(logits, tokenizer_size).to_vec();
    if let Some(penalties) = sampling.penalties {
        for seen in penalties.seen {
            let Some(x) = logits.get_mut(seen.token as usize) else { continue };
            *x = if *x > 0.0 { *x / penalties.repetition } else { *x * penalties.repetition };
            *x -= penalties.subtracted(seen.answer_count);
        }
    }
    for (token, bias) in sampling.bias {
        if let Some(x) = logits.get_mut(*token as usize) {
            *x += bias;
        }
    }
    check_finite(&logits)?;
    if let Some(mask) = sampling.mask {
        for (id, x) in logits.iter_mut().enumerate() {
            if !mask.allows(id as TokenId) {
                *x = f32::NEG_INFINITY;
            }
        }
    }
    Ok(logits)
}

fn check_finite(logits: &[f32]) -> Result<(), BadRow> {
    let is_bad = logits.iter().any(|x| x.is_nan() || *x == f32::INFINITY);
    if is_bad { Err(BadRow::NonFiniteLogits) } else { Ok(()) }
}

/// Returns the likeliest token, the lowest id on ties.
fn likeliest(logits: &[f32]) -> Result<TokenId, BadRow> {
    let mut likeliest = 0;
    for (id, x) in logits.iter().enumerate() {
        if *x > logits[likeliest] {
            likeliest = id;
        }
    }
    match logits.get(likeliest) {
        None | Some(&f32::NEG_INFINITY) => Err(BadRow::NothingAllowed),
        Some(_) => Ok(likeliest as TokenId),
    }
}

struct LogSoftmax<'a> {
    logits: &'a [f32],
    largest: f32,
    log_sum: f32,
}

impl<'a> LogSoftmax<'a> {
    fn new(logits: &'a [f32]) -> Result<Self, BadRow> {
        let largest = logits[likeliest(logits)? as usize];
        Ok(Self { logits, largest, log_sum: mass(logits.iter().copied(), largest).ln() as f32 })
    }

    /// Negative infinity for an id past the end.
    fn of(&self, id: TokenId) -> f32 {
        self.logits.get(id as usize).map_or(f32::NEG_INFINITY, |x| x - self.largest - self.log_sum)
    }
}

/// Divides by the temperature, then applies top-k, top-p, min-p and XTC. Keeps at least one token.
fn filter(logits: &[f32], sampling: &RowSampling<'_>) -> Vec<Candidate> {
    let mut kept = rank(logits, sampling.temperature);
    let best = kept[0].scaled;
    if sampling.top_k > 0 {
        kept.truncate(sampling.top_k as usize);
    }
    if sampling.top_p < 1.0 {
        let total = mass(kept.iter().map(|token| token.scaled), best);
        let mut before = 0.0;
        // The token that crosses the threshold is kept: what counts is the mass before it.
        let crossing = kept.iter().position(|token| {
            let is_beyond = before >= f64::from(sampling.top_p);
            before += f64::from((token.scaled - best).exp()) / total;
            is_beyond
        });
        kept.truncate(crossing.unwrap_or(kept.len()).max(1));
    }
    if sampling.min_p > 0.0 {
        let least = best + sampling.min_p.ln();
        let above = kept.iter().take_while(|token| token.scaled >= least).count();
        kept.truncate(above.max(1));
    }
    if let Some(threshold) = sampling.xtc_threshold {
        exclude_top_choices(&mut kept, threshold);
    }
    kept
}

/// Removes what is strictly likelier than the least likely token that reaches `threshold`. `kept`: likeliest first.
fn exclude_top_choices(kept: &mut Vec<Candidate>, threshold: f32) {
    let best = kept[0].scaled;
    let total = mass(kept.iter().map(|token| token.scaled), best);
    let reaches = |token: &Candidate| f64::from((token.scaled - best).exp()) / total >= f64::from(threshold);
    if let Some(least) = kept.iter().copied().take_while(reaches).last() {
        kept.retain(|token| token.scaled <= least.scaled);
    }
}

/// Every possible token, likeliest first, ties by lowest id.
fn rank(logits: &[f32], temperature: f32) -> Vec<Candidate> {
    let possible = |id: &TokenId| logits[*id as usize] > f32::NEG_INFINITY;
    let mut ids: Vec<TokenId> = (0..logits.len() as TokenId).filter(possible).collect();
    // Stable, so that ties stay in order of their ids.
    ids.sort_by(|a, b| logits[*b as usize].partial_cmp(&logits[*a as usize]).unwrap_or(Ordering::Equal));
    ids.into_iter().map(|id| Candidate { id, scaled: logits[id as usize] / temperature }).collect()
}

/// Sum of `exp(x - largest)`. In f64, so that the order of the sum decides nothing.
fn mass(values: impl Iterator<Item = f32>, largest: f32) -> f64 {
    values.map(|x| f64::from((x - largest).exp())).sum()
}
