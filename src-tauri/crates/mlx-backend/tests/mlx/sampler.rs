//! The fused sampler on MLX against golden values, the host reference, itself alone, and itself permuted.

mod edges;
mod forms;
mod settings;

use engine::backend::{BadRow, RowSampling, Sampled};
use engine::sampling::noise::{gumbel, row_base, token_hash};
use engine::sampling::reference;
use mlx_backend::mx::{Array, Purpose, counters};
use mlx_backend::sampling::fused::Sampler;
use settings::{Settings, random_settings};

/// xorshift64*: the tests need a stream that is the same everywhere.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 33) % end
    }

    fn unit(&mut self) -> f32 {
        self.below(1 << 24) as f32 / (1 << 24) as f32
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

fn array(rows: &[Vec<f32>]) -> Array {
    Array::from_slice(&rows.concat(), &[rows.len() as i32, rows[0].len() as i32])
}

fn row(temperature: f32, top_k: u32, top_p: f32, min_p: f32, noise_base: u32) -> RowSampling<'static> {
    let is_greedy = temperature < 1e-5 || top_k == 1;
    RowSampling { temperature, top_k, top_p, min_p, is_greedy, noise_base, ..RowSampling::GREEDY }
}

fn fused(sampler: &Sampler, logits: &[Vec<f32>], rows: &[RowSampling<'_>]) -> Vec<Result<u32, BadRow>> {
    let sampled = sampler.sample(&array(logits), rows).expect("sampling runs");
    sampled.into_iter().map(|sampled| sampled.token).collect()
}

#[test]
fn golden_tokens_hold() {
    let logits: Vec<Vec<f32>> = (0..8u32)
        .map(|b| {
            let value = |v: u32| (v.wrapping_mul(2_654_435_761).wrapping_add(97 * b)) >> 8;
            (0..4096).map(|v| value(v) as f32 * 8.0 / 16_777_216.0).collect()
        })
        .collect();
    let temperatures = [0.0, 0.7, 1.0, 1.3, 0.7, 1.0, 1.0, 0.2];
    let top_k = [0, 40, 0, 1, 0, 5, 0, 0];
    let top_p = [1.0, 0.9, 1.0, 0.5, 0.95, 1.0, 1.0, 0.5];
    let min_p = [0.0, 0.0, 0.05, 0.0, 0.0, 0.0, 0.0, 0.1];
    let seeds = [1, 2, 3, 4, 5, 6, (1 << 40) + 7, 8];
    let sampler = Sampler::new(4096, 4096).expect("the sampler builds");
    for (p0, expected) in [
        (10, [2584, 1741, 3718, 2584, 1364, 3571, 1838, 432]),
        (11, [2584, 3482, 3027, 2584, 4014, 987, 2980, 3105]),
        (12, [2584, 987, 1304, 2584, 440, 377, 1330, 3681]),
    ] {
        let rows: Vec<RowSampling<'_>> = (0..8)
            .map(|b| {
                let base = row_base(seeds[b], p0 + b as u32);
                row(temperatures[b], top_k[b], top_p[b], min_p[b], base)
            })
            .collect();
        assert_eq!(fused(&sampler, &logits, &rows), expected.map(Ok), "p0 = {p0}");
    }
}

/// A row of one of several shapes: flat, peaked, full of ties, nearly all equal.
fn random_logits(dice: &mut Dice, vocab: usize) -> Vec<f32> {
    let spread = dice.one_of(&[0.5, 3.0, 12.0]);
    let grain = dice.one_of(&[0.0, 0.0, 0.125, 1.0]);
    (0..vocab)
        .map(|_| {
            let value = (dice.unit() + dice.unit() + dice.unit() - 1.5) * spread;
            if grain > 0.0 { (value / grain).round() * grain } else { value }
        })
        .collect()
}

/// How two results of a row may differ: device and host `ln` differ by ulps, so a near tie may fall either way.
fn is_near_tie(logits: &[f32], known: u32, row: &RowSampling<'_>, ours: u32, theirs: u32) -> bool {
    let edited = reference::edit(logits, known, row).expect("the row is good");
    let score = |id: u32| edited[id as usize] / row.temperature + gumbel(token_hash(row.noise_base, id));
    (score(ours) - score(theirs)).abs() < 1e-4
}

/// Checks a result against the reference. Returns whether it is a near tie with it.
fn check(ours: &Sampled, logits: &[f32], known: u32, row: &RowSampling<'_>, at: &str) -> bool {
    let expected = reference::sample(logits, known, row);
    let is_tie = ours.token != expected;
    if is_tie {
        let (Ok(ours), Ok(theirs)) = (ours.token, expected) else {
            panic!("{at}: {:?} instead of {expected:?}", ours.token);
        };
        assert!(is_near_tie(logits, known, row, ours, theirs), "{at}: {ours}, not {theirs}; {row:?}");
    }
    let Ok(token) = ours.token else {
        assert!(ours.logprobs.is_none() && ours.bias_trace.is_none(), "{at}: a bad row reports nothing");
        return false;
    };
    let close = |a: f32, b: f32| (a - b).abs() < 2e-4 || a == b;
    assert_eq!(ours.logprobs.is_some(), row.logprobs.is_some(), "{at}");
    if let (Some(ours), Some(wanted)) = (&ours.logprobs, row.logprobs) {
        let theirs = reference::logprobs(logits, known, token, wanted).expect("the row is good");
        assert!(close(ours.chosen, theirs.chosen), "{at}: {} for {}", ours.chosen, theirs.chosen);
        assert_eq!(ours.top.len(), theirs.top.len(), "{at}");
        for ((id, value), (their_id, their_value)) in ours.top.iter().zip(&theirs.top) {
            assert!(id == their_id && close(*value, *their_value), "{at}: {ours:?} for {theirs:?}");
        }
    }
    assert_eq!(ours.bias_trace.is_some(), row.wants_bias_trace, "{at}");
    if let Some(ours) = ours.bias_trace {
        let theirs = reference::bias_trace(logits, known, row, token).expect("the row is good");
        assert_eq!(ours.unbiased_likeliest, theirs.unbiased_likeliest, "{at}");
        assert!(close(ours.logprob_with, theirs.logprob_with), "{at}: {ours:?} for {theirs:?}");
        assert!(close(ours.logprob_without, theirs.logprob_without), "{at}: {ours:?} for {theirs:?}");
    }
    is_tie
}

#[test]
fn fused_equals_per_row_and_reference_on_thousands_of_mixed_batches() {
    let mut dice = Dice(20_261_129);
    let (mut rows_seen, mut near_ties) = (0, 0);
    let samplers = [(4, 3), (33, 33), (70, 61), (1000, 998), (3001, 2900)]
        .map(|(vocab, known)| (known, vocab, Sampler::new(vocab, known).expect("the sampler builds")));
    for round in 0..2000 {
        let (known, vocab, sampler) = &samplers[dice.below(samplers.len() as u64) as usize];
        let size = 1 + dice.below(8) as usize;
        let logits: Vec<Vec<f32>> = (0..size).map(|_| random_logits(&mut dice, *vocab as usize)).collect();
        let settings: Vec<Settings> = (0..size).map(|_| random_settings(&mut dice, *vocab, *known)).collect();
        let rows: Vec<RowSampling<'_>> = settings.iter().map(Settings::lend).collect();
        let together = sampler.sample(&array(&logits), &rows).expect("sampling runs");
        for b in 0..size {
            let at = format!("round {round}, row {b} of {size}, {vocab} ids");
            near_ties += usize::from(check(&together[b], &logits[b], *known, &rows[b], &at));
            rows_seen += 1;
            let alone = sampler.sample_alone(&array(&logits[b..=b]), &rows[b]).expect("sampling runs");
            assert_eq!(alone.token, together[b].token, "{at}: alone");
        }
        let turn = dice.below(size as u64) as usize;
        let turned = |b: usize| (b + turn) % size;
        let moved_logits: Vec<Vec<f32>> = (0..size).map(|b| logits[turned(b)].clone()).collect();
        let moved_rows: Vec<RowSampling<'_>> = (0..size).map(|b| rows[turned(b)]).collect();
        let moved = fused(sampler, &moved_logits, &moved_rows);
        for b in 0..size {
            assert_eq!(moved[b], together[turned(b)].token, "round {round}: turned by {turn}");
        }
    }
    println!("{rows_seen} rows, {near_ties} near ties with the reference");
    assert!(near_ties * 1000 <= rows_seen, "{near_ties} of {rows_seen} rows differ");
}

#[test]
fn a_bad_row_is_flagged_and_its_neighbours_sample_as_without_it() {
    let sampler = Sampler::new(3, 3).expect("the sampler builds");
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let logits = [[2.0, 2.0, 1.0], [1.0, nan, 3.0], [-inf, -inf, -inf], [0.0, inf, 1.0], [nan, 1.0, 3.0]];
    let logits: Vec<Vec<f32>> = logits.iter().map(|row| row.to_vec()).collect();
    let expected = [
        Ok(0),
        Err(BadRow::NonFiniteLogits),
        Err(BadRow::NothingAllowed),
        Err(BadRow::NonFiniteLogits),
        Err(BadRow::NonFiniteLogits),
    ];
    let greedy = [row(0.0, 0, 1.0, 0.0, 0); 5];
    assert_eq!(fused(&sampler, &logits, &greedy), expected, "greedy; ties go to the lowest id");
    for (temperature, top_k, top_p) in [(1.0, 0, 1.0), (1.0, 2, 1.0), (1.0, 0, 0.9)] {
        let rows = [row(temperature, top_k, top_p, 0.0, 7); 5];
        let tokens = fused(&sampler, &logits, &rows);
        assert_eq!(tokens[1..], expected[1..], "top_k {top_k}, top_p {top_p}");
        assert_eq!(tokens[0], fused(&sampler, &logits[..1], &rows[..1])[0], "top_k {top_k}, top_p {top_p}");
    }
}

#[test]
fn filters_keep_what_they_should_at_their_boundaries() {
    let sampler = Sampler::new(3, 3).expect("the sampler builds");
    let logits = vec![[0.5f32, 0.3, 0.2].map(f32::ln).to_vec(); 400];
    let support = |top_k: u32, top_p: f32, min_p: f32| {
        let rows: Vec<RowSampling<'_>> =
            (0..400).map(|position| row(1.0, top_k, top_p, min_p, row_base(5, position))).collect();
        let mut ids: Vec<u32> =
            fused(&sampler, &logits, &rows).into_iter().map(|token| token.expect("good")).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    };
    for (top_p, ids) in [(0.49, &[0][..]), (0.51, &[0, 1]), (0.81, &[0, 1, 2]), (1.0, &[0, 1, 2])] {
        assert_eq!(support(0, top_p, 0.0), ids, "top_p {top_p}");
    }
    for (min_p, ids) in [(0.39, &[0, 1, 2][..]), (0.41, &[0, 1]), (0.61, &[0])] {
        assert_eq!(support(0, 1.0, min_p), ids, "min_p {min_p}");
    }
    assert_eq!(support(2, 1.0, 0.0), [0, 1], "top_k 2");
    assert_eq!(support(9, 1.0, 0.0), [0, 1, 2], "top_k past the vocabulary is off");
}

#[test]
fn a_gap_of_a_hundred_never_loses_at_a_wide_vocabulary() {
    let vocab = 151_936;
    let sampler = Sampler::new(vocab, vocab).expect("the sampler builds");
    let mut logits = vec![0.0; vocab as usize];
    logits[7] = 100.0;
    for block in 0..50 {
        let rows: Vec<RowSampling<'_>> =
            (0..40).map(|draw| row(1.0, 0, 1.0, 0.0, row_base(3, block * 40 + draw))).collect();
        let tokens = fused(&sampler, &vec![logits.clone(); 40], &rows);
        assert!(tokens.iter().all(|token| *token == Ok(7)), "block {block}");
    }
}

#[test]
fn padded_ids_are_never_sampled() {
    let sampler = Sampler::new(1000, 900).expect("the sampler builds");
    // The padding has by far the largest logits, and a NaN.
    let mut logits: Vec<f32> = (0..1000).map(|id| if id < 900 { 0.0 } else { 50.0 }).collect();
    logits[999] = f32::NAN;
    let rows: Vec<RowSampling<'_>> = (0..300)
        .map(|draw| {
            let base = row_base(1, draw);
            [row(0.0, 0, 1.0, 0.0, base), row(2.0, 0, 1.0, 0.0, base), row(2.0, 0, 0.9, 0.0, base)]
                [draw as usize % 3]
        })
        .collect();
    for token in fused(&sampler, &vec![logits; 300], &rows) {
        assert!(token.expect("the row is good") < 900);
    }
}

#[test]
fn a_flat_row_with_top_p_widens_its_shortlist_and_keeps_it_wide() {
    let vocab = 5000;
    let sampler = Sampler::new(vocab, vocab).expect("the sampler builds");
    let logits = vec![vec![0.0; vocab as usize]];
    let mut settings = row(1.0, 0, 0.9, 0.0, row_base(11, 3));
    let misses = || counters(Purpose::Decode).width_misses;
    let before = misses();
    let first = sampler.sample(&array(&logits), &[settings]).expect("sampling runs").remove(0);
    assert_eq!(misses() - before, 2, "256, then 1024, then all");
    assert_eq!(first.token, reference::sample(&logits[0], vocab, &settings));
    settings.shortlist_width = first.shortlist_width;
    let again = sampler.sample(&array(&logits), &[settings]).expect("sampling runs").remove(0);
    assert_eq!((again.token, misses() - before), (first.token, 2), "the width sticks");
}
