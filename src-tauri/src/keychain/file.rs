//! Keys in files, for systems without a keychain.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::KeychainError;

/// A folder with one file per account.
pub(super) struct KeyFiles {
    folder: PathBuf,
}

impl KeyFiles {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Writes a key; a reader finds the old or the new one, never half of one.
    pub fn store(&self, account: &str, key: &str) -> Result<(), KeychainError> {
        let (path, unfinished) = (self.folder.join(account), self.folder.join(format!("{account}.new")));
        let write = || -> io::Result<()> {
            make_private_folder(&self.folder)?;
            remove_if_there(&unfinished)?;
            let mut options = fs::OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let mut file = options.open(&unfinished)?;
            file.write_all(key.as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)
        };
        write().map_err(|source| failed(&path, source))
    }

    pub fn read(&self, account: &str) -> Result<Option<String>, KeychainError> {
        let path = self.folder.join(account);
        match fs::read_to_string(&path) {
            Ok(key) => Ok(Some(key)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&path, error)),
        }
    }

    pub fn erase(&self, account: &str) -> Result<(), KeychainError> {
        let path = self.folder.join(account);
        remove_if_there(&path).map_err(|error| failed(&path, error))
    }
}

fn make_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn failed(path: &Path, source: io::Error) -> KeychainError {
    KeychainError::File { path: path.to_owned(), source: Arc::new(source) }
}
