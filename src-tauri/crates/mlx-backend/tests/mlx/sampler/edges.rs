//! Cases that broke other servers, with the values that are right.

use super::settings::{Settings, random_settings};
use super::{Dice, array, fused, random_logits, row};
use engine::backend::{BadRow, Penalties, RowSampling, SeenToken, TokenMask};
use engine::sampling::noise::row_base;
use engine::sampling::reference;
use mlx_backend::mx::{Array, Dtype, Purpose, counters, ops};
use mlx_backend::sampling::fused::Sampler;

/// Every plain setting that leads to another family or width.
fn families(base: u32) -> [RowSampling<'static>; 5] {
    [
        row(0.0, 0, 1.0, 0.0, base),
        row(0.8, 0, 1.0, 0.0, base),
        row(2.0, 0, 1.0, 0.05, base),
        row(2.0, 0, 0.9, 0.0, base),
        row(1.0, 20, 1.0, 0.0, base),
    ]
}

#[test]
fn a_seed_gives_its_tokens_wherever_the_row_stands() {
    let vocab = 2000;
    let sampler = Sampler::new(vocab, vocab).expect("the sampler builds");
    let mut dice = Dice(42);
    for position in 0..40 {
        let own = random_logits(&mut dice, vocab as usize);
        for settings in families(row_base(42, position)) {
            let alone = fused(&sampler, std::slice::from_ref(&own), &[settings])[0];
            for place in [0, 3, 7] {
                let mut logits: Vec<Vec<f32>> =
                    (0..8).map(|_| random_logits(&mut dice, vocab as usize)).collect();
                let neighbours: Vec<Settings> =
                    (0..8).map(|_| random_settings(&mut dice, vocab, vocab)).collect();
                let mut rows: Vec<RowSampling<'_>> = neighbours.iter().map(Settings::lend).collect();
                (logits[place], rows[place]) = (own.clone(), settings);
                assert_eq!(fused(&sampler, &logits, &rows)[place], alone, "place {place}, {settings:?}");
                let left = place.min(1)..place + 1;
                let fewer = fused(&sampler, &logits[left.clone()], &rows[left]);
                assert_eq!(fewer.last(), Some(&alone), "after neighbours left, {settings:?}");
            }
        }
    }
}

#[test]
fn a_bad_row_changes_no_bit_of_its_neighbours() {
    let vocab = 600;
    let sampler = Sampler::new(vocab, 590).expect("the sampler builds");
    let mut dice = Dice(7);
    let nothing = TokenMask::default();
    for round in 0..60 {
        let good: Vec<Vec<f32>> = (0..4).map(|_| random_logits(&mut dice, vocab as usize)).collect();
        let settings: Vec<Settings> = (0..4).map(|_| random_settings(&mut dice, vocab, 590)).collect();
        let rows: Vec<RowSampling<'_>> = settings.iter().map(Settings::lend).collect();
        let without = sampler.sample(&array(&good), &rows).expect("sampling runs");
        let mut bad = random_logits(&mut dice, vocab as usize);
        let mut with_bad = families(round)[round as usize % 5];
        let expected = match round % 4 {
            0 => {
                bad[17] = f32::NAN;
                BadRow::NonFiniteLogits
            }
            1 => {
                bad[589] = f32::INFINITY;
                BadRow::NonFiniteLogits
            }
            2 => {
                bad[..590].fill(f32::NEG_INFINITY);
                BadRow::NothingAllowed
            }
            _ => {
                with_bad.mask = Some(&nothing);
                BadRow::NothingAllowed
            }
        };
        let (mut logits, mut all) = (good.clone(), rows.clone());
        logits.insert(2, bad);
        all.insert(2, with_bad);
        let mut with = sampler.sample(&array(&logits), &all).expect("sampling runs");
        assert_eq!(with.remove(2).token, Err(expected), "round {round}");
        assert_eq!(with, without, "round {round}: tokens and reports, bit for bit");
    }
}

#[test]
fn a_nan_under_the_mask_is_still_bad_and_forcing_does_not_hide_it() {
    let sampler = Sampler::new(64, 64).expect("the sampler builds");
    let mask = TokenMask { words: vec![0b11, 0] };
    for hidden in [f32::NAN, f32::INFINITY] {
        let mut logits = vec![1.0; 64];
        logits[40] = hidden;
        for settings in families(1) {
            let masked = RowSampling { mask: Some(&mask), ..settings };
            let forced = RowSampling { forced: Some(1), ..settings };
            let tokens = fused(&sampler, &vec![logits.clone(); 2], &[masked, forced]);
            assert_eq!(tokens, [Err(BadRow::NonFiniteLogits); 2], "{settings:?}");
        }
    }
}

#[test]
fn a_threshold_of_one_row_is_not_its_neighbours() {
    let sampler = Sampler::new(4, 4).expect("the sampler builds");
    let first: Vec<f32> = [0.4f32, 0.35, 0.25, 0.0].map(f32::ln).to_vec();
    let second: Vec<f32> = [0.9f32, 0.05, 0.03, 0.02].map(f32::ln).to_vec();
    for (top_p, top_k) in [(1.0, 0), (0.9999, 0), (1.0, 3)] {
        let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
        for position in 0..300 {
            let plain = row(1.0, top_k, top_p, 0.0, row_base(3, position));
            let excluding = RowSampling { xtc_threshold: Some(0.2), ..plain };
            let logits = [first.clone(), second.clone(), second.clone(), first.clone()];
            let tokens = fused(&sampler, &logits, &[excluding, excluding, plain, plain]);
            firsts.push(tokens[0]);
            seconds.push(tokens[1]);
            assert_eq!(tokens[1], tokens[2], "one top choice: nothing changes");
            assert_eq!(tokens[3], fused(&sampler, &logits[3..], &[plain])[0], "no threshold, no change");
        }
        assert!(firsts.iter().all(|token| *token == Ok(2)), "0.4 and 0.35 give way to 0.25");
        assert!(seconds.contains(&Ok(0)), "0.9 stays");
    }
}

#[test]
fn a_mask_belongs_to_its_row_and_leaves_the_others_untouched() {
    let vocab = 1000;
    let sampler = Sampler::new(vocab, vocab).expect("the sampler builds");
    let mut dice = Dice(5);
    let mut mask = TokenMask { words: vec![0; 32] };
    for id in [3, 64, 999] {
        mask.words[id / 32] |= 1 << (id % 32);
    }
    for round in 0..40 {
        let logits: Vec<Vec<f32>> = (0..4).map(|_| random_logits(&mut dice, vocab as usize)).collect();
        let plain: Vec<RowSampling<'_>> = (0..4)
            .map(|b| RowSampling { logprobs: Some(5), ..families(round * 4 + b)[dice.below(5) as usize] })
            .collect();
        let unmasked = sampler.sample(&array(&logits), &plain).expect("sampling runs");
        for masked in 0..4 {
            let mut rows = plain.clone();
            rows[masked].mask = Some(&mask);
            let sampled = sampler.sample(&array(&logits), &rows).expect("sampling runs");
            for b in 0..4 {
                match b == masked {
                    true => assert!(matches!(sampled[b].token, Ok(3 | 64 | 999)), "round {round}, row {b}"),
                    false => assert_eq!(sampled[b], unmasked[b], "round {round}, row {b}"),
                }
            }
        }
    }
}

#[test]
fn ids_past_the_tokenizer_stay_off_whatever_the_mask_or_the_edits_say() {
    // Qwen3's sizes, an eighth of them: the last tokenizer id is 18958 of 18992.
    let (vocab, known) = (18_992, 18_959);
    let sampler = Sampler::new(vocab, known).expect("the sampler builds");
    let logits: Vec<f32> = (0..vocab).map(|id| if id < known { (id % 7) as f32 } else { 90.0 }).collect();
    let seen: Vec<SeenToken> = (known..vocab).map(|token| SeenToken { token, answer_count: 1 }).collect();
    let penalties = Penalties { repetition: 0.5, frequency: -2.0, presence: -2.0, seen: &seen };
    let masks =
        [vec![u32::MAX; 593], vec![u32::MAX; 594], vec![u32::MAX; 700], vec![u32::MAX; 10], vec![0, 8]]
            .map(|words| TokenMask { words });
    for position in 0..12 {
        for settings in families(row_base(9, position)) {
            let mut rows = vec![settings, RowSampling { penalties: Some(penalties), ..settings }];
            rows.extend(masks.iter().map(|mask| RowSampling { mask: Some(mask), ..settings }));
            let tokens = fused(&sampler, &vec![logits.clone(); rows.len()], &rows);
            for (token, settings) in tokens.iter().zip(&rows) {
                assert!(token.expect("the row is good") < known);
                assert_eq!(*token, reference::sample(&logits, known, settings), "{settings:?}");
            }
            assert!(tokens[5].expect("the row is good") < 320, "words end at id 320");
            assert_eq!(tokens[6], Ok(35), "bit 3 of word 1");
        }
    }
}

#[test]
fn a_forced_token_is_taken_whatever_its_logit_and_reports_what_it_had() {
    let sampler = Sampler::new(40, 40).expect("the sampler builds");
    let mut logits = vec![0.0; 40];
    logits[5] = f32::NEG_INFINITY;
    for settings in families(3) {
        let rows = [settings, RowSampling { forced: Some(5), logprobs: Some(2), ..settings }, settings];
        let sampled = sampler.sample(&array(&vec![logits.clone(); 3]), &rows).expect("sampling runs");
        assert_eq!(sampled[1].token, Ok(5));
        let logprobs = sampled[1].logprobs.as_ref().expect("asked for");
        assert_eq!(logprobs.chosen, f32::NEG_INFINITY, "impossible stays impossible, not NaN");
        assert_eq!(sampled[0], sampled[2], "neighbours are not forced");
    }
}

#[test]
fn half_precision_logits_are_cast_before_anything_else() {
    let vocab = 500;
    let sampler = Sampler::new(vocab, vocab).expect("the sampler builds");
    let mut dice = Dice(77);
    for position in 0..20 {
        let exact = random_logits(&mut dice, vocab as usize);
        for dtype in [Dtype::Bfloat16, Dtype::Float16] {
            let half = ops::cast(&array(std::slice::from_ref(&exact)), dtype).expect("casts");
            let widened = ops::cast(&half, Dtype::Float32).expect("casts");
            for settings in families(row_base(1, position)) {
                let settings = RowSampling { logprobs: Some(3), ..settings };
                let ours = sampler.sample(&half, &[settings]).expect("sampling runs");
                assert_eq!(ours, sampler.sample(&widened, &[settings]).expect("sampling runs"));
                let top = &ours[0].logprobs.as_ref().expect("asked for").top;
                assert!(top.windows(2).all(|pair| pair[0].1 >= pair[1].1), "f32 steps, not bf16 ones");
            }
        }
    }
}

#[test]
fn everything_asked_for_comes_back_in_one_wait_and_one_read() {
    let vocab = 3000;
    let sampler = Sampler::new(vocab, vocab).expect("the sampler builds");
    let mut dice = Dice(8);
    let logits: Vec<Vec<f32>> = (0..8)
        .map(|_| {
            let mut row = random_logits(&mut dice, vocab as usize);
            row[..20].iter_mut().for_each(|x| *x += 40.0);
            row
        })
        .collect();
    let settings: Vec<Settings> = (0..8)
        .map(|_| {
            let mut settings = random_settings(&mut dice, vocab, vocab);
            settings.mask = None;
            (settings.plain.logprobs, settings.plain.wants_bias_trace) = (Some(20), true);
            settings
        })
        .collect();
    let rows: Vec<RowSampling<'_>> = settings.iter().map(Settings::lend).collect();
    let logits = array(&logits);
    let before = counters(Purpose::Decode);
    let submitted = sampler.submit(&logits, &rows).expect("the graph builds");
    let building = counters(Purpose::Decode).since(before);
    assert_eq!((building.evals, building.waits, building.host_reads), (1, 0, 0), "submitting does not wait");
    let read = sampler.read(&submitted, &rows).expect("the graph runs");
    let all = counters(Purpose::Decode).since(before);
    assert_eq!((all.evals, all.waits, all.host_reads, all.width_misses), (1, 1, 1, 0));
    assert!(!read.has_replaced);
    let on_device = mlx_backend::mx::read_u32(&submitted.tokens, Purpose::Probe).expect("u32, contiguous");
    let told: Vec<u32> = read.sampled.iter().map(|sampled| sampled.token.expect("good")).collect();
    assert_eq!(on_device, told, "the device starts the next step from the tokens that the host is told");
}

#[test]
fn a_replaced_token_is_told_and_the_devices_copy_is_the_old_one() {
    let vocab = 5000;
    let sampler = Sampler::new(vocab, vocab).expect("the sampler builds");
    let flat = Array::from_slice(&vec![0.0f32; 2 * vocab as usize], &[2, vocab as i32]);
    let mut replaced = 0;
    for position in 0..20 {
        let base = row_base(11, position);
        let rows = [row(1.0, 0, 0.9, 0.0, base), row(0.0, 0, 1.0, 0.0, base)];
        let submitted = sampler.submit(&flat, &rows).expect("the graph builds");
        let read = sampler.read(&submitted, &rows).expect("the graph runs");
        let old = mlx_backend::mx::read_u32(&submitted.tokens, Purpose::Probe).expect("u32, contiguous");
        assert_eq!(read.has_replaced, read.sampled[0].token != Ok(old[0]), "position {position}");
        assert_eq!(read.sampled[1].shortlist_width, 0, "a wide shortlist is its row's own");
        replaced += u32::from(read.has_replaced);
    }
    assert!(replaced > 0, "a flat row over 5000 ids leaves the first 256");
}
