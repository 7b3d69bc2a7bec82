//! B chats that decode together, through the engine's own step.

use crate::case::{Arm, Case, MAX_ROWS};
use crate::measured::Measured;
use crate::prompts::Prompts;
use anyhow::{Context, Result, anyhow, bail};
use engine::backend::Counters;
use engine::clock::SystemClock;
use engine::engine::Engine;
use engine::gate::ForcedReference;
use engine::params::{GrammarSource, SamplingParams};
use engine::{EngineConfig, EngineEvent, EnginePhase, EventReceiver, NewRequest};
use mlx_backend::{LoadOptions, MlxBackend};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use text::Tokenizer;

/// Steps left out at the start of a trial.
const WARM_UP_STEPS: usize = 2;

/// Fewest steps that make a trial.
const MIN_STEPS: usize = 6;

/// An answer without an end in sight: a model that may write anything writes it until its row is dropped.
const SCHEMA: &str = r#"{"type": "array", "minItems": 10000, "items": {"type": "object",
    "properties": {"name": {"type": "string"}, "size": {"enum": ["small", "medium", "large"]}},
    "required": ["name", "size"], "additionalProperties": false}}"#;

/// The engine under test.
pub struct Bench<'a> {
    engine: Engine<MlxBackend>,
    prompts: &'a Prompts,
}

/// Loads a model folder as the app does.
pub fn load(model: &Path) -> Result<(MlxBackend, Tokenizer)> {
    let tokenizer = Tokenizer::from_dir(model).context("cannot load the tokenizer")?;
    let options = LoadOptions::new(MAX_ROWS, tokenizer.vocab_tokens() as u32);
    let backend = MlxBackend::load(model, options).context("cannot load the model")?;
    Ok((backend, tokenizer))
}

impl<'a> Bench<'a> {
    /// Wraps a loaded model.
    pub fn new(backend: MlxBackend, tokenizer: Tokenizer, prompts: &'a Prompts) -> Bench<'a> {
        let config = EngineConfig::new(tokenizer);
        Bench { engine: Engine::new(config, backend, Arc::new(SystemClock)), prompts }
    }

    /// Runs one case until `tokens` steps with all rows were measured, or a row ended by itself.
    ///
    /// # Errors
    /// If a row failed, too few steps had all rows, or the engine waited when the gate had not planned it.
    pub fn run(&mut self, case: Case, arm: Arm, tokens: u32) -> Result<Measured> {
        let Some((gate, overlap)) = arm.modes() else { bail!("{} is not run by the engine", arm.name()) };
        self.engine.set_gate_mode(gate);
        self.engine.set_overlap(overlap);
        let is_strict = arm == Arm::Strict;
        self.engine.set_forced_reference(if is_strict { ForcedReference::On } else { ForcedReference::Off });
        let mut receivers = Vec::with_capacity(case.batch);
        for row in 0..case.batch {
            receivers.push(self.submit(case, row, tokens)?);
        }
        self.engine.forget_steps();
        let steps = WARM_UP_STEPS + tokens as usize;
        let mut recorder = Recorder::default();
        let mut stats = None;
        while !self.engine.is_idle() {
            let before = self.engine.counters();
            let started = Instant::now();
            self.engine.step()?;
            let ended = Instant::now();
            let counted = self.engine.counters().since(before);
            let now = self.engine.snapshot(EnginePhase::Ready).steps;
            if counted.waits == 0 || now.batch_rows as usize != case.batch {
                recorder.previous_end = None;
                continue;
            }
            recorder.record(started, ended, counted);
            stats = Some(now);
            if recorder.step_ms.len() == steps {
                // A dropped receiver is a cancel.
                receivers.clear();
            }
        }
        receivers.iter_mut().try_for_each(refuse_failure)?;
        recorder.check_waits(case, arm)?;
        let measured = recorder.step_ms.len();
        let Some(stats) = stats.filter(|_| measured >= WARM_UP_STEPS + MIN_STEPS) else {
            bail!("only {measured} steps had all {} rows: ask for more --tokens", case.batch);
        };
        if stats.unplanned_waits > 0 {
            bail!("{}: {} steps waited as the gate had not planned", arm.name(), stats.unplanned_waits);
        }
        Ok(Measured::of_engine(
            recorder.step_ms.split_off(WARM_UP_STEPS),
            recorder.gaps_ms,
            recorder.totals,
            &stats,
        ))
    }

    fn submit(&mut self, case: Case, row: usize, tokens: u32) -> Result<EventReceiver> {
        let (temperature, top_p) = case.sampling.values();
        let params = SamplingParams {
            temperature,
            top_p,
            grammar: case.sampling.has_grammar(row).then(|| GrammarSource::JsonSchema(SCHEMA.into())),
            seed: Some(row as u64 + 1),
            // Room for the rows that started early to wait for the last.
            max_tokens: tokens * (case.batch as u32 + 1) + 64,
            logprobs: case.logprobs,
            ..SamplingParams::default()
        };
        let request = NewRequest {
            prompt: self.prompts.of_row(row)?,
            answer_so_far: Vec::new(),
            params: params.validate()?,
            owner: None,
            arrived_at: Instant::now(),
        };
        Ok(self.engine.submit(request)?.1)
    }
}

#[derive(Default)]
struct Recorder {
    step_ms: Vec<f64>,
    /// Gaps between the ends of consecutive steps. Rows of a batch get their tokens together, so the gap of one is
    /// the gap of all.
    gaps_ms: Vec<f64>,
    previous_end: Option<Instant>,
    totals: Counters,
}

impl Recorder {
    fn record(&mut self, started: Instant, ended: Instant, counted: Counters) {
        self.step_ms.push((ended - started).as_secs_f64() * 1e3);
        let gap = self.previous_end.replace(ended).map(|end| (ended - end).as_secs_f64() * 1e3);
        if self.step_ms.len() > WARM_UP_STEPS {
            self.gaps_ms.extend(gap);
            self.totals = sum(self.totals, counted);
        }
    }
}

impl Recorder {
    /// Refuses a run whose rows did not take the paths that its arm is named after.
    fn check_waits(&self, case: Case, arm: Arm) -> Result<()> {
        let fused = (0..case.batch).filter(|row| arm.is_fused(case, *row)).count();
        let graphs = (case.batch - fused + fused.min(1)) as f64;
        let steps = self.step_ms.len().saturating_sub(WARM_UP_STEPS) as f64;
        let waits = (self.totals.waits - self.totals.width_misses) as f64;
        if steps > 0.0 && (waits / steps - graphs).abs() > 0.1 {
            bail!("{:.2} waits a step, where its rows need {graphs}", waits / steps);
        }
        Ok(())
    }
}

fn sum(a: Counters, b: Counters) -> Counters {
    Counters {
        evals: a.evals + b.evals,
        waits: a.waits + b.waits,
        host_reads: a.host_reads + b.host_reads,
        width_misses: a.width_misses + b.width_misses,
        waited: a.waited + b.waited,
        submitting: a.submitting + b.submitting,
        forwards_ahead: a.forwards_ahead + b.forwards_ahead,
        forwards_overlapped: a.forwards_overlapped + b.forwards_overlapped,
    }
}

fn refuse_failure(receiver: &mut EventReceiver) -> Result<()> {
    for event in receiver.try_drain() {
        if let EngineEvent::Failed { error, .. } = event {
            return Err(anyhow!("a row failed: {error}"));
        }
    }
    Ok(())
}
