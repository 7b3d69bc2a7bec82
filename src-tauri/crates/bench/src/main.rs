//! Measures the whole engine on a real model: decode speed by batch size, gate mode, overlap and sampling, beside
//! mlx-lm, and what logprobs cost.
//!
//! Arms are interleaved within every trial, because machines are noisy: compare numbers of one run only. Run it
//! through `cargo xtask bench`, which builds it in release and sets the environment; `gpu/` takes it to an NVIDIA GPU.

mod case;
mod folder;
mod measured;
mod options;
mod peer;
mod prompts;
mod report;
mod scenario;
mod share;
mod tables;

use anyhow::{Result, bail};
use case::{Arm, Case, Sampling};
use engine::backend::Backend as _;
use mlx_backend::MlxBackend;
use options::{Options, USAGE};
use prompts::Prompts;
use report::Report;
use std::time::{Duration, Instant};

/// Decode steps of the trial that warms caches, allocators and compiled kernels.
const WARM_UP_TOKENS: u32 = 12;

/// Numbers of alternatives in the table of logprobs.
const LOGPROBS: [u8; 3] = [0, 5, 20];

fn main() -> Result<()> {
    // SAFETY: first statement of the process; no other thread exists that could read the environment.
    unsafe { mlx_backend::device::prepare_environment() };
    let began = Instant::now();
    let Some(options) = Options::parse()? else {
        println!("{USAGE}");
        return Ok(());
    };
    let (mut backend, tokenizer) = scenario::load(&options.model)?;
    let prompts = Prompts::new(tokenizer.clone(), options.prompt_tokens);
    let plan = plan(&options);
    let facts = backend.facts().clone();
    let mut report = Report::new(&options.model, &facts, &plan);
    let mut failures = measure_shares(&mut backend, &prompts, &plan, &mut report);
    eprintln!("shares of the sampler done after {:.0?}", began.elapsed());
    let mut runner = Runner {
        bench: scenario::Bench::new(backend, tokenizer, &prompts),
        peer: match options.arms.contains(&Arm::MlxLm) {
            true => Some(peer::Peer::start(&options.model, facts.device.starts_with("cpu"))?),
            false => None,
        },
        prompts: &prompts,
        failed: Vec::new(),
    };
    let mut longest = Duration::ZERO;
    for trial in 0..=options.trials {
        if options.budget.is_some_and(|budget| trial > 1 && began.elapsed() + longest > budget) {
            eprintln!("trial {trial} would outlast the budget");
            break;
        }
        let started = Instant::now();
        runner.run_trial(trial, &plan, options.tokens, &mut report);
        longest = longest.max(started.elapsed());
        eprintln!("trial {trial} of {} done after {:.0?}", options.trials, began.elapsed());
        if let Some(out) = &options.out {
            let about = folder::Setup { options: &options, facts: &facts, prompts: &prompts, trials: trial };
            folder::write(out, &report, &about)?;
        }
    }
    println!("{}", folder::summary(&report.lines()));
    if let Some(path) = &options.json {
        report.write_json(path)?;
    }
    failures += runner.failed.len();
    match failures {
        0 => Ok(()),
        _ => bail!("{failures} of the measurements failed: see above"),
    }
}

/// Measures the sampler's share for the arms that allow it. Returns how many failed.
fn measure_shares(
    backend: &mut MlxBackend,
    prompts: &Prompts,
    plan: &[(Case, Vec<Arm>)],
    report: &mut Report,
) -> usize {
    let mut shares = share::Shares::new(backend, prompts);
    let mut failures = 0;
    for (case, arms) in plan.iter().filter(|(case, _)| case.logprobs.is_none()) {
        for arm in arms.iter().filter(|arm| arm.is_synchronous()) {
            match shares.measure(*case, *arm) {
                Ok(share) => report.record_share(*case, *arm, share),
                Err(error) => {
                    eprintln!("share of the sampler: {}, {case:?}: {error:#}", arm.name());
                    failures += 1;
                }
            }
        }
    }
    failures
}

/// Cases in order, each with its arms.
fn plan(options: &Options) -> Vec<(Case, Vec<Arm>)> {
    let mut plan = Vec::new();
    for &batch in &options.batches {
        for sampling in [Sampling::Greedy, Sampling::TopP, Sampling::JsonRow] {
            plan.push((Case { batch, sampling, logprobs: None }, options.arms.clone()));
        }
    }
    let synchronous = |arm: &Arm| *arm != Arm::Strict && arm.is_synchronous();
    for &batch in options.batches.iter().filter(|_| options.with_logprobs) {
        for count in LOGPROBS {
            let case = Case { batch, sampling: Sampling::TopP, logprobs: Some(count) };
            plan.push((case, options.arms.iter().copied().filter(synchronous).collect()));
        }
    }
    for (case, arms) in &mut plan {
        arms.retain(|arm| arm.can_run(*case));
    }
    plan
}

struct Runner<'a> {
    bench: scenario::Bench<'a>,
    peer: Option<peer::Peer>,
    prompts: &'a Prompts,
    /// What failed once and is not tried again: the rest is worth having.
    failed: Vec<(Case, Arm)>,
}

impl Runner<'_> {
    fn run_trial(&mut self, trial: usize, plan: &[(Case, Vec<Arm>)], tokens: u32, report: &mut Report) {
        let tokens = if trial == 0 { tokens.min(WARM_UP_TOKENS) } else { tokens };
        for (case, arms) in plan {
            // Whatever drifts within a case must not favour the same arm each time.
            let order: Vec<Arm> =
                if trial.is_multiple_of(2) { arms.clone() } else { arms.iter().rev().copied().collect() };
            for arm in order {
                if self.failed.contains(&(*case, arm)) {
                    continue;
                }
                match self.run(*case, arm, tokens) {
                    Ok(measured) if trial > 0 => report.record(*case, arm, measured),
                    Ok(_) => {}
                    Err(error) => {
                        eprintln!("{}, {case:?}: {error:#}", arm.name());
                        self.failed.push((*case, arm));
                    }
                }
            }
        }
    }

    fn run(&mut self, case: Case, arm: Arm, tokens: u32) -> Result<measured::Measured> {
        match &mut self.peer {
            Some(peer) if arm == Arm::MlxLm => peer.run(case, self.prompts, tokens),
            _ => self.bench.run(case, arm, tokens),
        }
    }
}
