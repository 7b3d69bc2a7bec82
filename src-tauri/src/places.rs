//! Where the app keeps its files.

use std::{
    env,
    path::{Path, PathBuf},
};

use tauri::path::PathResolver;

use crate::models::ModelPlaces;

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
    /// Where models may lie.
    pub models: ModelPlaces,
}

impl Places {
    /// Asks the environment, then the system.
    ///
    /// # Errors
    /// The system's, if it names no folder for data.
    pub fn find<R: tauri::Runtime>(paths: &PathResolver<R>) -> Result<Self, tauri::Error> {
        let own = folder_from(DATA_DIR);
        let logs = match &own {
            Some(folder) => folder.join("logs"),
            None => paths.app_log_dir()?,
        };
        let data = match own {
            Some(folder) => folder,
            None => paths.app_data_dir()?,
        };
        let roots = [Some(data.clone()), paths.resource_dir().ok()];
        let roots = roots.into_iter().flatten().map(|folder| folder.join("models")).collect();
        let models = ModelPlaces { starter: folder_from(STARTER_MODEL), roots };
        Ok(Self { database: data.join("history.sqlite3"), data, logs, models })
    }
}

fn folder_from(variable: &str) -> Option<PathBuf> {
    let folder = env::var_os(variable).filter(|value| !value.is_empty())?;
    // The working directory may change; a relative path must not change its meaning with it.
    Some(std::path::absolute(Path::new(&folder)).unwrap_or_else(|_| folder.into()))
}
