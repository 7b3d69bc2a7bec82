//! A row in a batch computes what it computes alone, and what mlx-lm computes.

use crate::starter::{self, largest_difference};
use engine::backend::RowSampling;
use engine::backend::{Backend, StepInput};
use serde::Deserialize;

#[derive(Deserialize)]
struct Fixture {
    text: String,
    tokens: Vec<u32>,
    ids: Vec<usize>,
    logits: Vec<f32>,
    greedy: Vec<u32>,
}

#[test]
fn logits_and_greedy_tokens_match_mlx_lm() {
    let fixtures: Vec<Fixture> =
        serde_json::from_str(include_str!("../fixtures/smollm2_logits.json")).expect("the fixture parses");
    let mut backend = starter::load();
    for (id, fixture) in fixtures.iter().enumerate() {
        let mut input = starter::join(&mut backend, id as u64, &fixture.tokens);
        let mut tokens = Vec::new();
        for step in 0..fixture.greedy.len() {
            backend.forward(&[input]).expect("forward runs");
            if step == 0 {
                let logits = &backend.probe_logits().expect("logits can be read")[0];
                let ours: Vec<f32> = fixture.ids.iter().map(|id| logits[*id]).collect();
                let difference = largest_difference(&ours, &fixture.logits);
                assert!(difference < 1e-3, "{}: {difference}", fixture.text);
                println!("{}: largest difference to mlx-lm {difference:e}", fixture.text);
            }
            let sampled = starter::sample_fused(&mut backend, &[0], &[RowSampling::GREEDY]);
            let token = *sampled[0].token.as_ref().expect("the row is good");
            tokens.push(token);
            input = StepInput { token, kv_cache_tokens: input.kv_cache_tokens + 1 };
        }
        assert_eq!(tokens, fixture.greedy, "{}", fixture.text);
        backend.keep_rows(&[]).expect("the row leaves");
    }
}

/// Logits of `steps` teacher-forced decode steps of each prompt, together or alone.
fn forced_logits(prompts: &[Vec<u32>], steps: u32) -> Vec<Vec<Vec<f32>>> {
    let mut backend = starter::load();
    let mut inputs: Vec<StepInput> = prompts
        .iter()
        .enumerate()
        .map(|(id, prompt)| starter::join(&mut backend, id as u64, prompt))
        .collect();
    (0..steps)
        .map(|step| {
            backend.forward(&inputs).expect("forward runs");
            for input in &mut inputs {
                *input = StepInput { token: 2000 + 31 * step, kv_cache_tokens: input.kv_cache_tokens + 1 };
            }
            backend.probe_logits().expect("logits can be read")
        })
        .collect()
}

#[test]
fn rows_of_different_lengths_give_the_logits_they_give_alone() {
    // 5, 11, 1 and 20 tokens; 300 crosses the first growth of the KV cache, 62 a visible-width step.
    let prompts: Vec<Vec<u32>> =
        [5, 11, 1, 20, 300, 62].iter().zip(0..).map(|(len, salt)| starter::prompt(*len, salt)).collect();
    let together = forced_logits(&prompts, 4);
    for (row, prompt) in prompts.iter().enumerate() {
        let alone = forced_logits(std::slice::from_ref(prompt), 4);
        for step in 0..4 {
            let difference = largest_difference(&together[step][row], &alone[step][0]);
            // f32 sums in another order: 1e-4 on logits of magnitude 20 is about 50 ulp.
            assert!(difference < 1e-4, "row {row} of {} tokens, step {step}: {difference}", prompt.len());
        }
    }
}

#[test]
fn a_leaving_row_does_not_change_its_neighbours() {
    let prompts: Vec<Vec<u32>> = (0..3).map(|salt| starter::prompt(9 + salt as usize, salt)).collect();
    let mut backend = starter::load();
    let inputs: Vec<StepInput> = prompts
        .iter()
        .enumerate()
        .map(|(id, prompt)| starter::join(&mut backend, id as u64, prompt))
        .collect();
    backend.forward(&inputs).expect("forward runs");
    let before = backend.probe_logits().expect("logits can be read");
    backend.keep_rows(&[0, 2]).expect("row 1 leaves");
    let late = starter::join(&mut backend, 9, &prompts[1]);
    // The same tokens at the same columns again: the rewrite is idempotent.
    backend.forward(&[inputs[0], inputs[2], late]).expect("forward runs");
    let after = backend.probe_logits().expect("logits can be read");
    for (row, original) in [(0, 0), (1, 2), (2, 1)] {
        assert!(largest_difference(&after[row], &before[original]) < 1e-4, "row {row} was row {original}");
    }
}

#[test]
fn chunked_prefill_gives_the_logits_of_a_whole_one() {
    let mut backend = starter::load();
    for (len, chunks) in [(70, &[1, 32][..]), (530, &[512])] {
        let prompt = starter::prompt(len, 3);
        let (last, before) = prompt.split_last().expect("a prompt has a token");
        let mut logits_in_chunks = |chunk: usize| {
            backend.keep_rows(&[]).expect("the batch empties");
            for tokens in before.chunks(chunk) {
                backend.prefill(engine::RequestId(1), tokens).expect("prefill runs");
            }
            backend.join(engine::RequestId(1)).expect("join runs");
            let input = StepInput { token: *last, kv_cache_tokens: before.len() as u32 };
            backend.forward(&[input]).expect("forward runs");
            backend.probe_logits().expect("logits can be read").remove(0)
        };
        let whole = logits_in_chunks(before.len());
        for chunk in chunks {
            let difference = largest_difference(&logits_in_chunks(*chunk), &whole);
            // f32 sums over other shapes; hundreds of positions of 30 layers add up.
            assert!(difference < 5e-4, "{len} tokens in chunks of {chunk}: {difference}");
        }
    }
}
