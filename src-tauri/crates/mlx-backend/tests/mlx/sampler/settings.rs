//! Random settings of a row, every feature in them.

use super::{Dice, row};
use engine::backend::{Penalties, RowSampling, SeenToken, TokenMask};
use engine::sampling::noise::row_base;

/// What a row lends to the sampler, owned.
pub struct Settings {
    pub plain: RowSampling<'static>,
    pub penalties: Option<[f32; 3]>,
    pub seen: Vec<SeenToken>,
    pub bias: Vec<(u32, f32)>,
    pub mask: Option<TokenMask>,
}

impl Settings {
    pub fn plain(plain: RowSampling<'static>) -> Settings {
        Settings { plain, penalties: None, seen: Vec::new(), bias: Vec::new(), mask: None }
    }

    pub fn lend(&self) -> RowSampling<'_> {
        let penalties = self.penalties.map(|[repetition, frequency, presence]| Penalties {
            repetition,
            frequency,
            presence,
            seen: &self.seen,
        });
        RowSampling { penalties, bias: &self.bias, mask: self.mask.as_ref(), ..self.plain }
    }
}

/// Up to `most` ids below `end`, each once.
fn some_ids(dice: &mut Dice, most: u64, end: u32) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..1 + dice.below(most)).map(|_| dice.below(end.into()) as u32).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// A mask of few ids, many, or all; its words may end before the vocabulary or after it.
fn random_mask(dice: &mut Dice, vocab: u32) -> TokenMask {
    let words = (vocab as usize).div_ceil(32) + dice.below(3) as usize;
    let mut mask = TokenMask { words: vec![0; words.saturating_sub(1).max(1)] };
    match dice.below(3) {
        0 => mask.words.fill(u32::MAX),
        1 => mask.words.iter_mut().for_each(|word| *word = dice.next() as u32),
        _ => {
            for id in some_ids(dice, 6, vocab.min(32 * mask.words.len() as u32)) {
                mask.words[id as usize / 32] |= 1 << (id % 32);
            }
        }
    }
    mask
}

pub fn random_settings(dice: &mut Dice, vocab: u32, known: u32) -> Settings {
    let temperature = dice.one_of(&[0.0, 0.2, 0.7, 1.0, 1.3, 2.0]);
    let top_k = dice.one_of(&[0, 0, 1, 2, 5, 40, 300, 100_000]);
    // Not 0.5 or 0.9: tied logits reach such sums exactly, up to the rounding of either side's exp.
    let top_p = dice.one_of(&[1.0, 1.0, 0.0, 0.053, 0.513, 0.907, 0.987]);
    let min_p = dice.one_of(&[0.0, 0.0, 0.053, 0.413]);
    let base = row_base(dice.next(), dice.below(9000) as u32);
    let mut settings = Settings::plain(row(temperature, top_k, top_p, min_p, base));
    settings.plain.xtc_threshold = dice.one_of(&[None, None, Some(0.0913), Some(0.2311)]);
    settings.plain.logprobs = dice.one_of(&[None, None, Some(0), Some(1), Some(5), Some(20)]);
    settings.plain.wants_bias_trace = dice.below(5) == 0;
    if dice.below(12) == 0 {
        settings.plain.forced = Some(dice.below(known.into()) as u32);
    }
    if dice.below(4) == 0 {
        settings.penalties =
            Some([dice.one_of(&[1.0, 1.3, 0.7]), dice.one_of(&[0.0, 0.5]), dice.one_of(&[0.0, 1.1])]);
        let ids = some_ids(dice, 40, vocab);
        settings.seen =
            ids.into_iter().map(|token| SeenToken { token, answer_count: dice.below(4) as u32 }).collect();
    }
    if dice.below(4) == 0 {
        let ids = some_ids(dice, 10, known);
        settings.bias = ids.into_iter().map(|id| (id, dice.unit() * 12.0 - 6.0)).collect();
    }
    if dice.below(4) == 0 {
        settings.mask = Some(random_mask(dice, vocab));
    }
    settings
}
