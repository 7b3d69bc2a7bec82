//! Order of operations of the sampler: the contract that every implementation is tested against.
//!
//! 1. logits to f32; ids at or above the tokenizer's size become negative infinity;
//! 2. a NaN, or a largest value of either infinity, makes the row bad;
//! 3. greedy rows take the likeliest id, the lowest on ties;
//! 4. divide by the temperature;
//! 5. top-k, then renormalise; 6. top-p, keeping the token that crosses it; 7. min-p;
//! 8. the likeliest id always stays;
//! 9. add Gumbel noise keyed by (seed, position, id) and take the largest.
//!
//! Temperature comes first, as in vLLM, SGLang and transformers; mlx-lm applies it last.

pub mod noise;
pub mod reference;

use crate::{backend::RowSampling, params::ValidParams};

/// Stands for a token id in the hash that decides whether XTC acts at a position.
const XTC_DRAW: u32 = u32::MAX;

impl<'a> RowSampling<'a> {
    /// What the sampler has to know to draw the token at `position` (its index in prompt plus output), before what
    /// only the row knows: penalties, mask, forced token, shortlist width.
    pub fn new(params: &'a ValidParams, seed: u64, position: u32) -> Self {
        let noise_base = noise::row_base(seed, position);
        let draw = noise::uniform(noise::token_hash(noise_base, XTC_DRAW));
        Self {
            temperature: params.temperature,
            top_k: params.top_k,
            top_p: params.top_p,
            min_p: params.min_p,
            xtc_threshold: params.xtc.filter(|xtc| draw < xtc.probability).map(|xtc| xtc.threshold),
            is_greedy: params.is_greedy(),
            noise_base,
            shortlist_width: 0,
            penalties: None,
            bias: &params.logit_bias,
            mask: None,
            forced: None,
            logprobs: params.logprobs,
            wants_bias_trace: params.wants_bias_trace,
        }
    }
}
