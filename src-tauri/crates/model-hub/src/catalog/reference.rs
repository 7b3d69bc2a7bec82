use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{ModelHubError, json};

pub(crate) const REFERENCE_SUFFIX: &str = ".model.json";
const REFERENCE_BYTES_MAX: u64 = 64 << 10;

/// A file that stands for a model folder elsewhere.
#[derive(Serialize, Deserialize)]
pub(crate) struct Reference {
    /// The folder; absolute.
    pub(crate) path: PathBuf,
}

impl Reference {
    /// # Errors
    /// [`ModelHubError::Read`], `Json`, `Damaged`, or `UnsafePath` for a path that is not absolute.
    pub(crate) fn read(file: &Path) -> Result<Self, ModelHubError> {
        let reference: Self = json::read(file, REFERENCE_BYTES_MAX)?;
        if reference.path.is_absolute() {
            return Ok(reference);
        }
        let given = reference.path.display().to_string();
        Err(ModelHubError::UnsafePath { path: file.to_path_buf(), given })
    }

    /// Writes it as a new file, whole or not at all.
    ///
    /// # Errors
    /// [`ModelHubError::Write`].
    pub(crate) fn write(&self, file: &Path) -> Result<(), ModelHubError> {
        let failed = |source| ModelHubError::Write { path: file.to_path_buf(), source };
        let text = serde_json::to_vec(self).map_err(|error| failed(io::Error::other(error)))?;
        let part = file.with_extension("json.part");
        let written = fs::File::create(&part)
            .and_then(|mut out| out.write_all(&text).and_then(|()| out.sync_all()))
            .and_then(|()| fs::rename(&part, file));
        written.map_err(|error| {
            // The error that matters is the first one.
            let _ = fs::remove_file(&part);
            failed(error)
        })
    }
}
