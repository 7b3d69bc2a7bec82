use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::ModelHubError;

const PREFIX: &str = "models--";
/// A ref holds a commit of 40 digits.
const REF_BYTES_MAX: u64 = 256;

/// A repository in a cache of downloads.
///
/// Source: the layout of `huggingface_hub`: `models--owner--name/{blobs,refs,snapshots/<commit>}`, where files of a
/// snapshot are links to blobs.
pub(crate) struct HubRepo {
    /// `models--owner--name`.
    pub(crate) folder: PathBuf,
    /// `owner/name`.
    pub(crate) name: String,
}

impl HubRepo {
    /// The repository whose folder this is.
    pub(crate) fn at(folder: &Path) -> Option<Self> {
        let name = folder.file_name()?.to_str()?.strip_prefix(PREFIX)?;
        let is_repo = !name.is_empty() && folder.join("snapshots").is_dir();
        is_repo.then(|| Self { folder: folder.to_path_buf(), name: name.replacen("--", "/", 1) })
    }

    /// The repository that this is a snapshot of.
    pub(crate) fn of_snapshot(snapshot: &Path) -> Option<Self> {
        let snapshots = snapshot.parent().filter(|parent| parent.ends_with("snapshots"))?;
        Self::at(snapshots.parent()?)
    }

    /// Commit and folder of what `main` refers to, else of the newest snapshot.
    pub(crate) fn snapshot(&self) -> Option<(String, PathBuf)> {
        let snapshots = self.folder.join("snapshots");
        let main = self.folder.join("refs").join("main");
        let commit = fs::metadata(&main)
            .ok()
            .filter(|metadata| metadata.is_file() && metadata.len() <= REF_BYTES_MAX)
            .and_then(|_| fs::read_to_string(&main).ok())
            .map(|commit| commit.trim().to_string())
            .filter(|commit| is_commit(commit) && snapshots.join(commit).is_dir());
        let commit = commit.or_else(|| newest(&snapshots))?;
        let folder = snapshots.join(&commit);
        Some((commit, folder))
    }

    /// Checks that no link of a snapshot leads out of the repository.
    ///
    /// # Errors
    /// [`ModelHubError::LinkOutside`], or [`ModelHubError::Read`] for a link that cannot be followed.
    pub(crate) fn check_links(&self, snapshot: &Path) -> Result<(), ModelHubError> {
        let resolved = |path: &Path| {
            path.canonicalize().map_err(|source| ModelHubError::Read { path: path.to_path_buf(), source })
        };
        let failed = |source| ModelHubError::Read { path: snapshot.to_path_buf(), source };
        let inside = resolved(&self.folder)?;
        for entry in fs::read_dir(snapshot).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let target = resolved(&path)?;
            if !target.starts_with(&inside) {
                return Err(ModelHubError::LinkOutside { path, target });
            }
        }
        Ok(())
    }
}

/// A ref is read from a file: it must not lead anywhere but to a snapshot.
fn is_commit(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn newest(snapshots: &Path) -> Option<String> {
    let dated = fs::read_dir(snapshots).ok()?.flatten().filter_map(|entry| {
        let commit = entry.file_name().into_string().ok().filter(|name| is_commit(name))?;
        let metadata = fs::metadata(entry.path()).ok().filter(fs::Metadata::is_dir)?;
        Some((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), commit))
    });
    dated.max().map(|(_, commit)| commit)
}
