//! What a person types.

use std::{ffi::OsString, path::PathBuf};

use lexopt::{Arg, Parser, ValueExt as _};

use crate::{error::XtaskError, setup::Rerun};

pub const HELP: &str = "\
cargo xtask COMMAND

  setup [--force]                    get the machine ready; --force makes everything again
  app [--debug]                      set up, build and open Braid
  app --headless [--debug] [--json FILE]
                                     the same app in a virtual display: four tabs, four prompts, the
                                     answers and the performance table; screenshots in target/headless
  test [--only STEP]... [--list]     set up and run every test, or some steps and what they need
  bench [ARGS]...                    set up and measure; ARGS go to the benchmark (--help shows them)
";

/// One command with its options.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    Help,
    Setup(Rerun),
    App(AppOptions),
    Test(TestOptions),
    /// Arguments for the benchmark, as typed.
    Bench(Vec<OsString>),
}

/// Which build of the app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    Dev,
    Release,
}

#[derive(Debug, PartialEq, Eq)]
pub struct AppOptions {
    pub profile: Profile,
    pub window: Window,
}

/// Where the app's window opens.
#[derive(Debug, PartialEq, Eq)]
pub enum Window {
    Screen,
    /// In a virtual display; the report goes to `json`, if given.
    Headless {
        json: Option<PathBuf>,
    },
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct TestOptions {
    /// Steps to run with what they need; all of them if empty.
    pub only: Vec<String>,
    pub is_list: bool,
}

/// Reads the command line (without the program's name).
///
/// # Errors
/// [`XtaskError::Usage`] in the words of the parser.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, XtaskError> {
    let mut parser = Parser::from_args(args);
    let command = parse_command(&mut parser).map_err(|error| XtaskError::Usage(error.to_string()))?;
    Ok(command)
}

fn parse_command(parser: &mut Parser) -> Result<Command, lexopt::Error> {
    let name = match parser.next()? {
        None | Some(Arg::Short('h') | Arg::Long("help")) => return Ok(Command::Help),
        Some(Arg::Value(name)) => name.string()?,
        Some(other) => return Err(other.unexpected()),
    };
    match name.as_str() {
        "help" => Ok(Command::Help),
        "setup" => parse_setup(parser),
        "app" => parse_app(parser),
        "test" => parse_test(parser),
        "bench" => Ok(Command::Bench(parser.raw_args()?.collect())),
        other => Err(format!("there is no command `{other}`").into()),
    }
}

fn parse_setup(parser: &mut Parser) -> Result<Command, lexopt::Error> {
    let mut rerun = Rerun::Stale;
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("force") => rerun = Rerun::Everything,
            other => return Err(other.unexpected()),
        }
    }
    Ok(Command::Setup(rerun))
}

fn parse_app(parser: &mut Parser) -> Result<Command, lexopt::Error> {
    let (mut profile, mut is_headless, mut json) = (Profile::Release, false, None);
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("debug") => profile = Profile::Dev,
            Arg::Long("headless") => is_headless = true,
            Arg::Long("json") => json = Some(PathBuf::from(parser.value()?)),
            other => return Err(other.unexpected()),
        }
    }
    let window = match (is_headless, json) {
        (true, json) => Window::Headless { json },
        (false, None) => Window::Screen,
        (false, Some(_)) => return Err("--json needs --headless".into()),
    };
    Ok(Command::App(AppOptions { profile, window }))
}

fn parse_test(parser: &mut Parser) -> Result<Command, lexopt::Error> {
    let mut options = TestOptions::default();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("only") => options.only.push(parser.value()?.string()?),
            Arg::Long("list") => options.is_list = true,
            other => return Err(other.unexpected()),
        }
    }
    Ok(Command::Test(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, XtaskError> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_app_opens_on_the_screen_from_a_release_build() {
        let expected = AppOptions { profile: Profile::Release, window: Window::Screen };
        assert_eq!(parsed("app").expect("a command"), Command::App(expected));
    }

    #[test]
    fn a_headless_run_takes_a_report_file() {
        let window = Window::Headless { json: Some("out.json".into()) };
        let expected = AppOptions { profile: Profile::Dev, window };
        assert_eq!(
            parsed("app --headless --debug --json out.json").expect("a command"),
            Command::App(expected)
        );
        assert!(parsed("app --json out.json").is_err(), "a window on the screen writes no report");
    }

    #[test]
    fn the_benchmark_gets_its_arguments_untouched() {
        let expected = ["--json", "x.json", "--batch", "1"].map(OsString::from).to_vec();
        assert_eq!(parsed("bench --json x.json --batch 1").expect("a command"), Command::Bench(expected));
    }

    #[test]
    fn unknown_words_are_refused() {
        assert!(parsed("tset").is_err());
        assert!(parsed("test --olny fmt").is_err());
        assert_eq!(parsed("").expect("help"), Command::Help);
    }
}
