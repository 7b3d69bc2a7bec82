//! Bias, penalties and seeds of a row.

use std::sync::Arc;

use crate::support::{Bench, params, request};
use engine::{
    EngineError, EngineEvent, GateMode,
    params::{SamplingParams, Xtc},
    testing::{Answer, FakeRow, Script},
};

/// Always the same wish: a, then b, then c, then d.
fn wishes() -> Script {
    let logits = |_: &FakeRow| {
        let mut logits = vec![-40.0; 272];
        for (letter, logit) in [(b'a', 2.0), (b'b', 1.5), (b'c', 1.0), (b'd', 0.5)] {
            logits[usize::from(letter)] = logit;
        }
        logits
    };
    Script { answer: Answer::Custom(Arc::new(logits)), ..Script::default() }
}

fn greedy(max_tokens: u32) -> SamplingParams {
    SamplingParams { temperature: 0.0, max_tokens, ..params() }
}

fn say(prompt: &str, params: SamplingParams) -> String {
    let mut texts = [GateMode::Strict, GateMode::Split, GateMode::Folded].map(|mode| {
        let mut bench = Bench::new(wishes());
        bench.engine.set_gate_mode(mode);
        let mut answer = bench.submit(prompt, params.clone());
        let mut neighbour = bench.submit("p", greedy(6));
        bench.run();
        assert_eq!(neighbour.read().text, "aaaaaa", "{mode:?}");
        answer.read().text.clone()
    });
    assert!(texts[0] == texts[1] && texts[1] == texts[2], "{texts:?}");
    std::mem::take(&mut texts[0])
}

#[test]
fn penalties_count_what_the_row_said_and_what_its_prompt_held() {
    assert_eq!(say("p", greedy(4)), "aaaa");
    let presence = SamplingParams { presence_penalty: 2.0, ..greedy(5) };
    assert_eq!(say("p", presence.clone()), "abcda", "each once lowers it below the next");
    assert_eq!(say("abc", presence), "abcda", "the prompt is no answer");
    let frequency = SamplingParams { frequency_penalty: 0.6, ..greedy(6) };
    assert_eq!(say("p", frequency), "abacba", "2.0, 1.5, 1.4, 1.0, 0.9, 0.8");
    let repetition = SamplingParams { repetition_penalty: 5.0, ..greedy(4) };
    assert_eq!(say("p", repetition.clone()), "abcd");
    assert_eq!(say("ab", repetition), "cdaa", "the prompt counts, and counts once");
}

#[test]
fn bias_adds_to_its_tokens_and_tells_what_it_changed() {
    let bias = |value| SamplingParams { logit_bias: vec![(u32::from(b'c'), value)], ..greedy(3) };
    assert_eq!((say("p", bias(0.9)), say("p", bias(1.1))), ("aaa".into(), "ccc".into()));
    let mut bench = Bench::new(wishes());
    let mut answer = bench.submit("p", SamplingParams { wants_bias_trace: true, ..bias(1.1) });
    bench.run();
    let traces: Vec<_> = answer
        .read()
        .events
        .iter()
        .flat_map(|event| match event {
            EngineEvent::Logprobs { entries } => entries.clone(),
            _ => Vec::new(),
        })
        .collect();
    assert_eq!(traces.len(), 3);
    for entry in traces {
        let trace = entry.bias_trace.unwrap();
        assert_eq!((trace.unbiased_likeliest, entry.token), (u32::from(b'a'), u32::from(b'c')));
        assert!(trace.logprob_with > trace.logprob_without && entry.logprobs.is_none());
    }
}

#[test]
fn a_biased_token_that_the_tokenizer_lacks_is_refused() {
    let mut bench = Bench::new(wishes());
    let padding = SamplingParams { logit_bias: vec![(259, 1.0)], ..greedy(1) }.validate().unwrap();
    let refused = bench.engine.submit(request("p", padding, &bench.clock)).unwrap_err();
    assert!(matches!(refused, EngineError::UnknownToken { token: 259, vocab_width: 259 }));
}

#[test]
fn the_same_seed_gives_the_same_answer_again_and_another_seed_another() {
    let script = || Script { answer: Answer::Hashed { eos_one_in: 0 }, ..Script::default() };
    let xtc = Some(Xtc { threshold: 0.05, probability: 0.5 });
    let sampled = |seed| SamplingParams { xtc, max_tokens: 40, seed: Some(seed), ..params() };
    let run = |seed, neighbours| {
        let mut bench = Bench::new(script());
        for other in 0..neighbours {
            let _ = bench.submit(&format!("other {other}"), sampled(90 + other));
        }
        let mut answer = bench.submit("again", sampled(seed));
        bench.run();
        answer.finished();
        answer.text
    };
    let first = run(11, 0);
    assert_eq!((&run(11, 0), &run(11, 3)), (&first, &first));
    assert_ne!(run(12, 0), first);
    let plain = SamplingParams { xtc: None, ..sampled(11) };
    let mut bench = Bench::new(script());
    let mut without = bench.submit("again", plain);
    bench.run();
    assert_ne!(without.read().text, first, "XTC takes part");
}
