//! The jitter class of `src-tauri/docs/jitter.md`, by teacher forcing: a batch is fed the tokens that each row chose
//! alone, so that one near-tie does not hide everything after it.

use crate::support::{PROMPTS, join, load, prompt};
use engine::{
    TokenId,
    backend::{Backend, StepInput},
};
use mlx_backend::MlxBackend;

const TOKENS: usize = 64;
/// What the class allows.
struct Class {
    /// Largest gap between the two candidates of another choice.
    gap: f32,
    /// Largest change of a chosen token's logprob.
    logprob: f32,
}

impl Class {
    fn of(backend: &MlxBackend) -> Class {
        match backend.facts().compute_dtype.as_str() {
            "f32" => Class { gap: 1e-3, logprob: 1e-3 },
            // Two units in the last place of bf16 from 16 to 32, where logits of a chosen token lie.
            _ => Class { gap: 0.25, logprob: 0.25 },
        }
    }
}

struct Alone {
    prompt: Vec<TokenId>,
    tokens: Vec<TokenId>,
    /// `[TOKENS][vocab]`.
    logits: Vec<Vec<f32>>,
}

/// Where a batch chose another token than the row alone.
struct Flip {
    row: usize,
    position: usize,
    gap: f32,
}

#[derive(Default)]
struct Comparison {
    positions: usize,
    bit_equal: usize,
    flips: Vec<Flip>,
    largest_logprob_change: f32,
}

fn argmax(logits: &[f32]) -> usize {
    let better = |best: usize, id: usize| if logits[id] > logits[best] { id } else { best };
    (0..logits.len()).fold(0, better)
}

fn logprob(logits: &[f32], token: TokenId) -> f32 {
    let largest = f64::from(logits[argmax(logits)]);
    let sum: f64 = logits.iter().map(|x| (f64::from(*x) - largest).exp()).sum();
    (f64::from(logits[token as usize]) - largest - sum.ln()) as f32
}

fn alone(backend: &mut MlxBackend, prompt: Vec<TokenId>) -> Alone {
    let mut input = join(backend, 1, &prompt);
    let (mut tokens, mut all) = (Vec::new(), Vec::new());
    for _ in 0..TOKENS {
        backend.forward(&[input]).unwrap();
        let logits = backend.probe_logits().unwrap().remove(0);
        let token = argmax(&logits) as TokenId;
        input = StepInput { token, kv_cache_tokens: input.kv_cache_tokens + 1 };
        tokens.push(token);
        all.push(logits);
    }
    backend.keep_rows(&[]).unwrap();
    Alone { prompt, tokens, logits: all }
}

fn compare(backend: &mut MlxBackend, rows: &[Alone], comparison: &mut Comparison) {
    let mut inputs: Vec<StepInput> =
        rows.iter().enumerate().map(|(id, row)| join(backend, id as u64, &row.prompt)).collect();
    for position in 0..TOKENS {
        backend.forward(&inputs).unwrap();
        for (row, (together, alone)) in backend.probe_logits().unwrap().iter().zip(rows).enumerate() {
            let (solo, token) = (&alone.logits[position], alone.tokens[position]);
            comparison.positions += 1;
            comparison.bit_equal += usize::from(together == solo);
            let chosen = argmax(together);
            if chosen != token as usize {
                let gap = |logits: &[f32]| (logits[chosen] - logits[token as usize]).abs();
                comparison.flips.push(Flip { row, position, gap: gap(solo).max(gap(together)) });
            }
            let change = (logprob(together, token) - logprob(solo, token)).abs();
            comparison.largest_logprob_change = comparison.largest_logprob_change.max(change);
            inputs[row] = StepInput { token, kv_cache_tokens: inputs[row].kv_cache_tokens + 1 };
        }
    }
    backend.keep_rows(&[]).unwrap();
}

#[test]
fn greedy_rows_of_a_batch_choose_what_they_choose_alone_or_differ_within_the_jitter_class() {
    let (mut backend, tokenizer) = load();
    let class = Class::of(&backend);
    let solo: Vec<Alone> =
        PROMPTS.iter().map(|question| alone(&mut backend, prompt(&tokenizer, question))).collect();
    let mut outside = 0;
    for rows in [2, 4, 8] {
        let mut comparison = Comparison::default();
        // The last group overlaps the one before it, so that every prompt runs in a full batch.
        for start in (0..PROMPTS.len()).step_by(rows) {
            let start = start.min(PROMPTS.len() - rows);
            compare(&mut backend, &solo[start..start + rows], &mut comparison);
        }
        println!(
            "B = {rows}: {} positions, {} with equal bits, {} other choices, logprob of the choice within {:.1e}",
            comparison.positions,
            comparison.bit_equal,
            comparison.flips.len(),
            comparison.largest_logprob_change,
        );
        for flip in &comparison.flips {
            println!("  row {} position {}: gap {:.2e}", flip.row, flip.position, flip.gap);
            outside += usize::from(flip.gap > class.gap);
        }
        outside += usize::from(comparison.largest_logprob_change > class.logprob);
    }
    assert_eq!(outside, 0, "outside the jitter class: a defect");
}
