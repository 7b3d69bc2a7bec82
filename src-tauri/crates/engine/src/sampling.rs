//! Order of operations of the sampler: the contract that every implementation is tested against.
//!
//! 1. logits to f32; ids at or above the tokenizer's size become negative infinity;
//! 2. repetition penalty: divides positive logits of seen tokens, multiplies the others;
//! 3. frequency and presence penalty: one value per seen token, subtracted;
//! 4. bias, added;
//! 5. a NaN or positive infinity makes the row bad, also where the mask would hide it;
//! 6. mask: ids that it does not allow become negative infinity; a row with nothing else left is bad;
//! 7. a forced token is taken;
//! 8. greedy rows take the likeliest id, the lowest on ties;
//! 9. divide by the temperature;
//! 10. top-k, then renormalise; 11. top-p, keeping the token that crosses it; 12. min-p;
//! 13. the likeliest id stays whatever the filters say;
//! 14. XTC: among what is kept, renormalised, tokens strictly likelier than the least likely one that reaches the
//!     threshold go. Where one token or none reaches it, none goes;
//! 15. add Gumbel noise keyed by (seed, position, id) and take the largest.
//!
//! Log-probabilities are of step 1. The bias trace compares step 6 with and without step 4.
//!
//! Temperature comes before the filters, as in vLLM, SGLang and transformers; mlx-lm applies it last.

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
