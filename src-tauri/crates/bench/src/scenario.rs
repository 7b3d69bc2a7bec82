//! What is measured: B chats that decode together, through the engine's own step.

use anyhow::{Context, Result, anyhow};
use engine::backend::{Backend, BackendFacts};
use engine::clock::SystemClock;
use engine::engine::Engine;
use engine::params::SamplingParams;
use engine::{EngineConfig, EngineEvent, EnginePhase, EventReceiver, GateMode, NewRequest, RequestSummary};
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
    /// Median gap between tokens of a row, averaged over rows; `None` for a peer that does not say.
    pub itl_ms_p50: Option<f64>,
    /// 95th percentile of that gap, averaged over rows.
    pub itl_ms_p95: Option<f64>,
    /// Waits of the latest step.
    pub waits_per_step: Option<u64>,
    /// Evaluations of the latest step.
    pub evals_per_step: Option<u64>,
}

/// Steps left out at the start of a trial.
const WARM_UP_STEPS: usize = 2;

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
    /// Loads the model; every answer is `tokens` long.
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

    /// Runs one case once and measures its decode steps.
    pub fn run(&mut self, case: Case, arm: Arm) -> Result<Measured> {
        self.engine.set_gate_mode(if arm == Arm::Strict { GateMode::Strict } else { GateMode::Split });
        let mut receivers = Vec::with_capacity(case.batch);
        for row in 0..case.batch {
            receivers.push(self.submit(case, arm, row)?);
        }
        let mut measured = Measured::default();
        while !self.engine.is_idle() {
            let before = self.engine.backend().counters();
            let started = Instant::now();
            self.engine.step()?;
            let elapsed = started.elapsed();
            let after = self.engine.backend().counters();
            let steps = self.engine.snapshot(EnginePhase::Ready).steps;
            if after.waits > before.waits && steps.batch_rows as usize == case.batch {
                measured.step_ms.push(elapsed.as_secs_f64() * 1e3);
                measured.waits_per_step = Some(after.waits - before.waits);
                measured.evals_per_step = Some(after.evals - before.evals);
            }
        }
        measured.step_ms.drain(..WARM_UP_STEPS.min(measured.step_ms.len()));
        let summaries: Result<Vec<RequestSummary>> = receivers.iter_mut().map(summary).collect();
        let mean =
            |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        let summaries = summaries?;
        let gaps = |gap: fn(&RequestSummary) -> Option<std::time::Duration>| {
            mean(summaries.iter().filter_map(gap).map(|gap| gap.as_secs_f64() * 1e3).collect())
        };
        measured.itl_ms_p50 = gaps(|summary| summary.itl_p50);
        measured.itl_ms_p95 = gaps(|summary| summary.itl_p95);
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
            max_tokens: self.tokens,
            logprobs: (arm == Arm::Strict && row == 0).then_some(0),
            stop: Vec::new(),
        };
        let request = NewRequest {
            prompt: prompt(&self.tokenizer, row)?,
            params: params.validate()?,
            arrived_at: Instant::now(),
        };
        Ok(self.engine.submit(request)?.1)
    }
}

fn summary(receiver: &mut EventReceiver) -> Result<RequestSummary> {
    for event in receiver.try_drain() {
        match event {
            EngineEvent::Finished { summary, .. } => return Ok(summary),
            EngineEvent::Failed { error, .. } => return Err(anyhow!("a row failed: {error}")),
            _ => {}
        }
    }
    Err(anyhow!("a row ended without its last event"))
}
