//! mlx-lm in a process of its own, driven line by line so that its runs lie between ours.

use crate::case::Case;
use crate::measured::Measured;
use crate::prompts::Prompts;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const SCRIPT: &str = include_str!("../peers/mlx_lm_batch.py");

/// The running peer.
pub struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

#[derive(Deserialize)]
struct Answer {
    step_ms: Vec<f64>,
}

impl Peer {
    /// Starts the peer and waits until its model is loaded.
    pub fn start(model: &Path, is_cpu: bool) -> Result<Peer> {
        let Some(python) = std::env::var_os("BRAID_PEER_PYTHON") else {
            bail!("BRAID_PEER_PYTHON names no Python with mlx-lm: use `cargo xtask bench`, or --no-peer");
        };
        let mut command = Command::new(python);
        command.arg("-c").arg(SCRIPT).arg(model);
        if is_cpu {
            command.arg("--f32");
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the mlx-lm peer")?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("the mlx-lm peer has no pipes");
        };
        let mut peer = Peer { child, input, output: BufReader::new(output) };
        peer.line().context("the mlx-lm peer did not start")?;
        Ok(peer)
    }

    /// Runs one case once.
    pub fn run(&mut self, case: Case, prompts: &Prompts, tokens: u32) -> Result<Measured> {
        let prompts: Vec<Vec<u32>> = (0..case.batch).map(|row| prompts.of_row(row)).collect::<Result<_>>()?;
        let (temperature, top_p) = case.sampling.values();
        let request = serde_json::json!({
            "prompts": prompts, "tokens": tokens, "temperature": temperature, "top_p": top_p,
        });
        writeln!(self.input, "{request}").context("the mlx-lm peer went away")?;
        let answer: Answer = serde_json::from_str(&self.line()?).context("the mlx-lm peer answered oddly")?;
        Ok(Measured::of_peer(answer.step_ms))
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("the mlx-lm peer ended: {}", self.child.wait()?);
        }
        Ok(line)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // A killed peer is a peer that is gone; there is nothing else to do about a failure here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
