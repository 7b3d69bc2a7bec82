//! JSON files of a model folder, bounded.

use std::{fs, io::Read as _, path::Path};

use serde::de::DeserializeOwned;

use crate::ModelHubError;

/// Configs are in kilobytes.
pub(crate) const CONFIG_BYTES_MAX: u64 = 1 << 20;
/// Indexes of the largest models are in a few megabytes.
pub(crate) const INDEX_BYTES_MAX: u64 = 16 << 20;

/// Reads a file of at most `max_bytes`.
///
/// # Errors
/// [`ModelHubError::Read`], `Json`, or `Damaged` if it is larger.
pub(crate) fn read<T: DeserializeOwned>(path: &Path, max_bytes: u64) -> Result<T, ModelHubError> {
    let failed = |source| ModelHubError::Read { path: path.to_path_buf(), source };
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(failed)?;
    file.take(max_bytes + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > max_bytes {
        return Err(ModelHubError::Damaged {
            path: path.to_path_buf(),
            at_bytes: max_bytes,
            what: "the file".to_string(),
            reason: "is larger than any model's".to_string(),
        });
    }
    serde_json::from_slice(&bytes).map_err(|source| ModelHubError::Json { path: path.to_path_buf(), source })
}
