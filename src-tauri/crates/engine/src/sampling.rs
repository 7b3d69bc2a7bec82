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

impl RowSampling {
    /// What the sampler has to know to draw the token at `position` (its index in prompt plus output).
    pub fn new(params: &ValidParams, seed: u64, position: u32) -> Self {
        Self {
            temperature: params.temperature,
            top_k: params.top_k,
            top_p: params.top_p,
            min_p: params.min_p,
            is_greedy: params.is_greedy(),
            noise_base: noise::row_base(seed, position),
            shortlist_width: 0,
            logprobs: params.logprobs,
        }
    }
}
