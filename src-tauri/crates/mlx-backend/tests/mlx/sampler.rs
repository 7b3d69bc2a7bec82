//! The fused sampler on MLX against golden values, the host reference, itself alone, and itself permuted.

use engine::backend::{BadRow, RowSampling};
use engine::sampling::noise::{gumbel, row_base, token_hash};
use engine::sampling::reference;
use mlx_backend::mx::{Array, Purpose, counters};
use mlx_backend::sampling::fused::Sampler;

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

fn random_row(dice: &mut Dice) -> RowSampling<'static> {
    let temperature = dice.one_of(&[0.0, 0.2, 0.7, 1.0, 1.3, 2.0]);
    let top_k = dice.one_of(&[0, 0, 1, 2, 5, 40, 300, 100_000]);
    // Not 0.5 or 0.9: tied logits reach such sums exactly, up to the rounding of either side's exp.
    let top_p = dice.one_of(&[1.0, 1.0, 0.053, 0.513, 0.907, 0.987]);
    let min_p = dice.one_of(&[0.0, 0.0, 0.05, 0.4]);
    let base = row_base(dice.next(), dice.below(9000) as u32);
    row(temperature, top_k, top_p, min_p, base)
}

/// Score that decides between candidates: device and host `ln` differ by ulps.
fn score(logits: &[f32], row: &RowSampling<'_>, id: u32) -> f32 {
    logits[id as usize] / row.temperature + gumbel(token_hash(row.noise_base, id))
}

#[test]
fn fused_equals_reference_solo_and_permuted_on_a_thousand_mixed_batches() {
    let mut dice = Dice(20_261_129);
    let (mut rows_seen, mut near_ties) = (0, 0);
    for round in 0..1000 {
        let vocab = dice.one_of(&[4, 33, 1000, 3001]);
        let known = vocab - dice.below(vocab as u64 / 4 + 1) as usize;
        let sampler = Sampler::new(vocab as u32, known as u32).expect("the sampler builds");
        let size = 1 + dice.below(8) as usize;
        let logits: Vec<Vec<f32>> = (0..size).map(|_| random_logits(&mut dice, vocab)).collect();
        let rows: Vec<RowSampling<'_>> = (0..size).map(|_| random_row(&mut dice)).collect();
        let tokens = fused(&sampler, &logits, &rows);
        for b in 0..size {
            let expected = reference::sample(&logits[b], known as u32, &rows[b]);
            rows_seen += 1;
            if tokens[b] != expected {
                let (Ok(ours), Ok(theirs)) = (tokens[b], expected) else {
                    panic!("round {round}, row {b}: {:?} instead of {expected:?}", tokens[b]);
                };
                let gap = (score(&logits[b], &rows[b], ours) - score(&logits[b], &rows[b], theirs)).abs();
                assert!(gap < 1e-4, "round {round}, row {b}, {:?}: {ours}, not {theirs}", rows[b]);
                near_ties += 1;
            }
            let solo = fused(&sampler, &logits[b..=b], &rows[b..=b]);
            assert_eq!(solo[0], tokens[b], "round {round}: row {b} alone");
        }
        let turn = dice.below(size as u64) as usize;
        let turned = |b: usize| (b + turn) % size;
        let moved_logits: Vec<Vec<f32>> = (0..size).map(|b| logits[turned(b)].clone()).collect();
        let moved_rows: Vec<RowSampling<'_>> = (0..size).map(|b| rows[turned(b)]).collect();
        let moved = fused(&sampler, &moved_logits, &moved_rows);
        for b in 0..size {
            assert_eq!(moved[b], tokens[turned(b)], "round {round}: turned by {turn}");
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

#[test]
fn the_per_row_path_gives_the_fused_token_and_the_references_logprobs() {
    let mut dice = Dice(77);
    for round in 0..100 {
        let sampler = Sampler::new(3001, 2900).expect("the sampler builds");
        let logits = random_logits(&mut dice, 3001);
        let settings = random_row(&mut dice);
        let joined = fused(&sampler, std::slice::from_ref(&logits), &[settings]);
        let alone = RowSampling { logprobs: Some(5), ..settings };
        let sampled =
            sampler.sample_alone(&array(std::slice::from_ref(&logits)), &alone).expect("sampling runs");
        assert_eq!(sampled.token, joined[0], "round {round}");
        let token = sampled.token.expect("the row is good");
        let expected = reference::logprobs(&logits, 2900, token, 5).expect("the row is good");
        let ours = sampled.logprobs.expect("asked for");
        assert!((ours.chosen - expected.chosen).abs() < 1e-4, "round {round}");
        for ((id, value), (other_id, other)) in ours.top.iter().zip(&expected.top) {
            assert!(id == other_id && (value - other).abs() < 1e-4, "round {round}");
        }
    }
}
