//! A long prompt beside running chats.

use crate::support::{Chat, PROMPTS};
use engine::{EnginePhase, GateMode, RowPhase, params::SamplingParams};
use std::time::{Duration, Instant};

const LONG_PROMPT_TOKENS: usize = 6000;
/// ENGINE: chunks of 60 ms, and the mean gap grows by half at most. A gap is at most one step and one chunk; twice
/// the budget leaves room for what a shared machine does to a chunk.
const CHUNK: Duration = Duration::from_millis(60);

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
    let (mut alone, mut last) = (Vec::new(), Instant::now());
    for _ in 0..20 {
        chat.engine.step().unwrap();
        alone.push(last.elapsed());
        last = Instant::now();
    }
    let word = "stone ".repeat(LONG_PROMPT_TOKENS - 30);
    let arrived = Instant::now();
    let mut newcomer = chat.ask(&word, SamplingParams { max_tokens: 2, ..params });
    let (mut gaps, mut before, mut chunks, mut most_chunks_in_a_row) = (Vec::new(), steps(&chat), 0_usize, 0);
    let mut since = Instant::now();
    let ttft = loop {
        chat.engine.step().unwrap();
        let now = steps(&chat);
        if now > before {
            gaps.push(since.elapsed());
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
    let mean = |times: &[Duration]| times.iter().sum::<Duration>() / times.len() as u32;
    let (alone, longest) = (mean(&alone), gaps.iter().max().copied().unwrap_or_default());
    println!(
        "step alone {alone:.1?}; while reading: mean gap {:.1?} ({:.2}x), longest {longest:.1?} (bound {:.1?}); \
         newcomer's first token after {ttft:.1?}",
        mean(&gaps),
        mean(&gaps).as_secs_f64() / alone.as_secs_f64(),
        alone + 2 * CHUNK,
    );
    assert!(most_chunks_in_a_row <= 1, "a decode step follows every chunk");
    for answer in &mut running {
        assert!(!answer.read().text.is_empty() && answer.ending.is_none(), "the chats are still running");
    }
}
