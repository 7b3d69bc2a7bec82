//! Takes models off the disk, and nothing else.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{CatalogEntry, ModelHubError, ModelSource, catalog::entry_at};

/// Deletes a model: its folder, its repository with all its downloads, or, of a reference, only the reference.
///
/// Only what [`crate::list_models`] lists directly under one of `roots` goes. A link goes, not what it leads to. While
/// files go, what is left has a name that is never listed.
///
/// # Errors
/// [`ModelHubError::NotListed`] for anything else, [`ModelHubError::Write`] if the system refuses.
pub fn delete_model(entry: &CatalogEntry, roots: &[PathBuf]) -> Result<(), ModelHubError> {
    let origin = entry.origin();
    let listed = is_under(origin, roots).then(|| entry_at(origin)).flatten();
    if listed.is_none_or(|listed| kind(listed.source()) != kind(entry.source())) {
        return Err(ModelHubError::NotListed { path: origin.to_path_buf() });
    }
    let failed = |source| ModelHubError::Write { path: origin.to_path_buf(), source };
    let is_link = origin.symlink_metadata().map_err(failed)?.is_symlink();
    if is_link || *entry.source() == ModelSource::Reference {
        return fs::remove_file(origin).map_err(failed);
    }
    let doomed = doomed_name(origin);
    fs::rename(origin, &doomed).map_err(failed)?;
    match fs::remove_dir_all(&doomed) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(ModelHubError::Write { path: doomed, source: error })
        }
        _ => Ok(()),
    }
}

fn kind(source: &ModelSource) -> std::mem::Discriminant<ModelSource> {
    std::mem::discriminant(source)
}

fn is_under(origin: &Path, roots: &[PathBuf]) -> bool {
    let Some(parent) = origin.parent().and_then(|parent| parent.canonicalize().ok()) else { return false };
    let is_plain = origin.file_name().is_some();
    is_plain && roots.iter().any(|root| root.canonicalize().is_ok_and(|root| root == parent))
}

/// A name beside `origin` that nothing has and the catalogue leaves out.
fn doomed_name(origin: &Path) -> PathBuf {
    let name = origin.file_name().unwrap_or_default().to_string_lossy();
    (0_u32..)
        .map(|number| origin.with_file_name(format!(".{name}.{number}.part")))
        .find(|path| path.symlink_metadata().is_err())
        .unwrap_or_else(|| origin.with_extension("part"))
}
