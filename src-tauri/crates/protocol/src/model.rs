//! Models: on this computer, on their way into memory, on a hub.

use crate::ErrorCode;
use serde::{Deserialize, Serialize};
use specta::Type;
use specta_typescript::Number;

/// A model the app can load or has loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct ModelSummary {
    /// Folder name.
    pub name: String,
    /// `model_type` of its config.
    pub architecture: String,
    /// Quantisation in words: "4-bit", "bf16".
    pub quantisation: String,
    /// Dtype that the engine computes in on this device.
    pub compute_dtype: String,
    /// Device it runs on.
    pub device: String,
    /// Context window in tokens.
    pub context_tokens: u32,
    /// Whether it thinks before it answers, in a block of its own.
    pub has_thinking: bool,
    /// Size on disk.
    #[specta(type = Number)]
    pub disk_bytes: f64,
    /// Sampling that its maker recommends; `None` if nothing.
    pub recommended: Option<RecommendedSampling>,
}

/// Sampling that a model's maker recommends. What is `None` is not said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct RecommendedSampling {
    /// Divides the logits; 0 is greedy.
    #[specta(type = Option<Number>)]
    pub temperature: Option<f64>,
    /// Share of the probability that stays.
    #[specta(type = Option<Number>)]
    pub top_p: Option<f64>,
    /// How many of the likeliest tokens stay; 0 is all.
    pub top_k: Option<u32>,
    /// Least share of the likeliest token's probability.
    #[specta(type = Option<Number>)]
    pub min_p: Option<f64>,
    /// Divides or multiplies the logits of tokens that came before; 1 is off.
    #[specta(type = Option<Number>)]
    pub repetition_penalty: Option<f64>,
}

/// Where a model on this computer comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum ModelOrigin {
    /// Came with the app.
    Bundled,
    /// Lies in Braid's own folder of models.
    Own,
    /// Lies in a cache of downloads that follows the Hugging Face layout.
    Hub {
        /// `owner/name`.
        repo: String,
        /// Commit of that repository.
        commit: String,
    },
    /// Lies elsewhere and is used from there.
    Reference,
}

/// Why a model cannot be used as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct ModelProblem {
    /// Looked up in the UI's wording table.
    pub code: ErrorCode,
    /// Which file or field, and why.
    pub detail: String,
}

/// One model on this computer, usable or not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct ModelEntry {
    /// Names the model in every call.
    pub model_id: String,
    /// Name to show.
    pub name: String,
    /// Its folder.
    pub path: String,
    /// Where it comes from.
    pub origin: ModelOrigin,
    /// Size of its files.
    #[specta(type = Number)]
    pub disk_bytes: f64,
    /// `model_type` of its config, if that could be read.
    pub architecture: Option<String>,
    /// Quantisation in words, if its config could be read.
    pub quantisation: Option<String>,
    /// Longest context it was made for, in tokens.
    pub context_tokens: Option<u32>,
    /// Licence, if the folder says.
    pub licence: Option<String>,
    /// Why it cannot be loaded; `None` when it can.
    pub problem: Option<ModelProblem>,
    /// Whether Braid may delete it, or forget it if it is a reference.
    pub is_deletable: bool,
}

/// What kind of memory a device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum MemoryKind {
    /// Shared by CPU and GPU.
    Unified,
    /// The GPU's own.
    Discrete,
    /// Main memory of a computer that computes on its CPU.
    Host,
}

/// What memory says to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum FitVerdict {
    /// Fits with room to spare.
    Fits,
    /// Fits, but little is left for other programs or longer chats.
    Tight,
    /// Does not fit with this context.
    TooLarge,
}

/// Memory needed and memory free, computed before anything is loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct FitReport {
    /// Weights as the device keeps them.
    #[specta(type = Number)]
    pub weights_bytes: f64,
    /// KV cache of one tab with this context.
    #[specta(type = Number)]
    pub kv_cache_bytes_per_tab: f64,
    /// Tabs counted.
    pub tabs: u32,
    /// Context counted, in tokens.
    pub context_tokens: u32,
    /// Longest context of the model, in tokens.
    pub model_context_tokens: u32,
    /// What comes and goes within a step.
    #[specta(type = Number)]
    pub workspace_bytes: f64,
    /// Left for the system.
    #[specta(type = Number)]
    pub reserve_bytes: f64,
    /// All of it together.
    #[specta(type = Number)]
    pub needed_bytes: f64,
    /// Free now, with the loaded model's share if that is unloaded first.
    #[specta(type = Number)]
    pub free_bytes: f64,
    /// Of the device.
    #[specta(type = Number)]
    pub total_bytes: f64,
    /// Kind of the device's memory.
    pub memory_kind: MemoryKind,
    /// What follows.
    pub verdict: FitVerdict,
    /// A smaller context with which it would fit, in tokens.
    pub offered_context_tokens: Option<u32>,
    /// Whether the loaded model has to go first.
    pub replaces_first: bool,
}

/// A model on its way into memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct ModelLoad {
    /// Which one.
    pub model_id: String,
    /// Weights read so far.
    #[specta(type = Number)]
    pub done_bytes: f64,
    /// Weights to read; 0 until it is known.
    #[specta(type = Number)]
    pub total_bytes: f64,
}

/// How the latest load ended, when it did not end well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct ModelLoadFailure {
    /// Which model.
    pub model_id: String,
    /// Why.
    pub problem: ModelProblem,
}

/// What unloading gave back, as the device measured it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct Unloaded {
    /// In use before.
    #[specta(type = Number)]
    pub before_bytes: f64,
    /// In use after.
    #[specta(type = Number)]
    pub after_bytes: f64,
}

/// One repository of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct RemoteModel {
    /// `owner/name`.
    pub repo: String,
    /// Downloads, as the hub counts them.
    #[specta(type = Number)]
    pub downloads: u64,
    /// Likes.
    #[specta(type = Number)]
    pub likes: u64,
    /// Date of the last change, as the hub writes it.
    pub updated_at: Option<String>,
    /// Whether terms have to be accepted on its page first.
    pub is_gated: bool,
    /// Tags, as the hub has them.
    pub tags: Vec<String>,
}

/// One page of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct RemoteModelPage {
    /// Most downloaded first.
    pub models: Vec<RemoteModel>,
    /// Passed back for the next page; `None` on the last.
    pub next: Option<String>,
}

/// A file of a repository.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct RemoteFile {
    /// Path within the repository.
    pub path: String,
    /// Size.
    #[specta(type = Number)]
    pub bytes: f64,
}

/// What a repository holds for Braid, read before anything is downloaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct RemoteModelDetails {
    /// `owner/name`.
    pub repo: String,
    /// Commit that would be downloaded.
    pub commit: String,
    /// Files that would be downloaded.
    pub files: Vec<RemoteFile>,
    /// Their size together.
    #[specta(type = Number)]
    pub download_bytes: f64,
    /// Files left out: other formats, code, pictures.
    pub skipped_files: u32,
    /// Free space where they would lie.
    #[specta(type = Option<Number>)]
    pub free_disk_bytes: Option<f64>,
    /// Licence, if the repository says.
    pub licence: Option<String>,
    /// `model_type` of its config.
    pub architecture: Option<String>,
    /// Quantisation in words.
    pub quantisation: Option<String>,
    /// Why Braid could not run it; `None` when it could.
    pub problem: Option<ModelProblem>,
    /// Whether it would fit into memory, estimated from sizes.
    pub fit: Option<FitReport>,
    /// The model, when it is on this computer already.
    pub installed_model_id: Option<String>,
}

/// Where a download is in its life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum DownloadPhase {
    /// Waits for others.
    Queued,
    /// Bytes arrive.
    Running,
    /// Stands still until resumed; also after a restart.
    Paused,
    /// Everything is here and is being checked.
    Verifying,
    /// Stands still because of this; can be resumed.
    Failed {
        /// Why.
        problem: ModelProblem,
    },
    /// Complete.
    Done {
        /// The model it became.
        model_id: Option<String>,
    },
}

/// One download.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct DownloadStatus {
    /// Names the download in every call.
    pub download_id: String,
    /// `owner/name`.
    pub repo: String,
    /// Where it is in its life.
    pub phase: DownloadPhase,
    /// Bytes on disk.
    #[specta(type = Number)]
    pub done_bytes: f64,
    /// Bytes in all.
    #[specta(type = Number)]
    pub total_bytes: f64,
    /// Recent speed; 0 while nothing arrives.
    #[specta(type = Number)]
    pub bytes_per_s: f64,
    /// Time left at that speed.
    #[specta(type = Option<Number>)]
    pub left_ms: Option<f64>,
    /// Files complete.
    pub done_files: u32,
    /// Files in all.
    pub files: u32,
}

/// A GGUF import or the copy of a folder, under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct ModelImport {
    /// Names the import when it is cancelled.
    pub import_id: String,
    /// What is imported.
    pub source: String,
    /// Bytes written so far.
    #[specta(type = Number)]
    pub done_bytes: f64,
    /// Bytes to write; 0 until it is known.
    #[specta(type = Number)]
    pub total_bytes: f64,
    /// Why it ended without a model; `None` while it runs.
    pub problem: Option<ModelProblem>,
}

/// How a folder is imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum ImportMode {
    /// Its files are copied into Braid's folder.
    Copy,
    /// It stays where it is.
    Reference,
}

/// What is going on with models: sent at once, then at each change, four times a second at most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct ModelsStatus {
    /// Counts changes of the list of models: when it grows, the list is worth reading anew.
    pub list_revision: u32,
    /// The model that runs.
    pub loaded_model_id: Option<String>,
    /// Context it runs with, in tokens.
    pub loaded_context_tokens: Option<u32>,
    /// The model that is being loaded; the one that runs goes on meanwhile.
    pub load: Option<ModelLoad>,
    /// Why the latest load failed, until the next one begins.
    pub load_failure: Option<ModelLoadFailure>,
    /// Downloads, oldest first.
    pub downloads: Vec<DownloadStatus>,
    /// Imports under way or failed, oldest first.
    pub imports: Vec<ModelImport>,
}

/// Where models are downloaded from. The token goes one way only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct HubSettings {
    /// Address of the hub.
    pub endpoint: String,
    /// Proxy, if one is to be used in place of the system's.
    pub proxy: Option<String>,
    /// Whether a token is stored or found.
    pub has_token: bool,
    /// Folder that downloads go to.
    pub folder: String,
}

/// A change of [`HubSettings`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct HubSettingsChange {
    /// Address of the hub.
    pub endpoint: String,
    /// Proxy, if one is to be used.
    pub proxy: Option<String>,
    /// The token from now on; `None` keeps the one there is.
    pub token: Option<HubToken>,
}

/// What to do with the token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum HubToken {
    /// Forget it.
    Forget,
    /// Use this one.
    Set {
        /// As the hub gave it.
        token: String,
    },
}
