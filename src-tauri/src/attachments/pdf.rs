//! The text of a PDF, read by a process of its own.
//!
//! PDFs come from anywhere, and what a damaged or hostile one does to the code that reads it cannot be caught within a
//! process: it may never return, overflow the stack or take all memory. So this program runs itself with
//! [`ARGUMENT`]: the bytes go in, [`Report`] comes out, and a child that takes too long is killed.

use std::{
    io::{self, Read as _, Write as _},
    panic::{self, AssertUnwindSafe},
    path::Path,
    process::Stdio,
    sync::Arc,
    thread,
    time::Duration,
};

use pdf_extract::{Document, PlainTextOutput, output_doc_page};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::Command,
};

use super::{MAX_CHARS, Refusal};

/// Makes this program read a PDF from its standard input.
pub const ARGUMENT: &str = "--read-pdf";

/// How long a PDF may take.
pub const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Memory that the reading process may hold.
pub const MEMORY_LIMIT_BYTES: usize = 1500 << 20;

/// Stack of the thread that reads: nested objects are read by recursion.
const STACK_BYTES: usize = 256 << 20;

/// How often the process looks at its memory.
const MEMORY_INTERVAL: Duration = Duration::from_millis(20);

/// Ends a process that holds too much memory.
const EXIT_MEMORY: i32 = 7;

/// A report is at most this long: every character may take six bytes in JSON.
const MAX_REPORT_BYTES: u64 = 6 * MAX_CHARS as u64 + 4096;

/// The text of a PDF.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PdfText {
    /// Its pages.
    pub pages: u32,
    /// Their text, parted by blank lines.
    pub text: String,
}

/// What the reading process found.
#[derive(Debug, Serialize, Deserialize)]
enum Report {
    Text(PdfText),
    TooLong { chars: usize },
    Encrypted,
    Damaged,
}

/// Reads the text of a PDF with `program`, which is this one.
///
/// # Errors
/// What is wrong with the PDF, or that it takes too much.
pub async fn read(program: &Path, pdf: Vec<u8>) -> Result<PdfText, Refusal> {
    let mut child = Command::new(program)
        .arg(ARGUMENT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| Refusal::PdfReader(Arc::new(error)))?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Refusal::PdfReader(Arc::new(io::ErrorKind::BrokenPipe.into())));
    };
    let exchange = async {
        let feed = async move {
            // A child that ends early has said all there is to say.
            let _ = stdin.write_all(&pdf).await;
        };
        let mut report = Vec::new();
        let mut stdout = stdout.take(MAX_REPORT_BYTES);
        let ((), read) = tokio::join!(feed, stdout.read_to_end(&mut report));
        read?;
        Ok::<_, io::Error>((child.wait().await?, report))
    };
    let (status, report) = match tokio::time::timeout(TIME_LIMIT, exchange).await {
        Err(_) => return Err(Refusal::PdfTooHard),
        Ok(exchanged) => exchanged.map_err(|error| Refusal::PdfReader(Arc::new(error)))?,
    };
    if status.code() == Some(EXIT_MEMORY) {
        return Err(Refusal::PdfTooHard);
    }
    // A child that crashed met a PDF that no reader is made for.
    let report = if status.success() { serde_json::from_slice(&report).ok() } else { None };
    match report.unwrap_or(Report::Damaged) {
        Report::Text(PdfText { pages, text }) if text.trim().is_empty() => Err(no_text(pages)),
        Report::Text(read) => Ok(read),
        Report::TooLong { chars } => Err(Refusal::TooLong { chars }),
        Report::Encrypted => Err(Refusal::PdfEncrypted),
        Report::Damaged => Err(Refusal::PdfDamaged),
    }
}

fn no_text(pages: u32) -> Refusal {
    if pages == 0 { Refusal::PdfDamaged } else { Refusal::PdfWithoutText { pages } }
}

/// Whether this process was started to read a PDF.
pub fn is_reader() -> bool {
    std::env::args_os().nth(1).is_some_and(|argument| argument == ARGUMENT)
}

/// Reads a PDF from the standard input and writes the report to the standard output. Returns the exit status.
pub fn run_reader() -> i32 {
    thread::spawn(|| {
        loop {
            let held = memory_stats::memory_stats().map_or(0, |memory| memory.physical_mem);
            if held > MEMORY_LIMIT_BYTES {
                std::process::exit(EXIT_MEMORY);
            }
            thread::sleep(MEMORY_INTERVAL);
        }
    });
    let reading = thread::Builder::new().stack_size(STACK_BYTES).spawn(|| {
        let mut pdf = Vec::new();
        io::stdin().lock().read_to_end(&mut pdf)?;
        let report = panic::catch_unwind(|| report(&pdf)).unwrap_or(Report::Damaged);
        let json = serde_json::to_vec(&report)?;
        io::stdout().lock().write_all(&json)
    });
    match reading.map(thread::JoinHandle::join) {
        Ok(Ok(Ok(()))) => 0,
        _ => 1,
    }
}

fn report(pdf: &[u8]) -> Report {
    let mut document = match Document::load_mem(pdf) {
        Ok(document) => document,
        Err(pdf_extract::Error::InvalidPassword) => return Report::Encrypted,
        Err(_) => return Report::Damaged,
    };
    // Most encrypted PDFs forbid something and open for everyone: their password is empty, and loading takes that.
    if document.trailer.get(b"Encrypt").is_ok() && document.decrypt("").is_err() {
        return Report::Encrypted;
    }
    let pages = document.get_pages();
    let (mut text, mut chars, mut read_pages) = (String::new(), 0, 0);
    for number in pages.keys() {
        let mut page = String::new();
        let output = |page: &mut String| output_doc_page(&document, &mut PlainTextOutput::new(page), *number);
        // One page that cannot be read costs no other.
        let read = panic::catch_unwind(AssertUnwindSafe(|| output(&mut page).is_ok()));
        read_pages += u32::from(read.unwrap_or(false));
        let page = page.trim();
        if page.is_empty() {
            continue;
        }
        chars += page.chars().count();
        if chars > MAX_CHARS {
            return Report::TooLong { chars };
        }
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(page);
    }
    if read_pages == 0 && text.is_empty() {
        return Report::Damaged;
    }
    Report::Text(PdfText { pages: u32::try_from(pages.len()).unwrap_or(u32::MAX), text })
}
