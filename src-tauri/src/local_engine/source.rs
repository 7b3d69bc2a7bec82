//! Where models and engines come from.

use std::{io, sync::Arc};

use engine::{EngineConfig, EngineHandle, EngineThread, Replace};
use mlx_backend::{LoadOptions, MlxBackend, config::ModelConfig};
use model_hub::{ModelFolder, fit::Verdict};
use text::{ChatMessage, GenerationDefaults, RenderOptions, Role, TextError, Tokenizer};

use crate::{
    error::AppError,
    models::{FoundModel, ModelPlaces, fit},
};

/// Rows that one batch holds at most; further requests wait for a slot.
const MAX_ROWS: usize = 8;

/// How a model is to be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadRequest {
    /// Context window to run with, in tokens; the model's own is the default and the limit.
    pub context_tokens: Option<u32>,
    /// What to do when memory does not suffice.
    pub memory: MemoryPolicy,
}

/// What to do when a model does not fit into memory by its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryPolicy {
    /// Refuse, with the numbers.
    #[default]
    Refuse,
    /// Take the context that is offered in place of the one that was asked for; refuse if none is.
    TakeOffer,
    /// Load all the same: the person insists.
    Insist,
}

/// What was found out about a model before anything that runs is touched.
#[derive(Debug, Clone)]
pub struct Preflight {
    /// Sampling that its maker recommends.
    pub recommended: GenerationDefaults,
    /// Its tokenizer, with a chat template that renders.
    pub tokenizer: Tokenizer,
    /// Context window to run with, in tokens; `None` is the model's own.
    pub context_tokens: Option<u32>,
    /// What becomes of the model that runs meanwhile.
    pub replace: Replace,
}

/// A model on its way to the engine's thread.
pub struct ModelStart<'a> {
    /// How the engine is to work.
    pub config: EngineConfig,
    /// The model.
    pub model: &'a ModelFolder,
    /// See [`Preflight::context_tokens`].
    pub context_tokens: Option<u32>,
}

/// Where an engine comes from: models on disk run on MLX, or a scripted one in tests.
pub trait EngineSource: Send + Sync {
    /// Finds a model to run when nobody chooses one: `preferred`, by its id, if it can be used.
    ///
    /// # Errors
    /// Why there is none.
    fn find_model(&self, preferred: Option<&str>) -> Result<FoundModel, AppError>;

    /// Checks a model by everything but its weights. Reads files, changes nothing.
    ///
    /// # Errors
    /// Why it cannot be loaded.
    fn preflight(&self, model: &ModelFolder, request: LoadRequest) -> Result<Preflight, AppError>;

    /// Starts a thread that loads and runs the model.
    ///
    /// # Errors
    /// The system's, if it gives no thread.
    fn spawn(&self, start: ModelStart<'_>) -> io::Result<(EngineThread, EngineHandle)>;

    /// Lets a running thread load the model and run it in place of the one it has.
    fn replace(&self, thread: &EngineThread, start: ModelStart<'_>, replace: Replace) -> EngineHandle;
}

/// Runs models of these places on MLX.
pub struct MlxSource(pub ModelPlaces);

impl EngineSource for MlxSource {
    fn find_model(&self, preferred: Option<&str>) -> Result<FoundModel, AppError> {
        self.0.preferred_or_first(preferred)
    }

    fn preflight(&self, model: &ModelFolder, request: LoadRequest) -> Result<Preflight, AppError> {
        let fit = fit::check(model, request.context_tokens)?;
        let tokenizer = Tokenizer::from_dir(&model.path)
            .map_err(|source| AppError::Tokenizer { path: model.path.clone(), source: Arc::new(source) })?;
        check_template(&tokenizer).map_err(|error| AppError::Prompt(Arc::new(error)))?;
        let context_tokens = match (fit.report.verdict, request.memory, fit.report.offered_context_tokens) {
            (Verdict::Fits | Verdict::Tight, _, _) | (Verdict::TooLarge, MemoryPolicy::Insist, _) => {
                request.context_tokens
            }
            (Verdict::TooLarge, MemoryPolicy::TakeOffer, Some(offered)) => Some(offered),
            (Verdict::TooLarge, MemoryPolicy::Refuse | MemoryPolicy::TakeOffer, _) => {
                return Err(AppError::ModelTooLarge(Box::new(fit.report)));
            }
        };
        let recommended = GenerationDefaults::from_dir(&model.path)
            .map_err(|source| AppError::Tokenizer { path: model.path.clone(), source: Arc::new(source) })?;
        Ok(Preflight { recommended, tokenizer, context_tokens, replace: fit.replace })
    }

    fn spawn(&self, start: ModelStart<'_>) -> io::Result<(EngineThread, EngineHandle)> {
        let (folder, options) = (start.model.path.clone(), start.options());
        EngineThread::spawn(start.config, move || Ok(MlxBackend::start_load(&folder, options)))
    }

    fn replace(&self, thread: &EngineThread, start: ModelStart<'_>, replace: Replace) -> EngineHandle {
        let (folder, options) = (start.model.path.clone(), start.options());
        thread.replace(start.config, move || Ok(MlxBackend::start_load(&folder, options)), replace)
    }
}

impl ModelStart<'_> {
    fn options(&self) -> LoadOptions {
        let tokenizer_tokens = u32::try_from(self.config.tokenizer.vocab_tokens()).unwrap_or(u32::MAX);
        LoadOptions { context_tokens: self.context_tokens, ..LoadOptions::new(MAX_ROWS, tokenizer_tokens) }
    }
}

/// Renders the shortest conversation there is: a template that cannot do that can do nothing.
fn check_template(tokenizer: &Tokenizer) -> Result<(), TextError> {
    let messages = [ChatMessage::new(Role::User, "Hi")];
    tokenizer.prompt_tokens(&messages, &RenderOptions::default()).map(|_| ())
}

/// Reads and checks a model's config.
///
/// # Errors
/// [`AppError::UnsupportedModel`].
pub fn read_config(model: &ModelFolder) -> Result<ModelConfig, AppError> {
    ModelConfig::from_dir(&model.path)
        .map_err(|source| AppError::UnsupportedModel { path: model.path.clone(), source: Arc::new(source) })
}
