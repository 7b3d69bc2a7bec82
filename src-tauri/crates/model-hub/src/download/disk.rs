use std::{
    fmt,
    fs::File,
    io::{self, Write as _},
    path::Path,
};

/// What downloads ask of the file system beyond plain files: the seam at which tests fill disks and forbid links.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Bytes that this user may still write below `folder`, which exists.
    ///
    /// # Errors
    /// What the system says.
    fn free_bytes(&self, folder: &Path) -> io::Result<u64>;

    /// Appends to a file.
    ///
    /// # Errors
    /// What the system says; a full disk is [`io::ErrorKind::StorageFull`].
    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()>;

    /// Makes `link` point to `target`, a path relative to the link's folder.
    ///
    /// # Errors
    /// What the system says, also where there are no links.
    fn link(&self, target: &Path, link: &Path) -> io::Result<()>;
}

/// The real one.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemDisk;

impl Disk for SystemDisk {
    fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
        fs4::available_space(folder)
    }

    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    #[cfg(unix)]
    fn link(&self, target: &Path, link: &Path) -> io::Result<()> {
        std::os::unix::fs::symlink(target, link)
    }

    #[cfg(not(unix))]
    fn link(&self, _target: &Path, _link: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
