//! What is measured: B chats that decode together, through the engine's own step.

use anyhow::{Context, Result, anyhow, bail};
use engine::backend::{Backend, BackendFacts};
use engine::clock::SystemClock;
use engine::engine::Engine;
use engine::params::SamplingParams;
use engine::{EngineConfig, EngineEvent, EnginePhase, EventReceiver, GateMode, NewRequest};
use mlx_backend::{LoadOptions, MlxBackend};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use text::{ChatMessage, RenderOptions, Role, Tokenizer};

/// Most rows a batch can hold here.
pub const MAX_ROWS: usize = 16;

/// Questions that the model answers at length.
pub const QUESTIONS: [&str; 8] = [
    "Write a long story about a lighthouse keeper.",
    "Explain in detail how rain forms.",
    "List twenty uses of a brick and explain each.",
    "Describe the city of Rome and its history.",
    "Explain prime numbers with many examples.",
    "Tell me everything about honey bees.",
    "Explain how planes fly, step by step.",
    "Plan a week of dinners with recipes.",
];

/// Sampling settings that every row of a case shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// Temperature 0.
    Greedy,
    /// Temperature 0.7, top-p 0.9.
    TopP,
}

impl Sampling {
    /// Name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Sampling::Greedy => "greedy",
            Sampling::TopP => "T 0.7, top-p 0.9",
        }
    }

    /// Temperature and top-p.
    pub fn values(self) -> (f32, f32) {
        match self {
            Sampling::Greedy => (0.0, 1.0),
            Sampling::TopP => (0.7, 0.9),
        }
    }
}

/// Who runs a case, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arm {
    /// The default gate: all rows fused.
    Split,
    /// The strict gate with one row that asks for logprobs: every row goes per row.
    Strict,
    /// mlx-lm's BatchGenerator.
    MlxLm,
}

impl Arm {
    /// Name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Arm::Split => "split",
            Arm::Strict => "strict",
            Arm::MlxLm => "mlx-lm",
        }
    }
}

/// One cell of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// Rows that decode together.
    pub batch: usize,
    /// Their settings.
    pub sampling: Sampling,
}

/// One trial of one case and arm.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// Time of each decode step in which all rows ran, after warm-up.
    pub step_ms: Vec<f64>,
    /// Median gap between consecutive tokens of a row; `None` for a peer that does not say.
    pub itl_ms_p50: Option<f64>,
    /// 95th percentile of that gap.
    pub itl_ms_p95: Option<f64>,
    /// Waits of the latest step.
    pub waits_per_step: Option<u64>,
    /// Evaluations of the latest step.
    pub evals_per_step: Option<u64>,
}

/// Steps left out at the start of a trial.
const WARM_UP_STEPS: usize = 2;

/// Fewest steps that make a trial.
const MIN_STEPS: usize = 6;

/// The engine under test.
pub struct Bench {
    engine: Engine<MlxBackend>,
    tokenizer: Tokenizer,
    facts: BackendFacts,
    tokens: u32,
}

/// Loads a model folder as the app does.
pub fn load(model: &Path) -> Result<(MlxBackend, Tokenizer)> {
    let tokenizer = Tokenizer::from_dir(model).context("cannot load the tokenizer")?;
    let options = LoadOptions { max_rows: MAX_ROWS, tokenizer_tokens: tokenizer.vocab_tokens() as u32 };
    let backend = MlxBackend::load(model, options).context("cannot load the model")?;
    Ok((backend, tokenizer))
}

/// Token ids of the prompt that row `row` answers.
pub fn prompt(tokenizer: &Tokenizer, row: usize) -> Result<Vec<u32>> {
    let message = ChatMessage::new(Role::User, QUESTIONS[row % QUESTIONS.len()]);
    tokenizer
        .prompt_tokens(&[message], RenderOptions { add_generation_prompt: true })
        .context("cannot render the prompt")
}

impl Bench {
    /// Loads the model; a trial measures `tokens` steps.
    pub fn load(model: &Path, tokens: u32) -> Result<Bench> {
        let (backend, tokenizer) = load(model)?;
        let facts = backend.facts().clone();
        let config = EngineConfig::new(tokenizer.clone());
        Ok(Bench { engine: Engine::new(config, backend, Arc::new(SystemClock)), tokenizer, facts, tokens })
    }

    /// What is loaded.
    pub fn facts(&self) -> &BackendFacts {
        &self.facts
    }

    /// Whether MLX runs on the CPU.
    pub fn is_cpu(&self) -> bool {
        self.facts.device.starts_with("cpu")
    }

    /// Runs one case until `tokens` steps with all rows were measured, or a row ended by itself.
    pub fn run(&mut self, case: Case, arm: Arm) -> Result<Measured> {
        self.engine.set_gate_mode(if arm == Arm::Strict { GateMode::Strict } else { GateMode::Split });
        let mut receivers = Vec::with_capacity(case.batch);
        for row in 0..case.batch {
            receivers.push(self.submit(case, arm, row)?);
        }
        let mut measured = Measured::default();
        let mut gaps_ms = Vec::new();
        let mut previous_end: Option<Instant> = None;
        while !self.engine.is_idle() {
            let before = self.engine.backend().counters();
            let started = Instant::now();
            self.engine.step()?;
            let ended = Instant::now();
            let after = self.engine.backend().counters();
            let steps = self.engine.snapshot(EnginePhase::Ready).steps;
            if after.waits == before.waits || steps.batch_rows as usize != case.batch {
                previous_end = None;
                continue;
            }
            measured.step_ms.push((ended - started).as_secs_f64() * 1e3);
            gaps_ms.extend(previous_end.map(|end| (ended - end).as_secs_f64() * 1e3));
            previous_end = Some(ended);
            measured.waits_per_step = Some(after.waits - before.waits);
            measured.evals_per_step = Some(after.evals - before.evals);
            if measured.step_ms.len() == WARM_UP_STEPS + self.tokens as usize {
                // A dropped receiver is a cancel.
                receivers.clear();
            }
        }
        receivers.iter_mut().try_for_each(refuse_failure)?;
        let steps = measured.step_ms.len();
        if steps < WARM_UP_STEPS + MIN_STEPS {
            bail!("only {steps} steps had all {} rows: ask for more --tokens", case.batch);
        }
        measured.step_ms.drain(..WARM_UP_STEPS);
        gaps_ms.drain(..WARM_UP_STEPS - 1);
        gaps_ms.sort_by(f64::total_cmp);
        // Rows of a batch get their tokens together, so the gap of one is the gap of all.
        let at = |part: f64| gaps_ms.get((gaps_ms.len() as f64 * part) as usize).copied();
        (measured.itl_ms_p50, measured.itl_ms_p95) = (at(0.5), at(0.95));
        Ok(measured)
    }

    fn submit(&mut self, case: Case, arm: Arm, row: usize) -> Result<EventReceiver> {
        let (temperature, top_p) = case.sampling.values();
        let params = SamplingParams {
            temperature,
            top_p,
            top_k: 0,
            min_p: 0.0,
            seed: Some(row as u64 + 1),
            // Room for the rows that started early to wait for the last.
            max_tokens: self.tokens * (case.batch as u32 + 1) + 64,
            logprobs: (arm == Arm::Strict && row == 0).then_some(0),
            ..SamplingParams::default()
        };
        let request = NewRequest {
            prompt: prompt(&self.tokenizer, row)?,
            params: params.validate()?,
            owner: None,
            arrived_at: Instant::now(),
        };
        Ok(self.engine.submit(request)?.1)
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
