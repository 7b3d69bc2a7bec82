//! A row says the same whatever the gate does, whoever is beside it, and whether or not passes are submitted ahead.
//!
//! Every request of a random history is answered alone first, on the plainest path. Then the whole history is run in
//! each mode of the gate, with and without overlap, and with modes that change on the way. All transcripts must be
//! the same, logprobs, forced tokens and bias traces included.

use crate::support::{Answer, Bench, Rng, expected_text};
use engine::{
    EngineConfig, EngineEvent, GateMode, OverlapMode, Reason, TokenLogprobEntry,
    event::TextPart,
    params::{GrammarSource, SamplingParams, Xtc},
    testing::{Answer as Says, Script, thinking_tokenizer},
};
use std::{mem::discriminant, sync::OnceLock, time::Duration};
use text::Tokenizer;

const HISTORIES: u64 = 300;
pub const MODES: [GateMode; 3] = [GateMode::Strict, GateMode::Split, GateMode::Folded];
const OVERLAPS: [OverlapMode; 3] = [OverlapMode::Off, OverlapMode::On, OverlapMode::Adaptive];

pub fn tokenizer() -> Tokenizer {
    static TOKENIZER: OnceLock<Tokenizer> = OnceLock::new();
    TOKENIZER.get_or_init(|| thinking_tokenizer().unwrap()).clone()
}

/// A request of a history.
struct Ask {
    prompt: String,
    params: SamplingParams,
    /// Engine step before which it arrives.
    arrives: usize,
    /// Engine step before which it is cancelled.
    is_cancelled_at: Option<usize>,
}

/// Everything a request was told.
#[derive(Debug, Clone, PartialEq)]
pub struct Transcript {
    pub answer: String,
    pub thinking: String,
    pub tokens: Vec<TokenLogprobEntry>,
    pub ending: String,
}

pub fn transcript(answer: &mut Answer) -> Transcript {
    assert_eq!(answer.endings(), 1, "exactly one terminal event");
    let mut told = Transcript {
        answer: String::new(),
        thinking: String::new(),
        tokens: Vec::new(),
        ending: String::new(),
    };
    for event in &answer.events {
        match event {
            EngineEvent::Text { part: TextPart::Answer, delta, .. } => told.answer.push_str(delta),
            EngineEvent::Text { part: TextPart::Thinking, delta, .. } => told.thinking.push_str(delta),
            EngineEvent::Logprobs { entries } => told.tokens.extend(entries.iter().cloned()),
            EngineEvent::Finished { reason, .. } => told.ending = format!("{reason:?}"),
            EngineEvent::Failed { error, .. } => told.ending = format!("{error:?}"),
            _ => {}
        }
    }
    told
}

pub fn random_script(rng: &mut Rng) -> Script {
    Script {
        answer: Says::Hashed { eos_one_in: rng.pick(&[0, 12, 30]) },
        max_rows: 1 + rng.below(6),
        needed_width: rng.pick(&[0, 0, 256, 1024]),
        prefill_per_token: Duration::from_millis(1),
        step: Duration::from_millis(20),
        ..Script::default()
    }
}

fn random_grammar(rng: &mut Rng) -> Option<GrammarSource> {
    let schema = r#"{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"],"additionalProperties":false}"#;
    rng.pick(&[
        None,
        None,
        None,
        Some(GrammarSource::Regex("[a-f]{2,9}".into())),
        Some(GrammarSource::Regex("(ab|cd|xyz)+".into())),
        Some(GrammarSource::JsonSchema(schema.into())),
    ])
}

pub fn random_params(rng: &mut Rng) -> SamplingParams {
    let logit_bias = match rng.below(4) {
        0 => (0..1 + rng.below(4)).map(|i| (97 + 5 * i as u32, rng.pick(&[-4.0, 1.5, 3.0]))).collect(),
        _ => Vec::new(),
    };
    SamplingParams {
        temperature: rng.pick(&[0.0, 0.7, 1.0, 1.3]),
        top_p: rng.pick(&[1.0, 1.0, 0.9, 0.5]),
        top_k: rng.pick(&[0, 0, 0, 1, 5, 40]),
        min_p: rng.pick(&[0.0, 0.0, 0.05]),
        xtc: rng.pick(&[None, None, Some(Xtc { threshold: 0.05, probability: 0.5 })]),
        repetition_penalty: rng.pick(&[1.0, 1.0, 1.0, 1.3, 0.8]),
        frequency_penalty: rng.pick(&[0.0, 0.0, 0.0, 0.5]),
        presence_penalty: rng.pick(&[0.0, 0.0, 0.0, -0.5]),
        wants_bias_trace: !logit_bias.is_empty() && rng.below(2) == 0,
        logit_bias,
        grammar: random_grammar(rng),
        thinking_budget: rng.pick(&[None, None, Some(0), Some(1), Some(5)]),
        seed: Some(rng.below(1000) as u64),
        max_tokens: 1 + rng.below(24) as u32,
        logprobs: rng.pick(&[None, None, None, Some(0), Some(3)]),
        stop: rng.pick(&[vec![], vec![], vec![], vec!["e".into()], vec!["ab".into(), "q".into()]]),
    }
}

fn random_asks(rng: &mut Rng) -> Vec<Ask> {
    let ask = |_| {
        let letters = (0..1 + rng.below(40)).map(|_| char::from(b'A' + rng.below(26) as u8));
        let mut prompt: String = letters.collect();
        if rng.below(3) == 0 {
            prompt.push_str("<think>\n");
        }
        let arrives = rng.below(30);
        let is_cancelled_at = (rng.below(6) == 0).then(|| arrives + rng.below(30));
        Ask { prompt, params: random_params(rng), arrives, is_cancelled_at }
    };
    (0..5).map(ask).collect()
}

/// What a run showed of itself, so that the test can tell that it tested something.
#[derive(Debug, Default)]
struct Coverage {
    features: Vec<Reason>,
    overlapped_steps: u64,
    replays: u64,
    rows_together: u64,
}

impl Coverage {
    fn note(&mut self, bench: &Bench, answers: &mut [Option<Answer>]) {
        let stats = bench.stats();
        assert_eq!(stats.unplanned_waits, 0, "the gate's plan is what happened");
        self.overlapped_steps += stats.overlapped_steps;
        self.replays += stats.replays;
        for path in answers.iter_mut().flatten().flat_map(Answer::paths) {
            let is_new =
                |reason: &Reason| self.features.iter().all(|f| discriminant(f) != discriminant(reason));
            if path.path == engine::SamplingPath::Fused {
                let new: Vec<_> = path.reasons.iter().copied().filter(is_new).collect();
                self.features.extend(new);
            }
        }
    }
}

/// How a history is run.
#[derive(Debug, Clone, Copy)]
enum Regime {
    Fixed(GateMode, OverlapMode),
    /// Another mode and another overlap every few steps.
    Changing(u64),
}

fn run(script: &Script, asks: &[Ask], regime: Regime, coverage: &mut Coverage) -> Vec<Transcript> {
    let mut bench = Bench::with_config(script.clone(), EngineConfig::new(tokenizer()));
    let mut rng = Rng::new(match regime {
        Regime::Changing(seed) => seed,
        Regime::Fixed(..) => 0,
    });
    if let Regime::Fixed(mode, overlap) = regime {
        bench.engine.set_gate_mode(mode);
        bench.engine.set_overlap(overlap);
    }
    let mut answers: Vec<Option<Answer>> = asks.iter().map(|_| None).collect();
    let last_arrival = asks.iter().map(|ask| ask.arrives).max().unwrap_or(0);
    let mut step = 0;
    while step <= last_arrival || !bench.engine.is_idle() {
        for (ask, answer) in asks.iter().zip(&mut answers) {
            if ask.arrives == step {
                *answer = Some(bench.submit(&ask.prompt, ask.params.clone()));
            }
            if let (true, Some(answer)) = (ask.is_cancelled_at == Some(step), answer.as_ref()) {
                bench.engine.cancel(answer.id);
            }
        }
        if matches!(regime, Regime::Changing(_)) && rng.below(3) == 0 {
            bench.engine.set_gate_mode(rng.pick(&MODES));
            bench.engine.set_overlap(rng.pick(&OVERLAPS));
        }
        bench.steps(1);
        coverage.rows_together = coverage.rows_together.max(bench.stats().batch_rows);
        step += 1;
    }
    coverage.note(&bench, &mut answers);
    assert!(bench.engine.backend().batch().is_empty(), "nothing is left behind");
    answers.iter_mut().map(|answer| transcript(answer.as_mut().expect("all have arrived"))).collect()
}

fn alone(script: &Script, ask: &Ask) -> Transcript {
    let mut bench = Bench::with_config(script.clone(), EngineConfig::new(tokenizer()));
    bench.engine.set_gate_mode(GateMode::Strict);
    bench.engine.set_overlap(OverlapMode::Off);
    let mut answer = bench.submit(&ask.prompt, ask.params.clone());
    bench.run();
    transcript(&mut answer)
}

/// Whether `expected_text` can say what the request answers: it knows neither grammars nor thinking.
fn is_plain(ask: &Ask) -> bool {
    ask.params.grammar.is_none() && !ask.prompt.contains("<think>")
}

/// Characters at the end of a cancelled text that were held back when the cancel came: they might have become a stop
/// sequence or a tag.
const HELD_CHARS: usize = 12;

fn is_beginning(of: &str, told: &str) -> bool {
    let common = told.chars().zip(of.chars()).take_while(|(a, b)| a == b).count();
    told.chars().count() <= common + HELD_CHARS
}

fn check(told: &Transcript, alone: &Transcript, what: &str) {
    if told.ending == "Cancelled" {
        assert!(is_beginning(&alone.answer, &told.answer), "{what}: {told:?} of {alone:?}");
        assert!(is_beginning(&alone.thinking, &told.thinking), "{what}: {told:?} of {alone:?}");
        assert!(alone.tokens.starts_with(&told.tokens), "{what}: {told:?} of {alone:?}");
    } else {
        assert_eq!(told, alone, "{what}");
    }
}

#[test]
fn strict_split_and_folded_say_what_each_row_says_alone() {
    let mut coverage = Coverage::default();
    for seed in 0..HISTORIES {
        let mut rng = Rng::new(seed);
        let script = random_script(&mut rng);
        let asks = random_asks(&mut rng);
        let alone: Vec<_> = asks.iter().map(|ask| alone(&script, ask)).collect();
        for (ask, alone) in asks.iter().zip(&alone).filter(|(ask, _)| is_plain(ask)) {
            assert_eq!(alone.answer, expected_text(&script, &ask.prompt, &ask.params), "history {seed}");
        }
        let fixed = MODES.map(|mode| Regime::Fixed(mode, rng.pick(&OVERLAPS)));
        for regime in fixed.into_iter().chain([Regime::Changing(seed)]) {
            let told = run(&script, &asks, regime, &mut coverage);
            for (index, (told, alone)) in told.iter().zip(&alone).enumerate() {
                check(told, alone, &format!("history {seed}, request {index}, {regime:?}"));
            }
        }
    }
    for feature in [
        Reason::StructuredMask,
        Reason::ThinkingOverride,
        Reason::Logprobs(0),
        Reason::TokenBias,
        Reason::BiasTrace,
        Reason::HistoryPenalty,
    ] {
        let has_ridden = coverage.features.iter().any(|seen| discriminant(seen) == discriminant(&feature));
        assert!(has_ridden, "{feature:?} never rode in a fused graph");
    }
    assert!(coverage.overlapped_steps > 1000 && coverage.replays > 50, "{coverage:?}");
    assert!(coverage.rows_together > 3, "{coverage:?}");
}
