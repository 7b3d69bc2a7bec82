//! The sampler of one row in plain Rust: slow, obvious, and what the others are tested against.

use std::cmp::Ordering;

use super::noise::{gumbel, token_hash};
use crate::{
    TokenId,
    backend::{BadRow, RowSampling, TokenLogprobs},
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
/// [`BadRow::NonFiniteLogits`] if a logit is NaN or the largest is positive infinity; [`BadRow::NothingAllowed`] if
/// every logit is negative infinity.
pub fn sample(logits: &[f32], tokenizer_size: u32, sampling: &RowSampling<'_>) -> Result<TokenId, BadRow> {
    let logits = allowed(logits, tokenizer_size);
    let likeliest = check_row(logits)?;
    if sampling.is_greedy {
        return Ok(likeliest);
    }
    let perturbed = |token: &Candidate| token.scaled + gumbel(token_hash(sampling.noise_base, token.id));
    let kept = filter(logits, sampling);
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
    let logits = allowed(logits, tokenizer_size);
    let likeliest = check_row(logits)?;
    if sampling.is_greedy {
        return Ok(vec![likeliest]);
    }
    Ok(filter(logits, sampling).iter().map(|token| token.id).collect())
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
    let logits = allowed(logits, tokenizer_size);
    let likeliest = check_row(logits)?;
    let largest = logits[likeliest as usize];
    let log_sum = mass(logits.iter().copied(), largest).ln() as f32;
    let logprob = |id: TokenId| logits.get(id as usize).map_or(f32::NEG_INFINITY, |x| x - largest - log_sum);
    let ranked = rank(logits, 1.0);
    let top = ranked.iter().take(top.into()).map(|token| (token.id, logprob(token.id))).collect();
    Ok(TokenLogprobs { chosen: logprob(chosen), top })
}

fn allowed(logits: &[f32], tokenizer_size: u32) -> &[f32] {
    &logits[..logits.len().min(tokenizer_size as usize)]
}

/// Returns the likeliest token, the lowest id on ties.
fn check_row(logits: &[f32]) -> Result<TokenId, BadRow> {
    if logits.iter().any(|x| x.is_nan()) {
        return Err(BadRow::NonFiniteLogits);
    }
    let mut likeliest = 0;
    for (id, x) in logits.iter().enumerate() {
        if *x > logits[likeliest] {
            likeliest = id;
        }
    }
    match logits.get(likeliest) {
        Some(&f32::INFINITY) => Err(BadRow::NonFiniteLogits),
        None | Some(&f32::NEG_INFINITY) => Err(BadRow::NothingAllowed),
        Some(_) => Ok(likeliest as TokenId),
    }
}

/// Divides by the temperature, then applies top-k, top-p and min-p. The likeliest token always stays.
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
    kept
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
