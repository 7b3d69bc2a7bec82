//! Models on disk.

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
}
