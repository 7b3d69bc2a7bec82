//! A long prompt beside running chats.

use crate::support::{Chat, PROMPTS};
use engine::{EnginePhase, GateMode, RowPhase, params::SamplingParams};
use std::time::{Duration, Instant};

const LONG_PROMPT_TOKENS: usize = 6000;
/// Greedy, and never ending by itself.
fn endless(chat: &Chat, max_tokens: u32) -> SamplingParams {
    let logit_bias = chat.tokenizer.eos_ids().iter().map(|id| (*id, -100.0)).collect();
    SamplingParams { temperature: 0.0, max_tokens, logit_bias, ..SamplingParams::default() }
}

/// Times are printed; only what does not depend on the machine's speed is asserted.
#[test]
fn three_chats_go_on_while_a_prompt_of_6000_tokens_is_read() {
    let mut chat = Chat::load();
    // The bias rides in the fused graph.
    chat.engine.set_gate_mode(GateMode::Folded);
    let params = endless(&chat, 8000);
    let mut running: Vec<_> =
        PROMPTS[1..4].iter().map(|question| chat.ask(question, params.clone())).collect();
    let decoding = |chat: &Chat| {
        let rows = chat.engine.snapshot(EnginePhase::Ready).rows;
        rows.iter().filter(|row| row.phase == RowPhase::Decoding).count()
    };
    while decoding(&chat) < 3 {
        chat.engine.step().unwrap();
    }
    let steps = |chat: &Chat| chat.engine.snapshot(EnginePhase::Ready).steps.decode_steps;
    let word = "stone ".repeat(LONG_PROMPT_TOKENS - 30);
    let arrived = Instant::now();
    let mut newcomer = chat.ask(&word, SamplingParams { max_tokens: 2, ..params });
    let (mut before, mut since, mut chunks, mut most_chunks_in_a_row) =
        (steps(&chat), Instant::now(), 0_usize, 0);
    // Gaps between two decode steps, with and without a chunk between them.
    let (mut plain, mut shared) = (Vec::new(), Vec::new());
    let mut joined = Duration::ZERO;
    let ttft = loop {
        let was_decoding = decoding(&chat);
        chat.engine.step().unwrap();
        let now = steps(&chat);
        if now > before {
            match (decoding(&chat) > was_decoding, chunks) {
                // The step that took the newcomer in copied the batch's KV cache.
                (true, _) => joined = since.elapsed(),
                (false, 0) => plain.push(since.elapsed()),
                (false, _) => shared.push(since.elapsed()),
            }
            (since, before) = (Instant::now(), now);
            most_chunks_in_a_row = most_chunks_in_a_row.max(chunks);
            chunks = 0;
        } else {
            chunks += 1;
        }
        if !newcomer.read().text.is_empty() || newcomer.ending.is_some() {
            break arrived.elapsed();
        }
    };
    let mean = |times: &[Duration]| times.iter().sum::<Duration>() / times.len().max(1) as u32;
    let all: Vec<Duration> = plain.iter().chain(&shared).copied().collect();
    println!(
        "mean gap of the three {:.1?}, without chunks {:.1?}: {:.2}x; longest {:.0?}, with {} chunks of {:.0?} each; \
         {joined:.0?} where the newcomer joined; its first token after {ttft:.1?}",
        mean(&all),
        mean(&plain),
        mean(&all).as_secs_f64() / mean(&plain).as_secs_f64(),
        all.iter().max().copied().unwrap_or_default(),
        shared.len(),
        mean(&shared).saturating_sub(mean(&plain)),
    );
    assert!(most_chunks_in_a_row <= 1, "a decode step follows every chunk");
    assert!(plain.len() >= shared.len(), "chunks leave room for decode steps");
    for answer in &mut running {
        assert!(!answer.read().text.is_empty() && answer.ending.is_none(), "the chats are still running");
    }
}
