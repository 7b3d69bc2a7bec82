//! What a repository holds, and which of it is needed.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    HubError,
    paths::{check_path, escape, first_collision, is_commit, is_etag, is_repo, is_revision},
};

/// A file of a repository that can be downloaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteFile {
    /// Path within the repository, and below the snapshot's folder.
    pub path: String,
    /// Size.
    pub bytes: u64,
    /// SHA-256 in hexadecimal, of files in large-file storage.
    pub sha256: Option<String>,
    /// Names the blob: SHA-256, git's SHA-1, or what a mirror made up.
    pub etag: String,
}

/// Why a file is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// Weights in a format that is never read.
    OtherFormat,
    /// A program.
    Code,
    /// Lies in a sub-folder, where a model's own files do not.
    SubFolder,
    /// Safetensors beside those of the model: an adapter, or the same weights again.
    OtherWeights,
    /// A GGUF file: one is chosen with [`Listing::with_gguf`].
    GgufChoice,
    /// Not used by a text model.
    NotNeeded,
}

/// A file that is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedFile {
    /// Path within the repository.
    pub path: String,
    /// Size, 0 if the hub does not say.
    pub bytes: u64,
    /// Why.
    pub why: SkipReason,
}

/// What a repository holds at one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// `owner/name`.
    pub repo: String,
    /// Branch, tag or commit that was asked for.
    pub revision: String,
    /// What it stands for, 40 hexadecimal digits.
    pub commit: String,
    /// What a download fetches.
    pub files: Vec<RemoteFile>,
    /// GGUF files to choose from.
    pub gguf: Vec<RemoteFile>,
    /// What a download leaves out.
    pub skipped: Vec<SkippedFile>,
    /// Licence, if the repository says.
    pub licence: Option<String>,
    /// Whether terms have to be accepted on its page first.
    pub is_gated: bool,
    /// What it is for, such as `text-generation`.
    pub pipeline: Option<String>,
}

impl Listing {
    /// Size of all files of a download, in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }

    /// The same repository with one GGUF file, its licence and its description as what is to be fetched.
    ///
    /// # Errors
    /// [`HubError::NoSuchFile`] if `path` is none of its GGUF files.
    pub fn with_gguf(&self, path: &str) -> Result<Self, HubError> {
        let chosen = self.gguf.iter().find(|file| file.path == path).cloned();
        let chosen =
            chosen.ok_or_else(|| HubError::NoSuchFile { repo: self.repo.clone(), path: path.to_string() })?;
        let texts = self.files.iter().filter(|file| is_about_the_model(&file.path)).cloned();
        let files = texts.chain([chosen]).collect();
        Ok(Self { files, ..self.clone() })
    }

    /// Checks everything that becomes a name on disk; a listing may come from a hub, a file or a caller.
    ///
    /// # Errors
    /// [`HubError::InvalidRepo`], `InvalidRevision`, `UnsafeListing` or `NoWeights`.
    pub fn check(&self) -> Result<(), HubError> {
        if !is_repo(&self.repo) {
            return Err(HubError::InvalidRepo { repo: self.repo.clone() });
        }
        if !is_revision(&self.revision) {
            return Err(HubError::InvalidRevision { revision: self.revision.clone() });
        }
        if !is_commit(&self.commit) {
            return Err(unsafe_name(&self.repo, &self.commit, "is not a commit"));
        }
        for file in self.files.iter().chain(&self.gguf) {
            check_path(&file.path).map_err(|why| unsafe_name(&self.repo, &file.path, why))?;
            if !is_etag(&file.etag) {
                return Err(unsafe_name(&self.repo, &file.path, "has an etag that cannot be a file's name"));
            }
            if !matches!(need_of(&file.path), Need::Always | Need::Weights | Need::Gguf) {
                return Err(unsafe_name(&self.repo, &file.path, "is no file that a model needs"));
            }
            if self.files.iter().any(|other| other.etag == file.etag && other.bytes != file.bytes) {
                return Err(unsafe_name(&self.repo, &file.path, "has the etag of a file of another size"));
            }
        }
        if let Some(path) = first_collision(self.files.iter().map(|file| file.path.as_str())) {
            return Err(unsafe_name(&self.repo, path, "is there twice but for case"));
        }
        let is_weights = |file: &RemoteFile| matches!(need_of(&file.path), Need::Weights | Need::Gguf);
        if !self.files.iter().any(is_weights) {
            return Err(HubError::NoWeights { repo: self.repo.clone(), has_gguf: !self.gguf.is_empty() });
        }
        Ok(())
    }
}

/// A file as the hub lists it; a mirror may leave out everything but its path.
#[derive(Debug)]
pub(super) struct ListedFile {
    pub path: String,
    pub bytes: Option<u64>,
    pub etag: Option<String>,
    pub sha256: Option<String>,
}

/// Reads the answer of `/api/models/REPO/revision/REVISION`. Files that need their size or etag looked up are in the
/// second list.
///
/// # Errors
/// [`HubError::UnsafeListing`] if any path leads out of its folder, needed or not; what `bad_answer` makes of the rest.
pub(super) fn read(
    repo: &str,
    revision: &str,
    body: &Value,
    bad_answer: impl Fn(&'static str) -> HubError,
) -> Result<(Listing, Vec<ListedFile>), HubError> {
    let commit = body["sha"].as_str().filter(|commit| is_commit(commit));
    let commit = commit.ok_or_else(|| bad_answer("no commit in \"sha\""))?;
    let siblings = body["siblings"].as_array().ok_or_else(|| bad_answer("no \"siblings\""))?;
    let listed: Vec<ListedFile> = siblings.iter().filter_map(read_file).collect();
    for file in &listed {
        if let Some(why) = escape(&file.path) {
            return Err(unsafe_name(repo, &file.path, why));
        }
    }
    let has_model = listed.iter().any(|file| is_model_weights(&file.path));
    let mut listing = Listing {
        repo: repo.to_string(),
        revision: revision.to_string(),
        commit: commit.to_string(),
        files: Vec::new(),
        gguf: Vec::new(),
        skipped: Vec::new(),
        licence: licence(body),
        is_gated: is_gated(&body["gated"]),
        pipeline: body["pipeline_tag"].as_str().map(str::to_string),
    };
    let mut unknown = Vec::new();
    for file in listed {
        let why = match need_of(&file.path) {
            Need::Skipped(why) => why,
            Need::Weights if has_model && !is_model_weights(&file.path) => SkipReason::OtherWeights,
            Need::Always | Need::Weights | Need::Gguf => {
                match (file.bytes, file.etag.clone()) {
                    (Some(bytes), Some(etag)) => {
                        listing.add(RemoteFile { path: file.path, bytes, sha256: file.sha256, etag });
                    }
                    _ => unknown.push(file),
                }
                continue;
            }
        };
        listing.skipped.push(SkippedFile { path: file.path, bytes: file.bytes.unwrap_or(0), why });
    }
    Ok((listing, unknown))
}

impl Listing {
    pub(super) fn add(&mut self, file: RemoteFile) {
        if need_of(&file.path) == Need::Gguf {
            let skipped =
                SkippedFile { path: file.path.clone(), bytes: file.bytes, why: SkipReason::GgufChoice };
            self.skipped.push(skipped);
            self.gguf.push(file);
        } else {
            self.files.push(file);
        }
    }
}

/// Whether `gated` says that terms come first: `false`, or `"auto"` or `"manual"`.
pub(super) fn is_gated(gated: &Value) -> bool {
    gated.as_bool().unwrap_or(gated.is_string())
}

fn read_file(entry: &Value) -> Option<ListedFile> {
    let lfs = &entry["lfs"];
    let sha256 = lfs["sha256"].as_str().or(lfs["oid"].as_str()).map(|hash| hash.to_ascii_lowercase());
    let etag = sha256.clone().or_else(|| entry["blobId"].as_str().map(str::to_string));
    Some(ListedFile {
        path: entry["rfilename"].as_str()?.to_string(),
        bytes: lfs["size"].as_u64().or(entry["size"].as_u64()),
        etag,
        sha256: sha256.filter(|hash| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())),
    })
}

fn licence(body: &Value) -> Option<String> {
    let named = body["cardData"]["license"].as_str();
    let mut tags = body["tags"].as_array().into_iter().flatten().filter_map(Value::as_str);
    named.or_else(|| tags.find_map(|tag| tag.strip_prefix("license:"))).map(str::to_string)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Always,
    Weights,
    Gguf,
    Skipped(SkipReason),
}

fn need_of(path: &str) -> Need {
    const TEXTS: [&str; 12] = [
        "config.json",
        "generation_config.json",
        "model.safetensors.index.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "merges.txt",
        "chat_template.jinja",
        "chat_template.json",
        "README.md",
    ];
    const FORMATS: [&str; 12] =
        ["bin", "pt", "pth", "ckpt", "onnx", "msgpack", "h5", "pickle", "pkl", "npz", "tflite", "mlmodel"];
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let lower = extension.to_ascii_lowercase();
    match lower.as_str() {
        format if FORMATS.contains(&format) => Need::Skipped(SkipReason::OtherFormat),
        "py" | "sh" | "js" | "so" | "dylib" | "dll" | "exe" => Need::Skipped(SkipReason::Code),
        _ if path.contains('/') => Need::Skipped(SkipReason::SubFolder),
        _ if extension == "safetensors" && name.starts_with("adapter") => {
            Need::Skipped(SkipReason::OtherWeights)
        }
        _ if extension == "safetensors" => Need::Weights,
        _ if extension == "gguf" => Need::Gguf,
        _ if TEXTS.contains(&name) || is_about_the_model(name) => Need::Always,
        _ => Need::Skipped(SkipReason::NotNeeded),
    }
}

fn is_about_the_model(name: &str) -> bool {
    let is_text = !name.contains('.') || name.ends_with(".txt") || name.ends_with(".md");
    name == "README.md" || (is_text && (name.starts_with("LICENSE") || name.starts_with("LICENCE")))
}

/// The names that a model's own weights have, whole or in shards.
fn is_model_weights(path: &str) -> bool {
    path.starts_with("model") && path.ends_with(".safetensors") && !path.contains('/')
}

/// Refuses a name; what is shown of it is short and visible.
pub(super) fn unsafe_name(repo: &str, path: &str, why: &'static str) -> HubError {
    let path = path.chars().take(80).flat_map(char::escape_debug).collect();
    HubError::UnsafeListing { repo: repo.to_string(), path, why }
}
