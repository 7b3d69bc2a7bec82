//! Models on disk and on a hub: downloads them, imports GGUF files into MLX folders, lists the folders that are there.
//!
//! Pure Rust: knows file formats, not MLX. Everything that comes from a file is bounded before memory is taken for it,
//! and every refusal is a [`ModelHubError`] that names the file, the place and the way out.
//!
//! Terms. A *GGUF file* is llama.cpp's single-file format. An *MLX folder* holds `config.json`, `model.safetensors`,
//! `tokenizer.json` and `tokenizer_config.json`; quantised weights are packed as MLX does (uint32 words, f16 scales and
//! biases per group of 32, "affine").
//!
//! Flow: [`Gguf::open`] reads the header -> [`import_gguf`] writes `<folder>.part` tensor by tensor and renames it when
//! complete, or [`import_folder`] copies or references a folder -> [`list_models`] finds it by its headers ->
//! [`fit::check`] says whether it fits into memory. Or: [`Hub::search`] -> [`Hub::listing`] says what would be fetched
//! -> [`Downloads::start`] fetches it into a cache folder that Hugging Face's own tools share. Only this flow uses the
//! network, and its errors are [`HubError`]s.

mod catalog;
mod delete;
mod download;
mod error;
pub mod fit;
mod gguf;
mod headers;
mod hub;
mod import;
mod json;

pub use catalog::{CatalogEntry, ModelFolder, ModelSource, list_models};
pub use delete::delete_model;
pub use download::{Disk, DownloadId, DownloadOptions, DownloadPhase, DownloadStatus, Downloads, SystemDisk};
pub use error::ModelHubError;
pub use gguf::{Gguf, MetadataArray, MetadataValue, TensorInfo, TensorType};
pub use headers::{TensorHeader, WeightDtype, WeightHeaders};
pub use hub::{
    DEFAULT_ENDPOINT, Hub, HubConfig, HubError, Listing, ProxyChoice, RemoteFile, RemoteModel, SearchLibrary,
    SearchPage, SearchQuery, Secret, SkipReason, SkippedFile, cache_dir_from_env,
};
pub use import::{
    How, ImportSummary, Progress, Watch, free_name, import_folder, import_gguf, import_gguf_with,
};
