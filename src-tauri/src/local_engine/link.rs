//! How the rest of the app reaches an engine.

use std::sync::Arc;

use engine::{EngineError, EngineHandle, EnginePhase};
use model_hub::ModelFolder;
use text::{GenerationDefaults, Tokenizer};
use tokio::sync::watch;

use crate::error::AppError;

/// The engine as the rest of the app finds it.
#[derive(Clone)]
pub enum EngineLink {
    /// A model is being looked for.
    Starting,
    /// There is no engine, and why.
    Unavailable(AppError),
    /// A model was given to the engine; its snapshots say how it is.
    Running(RunningEngine),
}

/// An engine and the model that it was given.
#[derive(Clone)]
pub struct RunningEngine {
    /// Reaches the engine.
    pub handle: EngineHandle,
    /// Tokenizer and chat template of the model.
    pub tokenizer: Tokenizer,
    /// The model folder.
    pub model: Arc<ModelFolder>,
    /// Sampling that the model's maker recommends.
    pub recommended: GenerationDefaults,
    pub(super) abandoned: watch::Receiver<bool>,
}

impl RunningEngine {
    /// Waits until the engine was replaced although its thread did not end: it will never answer again.
    pub async fn abandoned(&self) {
        let mut abandoned = self.abandoned.clone();
        if abandoned.wait_for(|is_abandoned| *is_abandoned).await.is_err() {
            // The thread ended in good order: its requests have had their last event.
            std::future::pending::<()>().await;
        }
    }

    /// Device that the model runs on, in words; `None` until it is loaded.
    pub fn device(&self) -> Option<String> {
        self.handle.status().borrow().facts.as_ref().map(|facts| facts.device.clone())
    }

    /// Context window that the model runs with, in tokens; `None` unless it takes requests.
    pub fn context_tokens(&self) -> Option<u32> {
        let status = self.handle.status();
        let snapshot = status.borrow();
        let facts = snapshot.facts.as_ref().filter(|_| matches!(snapshot.phase, EnginePhase::Ready));
        facts.map(|facts| facts.context_tokens)
    }

    /// Whether requests can be submitted now, later (`None`), or never again.
    pub(super) fn readiness(&self) -> Option<Result<(), AppError>> {
        let status = self.handle.status();
        let phase = status.borrow().phase.clone();
        match phase {
            EnginePhase::Loading { .. } | EnginePhase::Ready if status.has_changed().is_err() => {
                Some(Err(EngineError::Stopped.into()))
            }
            // The link follows a model that was replaced in a moment.
            EnginePhase::Loading { .. } | EnginePhase::Replaced => None,
            EnginePhase::Ready => Some(Ok(())),
            EnginePhase::Failed(error) => Some(Err(error.into())),
            EnginePhase::Unloaded => Some(Err(EngineError::ModelUnloaded.into())),
            EnginePhase::Stopped => Some(Err(EngineError::Stopped.into())),
        }
    }

    /// Waits for a snapshot that was not there when the readiness was asked; for ever if none will follow.
    pub(super) async fn changed(&self, mut status: watch::Receiver<Arc<engine::EngineSnapshot>>) {
        if status.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
