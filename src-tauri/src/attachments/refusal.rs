//! Why a file is not attached, in words that name what is wrong and the limit.

use std::{io, sync::Arc};

use super::{MAX_ATTACHMENTS, MAX_CHARS, MAX_FILE_BYTES, pdf};

/// Why a file is not attached. Follows the file's name.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Refusal {
    /// The system does not give the file.
    #[error("cannot be read")]
    Unreadable(#[source] Arc<io::Error>),
    /// A folder.
    #[error("is a folder; files can be attached")]
    Folder,
    /// A device, a pipe, a socket.
    #[error("is a device or a pipe; files can be attached")]
    NotAFile,
    /// Too large.
    #[error("is too large: {} of {} MB", megabytes(*.bytes), megabytes(MAX_FILE_BYTES))]
    TooLarge {
        /// What it has.
        bytes: u64,
    },
    /// Too much text.
    #[error("has too much text: {chars} of {MAX_CHARS} characters")]
    TooLong {
        /// What it has; more where reading stopped at the limit.
        chars: usize,
    },
    /// No text.
    #[error("has no text")]
    Empty,
    /// Not a text.
    #[error("is {}; text, Markdown, code and PDF can be attached", kind.as_deref().unwrap_or("no text"))]
    Binary {
        /// What its first bytes say.
        kind: Option<String>,
    },
    /// A text in an encoding that cannot be told.
    #[error("is in an encoding that cannot be told for sure; saved as UTF-8 it can be attached")]
    Encoding,
    /// A PDF behind a password.
    #[error("is protected by a password; a copy without one can be attached")]
    PdfEncrypted,
    /// A PDF of pictures.
    #[error(
        "has {pages} pages and no text in them, only pictures; after text recognition it can be attached"
    )]
    PdfWithoutText {
        /// Its pages.
        pages: u32,
    },
    /// A PDF that is none, or is damaged.
    #[error("cannot be read as a PDF: it is damaged")]
    PdfDamaged,
    /// A PDF that takes too much.
    #[error("takes too much to read: more than {} s or {} MB", pdf::TIME_LIMIT.as_secs(), pdf::MEMORY_LIMIT_BYTES >> 20)]
    PdfTooHard,
    /// The process that reads PDFs does not run.
    #[error("cannot be read: the reader of PDFs does not start")]
    PdfReader(#[source] Arc<io::Error>),
    /// As many as may be are there.
    #[error("is one too many: {max_attachments} of {MAX_ATTACHMENTS} files are attached")]
    TooManyAttachments {
        /// Attachments of a message at most.
        max_attachments: u32,
    },
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(Arc::new(error))
    }
}

/// Millions of bytes with one decimal, rounded up: a file a little over a limit must not seem to meet it.
fn megabytes(bytes: u64) -> String {
    let tenths = bytes.div_ceil(100_000);
    if tenths.is_multiple_of(10) {
        (tenths / 10).to_string()
    } else {
        format!("{}.{}", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_figure_and_limit() {
        let says = |refusal: Refusal| refusal.to_string();
        assert_eq!(says(Refusal::TooLarge { bytes: 20_000_001 }), "is too large: 20.1 of 20 MB");
        assert_eq!(
            says(Refusal::TooLong { chars: 2_000_001 }),
            "has too much text: 2000001 of 2000000 characters"
        );
        assert!(
            says(Refusal::Binary { kind: Some("a PNG picture".into()) }).starts_with("is a PNG picture;")
        );
    }
}
