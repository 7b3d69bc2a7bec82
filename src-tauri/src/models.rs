//! Which model folder the app loads.

pub mod fit;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use model_hub::{CatalogEntry, ModelFolder, list_models};

use crate::{error::AppError, local_engine::read_config};

/// Where models may lie, in order of preference.
#[derive(Debug, Clone, Default)]
pub struct ModelPlaces {
    /// A model folder named by the environment (`BRAID_STARTER_MODEL`): the first choice of those who have made none.
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
        AppError::NoModel { looked_in: self.starter.iter().chain(&self.roots).cloned().collect() }
    }

    fn entries(&self) -> Result<Vec<CatalogEntry>, AppError> {
        let mut entries = Vec::new();
        if let Some(starter) = &self.starter
            && let Some(parent) = starter.parent()
        {
            let beside = list(&[parent.to_owned()])?;
            entries.extend(beside.into_iter().filter(|entry| path_of(entry) == starter));
        }
        for root in &self.roots {
            entries.extend(list(std::slice::from_ref(root))?);
        }
        Ok(entries)
    }
}

fn path_of(entry: &CatalogEntry) -> &Path {
    match entry {
        CatalogEntry::Usable(model) => &model.path,
        CatalogEntry::Broken { path, .. } => path,
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
    const CONFIG: &str = r#"{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1,
        "intermediate_size": 64, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 64,
        "vocab_size": 32, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 128,
        "tie_word_embeddings": true}"#;

    /// A folder with sound headers and no more.
    fn write_model(root: &Path, id: &str, config: &str) -> PathBuf {
        let header = r#"{"model.norm.weight":{"dtype":"F16","shape":[64],"data_offsets":[0,128]}}"#;
        let mut weights = (header.len() as u64).to_le_bytes().to_vec();
        weights.extend(header.bytes().chain([0; 128]));
        let folder = root.join(id);
        fs::create_dir_all(&folder).expect("a writable folder");
        fs::write(folder.join("model.safetensors"), weights).expect("a writable folder");
        fs::write(folder.join("config.json"), config).expect("a writable folder");
        fs::write(folder.join("tokenizer.json"), "{}").expect("a writable folder");
        folder
    }

    #[test]
    fn a_preferred_model_comes_first_and_one_that_cannot_be_run_is_told() {
        let root = tempfile::tempdir().expect("a temporary folder");
        write_model(root.path(), "a", CONFIG);
        write_model(root.path(), "b", CONFIG);
        write_model(root.path(), "c", &CONFIG.replace("llama", "mamba"));
        write_model(root.path(), "d", "{");
        let places = ModelPlaces { starter: None, roots: vec![root.path().to_owned()] };
        let found = |preferred| places.preferred_or_first(preferred).expect("two can be run");
        assert_eq!(found(None).model.id, "a");
        assert_eq!(found(Some("b")).model.id, "b");
        assert!(found(Some("b")).passed_over.is_none());
        for (id, code) in [
            ("c", protocol::ErrorCode::ModelUnsupported),
            ("d", protocol::ErrorCode::ModelUnusable),
            ("gone", protocol::ErrorCode::ModelMissing),
        ] {
            let found = found(Some(id));
            let (passed, error) = found.passed_over.expect("it cannot be run");
            assert_eq!((found.model.id.as_str(), passed.as_str(), error.code()), ("a", id, code));
        }
    }

    #[test]
    fn the_starter_model_is_the_first_choice_only_without_another() {
        let (root, own) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let starter = write_model(root.path(), "starter", CONFIG);
        write_model(root.path(), "beside", CONFIG);
        write_model(own.path(), "mine", CONFIG);
        let places = ModelPlaces { starter: Some(starter), roots: vec![own.path().to_owned()] };
        let id = |preferred| places.preferred_or_first(preferred).expect("all can be run").model.id;
        assert_eq!([id(None), id(Some("mine"))], ["starter", "mine"]);
        assert_eq!(id(Some("beside")), "starter", "the folder of the starter model is no root");
    }
}
