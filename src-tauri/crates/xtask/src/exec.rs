//! Child processes: shown, run, or captured; a failure carries the command and the end of its output.

use std::{
    ffi::OsStr,
    path::Path,
    process::{Command, Stdio},
};

use crate::error::XtaskError;

/// Lines of a failed command's output that its error repeats.
const TAIL_LINES: usize = 25;

/// Builds a command from a program and its arguments.
pub fn command<S: AsRef<OsStr>>(program: &str, args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    command
}

/// The command as a person would type it: without its environment and the folder of its program.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut words = vec![program.file_name().unwrap_or_default().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Runs a command with this terminal as its output.
///
/// # Errors
/// [`XtaskError::Spawn`] if it cannot start, [`XtaskError::CommandFailed`] if it ends with another status than 0.
pub fn run(command: &mut Command) -> Result<(), XtaskError> {
    let status = command.status().map_err(|source| spawn_error(command, source))?;
    if status.success() {
        return Ok(());
    }
    Err(XtaskError::CommandFailed { command: shown(command), status, tail: String::new() })
}

/// Runs a command silently and returns its standard output.
///
/// # Errors
/// As [`run`]; the error repeats the last lines that the command printed.
pub fn capture(command: &mut Command) -> Result<String, XtaskError> {
    let output = command.output().map_err(|source| spawn_error(command, source))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let said = format!("{stdout}{}", String::from_utf8_lossy(&output.stderr));
    Err(XtaskError::CommandFailed { command: shown(command), status: output.status, tail: tail(&said) })
}

/// The last lines of a command's output, indented, after a colon; empty for no output.
pub fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return String::new();
    }
    let from = lines.len().saturating_sub(TAIL_LINES);
    format!(":\n    {}", lines[from..].join("\n    "))
}

pub fn spawn_error(command: &Command, source: std::io::Error) -> XtaskError {
    XtaskError::Spawn { program: command.get_program().to_string_lossy().into_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_command_repeats_the_end_of_what_it_printed() {
        let error = capture(&mut command("sh", ["-c", "echo first; echo last >&2; exit 3"]))
            .expect_err("the command exits with 3");
        let text = error.to_string();
        assert!(text.contains("exit status: 3") && text.contains("first") && text.contains("last"), "{text}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = capture(&mut command("no-such-program", ["x"])).expect_err("it does not exist");
        assert!(error.next_move().contains("`no-such-program`"), "{}", error.next_move());
    }

    #[test]
    fn a_long_output_keeps_only_its_end() {
        let output: String = (0..100).map(|i| format!("line {i}\n")).collect();
        let tail = tail(&output);
        assert!(!tail.contains("line 74\n") && tail.contains("line 75\n") && tail.ends_with("line 99"));
    }
}
