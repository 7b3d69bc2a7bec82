//! Names of files that every system takes.

use std::path::{Path, PathBuf};

/// Characters of a name at most, without its number and its extension.
const MAX_CHARS: usize = 80;

/// Bytes of a name at most: file systems take 255, and a number and an extension follow.
const MAX_BYTES: usize = 200;

/// The name of a conversation without a title.
const UNTITLED: &str = "Conversation";

/// Names that Windows keeps for devices, whatever their extension.
#[rustfmt::skip]
const DEVICES: [&str; 22] = [
    "con", "prn", "aux", "nul", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9", "lpt1", "lpt2",
    "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9",
];

/// The paths that a file of this title may have, the plainest first, without end.
pub fn candidates(folder: &Path, title: &str, extension: &str) -> impl Iterator<Item = PathBuf> {
    let (folder, name, extension) = (folder.to_owned(), safe_name(title), extension.to_owned());
    (1_u64..).map(move |number| match number {
        1 => folder.join(format!("{name}.{extension}")),
        number => folder.join(format!("{name} ({number}).{extension}")),
    })
}

/// A title as the name of a file: no path, no device, nothing hidden.
pub fn safe_name(title: &str) -> String {
    let is_unsafe = |c: char| {
        c.is_control()
            || matches!(c, '<' | '>' | ':' | '"' | '/' | '\\' | '|' | '?' | '*')
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let spaced: String = title.chars().map(|c| if is_unsafe(c) { ' ' } else { c }).collect();
    let line = spaced.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut name = String::new();
    for c in line.chars().take(MAX_CHARS) {
        if name.len() + c.len_utf8() > MAX_BYTES {
            break;
        }
        name.push(c);
    }
    // A dot first hides a file; Windows drops dots and spaces at the end.
    let name = name.trim_start_matches(['.', ' ']).trim_end_matches(['.', ' ']);
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_lowercase();
    match name {
        "" => UNTITLED.to_owned(),
        name if DEVICES.contains(&stem.as_str()) => format!("{name}_"),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_becomes_a_name_that_every_system_takes() {
        for (title, name) in [
            ("Trip to Lisbon", "Trip to Lisbon"),
            ("../../etc/passwd", "etc passwd"),
            ("a/b\\c:d*e?f\"g<h>i|j", "a b c d e f g h i j"),
            ("CON", "CON_"),
            ("nul.txt", "nul.txt_"),
            ("Lpt1 ", "Lpt1_"),
            ("console", "console"),
            (".hidden", "hidden"),
            ("ends with dots...", "ends with dots"),
            ("line\nbreak\u{0}", "line break"),
            ("\u{202e}fdp", "fdp"),
            ("東京の天気", "東京の天気"),
            ("  ", UNTITLED),
            ("...", UNTITLED),
        ] {
            assert_eq!(safe_name(title), name, "{title:?}");
        }
        assert_eq!(safe_name(&"x".repeat(300)).len(), MAX_CHARS);
        assert!(safe_name(&"🗼".repeat(300)).len() <= MAX_BYTES);
    }
}
