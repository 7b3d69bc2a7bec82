//! The scans of the CPU against MLX's operations: the same tokens, whatever the rows ask for.

use super::settings::{Settings, random_settings};
use super::{Dice, array, random_logits, row};
use engine::backend::{RowSampling, Sampled};
use engine::sampling::noise::row_base;
use mlx_backend::mx::scan;
use mlx_backend::sampling::fused::Sampler;
use mlx_backend::sampling::rows::Form;

fn both(vocab: u32, known: u32) -> Option<[Sampler; 2]> {
    let build = |form| Sampler::in_form(form, vocab, known).expect("the sampler builds");
    scan::is_available().then(|| [Form::Operations, Form::Scans].map(build))
}

/// Equal in all but the last bits of log-probabilities: the sums run in another order.
fn assert_same(ours: &Sampled, theirs: &Sampled, at: &str) {
    assert_eq!(ours.token, theirs.token, "{at}");
    assert_eq!(ours.shortlist_width, theirs.shortlist_width, "{at}");
    let close = |a: f32, b: f32| (a - b).abs() < 1e-4 || a == b;
    assert_eq!(ours.logprobs.is_some(), theirs.logprobs.is_some(), "{at}");
    if let (Some(ours), Some(theirs)) = (&ours.logprobs, &theirs.logprobs) {
        assert!(close(ours.chosen, theirs.chosen), "{at}: {ours:?}, {theirs:?}");
        assert_eq!(ours.top.len(), theirs.top.len(), "{at}");
        for (one, other) in ours.top.iter().zip(&theirs.top) {
            assert!(one.0 == other.0 && close(one.1, other.1), "{at}: {one:?}, {other:?}");
        }
    }
}

#[test]
fn scans_sample_what_operations_sample() {
    let mut dice = Dice(2026);
    for (vocab, known, rounds) in [(5, 5, 40), (257, 200, 60), (3001, 2900, 60), (49_152, 49_152, 6)] {
        let Some([operations, scans]) = both(vocab, known) else { return };
        for round in 0..rounds {
            let logits: Vec<Vec<f32>> = (0..3).map(|_| random_logits(&mut dice, vocab as usize)).collect();
            let settings: Vec<Settings> = (0..3).map(|_| random_settings(&mut dice, vocab, known)).collect();
            let rows: Vec<RowSampling<'_>> = settings.iter().map(Settings::lend).collect();
            let ours = scans.sample(&array(&logits), &rows).expect("sampling runs");
            let theirs = operations.sample(&array(&logits), &rows).expect("sampling runs");
            for (b, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
                assert_same(ours, theirs, &format!("{vocab} ids, round {round}, {:?}", rows[b]));
            }
        }
    }
}

#[test]
fn scans_agree_on_rows_of_ties_zeros_and_infinities() {
    let vocab = 1100;
    let Some([operations, scans]) = both(vocab, vocab) else { return };
    let wide = vocab as usize;
    let signed_zeros: Vec<f32> = (0..wide).map(|id| if id % 2 == 0 { -0.0 } else { 0.0 }).collect();
    let mut lonely = vec![f32::NEG_INFINITY; wide];
    lonely[1099] = -3.0e38;
    let mut nearly_bad = vec![-1.0; wide];
    nearly_bad[4] = 3.0e38;
    let logits = [vec![0.0; wide], signed_zeros, lonely, nearly_bad, vec![f32::NEG_INFINITY; wide]];
    for position in 0..30 {
        let base = row_base(4, position);
        for settings in [
            row(1.0, 0, 1.0, 0.0, base),
            row(1.0, 0, 1.0, 0.2, base),
            row(1.0, 7, 1.0, 0.0, base),
            row(0.3, 0, 0.9, 0.0, base),
            row(1.0, 1024, 0.5, 0.0, base),
        ] {
            let rows = [RowSampling { logprobs: Some(4), ..settings }; 5];
            let ours = scans.sample(&array(&logits), &rows).expect("sampling runs");
            let theirs = operations.sample(&array(&logits), &rows).expect("sampling runs");
            for (b, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
                assert_same(ours, theirs, &format!("row {b}, {settings:?}"));
            }
        }
    }
}
