//! A folder of results: raw.json, summary.md, setup.md.

use crate::options::Options;
use crate::prompts::Prompts;
use crate::report::{Line, Report};
use crate::tables;
use anyhow::{Context, Result};
use engine::backend::BackendFacts;
use std::fmt::Write;
use std::path::Path;

/// What a run did besides measuring.
pub struct Setup<'a> {
    pub options: &'a Options,
    pub facts: &'a BackendFacts,
    pub prompts: &'a Prompts,
    /// Trials that were finished, the one to warm up not counted.
    pub trials: usize,
}

/// All tables under one heading.
pub fn summary(lines: &[Line]) -> String {
    let (model, device) = lines.first().map_or(("", ""), |line| (&line.model, &line.device));
    let mut text = format!(
        "# {model} on {device}\n\nMedian of the trials' median steps, the range of the trials in brackets; `setup.md` \
         says how it was\nmeasured. `overlapped`: share of forward passes that were still running right after the \
         tokens before them were read.\n\n{}\n## Ratios\n\nOf tokens per second, in the same run.\n\n{}",
        tables::speed(lines),
        tables::ratios(lines),
    );
    if let Some(table) = tables::logprobs(lines) {
        let _ = write!(
            text,
            "\n## Cost of logprobs\n\nEvery row reports the logprobs of its token and of the likeliest so many; T 0.7, \
             top-p 0.9, no overlap.\n\n{table}"
        );
    }
    let _ = write!(
        text,
        "\n## Where a step's time goes\n\nMilliseconds on the host, latest trial: forward, sampling, wait and host add \
         up to a step.\nWith overlap, `forward` is that of the next step. `in submissions` is part of wait: \
         handing a graph\nto the device can block.\n\n{}",
        tables::profile(lines)
    );
    text
}

fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split(':').nth(1))?;
    let cores = std::thread::available_parallelism().ok()?;
    Some(format!("{}, {cores} cores", name.trim()))
}

fn setup(setup: &Setup<'_>) -> String {
    let Setup { options, facts, prompts, trials } = setup;
    let machine = options.machine.clone().or_else(processor).unwrap_or_else(|| "not named".into());
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = options.model.file_name().map(|name| name.to_string_lossy().into_owned());
    let rows = [
        ("machine", machine),
        ("system", std::env::consts::OS.to_owned()),
        ("device", facts.device.clone()),
        (
            "model",
            format!(
                "{} ({}), {} weights of {} MB, {} activations, {} logits",
                name.unwrap_or_default(),
                facts.architecture,
                facts.quantisation,
                facts.model_bytes / 1_000_000,
                facts.compute_dtype,
                facts.vocab_width,
            ),
        ),
        ("prompts", prompts.words()),
        ("steps", format!("{} of each trial, in which all rows decode", options.tokens)),
        (
            "trials",
            format!("{trials} after a short one to warm up; the arms of a case follow one another in each"),
        ),
        ("command", format!("`bench {}`", arguments.join(" "))),
    ];
    let mut text = String::from("# Setup\n\n| what | value |\n| --- | --- |\n");
    for (what, value) in rows {
        let _ = writeln!(text, "| {what} | {value} |");
    }
    text.push_str(
        "\n`strict`: every row in a graph of its own with its own wait. `split`: only rows with a grammar or logprobs \
         go\nper row. `folded`: those ride inside the fused graph too. `+overlap`: the next forward pass is submitted \
         before\nthe tokens are read. `sampler`: the sampler's share of a step, timed apart with a wait between \
         forward and\nsampling. mlx-lm runs in a process of its own, its runs between Braid's, with the same prompts.\n",
    );
    text
}

/// Writes the three files, making the folder where it is absent.
///
/// # Errors
/// The system's own, with the file's name.
pub fn write(folder: &Path, report: &Report, about: &Setup<'_>) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    report.write_json(&folder.join("raw.json"))?;
    for (name, text) in [("summary.md", summary(&report.lines())), ("setup.md", setup(about))] {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
