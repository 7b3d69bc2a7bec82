//! A model that is to be loaded, and one that is being loaded.

use super::{
    EngineConfig, ModelId,
    publisher::Publisher,
    served::{Advance, MakeEngine, Start},
};
use crate::{
    BackendError,
    loading::{LoadStep, Replace, SlicePacer},
    request::Intake,
    status::EnginePhase,
};

/// What the thread needs to load a model.
pub(super) struct LoadOrder {
    pub(super) id: ModelId,
    pub(super) config: EngineConfig,
    pub(super) intake: Intake,
    pub(super) publisher: Publisher,
    pub(super) start: Start,
    pub(super) replace: Replace,
}

impl LoadOrder {
    /// Tells the handles that the thread has ended.
    pub(super) fn refuse(self) {
        self.publisher.publish_end(EnginePhase::Stopped);
    }
}

/// A model that is being loaded. Stays on the thread.
pub(super) struct Load {
    pub(super) id: ModelId,
    pub(super) config: EngineConfig,
    pub(super) intake: Intake,
    pub(super) publisher: Publisher,
    pub(super) replace: Replace,
    pub(super) pacer: SlicePacer,
    pub(super) stage: Stage,
}

/// How far a load is.
pub(super) enum Stage {
    Asked(Start),
    Running(Advance),
    /// Failed.
    Over,
}

impl From<LoadOrder> for Load {
    fn from(order: LoadOrder) -> Self {
        let LoadOrder { id, config, intake, publisher, start, replace } = order;
        let stage = Stage::Asked(start);
        Self { id, config, intake, publisher, replace, pacer: SlicePacer::default(), stage }
    }
}

impl Load {
    pub(super) fn advance(&mut self) -> Result<LoadStep<MakeEngine>, BackendError> {
        // Over until the slice has gone well: a load that failed or panicked is not touched again.
        let mut advance = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Asked(start) => start()?,
            Stage::Running(advance) => advance,
            Stage::Over => return Err("a load that has failed goes on".into()),
        };
        let step = advance()?;
        self.stage = Stage::Running(advance);
        Ok(step)
    }
}
