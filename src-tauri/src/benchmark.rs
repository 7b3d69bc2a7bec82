//! The one-click benchmark: the loaded model at several batch sizes and modes, through the engine that answers tabs.
//!
//! Its rows are ordinary requests, in the batch like any other and shown as such. An answer that is asked for
//! meanwhile comes first: the benchmark then ends without a report, as if it had been cancelled.

mod report;

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use engine::{
    EngineEvent, GateMode as EngineMode, NewRequest, RequestSummary,
    params::{GrammarSource, SamplingParams},
};
use protocol::{BenchmarkArm, BenchmarkProgress, BenchmarkReport, GateMode};
use text::{ChatMessage, RenderOptions, Role};

use crate::{
    convert::{count, milliseconds, rounded, to_engine_mode},
    error::AppError,
    local_engine::RunningEngine,
    requests::{Asker, StopCause, Ticket},
    state::AppState,
};

/// Trials of each arm, after one warm-up.
const TRIALS: u32 = 3;

/// Tokens that every row writes.
const ANSWER_TOKENS: u32 = 64;

/// Batch sizes in the mode that is set.
const BATCH_ROWS: [u32; 4] = [1, 2, 4, 8];

/// Rows of the arms that compare the modes, one of them with JSON.
const MODE_ROWS: u32 = 4;

/// A trial whose rows ran together less than this part of the time measures another batch size, and is run again.
const LEAST_TOGETHER: f64 = 0.85;

/// Runs of a trial at most until its rows run together.
const MAX_TRIES: u32 = 3;

/// How long a row may take.
const ROW_LIMIT: Duration = Duration::from_secs(120);

/// Long for any model: what ends early would change the batch.
const TASK: &str =
    "Write the whole numbers from 1 to 500 in words, one on each line, without any comment. List";

/// JSON that does not end before the tokens do.
const JSON_TASK: &str = r#"{"type":"array","items":{"type":"integer","minimum":0},"minItems":400}"#;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Arm {
    rows: u32,
    mode: GateMode,
    has_json_row: bool,
}

/// What one trial gave.
#[derive(Debug, Clone, Default)]
struct Trial {
    total_tok_s: f64,
    itl_ms_p50: f64,
    itl_ms_p95: f64,
    ttft_ms: f64,
}

/// Why a benchmark ended without a report.
enum Halt {
    /// It was cancelled, or an answer came first.
    Cancelled,
    Failed(AppError),
}

impl<E: Into<AppError>> From<E> for Halt {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// The latest report, for saving it.
#[derive(Default)]
pub struct Benchmark {
    latest: Mutex<Option<BenchmarkReport>>,
}

impl Benchmark {
    /// The latest report.
    pub fn latest(&self) -> Option<BenchmarkReport> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep(&self, report: &BenchmarkReport) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(report.clone());
    }
}

/// Measures the loaded model; `None` if it was cancelled or an answer came first.
///
/// # Errors
/// [`AppError::BenchmarkBusy`] while anything runs, why there is no engine, or what ended a row.
pub async fn run(
    state: &AppState,
    mut on_progress: impl FnMut(BenchmarkProgress),
) -> Result<Option<BenchmarkReport>, AppError> {
    if !state.requests.is_idle() {
        return Err(AppError::BenchmarkBusy);
    }
    let running = state.engine.ready().await?;
    let mode = state.settings.current().await.gate_mode;
    let measured = measure(state, &running, mode, &mut on_progress).await;
    // Whatever happened: the mode is the person's.
    state.engine.set_gate_mode(to_engine_mode(mode)).await;
    match measured {
        Ok(arms) => {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let at_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
            let markdown = report::markdown(&running, &arms, at_ms);
            let report = BenchmarkReport { at_ms, arms, markdown };
            state.benchmark.keep(&report);
            Ok(Some(report))
        }
        Err(Halt::Cancelled) => Ok(None),
        Err(Halt::Failed(error)) => Err(error),
    }
}

/// Ends a benchmark that runs.
pub fn cancel(state: &AppState) {
    state.requests.stop_of(Asker::Benchmark, StopCause::User);
}

fn arms(mode: GateMode) -> Vec<Arm> {
    let plain = BATCH_ROWS.map(|rows| Arm { rows, mode, has_json_row: false });
    let mixed = [GateMode::Strict, GateMode::Split, GateMode::Folded].map(|mode| Arm {
        rows: MODE_ROWS,
        mode,
        has_json_row: true,
    });
    plain.into_iter().chain(mixed).collect()
}

async fn measure(
    state: &AppState,
    running: &RunningEngine,
    mode: GateMode,
    on_progress: &mut impl FnMut(BenchmarkProgress),
) -> Result<Vec<BenchmarkArm>, Halt> {
    let arms = arms(mode);
    let total_runs = count(arms.len()) * (TRIALS + 1);
    let mut trials = vec![Vec::new(); arms.len()];
    let mut done_runs = 0;
    // Arms take turns, so that a slow moment of the machine meets all of them. The first round warms up.
    for round in 0..=TRIALS {
        for (arm, trials) in arms.iter().zip(&mut trials) {
            let (batch_rows, gate_mode) = (arm.rows, arm.mode);
            on_progress(BenchmarkProgress { done_runs, total_runs, batch_rows, gate_mode });
            state.engine.set_gate_mode(to_engine_mode(arm.mode)).await;
            let trial = trial_together(state, running, *arm, round).await?;
            if round > 0 {
                trials.push(trial);
            }
            done_runs += 1;
        }
    }
    Ok(arms.iter().zip(trials).map(|(arm, trials)| summary(*arm, &trials)).collect())
}

/// A trial whose rows ran together.
async fn trial_together(
    state: &AppState,
    running: &RunningEngine,
    arm: Arm,
    round: u32,
) -> Result<Trial, Halt> {
    let mut last = Trial::default();
    for attempt in 0..MAX_TRIES {
        let rows = run_rows(state, running, arm, round * MAX_TRIES + attempt).await?;
        let together = rows.iter().map(|row| row.mean_batch_rows).sum::<f64>() / rows.len() as f64;
        last = trial_of(&rows);
        if together >= LEAST_TOGETHER * f64::from(arm.rows) {
            return Ok(last);
        }
    }
    Ok(last)
}

fn trial_of(rows: &[RequestSummary]) -> Trial {
    let all = |figure: fn(&RequestSummary) -> Option<Duration>| {
        median(rows.iter().filter_map(figure).map(milliseconds).collect())
    };
    Trial {
        total_tok_s: rows.iter().filter_map(|row| row.decode_tok_s).sum(),
        itl_ms_p50: all(|row| row.itl_p50),
        itl_ms_p95: all(|row| row.itl_p95),
        ttft_ms: all(|row| row.ttft),
    }
}

async fn run_rows(
    state: &AppState,
    running: &RunningEngine,
    arm: Arm,
    trial: u32,
) -> Result<Vec<RequestSummary>, Halt> {
    let mut rows = Vec::new();
    for row in 0..arm.rows {
        let ticket = state.requests.enter_other(&format!("benchmark-{trial}-{row}"), Asker::Benchmark)?;
        let request = request_of(running, arm, trial, row)?;
        let (id, receiver) = running.handle.submit(request)?;
        ticket.submitted(running.handle.clone(), id);
        rows.push((ticket, receiver));
    }
    let mut summaries = Vec::with_capacity(rows.len());
    for (ticket, receiver) in &mut rows {
        let ended = tokio::time::timeout(ROW_LIMIT, end_of(state, running, receiver)).await;
        match ended {
            Ok(Some(Ok(summary))) if ticket.stop_cause().is_none() => summaries.push(summary),
            Ok(Some(Err(error))) => return Err(error.into()),
            Ok(Some(Ok(_)) | None) => return Err(Halt::Cancelled),
            Err(_) => {
                stop_all(&rows);
                return Err(Halt::Failed(AppError::BenchmarkSlow { limit: ROW_LIMIT }));
            }
        }
    }
    Ok(summaries)
}

fn stop_all(rows: &[(Ticket, engine::EventReceiver)]) {
    rows.iter().for_each(|(ticket, _)| ticket.stop(StopCause::User));
}

/// The row's end; `None` if an answer came first, which stops every row.
async fn end_of(
    state: &AppState,
    running: &RunningEngine,
    receiver: &mut engine::EventReceiver,
) -> Option<Result<RequestSummary, engine::EngineError>> {
    let mut changes = state.requests.changes();
    loop {
        if state.requests.has_other_than(Asker::Benchmark) {
            cancel(state);
            return None;
        }
        let events = tokio::select! {
            events = receiver.recv() => events,
            () = running.abandoned() => None,
            // The sender lives as long as the state.
            _ = changes.changed() => continue,
        };
        let Some(events) = events else { return Some(Err(engine::EngineError::Stopped)) };
        for event in events {
            match event {
                EngineEvent::Finished { summary, .. } => return Some(Ok(summary)),
                EngineEvent::Failed { error, .. } => return Some(Err(error)),
                _ => {}
            }
        }
    }
}

fn request_of(running: &RunningEngine, arm: Arm, trial: u32, row: u32) -> Result<NewRequest, AppError> {
    // Its own number: rows with one prompt would share the reading of it.
    let question = ChatMessage::new(Role::User, format!("{TASK} {trial}.{row}:"));
    let prompt = running
        .tokenizer
        .prompt_tokens(&[question], &RenderOptions::default())
        .map_err(|error| AppError::Prompt(error.into()))?;
    let has_json = arm.has_json_row && row == 0;
    let params = SamplingParams {
        temperature: 0.7,
        top_p: 0.9,
        seed: Some(u64::from(row)),
        max_tokens: ANSWER_TOKENS,
        grammar: has_json.then(|| GrammarSource::JsonSchema(JSON_TASK.into())),
        ..SamplingParams::default()
    };
    let params = params.validate()?;
    Ok(NewRequest { prompt, answer_so_far: Vec::new(), params, owner: None, arrived_at: Instant::now() })
}

fn summary(arm: Arm, trials: &[Trial]) -> BenchmarkArm {
    let of = |figure: fn(&Trial) -> f64| trials.iter().map(figure).collect::<Vec<_>>();
    let speeds = of(|trial| trial.total_tok_s);
    BenchmarkArm {
        batch_rows: arm.rows,
        gate_mode: arm.mode,
        has_json_row: arm.has_json_row,
        trials: count(trials.len()),
        min_tok_s: rounded(speeds.iter().copied().fold(f64::INFINITY, f64::min)),
        max_tok_s: rounded(speeds.iter().copied().fold(0.0, f64::max)),
        total_tok_s: rounded(median(speeds)),
        itl_ms_p50: rounded(median(of(|trial| trial.itl_ms_p50))),
        itl_ms_p95: rounded(median(of(|trial| trial.itl_ms_p95))),
        ttft_ms_p50: rounded(median(of(|trial| trial.ttft_ms))),
    }
}

/// The middle value, the lower of two; 0 of none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

/// Whether the engine's mode is what a person set; for tests.
pub fn engine_mode(running: &RunningEngine) -> EngineMode {
    running.handle.status().borrow().gate_mode
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_a_value_that_was_measured() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0]), 1.0);
        assert_eq!(median(Vec::new()), 0.0);
    }

    #[test]
    fn every_mode_is_compared_at_the_same_size_and_with_the_same_json_row() {
        let mixed: Vec<_> = arms(GateMode::Folded).into_iter().filter(|arm| arm.has_json_row).collect();
        assert_eq!(mixed.len(), 3);
        assert!(mixed.iter().all(|arm| arm.rows == MODE_ROWS));
        let plain: Vec<_> = arms(GateMode::Folded).into_iter().filter(|arm| !arm.has_json_row).collect();
        assert!(plain.iter().all(|arm| arm.mode == GateMode::Folded), "in the mode that is set");
    }
}
