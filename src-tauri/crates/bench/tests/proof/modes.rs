//! The engine on the starter model says the same in every mode of the gate, with and without overlap.
//!
//! Prompts of one token join together, so that every run makes the same forward passes and only the sampling differs.

use crate::support::load;
use engine::{
    EngineConfig, EngineEvent, EnginePhase, EventReceiver, GateMode, NewRequest, OverlapMode, StepStats,
    clock::SystemClock,
    engine::Engine,
    params::{GrammarSource, SamplingParams, Xtc},
};
use mlx_backend::MlxBackend;
use std::{sync::Arc, time::Instant};

const TOKENS: u32 = 24;
const SCHEMA: &str = r#"{"type": "array", "items": {"type": "integer"}, "minItems": 9}"#;

fn rows() -> Vec<SamplingParams> {
    let plain = SamplingParams { seed: Some(11), max_tokens: TOKENS, ..SamplingParams::default() };
    vec![
        SamplingParams { temperature: 0.0, ..plain.clone() },
        SamplingParams { temperature: 0.7, top_p: 0.9, seed: Some(12), ..plain.clone() },
        SamplingParams { top_k: 40, logprobs: Some(3), ..plain.clone() },
        SamplingParams {
            logit_bias: vec![(260, 4.0), (284, -8.0)],
            wants_bias_trace: true,
            repetition_penalty: 1.2,
            frequency_penalty: 0.3,
            ..plain.clone()
        },
        SamplingParams { xtc: Some(Xtc { threshold: 0.1, probability: 0.5 }), min_p: 0.05, ..plain.clone() },
        SamplingParams { grammar: Some(GrammarSource::JsonSchema(SCHEMA.into())), ..plain },
    ]
}

fn text_of(receiver: &mut EventReceiver) -> String {
    let delta = |event| match event {
        EngineEvent::Text { delta, .. } => Some(delta),
        EngineEvent::Failed { error, .. } => panic!("a row failed: {error}"),
        _ => None,
    };
    receiver.try_drain().into_iter().filter_map(delta).collect()
}

/// Answers of all rows, and what the steps were.
fn run(engine: &mut Engine<MlxBackend>, mode: GateMode, overlap: OverlapMode) -> (Vec<String>, StepStats) {
    engine.set_gate_mode(mode);
    engine.set_overlap(overlap);
    let submit = |(token, params): (u32, SamplingParams)| {
        let params = params.validate().unwrap();
        let request = NewRequest {
            prompt: vec![token],
            answer_so_far: Vec::new(),
            params,
            arrived_at: Instant::now(),
            owner: None,
        };
        engine.submit(request).unwrap().1
    };
    let mut receivers: Vec<_> = (504..).zip(rows()).map(submit).collect();
    while !engine.is_idle() {
        engine.step().unwrap();
    }
    (receivers.iter_mut().map(text_of).collect(), engine.snapshot(EnginePhase::Ready).steps)
}

#[test]
fn neither_the_gate_nor_overlap_changes_a_word_of_the_starter_model() {
    let (backend, tokenizer) = load();
    let mut engine = Engine::new(EngineConfig::new(tokenizer), backend, Arc::new(SystemClock));
    let (expected, _) = run(&mut engine, GateMode::Strict, OverlapMode::Off);
    assert!(expected.iter().all(|text| text.len() > 20), "{expected:?}");
    let before = engine.counters();
    for mode in [GateMode::Split, GateMode::Folded] {
        for overlap in [OverlapMode::Off, OverlapMode::On, OverlapMode::Adaptive] {
            let (found, stats) = run(&mut engine, mode, overlap);
            assert_eq!(found, expected, "{mode:?}, {overlap:?}");
            assert_eq!(stats.unplanned_waits, 0, "{mode:?}, {overlap:?}");
        }
    }
    let counted = engine.counters().since(before);
    println!(
        "{} forward passes ahead, {} of them still running after the read, {} replays",
        counted.forwards_ahead,
        counted.forwards_overlapped,
        engine.snapshot(EnginePhase::Ready).steps.replays
    );
    assert!(counted.forwards_ahead >= u64::from(TOKENS) - 2, "Folded with overlap submitted ahead");
}
