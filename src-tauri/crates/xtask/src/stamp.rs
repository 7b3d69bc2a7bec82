//! Stamps: a step is skipped while the fingerprint of its inputs is the one it last finished with.

use std::{
    fmt::Write as _,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use crate::error::XtaskError;

/// Collects the inputs of a step; equal inputs in equal order give equal fingerprints.
#[derive(Default)]
pub struct Fingerprint(Sha256);

impl Fingerprint {
    /// Adds a named text. Name and value are length-prefixed, so no two lists of inputs run together.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        for part in [name, value] {
            self.0.update(part.len().to_le_bytes());
            self.0.update(part);
        }
        self
    }

    /// Adds the content of a file.
    ///
    /// # Errors
    /// [`XtaskError::Io`] if the file cannot be read.
    pub fn with_file(self, path: &Path) -> Result<Self, XtaskError> {
        let digest = sha256_of(path)?;
        Ok(self.with("file", &digest))
    }

    /// The fingerprint in lower-case hex.
    #[must_use]
    pub fn finish(self) -> String {
        hex(&self.0.finalize())
    }
}

/// The folder that keeps one stamp file per step.
pub struct Stamps {
    folder: PathBuf,
}

impl Stamps {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Whether the step last finished with exactly this fingerprint and everything it made is still there.
    pub fn is_current(&self, step: &str, fingerprint: &str, products: &[PathBuf]) -> bool {
        self.get(step) == fingerprint && products.iter().all(|product| product.exists())
    }

    /// The fingerprint that the step last finished with; empty if it never did.
    pub fn get(&self, step: &str) -> String {
        fs::read_to_string(self.folder.join(step)).unwrap_or_default()
    }

    /// Records that the step finished. Call it last: an interrupted step then runs again.
    ///
    /// # Errors
    /// [`XtaskError::Io`] if the stamp cannot be written.
    pub fn set(&self, step: &str, fingerprint: &str) -> Result<(), XtaskError> {
        fs::create_dir_all(&self.folder).map_err(XtaskError::io(&self.folder))?;
        let path = self.folder.join(step);
        fs::write(&path, fingerprint).map_err(XtaskError::io(&path))
    }
}

/// The SHA-256 of a file in lower-case hex.
///
/// # Errors
/// [`XtaskError::Io`] if the file cannot be read.
pub fn sha256_of(path: &Path) -> Result<String, XtaskError> {
    let mut file = fs::File::open(path).map_err(XtaskError::io(path))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = file.read(&mut buffer).map_err(XtaskError::io(path))?;
        if read == 0 {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(&buffer[..read]);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_inputs_do_not_run_together() {
        let first = Fingerprint::default().with("a", "bc").with("d", "").finish();
        let second = Fingerprint::default().with("a", "b").with("cd", "").finish();
        assert_ne!(first, second);
    }

    #[test]
    fn a_stamp_holds_only_for_its_fingerprint_and_its_products() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let product = folder.path().join("made");
        let stamps = Stamps::new(folder.path().join("stamps"));
        let products = [product.clone()];
        assert!(!stamps.is_current("step", "one", &products), "it never ran");

        fs::write(&product, "x").expect("a writable folder");
        stamps.set("step", "one").expect("a writable folder");
        assert!(stamps.is_current("step", "one", &products));
        assert!(!stamps.is_current("step", "two", &products), "an input changed");

        fs::remove_file(&product).expect("it was written above");
        assert!(!stamps.is_current("step", "one", &products), "its product was deleted");
    }

    #[test]
    fn a_checksum_is_the_published_one() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("abc");
        fs::write(&path, "abc").expect("a writable folder");
        let digest = sha256_of(&path).expect("it was written above");
        assert_eq!(
            digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "FIPS 180-2, appendix B.1"
        );
    }
}
