//! Whether the app ended as it should: a marker lies in the data folder while it runs.

use std::{
    fs, io, panic,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::{SystemTime, UNIX_EPOCH},
};

use protocol::LastEnd;

/// Lies in the data folder while the app runs. First line: Unix milliseconds of its start; then places that panicked.
const MARKER: &str = "running";

/// The marker of this process, for the panic hook, which can be given nothing.
static OWN: OnceLock<PathBuf> = OnceLock::new();

/// Says how the app ended before and notes that it runs now. The history's lock is held: no other Braid runs.
pub fn begin(data: &Path) -> LastEnd {
    let marker = data.join(MARKER);
    let last = read(&marker);
    if let Err(error) = write_start(&marker) {
        tracing::warn!(%error, "an abrupt end of this run will not be noticed");
    }
    if OWN.set(marker).is_ok() {
        note_panics();
    }
    last
}

/// Notes that the app ends as it should.
pub fn end() {
    let Some(marker) = OWN.get() else { return };
    if let Err(error) = fs::remove_file(marker) {
        tracing::warn!(%error, "the next start will take this end for an abrupt one");
    }
}

fn read(marker: &Path) -> LastEnd {
    let Ok(text) = fs::read_to_string(marker) else { return LastEnd::Clean };
    let mut lines = text.lines();
    let started_at_ms = lines.next().and_then(|line| line.parse().ok()).unwrap_or_default();
    // The last panic: those before it were survived.
    LastEnd::Abrupt { started_at_ms, place: lines.next_back().map(str::to_owned) }
}

fn write_start(marker: &Path) -> io::Result<()> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    fs::write(marker, format!("{}\n", since.as_millis()))
}

/// Adds where a panic was to the marker: if it ends the app, the next start can say it.
fn note_panics() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if let (Some(marker), Some(place)) = (OWN.get(), panic.location()) {
            // The payload may quote a message; the place is enough. Nothing can be done if it cannot be written.
            let _ = append(marker, &format!("{place}\n"));
        }
        before(panic);
    }));
}

fn append(marker: &Path, line: &str) -> io::Result<()> {
    use io::Write as _;
    fs::OpenOptions::new().append(true).open(marker)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_without_a_word_is_abrupt_and_told_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let marker = folder.path().join(MARKER);
        assert_eq!(read(&marker), LastEnd::Clean, "the first start");
        write_start(&marker).expect("the folder is writable");
        assert!(matches!(read(&marker), LastEnd::Abrupt { started_at_ms: 1.., place: None }));
        append(&marker, "src/a.rs:1:2\n").expect("the file is there");
        append(&marker, "src/b.rs:3:4\n").expect("the file is there");
        let LastEnd::Abrupt { place, .. } = read(&marker) else { panic!("it has not ended") };
        assert_eq!(place.as_deref(), Some("src/b.rs:3:4"));
        fs::remove_file(&marker).expect("the file is there");
        assert_eq!(read(&marker), LastEnd::Clean);
    }

    #[test]
    fn a_damaged_marker_still_says_that_the_end_was_abrupt() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let marker = folder.path().join(MARKER);
        fs::write(&marker, "").expect("the folder is writable");
        assert_eq!(read(&marker), LastEnd::Abrupt { started_at_ms: 0, place: None });
    }
}
