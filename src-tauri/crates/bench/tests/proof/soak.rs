//! Rows come, go and are cancelled for a long time; nothing grows and nothing drifts.

use crate::support::{Answer, Chat, MODES, OWNER, PROMPTS};
use engine::{
    EnginePhase,
    params::{GrammarSource, SamplingParams},
};

/// Tokens in all; `BRAID_SOAK_TOKENS` asks for more than the default, which is for every day.
fn tokens() -> u64 {
    std::env::var("BRAID_SOAK_TOKENS").ok().and_then(|tokens| tokens.parse().ok()).unwrap_or(2_000)
}

const ROWS: usize = 8;
/// Tokens between two looks at an idle engine.
const LAP_TOKENS: u64 = 1_000;

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn random_params(dice: &mut Dice) -> SamplingParams {
    let grammar = (dice.below(8) == 0).then(|| GrammarSource::Regex("[a-z ]{5,40}".into()));
    SamplingParams {
        temperature: [0.0, 0.7, 1.0][dice.below(3) as usize],
        top_p: [1.0, 0.9][dice.below(2) as usize],
        top_k: [0, 40][dice.below(2) as usize],
        repetition_penalty: [1.0, 1.1][dice.below(2) as usize],
        logit_bias: if dice.below(4) == 0 { vec![(dice.below(40_000) as u32, 2.0)] } else { Vec::new() },
        logprobs: (dice.below(4) == 0).then_some(3),
        seed: Some(dice.below(1 << 40)),
        max_tokens: 8 + dice.below(120) as u32,
        grammar,
        ..SamplingParams::default()
    }
}

/// What a fixed request says; it must say the same on every lap. It leaves no snapshot, and its waits outlast every copy
/// that was submitted before it.
fn probe(chat: &mut Chat) -> String {
    let params =
        SamplingParams { temperature: 0.9, seed: Some(42), max_tokens: 24, ..SamplingParams::default() };
    let mut answer = chat.ask_for(None, PROMPTS[8], params);
    chat.run();
    answer.read().text.clone()
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * 4096
}

#[test]
fn rows_that_come_and_go_leave_no_memory_behind_and_change_no_token() {
    let mut chat = Chat::load();
    let mut dice = Dice(7);
    let first = probe(&mut chat);
    let (mut done, mut cancelled, mut answers) = (0_u64, 0, Vec::<Answer>::new());
    let mut idle_bytes = Vec::new();
    let mut next_lap = LAP_TOKENS;
    let mut before = chat.engine.snapshot(EnginePhase::Ready).steps.decode_steps;
    while done < tokens() {
        while answers.len() < ROWS {
            let question = PROMPTS[dice.below(PROMPTS.len() as u64) as usize];
            answers.push(chat.ask(question, random_params(&mut dice)));
        }
        chat.engine.step().unwrap();
        let steps = chat.engine.snapshot(EnginePhase::Ready).steps;
        if steps.decode_steps > before {
            done += steps.batch_rows;
            before = steps.decode_steps;
        }
        if dice.below(200) == 0 {
            let victim = dice.below(answers.len() as u64) as usize;
            // A dropped receiver is a cancel.
            drop(answers.swap_remove(victim));
            cancelled += 1;
        }
        if dice.below(500) == 0 {
            chat.engine.set_gate_mode(MODES[dice.below(3) as usize]);
        }
        answers.retain_mut(|answer| match &answer.read().ending {
            Some(Err(error)) => panic!("a row failed: {error}"),
            ending => ending.is_none(),
        });
        if done >= next_lap {
            next_lap += LAP_TOKENS;
            chat.run();
            answers.clear();
            chat.engine.forget(OWNER);
            assert_eq!(probe(&mut chat), first, "after {done} tokens a fixed request says something else");
            let memory = chat.engine.snapshot(EnginePhase::Ready).memory.unwrap();
            idle_bytes.push(memory.active_bytes);
            println!(
                "{done} tokens, {cancelled} cancelled: active {} bytes, resident {} MiB",
                memory.active_bytes,
                resident_bytes() >> 20
            );
        }
    }
    let stats = chat.engine.snapshot(EnginePhase::Ready).steps;
    assert_eq!(stats.unplanned_waits, 0, "the gate's plan is what happened");
    assert!(idle_bytes.windows(2).all(|pair| pair[0] == pair[1]), "an idle engine grew: {idle_bytes:?}");
}
