//! What is known of loads: the one under way, and how the latest one failed.

use std::sync::Arc;

use engine::EngineError;
use model_hub::ModelFolder;

use super::LoadRequest;
use crate::error::AppError;

/// A model and how it is to be loaded.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    pub(super) model: Arc<ModelFolder>,
    pub(super) request: LoadRequest,
}

/// A model on its way into memory.
#[derive(Debug, Clone)]
pub struct LoadProgress {
    /// The model.
    pub model: Arc<ModelFolder>,
    /// Bytes of weights on the device.
    pub done_bytes: u64,
    /// Bytes of weights in all; 0 until the files were opened.
    pub total_bytes: u64,
}

/// A model that could not be loaded.
#[derive(Debug, Clone)]
pub struct LoadFailure {
    /// Its id.
    pub model_id: String,
    /// Why.
    pub error: AppError,
}

/// Loads as the rest of the app sees them.
#[derive(Debug, Clone, Default)]
pub struct LoadState {
    /// The one under way.
    pub loading: Option<LoadProgress>,
    /// The latest that failed, until another one is asked for. One that was cancelled did not fail.
    pub failure: Option<LoadFailure>,
}

impl LoadState {
    pub(super) fn begin(&mut self, model: &Arc<ModelFolder>) {
        self.loading = Some(LoadProgress { model: model.clone(), done_bytes: 0, total_bytes: 0 });
    }

    pub(super) fn advance(&mut self, done: u64, total: u64) {
        if let Some(progress) = &mut self.loading {
            (progress.done_bytes, progress.total_bytes) = (done, total);
        }
    }

    pub(super) fn end(&mut self) {
        self.loading = None;
    }

    /// Notes why a model is not loaded.
    pub(super) fn fail(&mut self, model_id: &str, error: &AppError) {
        self.loading = None;
        if !matches!(error, AppError::Engine(EngineError::LoadCancelled)) {
            self.failure = Some(LoadFailure { model_id: model_id.to_owned(), error: error.clone() });
        }
    }
}
