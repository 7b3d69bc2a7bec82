//! `cargo xtask test`: every check of the project as named, timed steps, with a table at the end.

mod plan;
mod steps;

use std::time::{Duration, Instant};

use crate::{
    cli::TestOptions,
    error::{InStep as _, StepFailure, XtaskError},
    workspace::Workspace,
};
use plan::{Platform, Step, Verdict};

/// Runs the steps in order; a failed step fails the whole, and only the steps that need it are skipped.
///
/// # Errors
/// [`XtaskError::StepsFailed`] after the table, [`XtaskError::Usage`] for a step that does not exist.
pub fn run_tests(workspace: &Workspace, options: &TestOptions) -> Result<(), StepFailure> {
    if options.is_list {
        for step in steps::STEPS {
            println!("{:<12} {}", step.name, step.claim);
        }
        return Ok(());
    }
    let chosen = plan::choose(steps::STEPS, &options.only).in_step("command line")?;
    let mut ran: Vec<(&Step, Verdict, Duration)> = Vec::new();
    for step in chosen {
        let started = Instant::now();
        let verdict = match reason_to_skip(step, &ran) {
            Some(reason) => Verdict::Skipped(reason),
            None => run_step(workspace, step),
        };
        ran.push((step, verdict, started.elapsed()));
    }
    print_table(&ran);
    let failed = ran.iter().filter(|(_, verdict, _)| *verdict == Verdict::Failed).count();
    if failed > 0 {
        return Err(XtaskError::StepsFailed { failed, total: ran.len() }).in_step("test");
    }
    Ok(())
}

fn reason_to_skip(step: &Step, ran: &[(&Step, Verdict, Duration)]) -> Option<String> {
    if step.platform == Platform::Linux && !cfg!(target_os = "linux") {
        return Some("runs on Linux only".into());
    }
    let did_not_pass =
        |need: &str| ran.iter().any(|(other, verdict, _)| other.name == need && *verdict != Verdict::Passed);
    let unmet = step.needs.iter().find(|need| did_not_pass(need))?;
    Some(format!("{unmet} did not pass"))
}

fn run_step(workspace: &Workspace, step: &Step) -> Verdict {
    eprintln!("\n== {}: {}", step.name, step.claim);
    match (step.work)(workspace) {
        Ok(()) => Verdict::Passed,
        Err(failure) => {
            eprintln!("\n{failure}");
            Verdict::Failed
        }
    }
}

/// One line a step, then the counts alone on the last line.
fn print_table(ran: &[(&Step, Verdict, Duration)]) {
    println!();
    for (step, verdict, took) in ran {
        let verdict_text = match verdict {
            Verdict::Passed => "passed".to_owned(),
            Verdict::Failed => "FAILED".to_owned(),
            Verdict::Skipped(reason) => format!("skipped: {reason}"),
        };
        println!("{:<12} {:>7.1} s  {verdict_text}", step.name, took.as_secs_f64());
    }
    let total: Duration = ran.iter().map(|(_, _, took)| *took).sum();
    println!("{:<12} {:>7.1} s", "all", total.as_secs_f64());
    println!("{}", plan::counts(ran.iter().map(|(_, verdict, _)| verdict)));
}
