//! Names that come from a hub and become names on this disk: everything that could lead elsewhere is refused.

use std::collections::BTreeSet;

/// Bytes of a repository's name, path or revision.
const NAME_BYTES_MAX: usize = 255;

/// Splits `owner/name` (or a plain `name`), each of letters, digits, `-`, `_` and `.`.
pub(crate) fn is_repo(repo: &str) -> bool {
    let parts: Vec<&str> = repo.split('/').collect();
    let is_part = |part: &&str| {
        !part.is_empty()
            && part.len() <= 96
            && !part.starts_with(['.', '-'])
            && !part.ends_with('.')
            // The layout on disk joins owner and name with it.
            && !part.contains("--")
            && !part.contains("..")
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    matches!(parts.len(), 1 | 2) && parts.iter().all(is_part)
}

/// Whether `revision` is a branch, tag or commit whose name can be a path below `refs/`.
pub(crate) fn is_revision(revision: &str) -> bool {
    check_path(revision).is_ok() && revision.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether `commit` is a full commit.
pub(crate) fn is_commit(commit: &str) -> bool {
    commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether `etag` can be the name of a blob, on every file system.
pub(crate) fn is_etag(etag: &str) -> bool {
    (1..=128).contains(&etag.len())
        && etag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        && !is_reserved(etag)
}

/// Refuses a path that could leave its folder or be another file than it says, on any system. `Err` says why.
pub(crate) fn check_path(path: &str) -> Result<(), &'static str> {
    if path.is_empty() || path.len() > NAME_BYTES_MAX {
        return Err("has no usable length");
    }
    if let Some(why) = escape(path) {
        return Err(why);
    }
    if path.contains(':') {
        return Err("holds a colon");
    }
    if path.chars().any(|letter| letter.is_control() || is_invisible(letter)) {
        return Err("holds characters that cannot be seen");
    }
    for part in path.split('/') {
        if part.is_empty() || part == "." {
            return Err("has an empty part");
        }
        if part.ends_with(['.', ' ']) {
            return Err("ends in a dot or space");
        }
        if is_reserved(part) {
            return Err("is a reserved name");
        }
    }
    Ok(())
}

/// Why a path leads out of its folder, if it does: nobody lists such a file by mistake.
pub(crate) fn escape(path: &str) -> Option<&'static str> {
    if path.starts_with('/') || path.as_bytes().get(1) == Some(&b':') {
        return Some("is an absolute path");
    }
    if path.contains('\\') {
        return Some("holds a backslash");
    }
    if path.contains('\0') {
        return Some("holds a NUL");
    }
    path.split('/').any(|part| part == "..").then_some("leads out of its folder")
}

/// The first path that another one equals but for case: one would replace the other where case does not count.
pub(crate) fn first_collision<'a>(paths: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = BTreeSet::new();
    paths.into_iter().find(|path| !seen.insert(path.to_lowercase()))
}

/// Marks that hide or turn text: a name with them is not what it looks like.
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Device names of Windows, with or without an extension.
fn is_reserved(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or(part).trim_end().to_ascii_lowercase();
    let numbered = |prefix: &str| {
        stem.strip_prefix(prefix)
            .is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    ["con", "prn", "aux", "nul"].contains(&stem.as_str()) || numbered("com") || numbered("lpt")
}
