//! Which hub models come from: its address, the way there, and a token that only goes in.

use std::{
    env, fs, io,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use history::History;
use model_hub::{HubConfig, Secret};
use protocol::{HubSettings, HubSettingsChange, HubToken};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::{error::AppError, settings_store::to_json};

const KEY: &str = "hub";

/// What is stored; `None` leaves it to the environment, as Hugging Face's own tools have it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Stored {
    endpoint: Option<String>,
    proxy: Option<String>,
}

/// The hub's settings. The token lies in a file of its own that nobody else may read.
pub struct HubSettingsStore {
    token_file: PathBuf,
    stored: Mutex<Stored>,
}

impl HubSettingsStore {
    /// Settings whose token lies under `data`.
    pub fn new(data: &Path) -> Self {
        Self { token_file: data.join("hub-token"), stored: Mutex::default() }
    }

    /// Takes over what is stored; what has another shape counts as nothing.
    ///
    /// # Errors
    /// [`AppError::History`].
    pub async fn read_from(&self, history: &History) -> Result<(), AppError> {
        let json = history.app_setting(KEY).await?;
        let stored = json.and_then(|json| {
            serde_json::from_str(&json)
                .inspect_err(|error| tracing::warn!(%error, "the hub's settings have another shape"))
                .ok()
        });
        *self.stored.lock().await = stored.unwrap_or_default();
        Ok(())
    }

    /// Which hub to ask, as whom, and which way.
    ///
    /// # Errors
    /// [`AppError::HubToken`] if the token's file cannot be read, [`AppError::Hub`] for that of other tools.
    pub async fn config(&self) -> Result<HubConfig, AppError> {
        let stored = self.stored.lock().await.clone();
        let mut config = HubConfig::from_env(|name| env::var(name).ok())?;
        if let Some(endpoint) = stored.endpoint {
            config.endpoint = endpoint;
        }
        if stored.proxy.is_some() {
            config.proxy = stored.proxy.into();
        }
        if let Some(token) = self.own_token()? {
            config.token = Some(token);
        }
        Ok(config)
    }

    /// What the UI shows. `folder`: where downloads go.
    ///
    /// # Errors
    /// As [`Self::config`].
    pub async fn shown(&self, folder: &Path) -> Result<HubSettings, AppError> {
        let config = self.config().await?;
        Ok(HubSettings {
            endpoint: config.endpoint,
            proxy: self.stored.lock().await.proxy.clone(),
            has_token: config.token.is_some(),
            folder: folder.display().to_string(),
        })
    }

    /// Stores a change. Nothing is changed when the address or the proxy makes no sense.
    ///
    /// # Errors
    /// [`AppError::Hub`] for an address or proxy that makes no sense, [`AppError::HubToken`], [`AppError::History`].
    pub async fn change(&self, history: &History, change: HubSettingsChange) -> Result<(), AppError> {
        let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let wanted =
            Stored { endpoint: given(&change.endpoint), proxy: change.proxy.as_deref().and_then(given) };
        let mut config = HubConfig::default();
        if let Some(endpoint) = &wanted.endpoint {
            config.endpoint.clone_from(endpoint);
        }
        config.proxy = wanted.proxy.clone().into();
        model_hub::Hub::new(config)?;
        let mut stored = self.stored.lock().await;
        match change.token {
            None => {}
            Some(HubToken::Forget) => self.forget_token()?,
            Some(HubToken::Set { token }) => self.write_token(token.trim())?,
        }
        history.set_app_setting(KEY, &to_json("the hub's settings", &wanted)?).await?;
        *stored = wanted;
        Ok(())
    }

    fn own_token(&self) -> Result<Option<Secret>, AppError> {
        match fs::read_to_string(&self.token_file) {
            Ok(token) => Ok(Secret::new(&token)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn forget_token(&self) -> Result<(), AppError> {
        match fs::remove_file(&self.token_file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed(error)),
            _ => Ok(()),
        }
    }

    fn write_token(&self, token: &str) -> Result<(), AppError> {
        // Removed first: the mode below is for files that are made anew.
        self.forget_token()?;
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let write = || -> io::Result<()> {
            let mut file = options.open(&self.token_file)?;
            file.write_all(token.as_bytes())?;
            file.sync_all()
        };
        write().map_err(|error| self.failed(error))
    }

    fn failed(&self, source: io::Error) -> AppError {
        AppError::HubToken { path: self.token_file.clone(), source: Arc::new(source) }
    }
}
