//! A benchmark's report: Markdown that can be shared, with all that is needed to read the figures.

use protocol::{BenchmarkArm, GateMode};

use super::{ANSWER_TOKENS, TRIALS};
use crate::{
    local_engine::RunningEngine,
    system_facts::{SystemFacts, gib},
};

/// The report. `at_ms`: Unix time.
pub fn markdown(running: &RunningEngine, arms: &[BenchmarkArm], at_ms: i64) -> String {
    let machine = SystemFacts::read();
    let status = running.handle.status();
    let facts = status.borrow().facts.clone();
    let model = facts.map_or_else(String::new, |facts| {
        format!(
            "{}, {}, computes in {}, on {}",
            facts.architecture, facts.quantisation, facts.compute_dtype, facts.device
        )
    });
    let build = if cfg!(debug_assertions) { " (debug build: slower than what people get)" } else { "" };
    let mut text = format!(
        "# Braid benchmark\n\n\
         - Braid {}{build}\n\
         - Model: {} ({model})\n\
         - Machine: {}, {} logical cores, {} of memory\n\
         - System: {}\n\
         - Unix time: {}\n\n",
        env!("CARGO_PKG_VERSION"),
        running.model.name,
        machine.cpu,
        machine.logical_cores,
        gib(machine.memory_bytes),
        machine.os,
        at_ms / 1000,
    );
    text.push_str(
        "| Rows | Mode | JSON row | tok/s of all rows | slowest to fastest | ms per token p50 | p95 | first token ms |\n\
         |---:|---|---|---:|---:|---:|---:|---:|\n",
    );
    for arm in arms {
        text.push_str(&format!(
            "| {} | {} | {} | {:.1} | {:.1} to {:.1} | {:.1} | {:.1} | {:.0} |\n",
            arm.batch_rows,
            mode(arm.gate_mode),
            if arm.has_json_row { "one" } else { "none" },
            arm.total_tok_s,
            arm.min_tok_s,
            arm.max_tok_s,
            arm.itl_ms_p50,
            arm.itl_ms_p95,
            arm.ttft_ms_p50,
        ));
    }
    text.push_str(&format!(
        "\nMedians of {TRIALS} trials after one warm-up, arms taking turns. Every row is a request of its own with a \
         short prompt, temperature 0.7, top-p 0.9 and {ANSWER_TOKENS} tokens at most. tok/s is the sum over the rows of \
         (tokens - 1) / (last token - first token) on the engine's clock; waiting and reading of prompts are not in \
         it, but in the time to the first token.\n"
    ));
    text
}

fn mode(mode: GateMode) -> &'static str {
    match mode {
        GateMode::Strict => "Strict",
        GateMode::Split => "Split",
        GateMode::Folded => "Folded",
    }
}
