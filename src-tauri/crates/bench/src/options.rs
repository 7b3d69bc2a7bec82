//! The command line.

use crate::case::{Arm, MAX_ROWS};
use anyhow::{Context, Result, bail};
use engine::OverlapMode;
use lexopt::prelude::*;
use std::path::PathBuf;
use std::time::Duration;

pub const USAGE: &str = "bench [OPTION...]
Decode speed by batch size, gate mode, overlap and sampling, and the cost of logprobs.

  --model DIR            model folder; BRAID_STARTER_MODEL without it
  --batch 1,2,4,8        rows that decode together
  --arms A,B             of strict, split, folded, split+overlap, folded+overlap, split+adaptive, folded+adaptive,
                         mlx-lm; all but the adaptive ones without it
  --trials 5             trials after one to warm up
  --tokens 64            decode steps of a trial
  --prompt-tokens 128    prompts of so many random tokens; questions in the model's chat template without it
  --budget-s 500         starts no trial that would end later than this many seconds after the start
  --no-peer              without mlx-lm
  --no-logprobs          without the table of logprobs
  --json FILE            writes the measurements
  --out DIR              writes raw.json, summary.md and setup.md
  --machine TEXT         the machine in words, for setup.md";

/// Options of one run.
pub struct Options {
    pub model: PathBuf,
    pub json: Option<PathBuf>,
    pub out: Option<PathBuf>,
    pub batches: Vec<usize>,
    pub arms: Vec<Arm>,
    pub trials: usize,
    pub tokens: u32,
    pub prompt_tokens: Option<u32>,
    pub budget: Option<Duration>,
    pub with_logprobs: bool,
    pub machine: Option<String>,
}

/// Parses a list such as `1,2,4`.
fn list<T>(text: &str, parse: impl Fn(&str) -> Result<T>) -> Result<Vec<T>> {
    text.split(',').map(parse).collect()
}

impl Options {
    /// Reads the command line; `None` if it asks for help.
    pub fn parse() -> Result<Option<Options>> {
        let mut options = Options {
            model: std::env::var_os("BRAID_STARTER_MODEL").map(PathBuf::from).unwrap_or_default(),
            json: None,
            out: None,
            batches: vec![1, 2, 4, 8],
            arms: vec![
                Arm::Strict,
                Arm::Split(OverlapMode::Off),
                Arm::Split(OverlapMode::On),
                Arm::Folded(OverlapMode::Off),
                Arm::Folded(OverlapMode::On),
                Arm::MlxLm,
            ],
            trials: 5,
            tokens: 64,
            prompt_tokens: None,
            budget: None,
            with_logprobs: true,
            machine: None,
        };
        let mut with_peer = true;
        let mut parser = lexopt::Parser::from_env();
        while let Some(argument) = parser.next()? {
            match argument {
                Long("json") => options.json = Some(parser.value()?.into()),
                Long("out") => options.out = Some(parser.value()?.into()),
                Long("model") => options.model = parser.value()?.into(),
                Long("batch") => {
                    let text = parser.value()?.string()?;
                    options.batches = list(&text, |size| Ok(size.parse()?))
                        .with_context(|| format!("--batch takes numbers like 1,2,4,8, not {text:?}"))?;
                }
                Long("arms") => options.arms = list(&parser.value()?.string()?, Arm::parse)?,
                Long("trials") => options.trials = parser.value()?.parse()?,
                Long("tokens") => options.tokens = parser.value()?.parse()?,
                Long("prompt-tokens") => options.prompt_tokens = Some(parser.value()?.parse()?),
                Long("budget-s") => options.budget = Some(Duration::from_secs(parser.value()?.parse()?)),
                Long("no-peer") => with_peer = false,
                Long("no-logprobs") => options.with_logprobs = false,
                Long("machine") => options.machine = Some(parser.value()?.string()?),
                Long("help") => return Ok(None),
                other => return Err(other.unexpected().into()),
            }
        }
        options.arms.retain(|arm| with_peer || *arm != Arm::MlxLm);
        options.check()?;
        Ok(Some(options))
    }

    fn check(&self) -> Result<()> {
        if self.model.as_os_str().is_empty() {
            bail!("no model: name a folder with --model, or run this through `cargo xtask bench`");
        }
        if self.batches.iter().any(|rows| !(1..=MAX_ROWS).contains(rows)) {
            bail!("--batch takes sizes from 1 to {MAX_ROWS}");
        }
        if self.trials == 0 || self.tokens < 8 {
            bail!("--trials must be at least 1 and --tokens at least 8");
        }
        if self.prompt_tokens.is_some_and(|tokens| tokens < 2) {
            bail!("--prompt-tokens must be at least 2");
        }
        Ok(())
    }
}
