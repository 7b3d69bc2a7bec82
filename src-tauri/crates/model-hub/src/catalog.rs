//! Lists models by their headers, without reading weights.

mod config;
mod hub_cache;
mod reference;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    ModelHubError, WeightHeaders,
    headers::{WEIGHTS, WEIGHTS_INDEX},
};

pub(crate) use hub_cache::HubRepo;
pub(crate) use reference::{REFERENCE_SUFFIX, Reference};

const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";

/// A model that can be loaded, as far as its headers tell.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFolder {
    /// Names it under its root, and is stable: the folder's name, `owner/name` in a cache of downloads.
    pub id: String,
    /// Name to show: the folder's, or the repository's without its owner. What configs call a model is often a label of
    /// its training.
    pub name: String,
    /// The folder that holds its files.
    pub path: PathBuf,
    /// How it came to be listed.
    pub source: ModelSource,
    /// What stands for it under the root and goes when it is deleted: the folder, the repository's folder, or the
    /// reference.
    pub origin: PathBuf,
    /// Size of all weight files, in bytes.
    pub bytes: u64,
    /// `model_type` in `config.json`, for example `llama`.
    pub architecture: String,
    /// How weights are stored, in words, for example `4-bit, group 32` or `float16`.
    pub quantisation: String,
    /// Longest context that the model was made for, in tokens, if the folder says.
    pub context_tokens: Option<u64>,
    /// Licence identifier, if the folder says.
    pub licence: Option<String>,
}

/// How a model came to be listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSource {
    /// A folder of its own under the root.
    Folder,
    /// A cache of downloads in the layout of Hugging Face.
    HubCache {
        /// `owner/name`.
        repo: String,
        /// The commit that is listed: that of the ref `main`, else the newest there.
        commit: String,
    },
    /// A folder elsewhere, to which a file under the root points.
    Reference,
}

/// One model under a root, or what is left of one.
#[derive(Debug)]
pub enum CatalogEntry {
    /// Headers are sound and files have their full length.
    Usable(ModelFolder),
    /// Looks like a model but cannot be loaded.
    Broken {
        /// As [`ModelFolder::id`].
        id: String,
        /// As [`ModelFolder::path`]; the origin where that cannot be told.
        path: PathBuf,
        /// As [`ModelFolder::source`].
        source: ModelSource,
        /// As [`ModelFolder::origin`].
        origin: PathBuf,
        /// Why: [`ModelHubError::FolderMissing`] if its files are gone, [`ModelHubError::Read`] if they cannot be
        /// read, anything else if they are there and wrong.
        reason: ModelHubError,
    },
}

impl CatalogEntry {
    /// As [`ModelFolder::id`].
    pub fn id(&self) -> &str {
        match self {
            Self::Usable(model) => &model.id,
            Self::Broken { id, .. } => id,
        }
    }

    /// As [`ModelFolder::path`].
    pub fn path(&self) -> &Path {
        match self {
            Self::Usable(model) => &model.path,
            Self::Broken { path, .. } => path,
        }
    }

    /// As [`ModelFolder::source`].
    pub fn source(&self) -> &ModelSource {
        match self {
            Self::Usable(model) => &model.source,
            Self::Broken { source, .. } => source,
        }
    }

    /// As [`ModelFolder::origin`].
    pub fn origin(&self) -> &Path {
        match self {
            Self::Usable(model) => &model.origin,
            Self::Broken { origin, .. } => origin,
        }
    }
}

/// Lists the models directly under each root, by origin: folders, repositories of a cache of downloads, references.
/// Folders without a model file and `.part` folders are no models; roots that do not exist are empty.
///
/// # Errors
/// [`ModelHubError::Read`] if a root exists but cannot be listed.
pub fn list_models(roots: &[PathBuf]) -> Result<Vec<CatalogEntry>, ModelHubError> {
    let mut entries = Vec::new();
    for root in roots {
        let failed = |source| ModelHubError::Read { path: root.clone(), source };
        let listing = match fs::read_dir(root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            listing => listing.map_err(failed)?,
        };
        for found in listing {
            entries.extend(entry_at(&found.map_err(failed)?.path()));
        }
    }
    entries.sort_by(|a, b| a.origin().cmp(b.origin()));
    Ok(entries)
}

/// The model that `origin` stands for, if it is one.
pub(crate) fn entry_at(origin: &Path) -> Option<CatalogEntry> {
    let name = origin.file_name()?.to_str()?;
    if let Some(id) = name.strip_suffix(REFERENCE_SUFFIX) {
        return origin.is_file().then(|| referenced(id, origin));
    }
    if name.ends_with(".part") || !origin.is_dir() {
        return None;
    }
    match HubRepo::at(origin) {
        Some(repo) => cached(&repo),
        None if looks_like_a_model(origin) => {
            Some(read(Found { id: name, path: origin, source: ModelSource::Folder, origin }, Ok(())))
        }
        None => None,
    }
}

fn looks_like_a_model(folder: &Path) -> bool {
    [CONFIG, WEIGHTS, WEIGHTS_INDEX, TOKENIZER]
        .iter()
        .any(|name| folder.join(name).symlink_metadata().is_ok())
}

fn referenced(id: &str, origin: &Path) -> CatalogEntry {
    match Reference::read(origin) {
        Ok(Reference { path }) => {
            read(Found { id, path: &path, source: ModelSource::Reference, origin }, Ok(()))
        }
        Err(reason) => read(Found { id, path: origin, source: ModelSource::Reference, origin }, Err(reason)),
    }
}

/// A cache holds much that is no model for Braid: only what has weights it could read is listed.
fn cached(repo: &HubRepo) -> Option<CatalogEntry> {
    let (commit, snapshot) = repo.snapshot()?;
    if ![WEIGHTS, WEIGHTS_INDEX].iter().any(|name| snapshot.join(name).symlink_metadata().is_ok()) {
        return None;
    }
    let source = ModelSource::HubCache { repo: repo.name.clone(), commit };
    let found = Found { id: &repo.name, path: &snapshot, source, origin: &repo.folder };
    Some(read(found, repo.check_links(&snapshot)))
}

struct Found<'a> {
    id: &'a str,
    path: &'a Path,
    source: ModelSource,
    origin: &'a Path,
}

fn read(found: Found<'_>, precondition: Result<(), ModelHubError>) -> CatalogEntry {
    let Found { id, path, source, origin } = found;
    let origin = origin.to_path_buf();
    match precondition.and_then(|()| Checked::read(path)) {
        Ok(checked) => CatalogEntry::Usable(ModelFolder {
            id: id.to_string(),
            name: id.rsplit('/').next().unwrap_or(id).to_string(),
            path: path.to_path_buf(),
            source,
            origin,
            bytes: checked.headers.file_bytes,
            architecture: checked.config.architecture,
            quantisation: checked.config.quantisation,
            context_tokens: checked.config.context_tokens,
            licence: checked.config.licence,
        }),
        Err(reason) => {
            CatalogEntry::Broken { id: id.to_string(), path: path.to_path_buf(), source, origin, reason }
        }
    }
}

/// A folder whose config parses, whose tokenizer is there and whose weights have sound headers.
pub(crate) struct Checked {
    config: config::ConfigFacts,
    headers: WeightHeaders,
}

impl Checked {
    /// # Errors
    /// Any [`ModelHubError`] of [`CatalogEntry::Broken`].
    pub(crate) fn read(folder: &Path) -> Result<Self, ModelHubError> {
        if !exists(folder)? {
            return Err(ModelHubError::FolderMissing { path: folder.to_path_buf() });
        }
        for name in [CONFIG, TOKENIZER] {
            if !exists(&folder.join(name))? {
                return Err(ModelHubError::Incomplete { path: folder.to_path_buf(), what: name.to_string() });
            }
        }
        let config = config::ConfigFacts::read(folder)?;
        Ok(Self { config, headers: WeightHeaders::read(folder)? })
    }
}

/// Tells what is not there from what cannot be looked at.
pub(crate) fn exists(path: &Path) -> Result<bool, ModelHubError> {
    path.try_exists().map_err(|source| ModelHubError::Read { path: path.to_path_buf(), source })
}
