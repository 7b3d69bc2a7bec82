//! Which model folder the app loads.

pub mod fit;

use std::{path::PathBuf, sync::Arc};

use model_hub::{CatalogEntry, ModelFolder, list_models};

use crate::{error::AppError, local_engine::read_config};

/// Where models may lie, in order of preference.
#[derive(Debug, Clone, Default)]
pub struct ModelPlaces {
    /// A model folder named by the environment (`BRAID_STARTER_MODEL`). If set, nothing else is looked at.
    pub starter: Option<PathBuf>,
    /// Folders of model folders: the person's own, then those that came with the app.
    pub roots: Vec<PathBuf>,
}

/// A model to run, and the one that it stands in for.
#[derive(Debug, Clone)]
pub struct FoundModel {
    /// The model.
    pub model: ModelFolder,
    /// The preferred one, by its id, and why it cannot be used.
    pub passed_over: Option<(String, AppError)>,
}

impl ModelPlaces {
    /// The model called `preferred` if Braid can run it, else the first one that it can run, by its headers.
    ///
    /// # Errors
    /// [`AppError::NoModel`] with the places that were looked at; [`AppError::BrokenModel`] or
    /// [`AppError::UnsupportedModel`] of the first model if none can be used; [`AppError::ModelList`].
    pub fn preferred_or_first(&self, preferred: Option<&str>) -> Result<FoundModel, AppError> {
        let mut entries = self.entries()?;
        let is_preferred = |entry: &CatalogEntry| preferred.is_some_and(|id| id_of(entry) == id);
        // Stable: the others stay in order.
        entries.sort_by_key(|entry| !is_preferred(entry));
        let mut passed_over = preferred
            .filter(|_| !entries.first().is_some_and(is_preferred))
            .map(|id| (id.to_owned(), self.nothing_found()));
        let mut unusable = None;
        for entry in entries {
            let is_preferred = is_preferred(&entry);
            let id = id_of(&entry).to_owned();
            match usable(entry) {
                Ok(model) => return Ok(FoundModel { model, passed_over }),
                Err(error) => {
                    tracing::warn!(id, error = crate::error::in_full(&error), "a model cannot be used");
                    if is_preferred {
                        passed_over = Some((id, error.clone()));
                    }
                    unusable.get_or_insert(error);
                }
            }
        }
        Err(unusable.unwrap_or_else(|| self.nothing_found()))
    }

    fn nothing_found(&self) -> AppError {
        let looked_in = self.starter.clone().map_or_else(|| self.roots.clone(), |starter| vec![starter]);
        AppError::NoModel { looked_in }
    }

    fn entries(&self) -> Result<Vec<CatalogEntry>, AppError> {
        let Some(starter) = &self.starter else {
            let mut entries = Vec::new();
            for root in &self.roots {
                entries.extend(list(std::slice::from_ref(root))?);
            }
            return Ok(entries);
        };
        let Some(parent) = starter.parent() else { return Ok(Vec::new()) };
        let mut entries = list(&[parent.to_owned()])?;
        entries.retain(|entry| match entry {
            CatalogEntry::Usable(model) => &model.path == starter,
            CatalogEntry::Broken { path, .. } => path == starter,
        });
        Ok(entries)
    }
}

fn id_of(entry: &CatalogEntry) -> &str {
    match entry {
        CatalogEntry::Usable(model) => &model.id,
        CatalogEntry::Broken { id, .. } => id,
    }
}

fn usable(entry: CatalogEntry) -> Result<ModelFolder, AppError> {
    match entry {
        CatalogEntry::Usable(model) => read_config(&model).map(|_| model),
        CatalogEntry::Broken { path, reason, .. } => {
            Err(AppError::BrokenModel { path, reason: Arc::new(reason) })
        }
    }
}

fn list(roots: &[PathBuf]) -> Result<Vec<CatalogEntry>, AppError> {
    list_models(roots).map_err(|error| AppError::ModelList(Arc::new(error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_missing_model_is_told_with_the_places() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let places = ModelPlaces { starter: None, roots: vec![root.path().join("models")] };
        let error = places.preferred_or_first(None).expect_err("nothing is there");
        assert_eq!(error.code(), protocol::ErrorCode::ModelMissing);
        assert!(error.to_string().contains("models"), "{error}");
        let named = ModelPlaces { starter: Some(root.path().join("gone")), ..places };
        assert_eq!(
            named.preferred_or_first(None).expect_err("gone").code(),
            protocol::ErrorCode::ModelMissing
        );
    }

    #[test]
    fn a_broken_model_is_no_missing_model() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let folder = root.path().join("half");
        fs::create_dir(&folder).expect("a writable folder");
        fs::write(folder.join("config.json"), "{}").expect("a writable folder");
        for places in [
            ModelPlaces { starter: None, roots: vec![root.path().to_owned()] },
            ModelPlaces { starter: Some(folder.clone()), roots: Vec::new() },
        ] {
            assert_eq!(
                places.preferred_or_first(None).expect_err("half").code(),
                protocol::ErrorCode::ModelUnusable
            );
        }
    }
}
