//! A file on the disk -> its text, or the bytes of a PDF.

use std::{
    fs::{self, File},
    io::Read as _,
    path::Path,
};

use history::AttachmentKind;

use super::{MAX_CHARS, MAX_FILE_BYTES, Refusal, written};

/// Where the mark of a PDF is looked for: some begin with what a mail program or a printer put there.
const PDF_MARK_WITHIN: usize = 1024;

/// What a file has.
#[derive(Debug)]
pub enum Content {
    /// Text.
    Text {
        /// By its name, else plain.
        kind: AttachmentKind,
        /// Not checked for its length yet.
        text: String,
    },
    /// A PDF.
    Pdf(Vec<u8>),
}

/// Reads a file. Blocks for as long as the disk does, and on nothing else.
///
/// # Errors
/// What is no file, is too large, or is no text.
pub fn read(path: &Path) -> Result<Content, Refusal> {
    // Asked before it is opened: opening a pipe would wait for its other end.
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(Refusal::Folder);
    }
    if !metadata.is_file() {
        return Err(Refusal::NotAFile);
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(Refusal::TooLarge { bytes: metadata.len() });
    }
    let mut bytes = Vec::new();
    // It may grow while it is read, and some files do not say their length.
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(Refusal::TooLarge { bytes: bytes.len() as u64 });
    }
    let head = &bytes[..bytes.len().min(PDF_MARK_WITHIN)];
    let kind = path.file_name().and_then(|name| kind_by_name(&name.to_string_lossy()));
    let is_marked = head.windows(5).any(|window| window == b"%PDF-");
    // A text about PDFs may name the mark; a PDF begins with it or says so in its name.
    if is_marked && (head.starts_with(b"%PDF-") || kind == Some(AttachmentKind::Pdf)) {
        return Ok(Content::Pdf(bytes));
    }
    if kind == Some(AttachmentKind::Pdf) {
        return Err(if bytes.is_empty() { Refusal::Empty } else { Refusal::PdfDamaged });
    }
    let text = written::decode(bytes)?;
    Ok(Content::Text { kind: kind.unwrap_or(AttachmentKind::Text), text })
}

/// Checks the length of a text.
///
/// # Errors
/// [`Refusal::Empty`], [`Refusal::TooLong`].
pub fn check_text(text: &str) -> Result<(), Refusal> {
    if text.trim().is_empty() {
        return Err(Refusal::Empty);
    }
    let chars = text.chars().count();
    if chars > MAX_CHARS { Err(Refusal::TooLong { chars }) } else { Ok(()) }
}

/// What a file is by the end of its name, where that says something.
pub fn kind_by_name(name: &str) -> Option<AttachmentKind> {
    let name = name.to_lowercase();
    if matches!(
        name.as_str(),
        "makefile" | "dockerfile" | "cmakelists.txt" | "gemfile" | "rakefile" | "justfile"
    ) {
        return Some(AttachmentKind::Code);
    }
    let (_, extension) = name.rsplit_once('.')?;
    match extension {
        "pdf" => Some(AttachmentKind::Pdf),
        "md" | "markdown" | "mdx" | "mdown" | "rmd" | "qmd" => Some(AttachmentKind::Markdown),
        "txt" | "text" | "log" | "srt" | "vtt" | "eml" => Some(AttachmentKind::Text),
        extension if CODE.contains(&extension) => Some(AttachmentKind::Code),
        _ => None,
    }
}

/// Extensions of source code and of data in text formats.
#[rustfmt::skip]
const CODE: &[&str] = &[
    "adoc", "asm", "astro", "awk", "bash", "bat", "bib", "c", "cc", "cfg", "clj", "cljs", "cmake", "cmd", "conf", "cpp",
    "cs", "css", "csv", "cu", "cxx", "d", "dart", "diff", "dockerfile", "edn", "el", "elm", "env", "erl", "ex", "exs",
    "f90", "fish", "fs", "fsx", "gd", "geojson", "glsl", "go", "gql", "gradle", "graphql", "groovy", "h", "haml", "hbs",
    "hcl", "hh", "hpp", "hs", "htm", "html", "hxx", "ics", "ini", "ipynb", "java", "jl", "js", "json", "json5", "jsonc",
    "jsonl", "jsx", "kt", "kts", "latex", "less", "lisp", "lua", "m", "mjs", "mk", "ml", "mm", "ndjson", "nim", "nix",
    "org", "pas", "patch", "php", "pl", "plist", "pm", "prisma", "properties", "proto", "ps1", "py", "pyi", "r", "rb",
    "rkt", "rs", "rst", "sass", "scala", "scm", "scss", "sh", "sol", "sql", "svelte", "svg", "swift", "tcl", "tex",
    "tf", "toml", "ts", "tsv", "tsx", "v", "vb", "vcf", "vhd", "vim", "vue", "wat", "wgsl", "xml", "xsd", "xsl", "yaml",
    "yml", "zig", "zsh",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn written(folder: &Path, name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let path = folder.join(name);
        File::create(&path).unwrap().write_all(bytes).unwrap();
        path
    }

    #[test]
    fn the_kind_is_told_by_name_and_a_pdf_by_its_mark() {
        let folder = tempfile::tempdir().unwrap();
        for (name, kind) in [
            ("Notes.MD", AttachmentKind::Markdown),
            ("main.rs", AttachmentKind::Code),
            ("Makefile", AttachmentKind::Code),
            ("data.csv", AttachmentKind::Code),
            ("LICENSE", AttachmentKind::Text),
            ("what.ever", AttachmentKind::Text),
        ] {
            let read = read(&written(folder.path(), name, b"text")).unwrap();
            assert!(
                matches!(&read, Content::Text { kind: found, text } if *found == kind && text == "text"),
                "{name}"
            );
        }
        let marked = b"junk of a printer %PDF-1.4 ...";
        assert!(matches!(read(&written(folder.path(), "a.pdf", marked)), Ok(Content::Pdf(_))));
        assert!(matches!(read(&written(folder.path(), "no-name", b"%PDF-1.7 ...")), Ok(Content::Pdf(_))));
        assert!(matches!(read(&written(folder.path(), "about.txt", marked)), Ok(Content::Text { .. })));
        assert!(matches!(read(&written(folder.path(), "b.pdf", b"no mark")), Err(Refusal::PdfDamaged)));
    }

    #[test]
    fn what_is_too_large_is_refused_before_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path(), "large.txt", b"");
        File::options().write(true).open(&path).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        assert!(matches!(read(&path), Err(Refusal::TooLarge { bytes }) if bytes == MAX_FILE_BYTES + 1));
        assert!(
            matches!(check_text(&"é".repeat(MAX_CHARS + 1)), Err(Refusal::TooLong { chars }) if chars == MAX_CHARS + 1)
        );
        assert!(check_text(&"é".repeat(MAX_CHARS)).is_ok());
        assert!(matches!(check_text(" \n"), Err(Refusal::Empty)));
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(read(folder.path()), Err(Refusal::Folder)));
        assert!(matches!(read(Path::new("/dev/zero")), Err(Refusal::NotAFile)));
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(matches!(read(&pipe), Err(Refusal::NotAFile)));
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        std::os::unix::fs::symlink(&one, &two).unwrap();
        std::os::unix::fs::symlink(&two, &one).unwrap();
        assert!(matches!(read(&one), Err(Refusal::Unreadable(_))), "a loop of links");
        assert!(matches!(read(&folder.path().join("gone")), Err(Refusal::Unreadable(_))));
    }
}
