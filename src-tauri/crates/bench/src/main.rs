//! Measures the whole engine on a real model: decode speed by batch size, gate mode and sampling, beside mlx-lm.
//!
//! Arms are interleaved within every trial, because the machine is noisy: compare numbers of one run only. Run it
//! through `cargo xtask bench`, which builds it in release and sets the environment.

mod peer;
mod report;
mod scenario;
mod share;

use anyhow::{Context, Result, bail};
use lexopt::prelude::*;
use report::Report;
use scenario::{Arm, Case, Sampling};
use std::path::PathBuf;

/// Options of one run.
struct Options {
    model: PathBuf,
    json: Option<PathBuf>,
    batches: Vec<usize>,
    trials: usize,
    tokens: u32,
    with_peer: bool,
}

const USAGE: &str =
    "bench [--json FILE] [--model DIR] [--batch 1,2,4,8] [--trials 5] [--tokens 64] [--no-peer]
Decode speed by batch size, gate mode and sampling. Without --model it takes BRAID_STARTER_MODEL.";

impl Options {
    fn parse() -> Result<Option<Options>> {
        let mut options = Options {
            model: std::env::var_os("BRAID_STARTER_MODEL").map(PathBuf::from).unwrap_or_default(),
            json: None,
            batches: vec![1, 2, 4, 8],
            trials: 5,
            tokens: 64,
            with_peer: true,
        };
        let mut parser = lexopt::Parser::from_env();
        while let Some(argument) = parser.next()? {
            match argument {
                Long("json") => options.json = Some(parser.value()?.into()),
                Long("model") => options.model = parser.value()?.into(),
                Long("batch") => {
                    let text = parser.value()?.string()?;
                    let sizes: Result<Vec<usize>, _> = text.split(',').map(str::parse).collect();
                    options.batches =
                        sizes.with_context(|| format!("--batch takes numbers like 1,2,4,8, not {text:?}"))?;
                }
                Long("trials") => options.trials = parser.value()?.parse()?,
                Long("tokens") => options.tokens = parser.value()?.parse()?,
                Long("no-peer") => options.with_peer = false,
                Long("help") => return Ok(None),
                other => return Err(other.unexpected().into()),
            }
        }
        if options.model.as_os_str().is_empty() {
            bail!("no model: name a folder with --model, or run this through `cargo xtask bench`");
        }
        if options.batches.iter().any(|rows| !(1..=scenario::MAX_ROWS).contains(rows)) {
            bail!("--batch takes sizes from 1 to {}", scenario::MAX_ROWS);
        }
        if options.trials == 0 || options.tokens < 8 {
            bail!("--trials must be at least 1 and --tokens at least 8");
        }
        Ok(Some(options))
    }
}

fn main() -> Result<()> {
    let Some(options) = Options::parse()? else {
        println!("{USAGE}");
        return Ok(());
    };
    let mut bench = scenario::Bench::load(&options.model, options.tokens)?;
    let mut peer = match options.with_peer {
        true => Some(peer::Peer::start(&options.model, bench.is_cpu())?),
        false => None,
    };
    let mut report = Report::new(&options.model, bench.facts());
    let mut cases = Vec::new();
    for batch in &options.batches {
        for sampling in [Sampling::Greedy, Sampling::TopP] {
            cases.push(Case { batch: *batch, sampling });
        }
    }
    for trial in 0..=options.trials {
        for case in &cases {
            for arm in [Arm::Split, Arm::Strict] {
                let measured = bench.run(*case, arm)?;
                // Trial 0 warms caches and allocators.
                if trial > 0 {
                    report.record(*case, arm, measured);
                }
            }
            if let Some(peer) = &mut peer {
                let measured = peer.run(*case, options.tokens)?;
                if trial > 0 {
                    report.record(*case, Arm::MlxLm, measured);
                }
            }
        }
        eprintln!("trial {trial} of {} done", options.trials);
    }
    drop(peer);
    let mut shares = share::Shares::load(&options.model)?;
    for case in &cases {
        for arm in [Arm::Split, Arm::Strict] {
            report.record_share(*case, arm, shares.measure(*case, arm)?);
        }
    }
    report.print();
    match options.json {
        Some(path) => report.write_json(&path),
        None => Ok(()),
    }
}
