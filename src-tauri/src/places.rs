//! Where the app keeps its files.

use std::{
    env,
    path::{Path, PathBuf},
};

use tauri::path::PathResolver;

use crate::{model_library::ModelFolders, models::ModelPlaces};
use model_hub::cache_dir_from_env;

/// Names a folder for everything that the app writes, instead of the system's places.
const DATA_DIR: &str = "BRAID_DATA_DIR";

/// Names the one model folder to load.
const STARTER_MODEL: &str = "BRAID_STARTER_MODEL";

/// The app's files and folders.
#[derive(Debug, Clone)]
pub struct Places {
    /// Folder of the person's data.
    pub data: PathBuf,
    /// The history's file.
    pub database: PathBuf,
    /// Folder of the log files.
    pub logs: PathBuf,
    /// Where a model to start with may lie.
    pub models: ModelPlaces,
    /// Where models lie, by whose they are.
    pub model_folders: ModelFolders,
    /// Whether keys may go to the system's keychain: not if everything is to lie in one folder.
    pub may_use_keychain: bool,
}

impl Places {
    /// Asks the environment, then the system.
    ///
    /// # Errors
    /// The system's, if it names no folder for data.
    pub fn find<R: tauri::Runtime>(paths: &PathResolver<R>) -> Result<Self, tauri::Error> {
        let own = folder_from(DATA_DIR);
        let may_use_keychain = own.is_none();
        let logs = match &own {
            Some(folder) => folder.join("logs"),
            None => paths.app_log_dir()?,
        };
        let data = match own {
            Some(folder) => folder,
            None => paths.app_data_dir()?,
        };
        let own = data.join("models");
        let bundled: Vec<PathBuf> =
            paths.resource_dir().ok().map(|folder| folder.join("models")).into_iter().collect();
        // Shared with other tools, unless everything is to lie in one folder.
        let shared = env::var_os(DATA_DIR).is_none().then(|| cache_dir_from_env(|name| env::var(name).ok()));
        let downloads = shared.flatten().unwrap_or_else(|| data.join("hub"));
        let starter = folder_from(STARTER_MODEL);
        let roots = [&own, &downloads].into_iter().chain(&bundled).cloned().collect();
        let models = ModelPlaces { starter: starter.clone(), roots };
        let model_folders = ModelFolders { own, bundled, starter, downloads };
        Ok(Self {
            database: data.join("history.sqlite3"),
            data,
            logs,
            models,
            model_folders,
            may_use_keychain,
        })
    }
}

fn folder_from(variable: &str) -> Option<PathBuf> {
    let folder = env::var_os(variable).filter(|value| !value.is_empty())?;
    // The working directory may change; a relative path must not change its meaning with it.
    Some(std::path::absolute(Path::new(&folder)).unwrap_or_else(|_| folder.into()))
}
