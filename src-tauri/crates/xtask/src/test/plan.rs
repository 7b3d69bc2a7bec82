//! Which steps run, in which order, and how their verdicts add up.

use std::collections::BTreeSet;

use crate::{
    error::{StepFailure, XtaskError},
    workspace::Workspace,
};

/// One check of the project.
pub struct Step {
    /// As in the table and after `--only`.
    pub name: &'static str,
    /// What a pass says.
    pub claim: &'static str,
    /// Earlier steps without which this one cannot run.
    pub needs: &'static [&'static str],
    pub platform: Platform,
    pub work: fn(&Workspace) -> Result<(), StepFailure>,
}

/// Where a step can run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Platform {
    Any,
    /// Tauri's WebDriver knows no macOS webview.
    Linux,
}

/// How a step ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    Passed,
    Failed,
    /// It was not tried, for this reason.
    Skipped(String),
}

/// The steps to run, in the order of `steps`: those named and all that they need, or all if none is named.
///
/// # Errors
/// [`XtaskError::Usage`] for a name that is no step.
pub fn choose<'a>(steps: &'a [Step], only: &[String]) -> Result<Vec<&'a Step>, XtaskError> {
    let find = |name: &str| {
        steps.iter().find(|step| step.name == name).ok_or_else(|| {
            let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
            XtaskError::Usage(format!("there is no step `{name}`; the steps are {}", names.join(", ")))
        })
    };
    if only.is_empty() {
        return Ok(steps.iter().collect());
    }
    let mut open = only.iter().map(|name| find(name)).collect::<Result<Vec<_>, _>>()?;
    let mut wanted = BTreeSet::new();
    while let Some(step) = open.pop() {
        if wanted.insert(step.name) {
            for need in step.needs {
                open.push(find(need)?);
            }
        }
    }
    Ok(steps.iter().filter(|step| wanted.contains(step.name)).collect())
}

/// "N passed, N failed", with ", N skipped" if any was.
pub fn counts<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> String {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for verdict in verdicts {
        match verdict {
            Verdict::Passed => passed += 1,
            Verdict::Failed => failed += 1,
            Verdict::Skipped(_) => skipped += 1,
        }
    }
    let skipped = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
    format!("{passed} passed, {failed} failed{skipped}")
}

#[cfg(test)]
mod tests {
    use super::{super::steps::STEPS, *};

    fn names(only: &[&str]) -> Vec<&'static str> {
        let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
        choose(STEPS, &only).expect("known steps").iter().map(|step| step.name).collect()
    }

    #[test]
    fn everything_runs_by_default() {
        assert_eq!(names(&[]).len(), STEPS.len());
    }

    #[test]
    fn a_chosen_step_brings_what_it_needs_in_order() {
        let chosen = names(&["real-app"]);
        assert_eq!(chosen.first(), Some(&"setup"));
        assert_eq!(chosen.last(), Some(&"real-app"));
        assert!(chosen.contains(&"ui-build") && !chosen.contains(&"vitest"));
    }

    #[test]
    fn an_unknown_step_is_refused_with_the_known_ones() {
        let error = choose(STEPS, &["vittest".into()]).map(|_| ()).expect_err("it does not exist");
        assert!(error.to_string().contains("vitest"), "{error}");
    }

    #[test]
    fn steps_need_only_earlier_steps() {
        for (index, step) in STEPS.iter().enumerate() {
            for need in step.needs {
                assert!(
                    STEPS[..index].iter().any(|earlier| earlier.name == *need),
                    "{} needs {need}",
                    step.name
                );
            }
        }
    }

    #[test]
    fn skipped_steps_are_not_counted_as_passed() {
        let verdicts = [Verdict::Passed, Verdict::Failed, Verdict::Skipped("build did not pass".into())];
        assert_eq!(counts(verdicts.iter()), "1 passed, 1 failed, 1 skipped");
        assert_eq!(counts([Verdict::Passed].iter()), "1 passed, 0 failed");
    }
}
