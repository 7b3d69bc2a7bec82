//! The reference sampler against the published values and against the order of operations.

use engine::{
    TokenId,
    backend::{BadRow, Penalties, RowSampling, SeenToken, TokenMask},
    params::{SamplingParams, Xtc},
    sampling::reference::{bias_trace, logprobs, sample, support},
};

fn plain() -> SamplingParams {
    SamplingParams { temperature: 1.0, max_tokens: 1, ..crate::support::params() }
}

fn at(params: SamplingParams, seed: u64, position: u32) -> RowSampling<'static> {
    RowSampling::new(Box::leak(Box::new(params.validate().unwrap())), seed, position)
}

fn from_probabilities(probabilities: &[f32]) -> Vec<f32> {
    probabilities.iter().map(|p| p.ln()).collect()
}

/// The tokens that 400 draws give, ascending; must equal what the filters say they keep.
fn drawn(logits: &[f32], params: SamplingParams) -> Vec<TokenId> {
    let size = logits.len() as u32;
    let mut drawn: Vec<_> =
        (0..400).map(|position| sample(logits, size, &at(params.clone(), 5, position)).unwrap()).collect();
    drawn.sort_unstable();
    drawn.dedup();
    let mut kept = support(logits, size, &at(params, 5, 0)).unwrap();
    kept.sort_unstable();
    assert_eq!(drawn, kept, "400 draws reach every kept token and no other");
    drawn
}

#[test]
fn golden_tokens_hold() {
    let temperature = [0.0, 0.7, 1.0, 1.3, 0.7, 1.0, 1.0, 0.2];
    let top_k = [0, 40, 0, 1, 0, 5, 0, 0];
    let top_p = [1.0, 0.9, 1.0, 0.5, 0.95, 1.0, 1.0, 0.5];
    let min_p = [0.0, 0.0, 0.05, 0.0, 0.0, 0.0, 0.0, 0.1];
    let seeds = [1, 2, 3, 4, 5, 6, (1 << 40) + 7, 8];
    let logit = |row: u64, id: u64| {
        let mixed = (id * 2_654_435_761 + 97 * row) & 0xFFFF_FFFF;
        8.0 * (mixed >> 8) as f32 / 16_777_216.0
    };
    for (first_position, expected) in [
        (10, [2584, 1741, 3718, 2584, 1364, 3571, 1838, 432]),
        (11, [2584, 3482, 3027, 2584, 4014, 987, 2980, 3105]),
        (12, [2584, 987, 1304, 2584, 440, 377, 1330, 3681]),
    ] {
        for row in 0..8 {
            let logits: Vec<f32> = (0..4096).map(|id| logit(row as u64, id)).collect();
            let params = SamplingParams {
                temperature: temperature[row],
                top_k: top_k[row],
                top_p: top_p[row],
                min_p: min_p[row],
                ..plain()
            };
            let sampling = at(params, seeds[row], first_position + row as u32);
            assert_eq!(sample(&logits, 4096, &sampling), Ok(expected[row]), "p0 {first_position}, row {row}");
        }
    }
}

#[test]
fn filter_boundaries_are_where_they_should_be() {
    let logits = from_probabilities(&[0.5, 0.3, 0.2]);
    for (top_p, expected) in
        [(0.49, vec![0]), (0.51, vec![0, 1]), (0.81, vec![0, 1, 2]), (1.0, vec![0, 1, 2])]
    {
        assert_eq!(drawn(&logits, SamplingParams { top_p, ..plain() }), expected, "top_p {top_p}");
    }
    for (min_p, expected) in [(0.39, vec![0, 1, 2]), (0.41, vec![0, 1]), (0.61, vec![0])] {
        assert_eq!(drawn(&logits, SamplingParams { min_p, ..plain() }), expected, "min_p {min_p}");
    }
    for (top_k, expected) in [(0, vec![0, 1, 2]), (2, vec![0, 1]), (3, vec![0, 1, 2]), (900, vec![0, 1, 2])] {
        assert_eq!(drawn(&logits, SamplingParams { top_k, ..plain() }), expected, "top_k {top_k}");
    }
    let hot = SamplingParams { top_k: 1, temperature: 5.0, ..plain() };
    assert_eq!(drawn(&logits, hot), [0], "top_k 1 is greedy at any temperature");
    let cold = SamplingParams { temperature: 0.0, top_p: 0.1, ..plain() };
    assert_eq!(drawn(&logits, cold), [0], "temperature 0 is greedy whatever top_p says");
    let tiny = SamplingParams { top_p: 1e-9, ..plain() };
    assert_eq!(drawn(&logits, tiny), [0], "a vanishing top_p leaves the likeliest");
    let none = RowSampling { top_p: 0.0, ..at(plain(), 1, 0) };
    assert_eq!(support(&logits, 3, &none), Ok(vec![0]), "and so does top_p 0");
}

#[test]
fn ties_go_to_the_lowest_id_and_bad_rows_are_told_apart() {
    let greedy = at(SamplingParams { temperature: 0.0, ..plain() }, 1, 0);
    let warm = at(plain(), 1, 0);
    let (nan, infinite) = (f32::NAN, f32::INFINITY);
    for sampling in [greedy, warm] {
        for logits in [[1.0, nan, 3.0], [nan, 1.0, 3.0], [0.0, infinite, 1.0], [nan; 3]] {
            assert_eq!(sample(&logits, 3, &sampling), Err(BadRow::NonFiniteLogits), "{logits:?}");
        }
        assert_eq!(sample(&[-infinite; 3], 3, &sampling), Err(BadRow::NothingAllowed));
        assert_eq!(sample(&[], 3, &sampling), Err(BadRow::NothingAllowed));
        assert_eq!(sample(&[-infinite, 2.0, -infinite], 3, &sampling), Ok(1), "one token is enough");
    }
    assert_eq!(sample(&[2.0, 2.0, 1.0], 3, &greedy), Ok(0));
    assert_eq!(drawn(&[1.0, 2.0, 2.0, 2.0], SamplingParams { top_k: 2, ..plain() }), [1, 2]);
}

#[test]
fn a_gap_of_a_hundred_never_loses() {
    let mut logits = vec![0.0; 151_936];
    logits[7] = 100.0;
    for position in 0..2000 {
        assert_eq!(sample(&logits[..152], 152, &at(plain(), 3, position)), Ok(7), "position {position}");
    }
    for position in 0..3 {
        assert_eq!(sample(&logits, 151_936, &at(plain(), 3, position)), Ok(7), "position {position}");
    }
}

#[test]
fn draws_follow_the_probabilities() {
    let probabilities = [0.5, 0.25, 0.15, 0.07, 0.03];
    let logits = from_probabilities(&probabilities);
    let mut counts = [0.0_f64; 5];
    for position in 0..20_000 {
        counts[sample(&logits, 5, &at(plain(), 99, position)).unwrap() as usize] += 1.0;
    }
    let distance = |(count, p): (&f64, &f32)| (count - f64::from(*p) * 2e4).powi(2) / (f64::from(*p) * 2e4);
    let chi_squared: f64 = counts.iter().zip(&probabilities).map(distance).sum();
    assert!(chi_squared < 9.5, "95 % critical value at 4 degrees of freedom: {chi_squared} {counts:?}");
}

// Order of operations: one test per adjacent pair.

#[test]
fn padding_is_masked_before_rows_are_judged() {
    for padding in [f32::NAN, f32::INFINITY, 50.0] {
        let logits = [1.0, 2.0, padding, padding];
        assert_eq!(sample(&logits, 2, &at(SamplingParams { temperature: 0.0, ..plain() }, 1, 0)), Ok(1));
        let hot = SamplingParams { temperature: 2.0, ..plain() };
        for position in 0..200 {
            assert!(sample(&logits, 2, &at(hot.clone(), 1, position)).unwrap() < 2);
        }
    }
    assert_eq!(sample(&[1.0; 4], 0, &at(plain(), 1, 0)), Err(BadRow::NothingAllowed));
}

const NO_PENALTY: Penalties<'static> =
    Penalties { repetition: 1.0, frequency: 0.0, presence: 0.0, seen: &[] };

fn greedy(logits: &[f32], sampling: RowSampling<'_>) -> Result<TokenId, BadRow> {
    sample(logits, logits.len() as u32, &sampling)
}

fn mask_of(allowed: &[TokenId]) -> TokenMask {
    let mut words = vec![0; 2];
    for id in allowed {
        words[*id as usize / 32] |= 1 << (id % 32);
    }
    TokenMask { words }
}

#[test]
fn padding_is_masked_before_penalties_and_bias_edit() {
    let seen = [SeenToken { token: 2, answer_count: 1 }];
    let penalties = Penalties { presence: -2.0, repetition: 0.5, seen: &seen, ..NO_PENALTY };
    let sampling =
        RowSampling { penalties: Some(penalties), bias: &[(2, 100.0), (9, 1.0)], ..RowSampling::GREEDY };
    assert_eq!(sample(&[1.0, 2.0, 5.0], 2, &sampling), Ok(1));
}

#[test]
fn repetition_divides_before_presence_subtracts() {
    let seen = [SeenToken { token: 1, answer_count: 1 }];
    let penalties = Penalties { repetition: 2.0, presence: 1.0, seen: &seen, ..NO_PENALTY };
    let sampling = RowSampling { penalties: Some(penalties), ..RowSampling::GREEDY };
    assert_eq!(greedy(&[0.25, 2.0], sampling), Ok(0), "2 / 2 - 1 = 0; the other way it is 0.5");
}

#[test]
fn penalties_know_prompt_from_answer_and_positive_from_negative() {
    let seen = [SeenToken { token: 0, answer_count: 3 }, SeenToken { token: 1, answer_count: 0 }];
    let trace_of = |penalties: Penalties<'_>, logits: &[f32]| {
        greedy(logits, RowSampling { penalties: Some(penalties), ..RowSampling::GREEDY })
    };
    let frequency = Penalties { frequency: 0.5, presence: 0.25, seen: &seen, ..NO_PENALTY };
    assert_eq!(trace_of(frequency, &[1.0, -9.0, -0.74]), Ok(2), "1 - 3 * 0.5 - 0.25 = -0.75");
    assert_eq!(trace_of(frequency, &[1.0, -9.0, -0.76]), Ok(0));
    assert_eq!(trace_of(frequency, &[-9.0, 1.0, 0.9]), Ok(1), "a token of the prompt alone is not counted");
    let repetition = Penalties { repetition: 2.0, seen: &seen, ..NO_PENALTY };
    assert_eq!(trace_of(repetition, &[-1.0, -1.0, -1.9]), Ok(2), "negative logits are multiplied");
    assert_eq!(trace_of(repetition, &[-9.0, 1.0, 0.6]), Ok(2), "repetition counts the prompt");
}

#[test]
fn penalties_round_before_the_bias_is_added() {
    let seen = [SeenToken { token: 0, answer_count: 1 }];
    let penalties = Penalties { presence: 1.0, seen: &seen, ..NO_PENALTY };
    let sampling = RowSampling { penalties: Some(penalties), bias: &[(0, 1.0)], ..RowSampling::GREEDY };
    // 2^24 + 1 is no f32: added first, the bias would be lost and the other token would win.
    assert_eq!(greedy(&[16_777_216.0, 16_777_216.0], sampling), Ok(0));
}

#[test]
fn repetition_divides_before_the_bias_changes_the_sign() {
    let seen = [SeenToken { token: 0, answer_count: 0 }];
    let penalties = Penalties { repetition: 2.0, seen: &seen, ..NO_PENALTY };
    let sampling = RowSampling { penalties: Some(penalties), bias: &[(0, -3.0)], ..RowSampling::GREEDY };
    assert_eq!(greedy(&[1.0, -3.0], sampling), Ok(0), "1 / 2 - 3 = -2.5; the other way it is -4");
}

#[test]
fn bias_is_added_before_rows_are_judged() {
    let sampling = RowSampling { bias: &[(1, f32::INFINITY)], ..RowSampling::GREEDY };
    assert_eq!(greedy(&[1.0, 2.0], sampling), Err(BadRow::NonFiniteLogits));
}

#[test]
fn rows_are_judged_before_the_mask_hides_anything() {
    let mask = mask_of(&[0]);
    let sampling = RowSampling { mask: Some(&mask), ..RowSampling::GREEDY };
    for hidden in [f32::NAN, f32::INFINITY] {
        assert_eq!(greedy(&[1.0, hidden], sampling), Err(BadRow::NonFiniteLogits));
    }
    assert_eq!(greedy(&[1.0, 99.0], sampling), Ok(0));
}

#[test]
fn no_bias_lifts_what_the_mask_forbids() {
    let mask = mask_of(&[0, 40]);
    let sampling = RowSampling { bias: &[(1, 100.0)], mask: Some(&mask), ..RowSampling::GREEDY };
    let mut logits = vec![3.0; 50];
    assert_eq!(greedy(&logits, sampling), Ok(0));
    logits[40] = 3.5;
    assert_eq!(greedy(&logits, sampling), Ok(40));
    let short = TokenMask { words: vec![1] };
    assert_eq!(
        greedy(&logits, RowSampling { mask: Some(&short), ..sampling }),
        Ok(0),
        "no word, not allowed"
    );
    let long = TokenMask { words: vec![u32::MAX; 9] };
    assert_eq!(greedy(&logits, RowSampling { mask: Some(&long), ..sampling }), Ok(1), "words to spare");
}

#[test]
fn a_mask_that_leaves_nothing_is_told_before_a_token_is_forced() {
    let nothing = TokenMask::default();
    let sampling = RowSampling { mask: Some(&nothing), forced: Some(1), ..RowSampling::GREEDY };
    assert_eq!(greedy(&[1.0, 2.0], sampling), Err(BadRow::NothingAllowed));
    let other = mask_of(&[0]);
    assert_eq!(greedy(&[1.0, 2.0], RowSampling { mask: Some(&other), ..sampling }), Ok(1));
    assert_eq!(greedy(&[1.0, f32::NAN], sampling), Err(BadRow::NonFiniteLogits));
}

#[test]
fn a_forced_token_comes_before_the_likeliest() {
    assert_eq!(greedy(&[9.0, 2.0, 1.0], RowSampling { forced: Some(2), ..RowSampling::GREEDY }), Ok(2));
    let warm = RowSampling { forced: Some(2), ..at(plain(), 1, 0) };
    assert_eq!(support(&[9.0, 2.0, f32::NEG_INFINITY], 3, &warm), Ok(vec![2]), "whatever its logit says");
}

#[test]
fn the_mask_comes_before_top_k() {
    let mask = mask_of(&[1, 3]);
    let params = SamplingParams { top_k: 2, ..plain() };
    let sampling = RowSampling { mask: Some(&mask), ..at(params, 1, 0) };
    assert_eq!(support(&[9.0, 2.0, 8.0, 1.0], 4, &sampling), Ok(vec![1, 3]));
}

#[test]
fn rows_are_judged_before_the_likeliest_is_taken() {
    let greedy = at(SamplingParams { temperature: 0.0, ..plain() }, 1, 0);
    assert_eq!(sample(&[9.0, f32::NAN], 2, &greedy), Err(BadRow::NonFiniteLogits));
}

#[test]
fn the_likeliest_is_taken_before_the_temperature_divides() {
    let frozen = at(SamplingParams { temperature: 0.0, ..plain() }, 1, 0);
    assert_eq!(sample(&[0.0, 3.0e38, -3.0e38], 3, &frozen), Ok(1), "nothing is divided by zero");
}

#[test]
fn temperature_does_not_change_what_top_k_keeps() {
    let logits = from_probabilities(&[0.1, 0.4, 0.2, 0.3]);
    for temperature in [0.9, 1.0, 5.0] {
        assert_eq!(drawn(&logits, SamplingParams { temperature, top_k: 2, ..plain() }), [1, 3]);
    }
}

#[test]
fn temperature_comes_before_top_p() {
    let logits = from_probabilities(&[0.5, 0.3, 0.2]);
    let at_temperature = |temperature| drawn(&logits, SamplingParams { temperature, top_p: 0.49, ..plain() });
    assert_eq!(at_temperature(1.0), [0]);
    assert_eq!(at_temperature(5.0), [0, 1], "flattened, the first holds 0.37");
}

#[test]
fn top_k_renormalises_before_top_p() {
    let logits = from_probabilities(&[0.4, 0.3, 0.2, 0.1]);
    let params = SamplingParams { top_p: 0.55, ..plain() };
    assert_eq!(drawn(&logits, params.clone()), [0, 1], "0.4 does not reach 0.55");
    assert_eq!(drawn(&logits, SamplingParams { top_k: 2, ..params }), [0], "0.4 / 0.7 does");
}

#[test]
fn top_p_comes_before_min_p() {
    let logits = from_probabilities(&[0.4, 0.3, 0.2, 0.1]);
    let params = SamplingParams { top_p: 0.55, min_p: 0.6, ..plain() };
    assert_eq!(drawn(&logits, params), [0, 1], "renormalised after min-p, the first alone would reach 0.55");
}

#[test]
fn min_p_never_drops_the_likeliest() {
    let logits = [3.0, 3.0, -4.0];
    assert_eq!(drawn(&logits, SamplingParams { min_p: 0.999_999, ..plain() }), [0, 1]);
}

fn with_xtc(threshold: f32) -> SamplingParams {
    SamplingParams { xtc: Some(Xtc { threshold, probability: 1.0 }), ..plain() }
}

#[test]
fn top_choices_give_way_to_the_least_likely_of_them() {
    let first = from_probabilities(&[0.4, 0.35, 0.25]);
    assert_eq!(drawn(&first, with_xtc(0.2)), [2], "all three reach 0.2");
    assert_eq!(drawn(&first, with_xtc(0.3)), [1, 2], "0.35 is the least likely that reaches 0.3");
    let second = from_probabilities(&[0.9, 0.05, 0.03, 0.02]);
    assert_eq!(drawn(&second, with_xtc(0.2)), [0, 1, 2, 3], "one top choice stays");
    assert_eq!(drawn(&first, with_xtc(0.5)), [0, 1, 2], "no top choice");
    assert_eq!(drawn(&from_probabilities(&[0.4, 0.4, 0.2]), with_xtc(0.3)), [0, 1, 2], "equals stay");
}

#[test]
fn greedy_rows_keep_their_likeliest_whatever_xtc_says() {
    let params = SamplingParams { temperature: 0.0, ..with_xtc(0.1) };
    assert_eq!(drawn(&from_probabilities(&[0.6, 0.4]), params), [0]);
}

#[test]
fn min_p_comes_before_top_choices_are_excluded() {
    let logits = from_probabilities(&[0.4, 0.3, 0.2, 0.1]);
    let params = SamplingParams { min_p: 0.6, ..with_xtc(0.42) };
    assert_eq!(drawn(&logits, params), [1], "renormalised after min-p, 0.3 is 0.43 and reaches 0.42");
    let cut = SamplingParams { min_p: 0.6, ..with_xtc(0.25) };
    assert_eq!(drawn(&logits, cut), [1], "0.2 / 0.4 is below min-p, whatever is excluded above it");
}

#[test]
fn noise_comes_after_every_filter() {
    let logits = vec![0.0; 300];
    let params = SamplingParams { top_k: 3, ..plain() };
    assert_eq!(drawn(&logits, params), [0, 1, 2], "noise must not lift a token into the top three");
}

#[test]
fn noise_belongs_to_the_id_and_not_to_the_rank() {
    let logits: Vec<f32> = (0..64).map(|id| ((id * 37) % 64) as f32 / 16.0).collect();
    for position in 0..200 {
        let sampling = at(plain(), 11, position);
        let chosen = sample(&logits, 64, &sampling).unwrap();
        let kept = SamplingParams { top_k: 63, ..plain() };
        let lowest = logits.iter().position(|x| *x == 0.0).unwrap() as TokenId;
        if chosen != lowest {
            let truncated = sample(&logits, 64, &at(kept, 11, position)).unwrap();
            assert_eq!(truncated, chosen, "dropping another token changes nothing");
        }
    }
}

#[test]
fn logprobs_are_of_the_raw_distribution() {
    let logits = [0.1_f32.ln(), 0.2_f32.ln(), 0.2_f32.ln(), 0.5_f32.ln(), 50.0];
    let found = logprobs(&logits, 4, 0, 3).unwrap();
    let close = |a: f32, p: f32| assert!((a - p.ln()).abs() < 1e-6, "{a} for {p}");
    close(found.chosen, 0.1);
    assert_eq!(found.top.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [3, 1, 2], "ties by lowest id");
    for ((_, logprob), p) in found.top.iter().zip([0.5, 0.2, 0.2]) {
        close(*logprob, p);
    }
    assert_eq!(logprobs(&logits, 4, 0, 20).unwrap().top.len(), 4, "padding is no alternative");
}

#[test]
fn logprobs_do_not_see_the_edits_and_the_bias_trace_compares_them() {
    let logits = from_probabilities(&[0.5, 0.3, 0.2]);
    let mask = mask_of(&[1, 2]);
    let sampling = RowSampling { bias: &[(2, 2.0)], mask: Some(&mask), ..RowSampling::GREEDY };
    let chosen = greedy(&logits, sampling).unwrap();
    assert_eq!(chosen, 2);
    let trace = bias_trace(&logits, 3, &sampling, chosen).unwrap();
    assert_eq!(trace.unbiased_likeliest, 1, "the mask counts without the bias too");
    let lifted = 0.2 * 2.0_f32.exp();
    assert!((trace.logprob_with - (lifted / (lifted + 0.3)).ln()).abs() < 1e-6, "{trace:?}");
    assert!((trace.logprob_without - (0.2_f32 / 0.5).ln()).abs() < 1e-6, "{trace:?}");
    assert!((logprobs(&logits, 3, chosen, 0).unwrap().chosen - 0.2_f32.ln()).abs() < 1e-6);
}
