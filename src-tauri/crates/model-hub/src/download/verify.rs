//! Whether bytes are those that the hub promised.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::hub::{HubError, RemoteFile};

const READ_BYTES: usize = 1 << 20;

/// The hash that a file's name in the listing promises.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Promise {
    Sha256(String),
    /// Of git: over a header with the length, then the content.
    GitSha1(String),
}

/// Whether the listing promises a hash of the file's content, not only a size.
pub(super) fn has_hash(file: &RemoteFile) -> bool {
    promise(file).is_some()
}

fn promise(file: &RemoteFile) -> Option<Promise> {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let named = file.sha256.as_deref().unwrap_or(&file.etag);
    match named.len() {
        64 if is_hex(named) => Some(Promise::Sha256(named.to_ascii_lowercase())),
        40 if is_hex(named) => Some(Promise::GitSha1(named.to_ascii_lowercase())),
        _ => None,
    }
}

enum Hasher {
    Sha256(Sha256),
    GitSha1(Sha1),
}

impl Hasher {
    fn new(promise: &Promise, bytes: u64) -> Self {
        match promise {
            Promise::Sha256(_) => Self::Sha256(Sha256::new()),
            Promise::GitSha1(_) => Self::GitSha1(Sha1::new_with_prefix(format!("blob {bytes}\0"))),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::GitSha1(hasher) => hasher.update(bytes),
        }
    }

    fn finish(self) -> String {
        match self {
            Self::Sha256(hasher) => hex(&hasher.finalize()),
            Self::GitSha1(hasher) => hex(&hasher.finalize()),
        }
    }
}

/// Lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Checks a file's content, held in memory.
///
/// # Errors
/// [`HubError::WrongSize`] or [`HubError::Corrupt`].
pub(crate) fn check_content(file: &RemoteFile, content: &[u8]) -> Result<(), HubError> {
    check_size(file, content.len() as u64)?;
    let Some(promise) = promise(file) else { return Ok(()) };
    let mut hasher = Hasher::new(&promise, file.bytes);
    hasher.update(content);
    compare(file, &promise, hasher.finish())
}

/// Checks a file on disk, at most [`READ_BYTES`] of it in memory. Returns early, with `Ok`, once `is_stopped` is set:
/// nobody waits for the answer then.
///
/// # Errors
/// [`HubError::WrongSize`], `Corrupt` or `Disk`.
pub(super) fn check_file(file: &RemoteFile, path: &Path, is_stopped: &AtomicBool) -> Result<(), HubError> {
    let failed = |error: io::Error| HubError::disk(path, error);
    let mut reader = File::open(path).map_err(failed)?;
    check_size(file, reader.metadata().map_err(failed)?.len())?;
    let Some(promise) = promise(file) else { return Ok(()) };
    let mut hasher = Hasher::new(&promise, file.bytes);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        if is_stopped.load(Ordering::Relaxed) {
            return Ok(());
        }
        match reader.read(&mut buffer).map_err(failed)? {
            0 => return compare(file, &promise, hasher.finish()),
            count => hasher.update(&buffer[..count]),
        }
    }
}

fn check_size(file: &RemoteFile, found_bytes: u64) -> Result<(), HubError> {
    if found_bytes == file.bytes {
        return Ok(());
    }
    Err(HubError::WrongSize { path: file.path.clone(), expected_bytes: file.bytes, found_bytes })
}

fn compare(file: &RemoteFile, promise: &Promise, found: String) -> Result<(), HubError> {
    let (Promise::Sha256(expected) | Promise::GitSha1(expected)) = promise;
    if *expected == found {
        return Ok(());
    }
    Err(HubError::Corrupt { path: file.path.clone(), expected: expected.clone(), found })
}
