//! The four things a person brings: Rust (they run this), Node with npm, Python 3 with pip, a C++ compiler.

use super::Outcome;
use crate::{
    error::XtaskError,
    exec::{capture, command},
};

struct Tool {
    name: &'static str,
    program: &'static str,
    args: &'static [&'static str],
    minimum: &'static [u32],
    install: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool {
        name: "Node",
        program: "node",
        args: &["--version"],
        minimum: &[20, 19],
        install: "install Node 20.19 or newer with npm",
    },
    Tool {
        name: "npm",
        program: "npm",
        args: &["--version"],
        minimum: &[10],
        install: "install npm 10 or newer",
    },
    Tool {
        name: "Python",
        program: "python3",
        args: &["--version"],
        minimum: &[3, 10],
        install: "install Python 3.10 or newer (Debian: apt-get install python3)",
    },
    Tool {
        name: "pip",
        program: "python3",
        args: &["-m", "pip", "--version"],
        minimum: &[22, 3],
        install: "install pip 22.3 or newer for python3 (Debian: apt-get install python3-pip)",
    },
    // C++20 and libstdc++'s ranges and spans, as MLX's headers use them.
    Tool {
        name: "a C++ compiler (c++)",
        program: "c++",
        args: &["-dumpversion"],
        minimum: &[11],
        install: "install a C++20 compiler (Debian: apt-get install g++; macOS: xcode-select --install)",
    },
];

/// Checks that each tool answers and is new enough.
pub fn check() -> Result<Outcome, XtaskError> {
    for tool in TOOLS {
        let missing = |_| XtaskError::MissingTool { tool: tool.name, install: tool.install };
        let said = capture(&mut command(tool.program, tool.args)).map_err(missing)?;
        let found = version_in(&said);
        if !reaches(&found, tool.minimum) {
            return Err(XtaskError::OldTool {
                tool: tool.name,
                minimum: dotted(tool.minimum),
                found: said.trim().to_owned(),
                install: tool.install,
            });
        }
    }
    Ok(Outcome::AlreadyDone)
}

/// The first dotted number in a program's version line; empty if there is none.
fn version_in(text: &str) -> Vec<u32> {
    let Some(start) = text.find(|c: char| c.is_ascii_digit()) else { return Vec::new() };
    let number: &str =
        text[start..].split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default();
    number.split('.').map_while(|part| part.parse().ok()).collect()
}

/// Whether `found` is `minimum` or newer; parts that `found` leaves out count as 0.
fn reaches(found: &[u32], minimum: &[u32]) -> bool {
    let padded = (0..minimum.len()).map(|i| found.get(i).copied().unwrap_or(0));
    !found.is_empty() && padded.ge(minimum.iter().copied())
}

fn dotted(version: &[u32]) -> String {
    version.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_the_tools_print() {
        assert_eq!(version_in("v20.20.2\n"), [20, 20, 2]);
        assert_eq!(version_in("Python 3.11.7"), [3, 11, 7]);
        assert_eq!(version_in("pip 23.2.1 from /usr/lib/python3.11 (python 3.11)"), [23, 2, 1]);
        assert_eq!(version_in("12\n"), [12]);
        assert!(version_in("command not found").is_empty());
    }

    #[test]
    fn a_newer_major_beats_an_older_minor() {
        assert!(reaches(&[22, 0], &[20, 19]));
        assert!(reaches(&[20, 19, 0], &[20, 19]));
        assert!(!reaches(&[20, 18, 9], &[20, 19]));
        assert!(reaches(&[11], &[11]), "a compiler that prints only its major version");
        assert!(!reaches(&[], &[11]), "no version at all is not new enough");
    }
}
