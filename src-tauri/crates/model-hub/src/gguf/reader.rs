use std::{
    io::Read,
    path::{Path, PathBuf},
};

use crate::ModelHubError;

/// No model's header comes near this; what claims to is damaged.
const HEADER_BYTES_MAX: u64 = 256 << 20;
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// Reads a header front to back. No length is believed before it is checked against the rest of the file.
pub(super) struct Reader<R> {
    source: R,
    path: PathBuf,
    at_bytes: u64,
    file_bytes: u64,
}

impl<R: Read> Reader<R> {
    pub(super) fn new(source: R, path: &Path, file_bytes: u64) -> Self {
        Self { source, path: path.to_path_buf(), at_bytes: 0, file_bytes }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn at_bytes(&self) -> u64 {
        self.at_bytes
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    pub(super) fn damaged(&self, what: &str, reason: impl Into<String>) -> ModelHubError {
        ModelHubError::Damaged {
            path: self.path.clone(),
            at_bytes: self.at_bytes,
            what: what.to_string(),
            reason: reason.into(),
        }
    }

    pub(super) fn truncated(&self, what: &str, needed_bytes: u64) -> ModelHubError {
        ModelHubError::Truncated {
            path: self.path.clone(),
            what: what.to_string(),
            needed_bytes,
            file_bytes: self.file_bytes,
        }
    }

    pub(super) fn u8(&mut self, what: &str) -> Result<u8, ModelHubError> {
        Ok(self.array::<1>(what)?[0])
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, ModelHubError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, ModelHubError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    pub(super) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], ModelHubError> {
        let mut bytes = [0; N];
        self.check(N as u64, what)?;
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// A count of things that take at least `bytes_each` bytes each.
    pub(super) fn count(&mut self, what: &str, bytes_each: u64, max: u64) -> Result<usize, ModelHubError> {
        let count = self.u64(what)?;
        if count > max {
            return Err(self.damaged(what, format!("is {count}, more than the {max} that any model has")));
        }
        // `max` keeps the product far below overflow.
        self.check(count * bytes_each, what)?;
        usize::try_from(count).map_err(|_| self.damaged(what, "does not fit this machine"))
    }

    pub(super) fn text(&mut self, what: &str) -> Result<String, ModelHubError> {
        let length = self.count(what, 1, TEXT_BYTES_MAX)?;
        let mut bytes = vec![0; length];
        self.fill(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| self.damaged(what, "is not UTF-8 text"))
    }

    fn check(&self, bytes: u64, what: &str) -> Result<(), ModelHubError> {
        let end = self.at_bytes.saturating_add(bytes);
        if end > self.file_bytes {
            return Err(self.truncated(what, end));
        }
        if end > HEADER_BYTES_MAX {
            return Err(self.damaged(what, "lies beyond any model's header"));
        }
        Ok(())
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), ModelHubError> {
        let failed = |source| ModelHubError::Read { path: self.path.clone(), source };
        self.source.read_exact(bytes).map_err(failed)?;
        self.at_bytes += bytes.len() as u64;
        Ok(())
    }
}
