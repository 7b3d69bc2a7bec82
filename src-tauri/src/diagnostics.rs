//! A report for who helps: what runs where and how, without a word that a person or a model wrote.
//!
//! No titles, messages, drafts, system prompts, stop sequences, schemas, names of presets or servers, file names of
//! attachments; the person's folder is written as `~`. The log holds no message text either.

use std::{env, fmt::Write as _, fs, io, path::Path, sync::Arc};

use protocol::{AppSettings, EngineStatus, MemoryStats, SamplingSettings, StructuredOutput};

use crate::{
    commands::engine,
    error::AppError,
    logging, platform,
    state::AppState,
    system_facts::{SystemFacts, gib},
};

/// Lines of the log in the report.
const LOG_LINES: usize = 120;

/// Characters of a line of the log in the report.
const LINE_CHARS: usize = 400;

/// The report, as Markdown. What cannot be read is said in it.
pub async fn report(state: &AppState) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_report(&mut text, state).await;
    without_home(&text, env::var_os("HOME").as_deref().map(Path::new))
}

/// Writes a report to a file, in place of what is there.
///
/// # Errors
/// [`AppError::ReportNotWritten`], [`AppError::TaskPanicked`].
pub async fn save(path: String, text: String) -> Result<(), AppError> {
    let written = tokio::task::spawn_blocking(move || {
        fs::write(&path, text)
            .map_err(|source| AppError::ReportNotWritten { path: path.into(), source: Arc::new(source) })
    });
    written.await.map_err(|_| AppError::TaskPanicked)?
}

async fn write_report(text: &mut String, state: &AppState) -> std::fmt::Result {
    let machine = SystemFacts::read();
    writeln!(text, "# Braid diagnostics\n")?;
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    writeln!(
        text,
        "- Braid {} ({build}), {} {}",
        env!("CARGO_PKG_VERSION"),
        env::consts::OS,
        env::consts::ARCH
    )?;
    writeln!(text, "- System: {}", machine.os)?;
    writeln!(text, "- Processor: {}, {} logical cores", machine.cpu, machine.logical_cores)?;
    writeln!(text, "- Memory: {}, {} available", gib(machine.memory_bytes), gib(machine.available_bytes))?;
    writeln!(text, "- Page: {}", platform::page_engine())?;
    write_engine(text, &engine::current(state).await)?;
    write_settings(text, &state.settings.current().await)?;
    write_history(text, state).await?;
    write_log(text)
}

fn write_engine(text: &mut String, status: &EngineStatus) -> std::fmt::Result {
    writeln!(text, "\n## Engine\n")?;
    writeln!(text, "- Phase: {:?}", status.phase)?;
    if let Some(model) = &status.model {
        writeln!(
            text,
            "- Model: {}, {}, {}, computes in {}, {} tokens of context, on {}",
            model.name,
            model.architecture,
            model.quantisation,
            model.compute_dtype,
            model.context_tokens,
            model.device
        )?;
    }
    writeln!(text, "- Batch mode: {:?}, overlap: {:?}", status.gate_mode, status.overlap)?;
    let steps = &status.steps;
    writeln!(
        text,
        "- Steps: {} decode, {} fused, {} with rows on their own, {} replayed; median {:.2} ms \
         (forward {:.2}, sample {:.2}, wait {:.2}, host {:.2}); per step {} submissions, {} waits, {} host reads",
        steps.decode_steps,
        steps.fused_steps,
        steps.per_row_steps,
        steps.replays,
        steps.step_ms_p50,
        steps.forward_ms_p50,
        steps.sample_ms_p50,
        steps.wait_ms_p50,
        steps.host_ms_p50,
        steps.evals_per_step,
        steps.waits_per_step,
        steps.host_reads_per_step
    )?;
    if let Some(memory) = &status.memory {
        write_memory(text, memory)?;
    }
    for row in &status.rows {
        writeln!(
            text,
            "- Row: asked by {:?}, {:?}, {} of {} prompt tokens read, {} tokens written, gate {:?}",
            row.source,
            row.phase,
            row.prefill_done_tokens,
            row.prompt_tokens,
            row.answer_tokens,
            row.gate.as_ref().map(|gate| (gate.path, &gate.reasons))
        )?;
    }
    Ok(())
}

fn write_memory(text: &mut String, memory: &MemoryStats) -> std::fmt::Result {
    let gib = |bytes: f64| gib(bytes as u64);
    writeln!(
        text,
        "- Memory of the engine: limit {}, model {}, KV cache {}, snapshots {}, prefill {}, reserved {}, active {}, peak {}",
        gib(memory.limit_bytes),
        gib(memory.model_bytes),
        gib(memory.kv_cache_bytes),
        gib(memory.snapshot_bytes),
        gib(memory.prefill_bytes),
        gib(memory.reserved_bytes),
        gib(memory.active_bytes),
        gib(memory.peak_bytes)
    )
}

fn write_settings(text: &mut String, settings: &AppSettings) -> std::fmt::Result {
    writeln!(text, "\n## Settings\n")?;
    writeln!(
        text,
        "- Theme {:?}, text {} %, language {}, overlay {}, sidebar {}, {} open tabs, {} presets",
        settings.theme,
        settings.text_size_percent,
        settings.language.as_deref().unwrap_or("as the system"),
        shown(settings.is_overlay_open),
        shown(settings.is_sidebar_open),
        settings.open_tabs.len(),
        settings.presets.len()
    )?;
    write_sampling(text, &settings.new_conversation)
}

fn write_sampling(text: &mut String, settings: &SamplingSettings) -> std::fmt::Result {
    let structure = match &settings.structured_output {
        None => "none",
        Some(StructuredOutput::JsonSchema { .. }) => "JSON Schema",
        Some(StructuredOutput::Regex { .. }) => "regular expression",
        Some(StructuredOutput::Lark { .. }) => "grammar",
    };
    writeln!(
        text,
        "- New chats: temperature {}, top-p {}, top-k {}, min-p {}, penalties {} / {} / {}, {} tokens at most, \
         logprobs {:?}, {} stop sequences, {} biases, structured output: {structure}, thinking budget {:?}, \
         system prompt: {} characters",
        settings.temperature,
        settings.top_p,
        settings.top_k,
        settings.min_p,
        settings.repetition_penalty,
        settings.frequency_penalty,
        settings.presence_penalty,
        settings.max_tokens,
        settings.logprobs,
        settings.stop.len(),
        settings.logit_bias.len(),
        settings.thinking_budget,
        settings.system_prompt.chars().count()
    )
}

fn shown(is_shown: bool) -> &'static str {
    if is_shown { "shown" } else { "hidden" }
}

async fn write_history(text: &mut String, state: &AppState) -> std::fmt::Result {
    writeln!(text, "\n## History\n")?;
    let history = match state.history().await {
        Ok(history) => history,
        Err(error) => return writeln!(text, "- Cannot be opened: {:?}", error.code()),
    };
    let bytes = fs::metadata(history.path()).map_or(0, |file| file.len());
    match history.list_conversations().await {
        Ok(list) => {
            let messages: u64 = list.iter().map(|summary| u64::from(summary.message_count)).sum();
            let damaged = list.iter().filter(|summary| summary.is_damaged).count();
            writeln!(
                text,
                "- {} conversations, {messages} messages, {damaged} damaged, {bytes} bytes",
                list.len()
            )?;
        }
        Err(error) => {
            writeln!(text, "- Cannot be read ({:?}), {bytes} bytes", AppError::from(error).code())?;
        }
    }
    writeln!(text, "- Answers cut off at the last start: {}", history.interrupted_answers())
}

fn write_log(text: &mut String) -> std::fmt::Result {
    writeln!(text, "\n## Log\n")?;
    match logging::folder().map(latest_lines) {
        None => writeln!(text, "No log is written."),
        Some(Err(error)) => writeln!(text, "The log cannot be read: {error}"),
        Some(Ok(lines)) => writeln!(text, "````text\n{}\n````", lines.join("\n").replace("````", "'''")),
    }
}

/// The last lines of the latest log.
fn latest_lines(folder: &Path) -> io::Result<Vec<String>> {
    let mut files: Vec<_> = fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    // Their names end in their day.
    files.sort();
    let Some(latest) = files.last() else { return Ok(Vec::new()) };
    let log = fs::read(latest)?;
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<_> = log.lines().rev().take(LOG_LINES).collect();
    Ok(lines.into_iter().rev().map(|line| line.chars().take(LINE_CHARS).collect()).collect())
}

/// The text without the name of the person's folder.
fn without_home(text: &str, home: Option<&Path>) -> String {
    match home.and_then(Path::to_str).filter(|home| home.len() > 1) {
        Some(home) => text.replace(home, "~"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_persons_folder_is_a_tilde() {
        assert_eq!(without_home("in /home/ada/x", Some(Path::new("/home/ada"))), "in ~/x");
        assert_eq!(without_home("in /x", Some(Path::new("/"))), "in /x", "a root is nobody's folder");
    }

    #[test]
    fn the_latest_days_last_lines_are_taken() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("writable");
        write("braid.2026-01-01.log", "old\n");
        write("braid.2026-01-02.log", &(0..200).map(|line| format!("{line}\n")).collect::<String>());
        write("zzz.txt", "no log\n");
        let lines = latest_lines(folder.path()).expect("readable");
        assert_eq!((lines.len(), lines[0].as_str(), lines[119].as_str()), (120, "80", "199"));
    }
}
