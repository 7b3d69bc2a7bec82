//! Every architecture against mlx-lm, on tiny models: `tests/fixtures/architectures.py`.
//!
//! Prints the largest error of each model for `docs/models.md`:
//! `cargo test -p mlx-backend --test mlx matches_mlx_lm -- --test-threads=1 --nocapture`.

use crate::formula::{Fixture, Prompt};
use crate::starter;
use engine::RequestId;
use engine::backend::{Backend, StepInput};
use mlx_backend::load::Numerics;
use mlx_backend::{LoadOptions, MlxBackend, MlxError};

/// Logits of these models lie within ±10, where one unit in f32's last place is 1e-6: sums of 64 terms in another
/// order differ by some 1e-5 after four layers.
const TOLERANCE: f32 = 1e-4;

/// Where Braid's own kernels sum every row in one order.
const HAS_OWN_KERNELS: bool = cfg!(target_os = "linux");

/// Smaller than a sliding window of the fixtures, and no divisor of it.
const CHUNK_TOKENS: usize = 7;

fn options() -> LoadOptions {
    LoadOptions::new(3, 96)
}

/// Joins a row for `prompt`, read in chunks of `chunk_tokens`; returns its next input.
fn join(backend: &mut MlxBackend, id: u64, prompt: &Prompt, chunk_tokens: usize) -> StepInput {
    let (last, before) = prompt.tokens.split_last().expect("a prompt has a token");
    for chunk in before.chunks(chunk_tokens) {
        backend.prefill(RequestId(id), chunk).expect("prefill runs");
    }
    backend.join(RequestId(id)).expect("join runs");
    StepInput { token: *last, kv_cache_tokens: before.len() as u32 }
}

/// Logits of a batch of these prompts, `[prompt][step][vocab]`: after each prompt and after its decode steps.
fn batch_logits(backend: &mut MlxBackend, prompts: &[Prompt], chunk_tokens: usize) -> Vec<Vec<Vec<f32>>> {
    let mut inputs: Vec<StepInput> =
        prompts.iter().zip(0..).map(|(prompt, id)| join(backend, id, prompt, chunk_tokens)).collect();
    let mut logits = vec![Vec::new(); prompts.len()];
    for step in 0..=prompts[0].decode.len() {
        backend.forward(&inputs).expect("forward runs");
        let ours = backend.probe_logits().expect("logits can be read");
        for (row, ours) in ours.into_iter().enumerate() {
            logits[row].push(ours);
            if let Some(next) = prompts[row].decode.get(step) {
                inputs[row] =
                    StepInput { token: next.token, kv_cache_tokens: inputs[row].kv_cache_tokens + 1 };
            }
        }
    }
    backend.keep_rows(&[]).expect("rows can leave");
    logits
}

/// Largest difference of logits to the fixture's.
fn error(prompts: &[Prompt], logits: &[Vec<Vec<f32>>]) -> f32 {
    let mut largest = 0.0_f32;
    for (prompt, ours) in prompts.iter().zip(logits) {
        let theirs = [&prompt.logits].into_iter().chain(prompt.decode.iter().map(|step| &step.logits));
        for (ours, theirs) in ours.iter().zip(theirs) {
            let difference = starter::largest_difference(ours, theirs);
            // `max` would pass over a NaN.
            assert!(difference.is_finite(), "after {} tokens", prompt.tokens.len());
            largest = largest.max(difference);
        }
    }
    largest
}

fn check(names: &[&str]) {
    for name in names.iter().flat_map(|name| [(*name).to_owned(), format!("{name}_4bit")]) {
        let fixture = Fixture::read(&name);
        let prompts = &fixture.prompts;
        let mut backend = MlxBackend::load(&fixture.write(&name), options())
            .unwrap_or_else(|error| panic!("{name} does not load: {error}"));
        for round in ["as loaded", "as on a GPU"] {
            if round == "as on a GPU" {
                // On a CPU these are other operations: boolean masks, slices, MLX's attention and rotation.
                backend.probe_numerics(Numerics::Checkpoint);
            }
            let mut alone = |chunk_tokens| -> Vec<Vec<Vec<f32>>> {
                prompts
                    .chunks(1)
                    .flat_map(|prompt| batch_logits(&mut backend, prompt, chunk_tokens))
                    .collect()
            };
            let (whole, chunked) = (alone(usize::MAX), alone(CHUNK_TOKENS));
            let ragged = batch_logits(&mut backend, prompts, usize::MAX);
            let errors = [&whole, &chunked, &ragged].map(|logits| error(prompts, logits));
            let [alone, in_chunks, three] = errors;
            println!("{name}, {round}: alone {alone:.1e}, in chunks {in_chunks:.1e}, three rows {three:.1e}");
            assert!(errors.iter().all(|error| *error < TOLERANCE), "{name}, {round}: {errors:?}");
            // No kernel of Braid's takes heads of any width.
            let is_own = HAS_OWN_KERNELS && round == "as loaded" && !name.contains("odd_heads");
            if is_own {
                assert!(whole == chunked, "{name}: the bits do not depend on chunks");
                assert!(whole == ragged, "{name}: the bits do not depend on neighbours");
            }
        }
    }
}

#[test]
fn gemma2_matches_mlx_lm() {
    check(&["gemma2", "gemma2_odd_heads"]);
}

#[test]
fn gemma3_matches_mlx_lm() {
    check(&["gemma3_text", "gemma3"]);
}

#[test]
fn gemma4_matches_mlx_lm() {
    check(&["gemma4_text", "gemma4"]);
}

#[test]
fn gpt_oss_matches_mlx_lm() {
    check(&["gpt_oss"]);
}

#[test]
fn granite_matches_mlx_lm() {
    check(&["granite"]);
}

#[test]
fn phi3_matches_mlx_lm() {
    check(&["phi3", "phi3_longrope"]);
}

#[test]
fn smollm3_matches_mlx_lm() {
    check(&["smollm3"]);
}

#[test]
fn llama_matches_mlx_lm() {
    check(&["llama", "llama_wide_heads", "llama_biases"]);
}

#[test]
fn llama_with_stretched_positions_matches_mlx_lm() {
    check(&["llama_llama3", "llama_linear", "llama_yarn", "llama_dynamic"]);
}

#[test]
fn mistral_matches_mlx_lm() {
    check(&["mistral"]);
}

#[test]
fn olmo2_matches_mlx_lm() {
    check(&["olmo2"]);
}

#[test]
fn qwen2_matches_mlx_lm() {
    check(&["qwen2"]);
}

#[test]
fn qwen3_matches_mlx_lm() {
    check(&["qwen3"]);
}

#[test]
fn qwen3_moe_matches_mlx_lm() {
    check(&["qwen3_moe", "qwen3_moe_unnormed"]);
}

#[test]
fn a_qwen3_file_without_head_norms_is_refused() {
    let mut fixture = Fixture::read("qwen3");
    fixture.tensors.retain(|(name, ..)| !name.contains("k_norm"));
    let refused = MlxBackend::load(&fixture.write("qwen3-incomplete"), options()).err();
    assert!(matches!(refused, Some(MlxError::MissingTensors { count: 3, .. })), "{refused:?}");
}

#[test]
fn layers_that_share_keys_may_come_with_matrices_that_nothing_reads() {
    let mut fixture = Fixture::read("gemma4_text");
    for unread in ["k_proj.weight", "v_proj.weight", "k_norm.weight"] {
        fixture.tensors.push((format!("model.layers.5.self_attn.{unread}"), "matrix".into(), vec![4, 4]));
    }
    MlxBackend::load(&fixture.write("gemma4-unread"), options()).expect("the model loads");
    fixture.tensors.push(("model.layers.5.self_attn.w_proj.weight".into(), "matrix".into(), vec![4, 4]));
    let refused = MlxBackend::load(&fixture.write("gemma4-unread"), options()).err();
    assert!(matches!(refused, Some(MlxError::UnusedTensors { count: 1, .. })), "{refused:?}");
}
