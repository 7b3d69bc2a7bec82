//! Whether a model fits beside, or in place of, what is loaded.

use std::sync::Arc;

use engine::Replace;
use mlx_backend::device::{self, DeviceMemoryKind, DeviceMemoryNow};
use model_hub::{
    ModelFolder, WeightHeaders,
    fit::{self, DeviceMemory, FitReport, KvFacts, MemoryKind, Needs, Plan, Verdict, WeightStorage},
};

use crate::{error::AppError, local_engine::read_config};

/// Conversations that a model has to have memory for.
const PLANNED_TABS: u32 = 1;
/// A smaller context than this holds no conversation, in tokens.
const LEAST_CONTEXT_TOKENS: u32 = 256;

/// What memory says to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fit {
    /// The numbers, with what unloading the present model gives back.
    pub report: FitReport,
    /// Longest context of the model, in tokens.
    pub model_context_tokens: u32,
    /// Kind of the device's memory.
    pub memory_kind: MemoryKind,
    /// Whether there is room for the weights while the present model is loaded.
    pub replace: Replace,
}

/// Reckons by the headers of a model's files. `context_tokens`: window to run with; the model's own is the default.
///
/// # Errors
/// [`AppError::UnsupportedModel`], [`AppError::BrokenModel`], [`AppError::Device`].
pub fn check(model: &ModelFolder, context_tokens: Option<u32>) -> Result<Fit, AppError> {
    let config = read_config(model)?;
    let headers = WeightHeaders::read(&model.path)
        .map_err(|reason| AppError::BrokenModel { path: model.path.clone(), reason: Arc::new(reason) })?;
    let on_device = |source| AppError::Device(Arc::new(source));
    let keeps_full_precision = device::keeps_full_precision().map_err(on_device)?;
    let storage = if keeps_full_precision { WeightStorage::FullPrecision } else { WeightStorage::AsStored };
    let facts = KvFacts {
        bytes_per_token: config.kv_cache_bytes_per_token(entry_bytes(&headers, storage)),
        context_tokens: config.context_tokens,
        layers: config.layers as u32,
        vocab: config.vocab as u64,
        hidden: config.hidden as u64,
    };
    let needs = fit::needs(&headers, facts, storage);
    compare_now(&needs, context_tokens.unwrap_or(config.context_tokens))
}

/// Compares what a model needs with the memory of this moment.
///
/// # Errors
/// [`AppError::Device`].
pub fn compare_now(needs: &Needs, context_tokens: u32) -> Result<Fit, AppError> {
    let now = device::memory_now().map_err(|source| AppError::Device(Arc::new(source)))?;
    Ok(compare(needs, now, device::active_bytes(), context_tokens.max(LEAST_CONTEXT_TOKENS)))
}

fn compare(needs: &Needs, now: DeviceMemoryNow, loaded_bytes: u64, context_tokens: u32) -> Fit {
    let kind = match now.kind {
        DeviceMemoryKind::Host => MemoryKind::Host,
        DeviceMemoryKind::Unified => MemoryKind::Unified,
        DeviceMemoryKind::Discrete => MemoryKind::Discrete,
    };
    let memory = DeviceMemory { kind, total_bytes: now.total_bytes, free_bytes: now.free_bytes };
    let report =
        fit::check(needs, memory, Plan { tabs: PLANNED_TABS, context_tokens, freed_bytes: loaded_bytes });
    // Nobody talks to the new model before the old one is gone.
    let beside = fit::check(needs, memory, Plan { tabs: 0, context_tokens, freed_bytes: 0 });
    let replace = match beside.verdict {
        Verdict::Fits | Verdict::Tight => Replace::Beside,
        Verdict::TooLarge => Replace::UnloadFirst,
    };
    Fit { report, model_context_tokens: needs.context_tokens, memory_kind: kind, replace }
}

/// Bytes of one number in the KV cache: that of the activations, which are as the norms are stored.
fn entry_bytes(headers: &WeightHeaders, storage: WeightStorage) -> u64 {
    match storage {
        WeightStorage::FullPrecision => 4,
        WeightStorage::AsStored => {
            let norms = headers.tensors.iter().filter(|tensor| tensor.name.ends_with("norm.weight"));
            norms.map(|tensor| tensor.dtype.bytes()).max().unwrap_or(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn needs() -> Needs {
        Needs {
            weights_bytes: 4 * GIB,
            load_peak_bytes: 4 * GIB,
            kv_cache_bytes_per_token: 1 << 17,
            context_tokens: 8192,
            layers: 32,
            workspace_bytes: 1 << 26,
            logits_bytes_per_tab: 1 << 22,
        }
    }

    fn memory(free_bytes: u64) -> DeviceMemoryNow {
        DeviceMemoryNow {
            kind: DeviceMemoryKind::Discrete,
            total_bytes: 24 * GIB,
            free_bytes,
            limit_bytes: 22 * GIB,
        }
    }

    #[test]
    fn a_model_is_loaded_beside_another_where_its_weights_fit_and_in_its_place_otherwise() {
        let beside = compare(&needs(), memory(5 * GIB), 4 * GIB, 8192);
        assert_eq!((beside.replace, beside.report.verdict), (Replace::Beside, Verdict::Fits));
        let after = compare(&needs(), memory(3 * GIB), 8 * GIB, 8192);
        assert_eq!((after.replace, after.report.verdict), (Replace::UnloadFirst, Verdict::Fits));
        let never = compare(&needs(), memory(2 * GIB), GIB, 8192);
        assert_eq!(never.report.verdict, Verdict::TooLarge);
    }

    #[test]
    fn a_context_that_does_not_fit_is_answered_with_one_that_does() {
        let long = Needs { context_tokens: 131_072, ..needs() };
        let fit = compare(&long, memory(9 * GIB), 0, 131_072);
        assert_eq!(fit.report.verdict, Verdict::TooLarge);
        let offered = fit.report.offered_context_tokens.expect("the weights leave room");
        assert_ne!(compare(&long, memory(9 * GIB), 0, offered).report.verdict, Verdict::TooLarge);
    }
}
