use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::ModelHubError;

/// A folder that appears under its own name only when it is complete.
///
/// Dropped before [`PartFolder::finish`] it removes what was written.
pub(super) struct PartFolder {
    part: PathBuf,
    target: PathBuf,
    is_finished: bool,
}

impl PartFolder {
    /// Creates `<target>.part`, replacing what a killed import may have left there.
    pub(super) fn create(target: &Path) -> Result<Self, ModelHubError> {
        if target.symlink_metadata().is_ok() {
            return Err(ModelHubError::OutputExists { path: target.to_path_buf() });
        }
        let mut name = target.file_name().unwrap_or_default().to_os_string();
        name.push(".part");
        let part = target.with_file_name(name);
        match fs::remove_dir_all(&part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(write_error(&part, error)),
            _ => {}
        }
        fs::create_dir_all(&part).map_err(|error| write_error(&part, error))?;
        Ok(Self { part, target: target.to_path_buf(), is_finished: false })
    }

    pub(super) fn path(&self) -> &Path {
        &self.part
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.part.join(name)
    }

    pub(super) fn write(&self, name: &str, content: &[u8]) -> Result<(), ModelHubError> {
        let path = self.file(name);
        fs::write(&path, content).map_err(|error| write_error(&path, error))
    }

    /// Gets every file onto the disk, then gives the folder its own name.
    pub(super) fn finish(mut self) -> Result<(), ModelHubError> {
        let entries = fs::read_dir(&self.part).map_err(|error| write_error(&self.part, error))?;
        for entry in entries {
            let path = entry.map_err(|error| write_error(&self.part, error))?.path();
            fs::File::open(&path)
                .and_then(|file| file.sync_all())
                .map_err(|error| write_error(&path, error))?;
        }
        fs::rename(&self.part, &self.target).map_err(|error| write_error(&self.target, error))?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for PartFolder {
    fn drop(&mut self) {
        if !self.is_finished {
            // Nothing better to do on failure: the next import replaces the folder.
            let _ = fs::remove_dir_all(&self.part);
        }
    }
}

pub(super) fn write_error(path: &Path, source: io::Error) -> ModelHubError {
    ModelHubError::Write { path: path.to_path_buf(), source }
}
