//! What can be told of a model on the hub from a few kilobytes.

use std::{path::Path, sync::Arc};

use mlx_backend::{config::ModelConfig, device};
use model_hub::{
    Hub, Listing,
    fit::{KvFacts, Needs},
};

use crate::{
    error::AppError,
    models::fit::{self, Fit},
};

/// Configs are a few kilobytes; lists of per-layer quantisation make them a few hundred.
const CONFIG_BYTES_MAX: u64 = 4 << 20;

/// Bytes of a number where the device keeps what is stored, and of one where it computes in f32.
const HALF_BYTES: u64 = 2;
const FULL_BYTES: u64 = 4;

/// What the config of a repository says.
pub struct RemoteDetails {
    /// `model_type`.
    pub architecture: Option<String>,
    /// Quantisation in words.
    pub quantisation: Option<String>,
    /// Why Braid could not run it.
    pub problem: Option<AppError>,
    /// Whether it would fit; its weights are estimated from the size of the files.
    pub fit: Option<Fit>,
}

/// Reads the config of a repository and reckons what it would take.
pub async fn read(hub: &Hub, listing: &Listing) -> RemoteDetails {
    let unread = |error: AppError| RemoteDetails {
        architecture: None,
        quantisation: None,
        problem: Some(error),
        fit: None,
    };
    let json = match hub.read_small(listing, "config.json", CONFIG_BYTES_MAX).await {
        Ok(json) => json,
        Err(error) => return unread(error.into()),
    };
    if let Err(error) = listing.check() {
        return unread(error.into());
    }
    let path = Path::new(&listing.repo).join("config.json");
    let shown: serde_json::Value = serde_json::from_slice(&json).unwrap_or_default();
    let architecture = shown["model_type"].as_str().map(str::to_owned);
    let quantisation = shown["quantization"]["bits"].as_u64().map(|bits| format!("{bits}-bit"));
    let (problem, fit) = match ModelConfig::from_json(&json, &path) {
        Ok(config) => {
            let weights_bytes = weight_file_bytes(listing);
            match reckon(&config, weights_bytes, shown["quantization"]["bits"].as_u64()) {
                Ok(fit) => (None, Some(fit)),
                Err(error) => (Some(error), None),
            }
        }
        Err(source) => (Some(AppError::UnsupportedModel { path, source: Arc::new(source) }), None),
    };
    RemoteDetails { architecture, quantisation, problem, fit }
}

fn weight_file_bytes(listing: &Listing) -> u64 {
    let weights = listing.files.iter().filter(|file| file.path.ends_with(".safetensors"));
    weights.fold(0, |sum, file| sum.saturating_add(file.bytes))
}

fn reckon(config: &ModelConfig, file_bytes: u64, bits: Option<u64>) -> Result<Fit, AppError> {
    let is_full = device::keeps_full_precision().map_err(|source| AppError::Device(Arc::new(source)))?;
    let entry_bytes = if is_full { FULL_BYTES } else { HALF_BYTES };
    let weights_bytes = if is_full { in_full_precision(file_bytes, bits) } else { file_bytes };
    let facts = KvFacts {
        bytes_per_token: config.kv_cache_bytes_per_token(entry_bytes),
        context_tokens: config.context_tokens,
        layers: config.layers as u32,
        vocab: config.vocab as u64,
        hidden: config.hidden as u64,
    };
    fit::compare_now(&Needs::estimated(weights_bytes, facts), config.context_tokens)
}

/// Size of weights on a device that computes in f32: 4 and 8 bits stay packed, with larger scales; others are unpacked.
fn in_full_precision(file_bytes: u64, bits: Option<u64>) -> u64 {
    match bits {
        Some(4 | 8) => file_bytes.saturating_add(file_bytes / 8),
        Some(bits @ 1..32) => file_bytes.saturating_mul(32) / bits,
        _ => file_bytes.saturating_mul(FULL_BYTES / HALF_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_are_unpacked_grow_by_their_bits() {
        assert_eq!(in_full_precision(800, Some(4)), 900);
        assert_eq!(in_full_precision(600, Some(6)), 3_200);
        assert_eq!(in_full_precision(600, None), 1_200);
    }
}
