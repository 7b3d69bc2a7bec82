//! Settings of the app: one JSON value in the history's database, held in memory while the app runs.

use history::History;
use protocol::{AppSettings, GateMode, OverlapMode};
use tokio::sync::Mutex;

use crate::{convert::conversation::from_json_over, error::AppError, sampling_settings};

const KEY: &str = "app";

/// The app's settings. Changes are written one after the other, so the file never ends with an older one.
pub struct SettingsStore {
    current: Mutex<AppSettings>,
}

/// What a first start finds.
pub fn defaults() -> AppSettings {
    AppSettings {
        theme: protocol::Theme::default(),
        text_size_percent: 100,
        gate_mode: GateMode::default(),
        overlap: OverlapMode::default(),
        is_overlay_open: true,
        is_sidebar_open: true,
        open_tabs: Vec::new(),
        active_tab: None,
        new_conversation: sampling_settings::defaults(),
        presets: Vec::new(),
        language: None,
        unread: Vec::new(),
        has_seen_welcome: false,
    }
}

impl Default for SettingsStore {
    fn default() -> Self {
        Self { current: Mutex::new(defaults()) }
    }
}

impl SettingsStore {
    /// Takes over the stored settings; the defaults if there are none or they have another shape.
    ///
    /// # Errors
    /// [`AppError::History`].
    pub async fn read_from(&self, history: &History) -> Result<AppSettings, AppError> {
        let stored = history.app_setting(KEY).await?;
        let read = |json: String| from_json_over("app settings", &defaults(), &json);
        let settings = stored.and_then(read).unwrap_or_else(defaults);
        self.current.lock().await.clone_from(&settings);
        Ok(settings)
    }

    /// The settings now.
    pub async fn current(&self) -> AppSettings {
        self.current.lock().await.clone()
    }

    /// Changes the settings and stores them. If storing fails, they stay as they were.
    ///
    /// # Errors
    /// [`AppError::History`], [`AppError::Json`].
    pub async fn change(
        &self,
        history: &History,
        change: impl FnOnce(&mut AppSettings),
    ) -> Result<(), AppError> {
        let mut current = self.current.lock().await;
        let mut changed = current.clone();
        change(&mut changed);
        history.set_app_setting(KEY, &to_json("app settings", &changed)?).await?;
        *current = changed;
        Ok(())
    }
}

/// Writes a value of the app's own as JSON.
///
/// # Errors
/// [`AppError::Json`].
pub fn to_json(what: &'static str, value: &impl serde::Serialize) -> Result<String, AppError> {
    serde_json::to_string(value).map_err(|source| AppError::Json { what, source: source.into() })
}
