use std::{
    collections::BTreeSet,
    fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use super::{Progress, Watch, disk, part_folder::PartFolder, part_folder::write_error};
use crate::{
    CatalogEntry, ModelFolder, ModelHubError,
    catalog::{Checked, HubRepo, REFERENCE_SUFFIX, Reference, entry_at, exists},
    headers::WeightFiles,
};

/// Bytes copied between two looks at whether to go on.
const COPY_CHUNK_BYTES: usize = 1 << 20;

/// How a folder is imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Its files are copied.
    Copy,
    /// It stays where it is, and a file under the root points to it.
    Reference,
}

/// Makes a model folder from elsewhere a model of `root`, under the name of the folder or, where that is taken, with a
/// number after it. A repository of a cache of downloads, or a snapshot in one, counts as a folder too.
///
/// The folder is checked as the catalogue does it before anything is written. A copy takes weights, JSON, Jinja and
/// text files and nothing else, follows links to files only, and appears under its name when it is complete. `watch`
/// hears of every MiB and may end it.
///
/// # Errors
/// [`ModelHubError::FolderMissing`], or why the folder is no model; `AlreadyListed` if it lies under the root;
/// `DiskFull`; [`ModelHubError::Cancelled`] when `watch` breaks; `Read` or `Write`. Nothing stays behind.
pub fn import_folder(
    source: &Path,
    root: &Path,
    how: How,
    watch: Watch<'_>,
) -> Result<ModelFolder, ModelHubError> {
    let read = |path: &Path| {
        let path = path.to_path_buf();
        move |source| ModelHubError::Read { path, source }
    };
    if !exists(source)? {
        return Err(ModelHubError::FolderMissing { path: source.to_path_buf() });
    }
    let source = source.canonicalize().map_err(read(source))?;
    let (source, name) = named(source)?;
    fs::create_dir_all(root).map_err(|error| write_error(root, error))?;
    let root = root.canonicalize().map_err(read(root))?;
    if source.parent() == Some(&root)
        || HubRepo::of_snapshot(&source).is_some_and(|repo| repo.folder.parent() == Some(&root))
    {
        return Err(ModelHubError::AlreadyListed { path: source });
    }
    Checked::read(&source)?;
    let name = free_name(&root, &name);
    let origin = match how {
        How::Reference => {
            let origin = root.join(format!("{name}{REFERENCE_SUFFIX}"));
            Reference { path: source }.write(&origin)?;
            origin
        }
        How::Copy => {
            let origin = root.join(&name);
            copy(&source, &origin, watch)?;
            origin
        }
    };
    match entry_at(&origin) {
        Some(CatalogEntry::Usable(model)) => Ok(model),
        Some(CatalogEntry::Broken { reason, .. }) => Err(reason),
        None => Err(ModelHubError::FolderMissing { path: origin }),
    }
}

/// The folder that holds the files, and what to call it.
fn named(source: PathBuf) -> Result<(PathBuf, String), ModelHubError> {
    let repo = HubRepo::at(&source);
    let snapshot = repo.as_ref().and_then(HubRepo::snapshot).map(|(_, folder)| folder);
    let repo = repo.or_else(|| HubRepo::of_snapshot(&source));
    let folder = snapshot.unwrap_or(source);
    let name = match &repo {
        Some(repo) => repo.check_links(&folder).map(|()| repo.name.rsplit('/').next())?,
        None => folder.file_name().and_then(|name| name.to_str()),
    };
    let name = name.unwrap_or("model").to_string();
    Ok((folder, name))
}

/// The first of `name`, `name-2`, `name-3`, … that nothing under `root` has. What the catalogue reads into a name (a dot
/// in front, `.part` or the ending of references) is left out of it.
pub fn free_name(root: &Path, name: &str) -> String {
    let mut name = name.trim_start_matches('.');
    while let Some(shorter) = [".part", REFERENCE_SUFFIX].iter().find_map(|end| name.strip_suffix(end)) {
        name = shorter;
    }
    let name = if name.is_empty() { "model" } else { name };
    let is_free = |name: &String| {
        ["", ".part", REFERENCE_SUFFIX]
            .iter()
            .all(|suffix| root.join(format!("{name}{suffix}")).symlink_metadata().is_err())
    };
    let numbered = (2_u32..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.to_string()).chain(numbered).find(is_free).unwrap_or_else(|| name.to_string())
}

/// Files of a model folder that are of use, by name, with their sizes.
fn wanted_files(folder: &Path) -> Result<Vec<(String, u64)>, ModelHubError> {
    let failed = |source| ModelHubError::Read { path: folder.to_path_buf(), source };
    let weights: BTreeSet<String> = WeightFiles::find(folder)?.files;
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = entry.path();
        if !(weights.contains(&name) || is_description(&name)) {
            continue;
        }
        // Follows links: what counts is that there is a file at the end, and no device, pipe or folder.
        let metadata = fs::metadata(&path).map_err(|source| ModelHubError::Read { path, source })?;
        if metadata.is_file() {
            files.push((name, metadata.len()));
        }
    }
    Ok(files)
}

fn is_description(name: &str) -> bool {
    let plain = ["LICENSE", "LICENCE", "NOTICE", "COPYING"];
    let ends = [".json", ".jinja", ".txt", ".md"];
    !name.starts_with('.') && (ends.iter().any(|end| name.ends_with(end)) || plain.contains(&name))
}

fn copy(source: &Path, target: &Path, watch: Watch<'_>) -> Result<(), ModelHubError> {
    let files = wanted_files(source)?;
    let total_bytes = files.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    disk::check_space(target, total_bytes)?;
    let folder = PartFolder::create(target)?;
    let mut progress = Progress { done_bytes: 0, total_bytes };
    super::go_on(watch, progress)?;
    for (name, bytes) in files {
        let (from, to) = (source.join(&name), folder.file(&name));
        let copied = copy_file(&from, &to, &mut progress, watch)?;
        if copied != bytes {
            return Err(ModelHubError::Truncated {
                path: from,
                what: "the copy".to_string(),
                needed_bytes: bytes,
                file_bytes: copied,
            });
        }
    }
    Checked::read(folder.path())?;
    folder.finish()
}

fn copy_file(
    from: &Path,
    to: &Path,
    progress: &mut Progress,
    watch: Watch<'_>,
) -> Result<u64, ModelHubError> {
    let read = |source| ModelHubError::Read { path: from.to_path_buf(), source };
    let mut source = fs::File::open(from).map_err(read)?;
    let mut target = fs::File::create_new(to).map_err(|error| write_error(to, error))?;
    let mut chunk = vec![0; COPY_CHUNK_BYTES];
    let mut copied = 0;
    loop {
        let bytes = match source.read(&mut chunk) {
            Ok(0) => return Ok(copied),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            outcome => outcome.map_err(read)?,
        };
        target.write_all(&chunk[..bytes]).map_err(|error| write_error(to, error))?;
        copied += bytes as u64;
        progress.done_bytes += bytes as u64;
        super::go_on(watch, *progress)?;
    }
}
