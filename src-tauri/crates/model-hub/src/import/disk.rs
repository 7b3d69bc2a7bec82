use std::path::Path;

use crate::ModelHubError;

/// Left free beyond what an import writes.
const MARGIN_BYTES: u64 = 256 << 20;

/// Checks that `bytes` more fit beside `target`.
///
/// # Errors
/// [`ModelHubError::DiskFull`]. Where the system does not say, the import goes on and fails when the disk is full.
pub(super) fn check_space(target: &Path, bytes: u64) -> Result<(), ModelHubError> {
    let Some(free_bytes) = target.ancestors().skip(1).find_map(|folder| fs4::available_space(folder).ok())
    else {
        return Ok(());
    };
    let needed_bytes = bytes.saturating_add(MARGIN_BYTES);
    if needed_bytes <= free_bytes {
        return Ok(());
    }
    Err(ModelHubError::DiskFull { path: target.to_path_buf(), needed_bytes, free_bytes })
}
