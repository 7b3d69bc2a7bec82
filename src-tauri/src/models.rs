//! Which model folder the app loads.

use std::{path::PathBuf, sync::Arc};

use model_hub::{CatalogEntry, ModelFolder, list_models};

use crate::error::AppError;

/// Where models may lie, in order of preference.
#[derive(Debug, Clone, Default)]
pub struct ModelPlaces {
    /// A model folder named by the environment (`BRAID_STARTER_MODEL`). If set, nothing else is looked at.
    pub starter: Option<PathBuf>,
    /// Folders of model folders: the person's own, then those that came with the app.
    pub roots: Vec<PathBuf>,
}

impl ModelPlaces {
    /// The first usable model.
    ///
    /// # Errors
    /// [`AppError::NoModel`] with the places that were looked at, [`AppError::BrokenModel`] if all models there are
    /// broken, [`AppError::ModelList`].
    pub fn first_usable(&self) -> Result<ModelFolder, AppError> {
        let mut broken = None;
        for entry in self.entries()? {
            match entry {
                CatalogEntry::Usable(model) => return Ok(model),
                CatalogEntry::Broken { path, reason, .. } => {
                    tracing::warn!(path = %path.display(), %reason, "a model folder is broken");
                    broken.get_or_insert(AppError::BrokenModel { path, reason: Arc::new(reason) });
                }
            }
        }
        let looked_in = self.starter.clone().map_or_else(|| self.roots.clone(), |starter| vec![starter]);
        Err(broken.unwrap_or(AppError::NoModel { looked_in }))
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
        let error = places.first_usable().expect_err("nothing is there");
        assert_eq!(error.code(), protocol::ErrorCode::ModelMissing);
        assert!(error.to_string().contains("models"), "{error}");
        let named = ModelPlaces { starter: Some(root.path().join("gone")), ..places };
        assert_eq!(named.first_usable().expect_err("gone").code(), protocol::ErrorCode::ModelMissing);
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
            assert_eq!(places.first_usable().expect_err("half").code(), protocol::ErrorCode::ModelUnusable);
        }
    }
}
