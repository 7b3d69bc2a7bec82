//! Braid as a server: other programs of this computer ask the loaded model.
//!
//! Off until a person switches it on. Its requests go the same way as a tab's and join the same batch: see
//! [`answering`]. The protocol, and who may ask, are the business of the crate `openai-api`.

mod answering;
mod refusals;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use engine::params::InvalidParam;
use history::History;
use openai_api::{
    Secret,
    server::{Listeners, Server},
};
use protocol::{KeyPlace, LocalServerSettings, LocalServerStatus};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::{
    error::AppError,
    keychain::{Keys, new_key},
    local_engine::LocalEngine,
    requests::{Asker, Requests, StopCause},
    settings_store::to_json,
};
use answering::BatchAnswerer;

const KEY: &str = "localServer";

/// What the key is kept under.
const ACCOUNT: &str = "local-server";

/// Ports below belong to the system.
const LEAST_PORT: u16 = 1024;

const FIRST_PORT: u16 = 11_535;

/// What is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    is_enabled: bool,
    port: u16,
    key: KeyPlace,
}

impl Default for Stored {
    fn default() -> Self {
        Self { is_enabled: false, port: FIRST_PORT, key: KeyPlace::None }
    }
}

/// The local server, running or not. Cloning shares it.
#[derive(Clone)]
pub struct LocalServer {
    keys: Keys,
    requests: Requests,
    answerer: BatchAnswerer,
    served: Arc<AtomicU32>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    stored: Stored,
    /// Read when it is first needed: the keychain may ask for a password.
    key: Option<Secret>,
    running: Option<Running>,
    failure: Option<AppError>,
}

struct Running {
    server: Server,
    port: u16,
}

impl LocalServer {
    /// A server that does not run yet.
    pub fn new(engine: Arc<LocalEngine>, requests: Requests, keys: Keys) -> Self {
        let served = Arc::new(AtomicU32::new(0));
        let answerer = BatchAnswerer::new(engine, requests.clone(), served.clone());
        Self { keys, requests, answerer, served, state: Arc::default() }
    }

    /// Takes over what is stored; what has another shape counts as nothing. Starts nothing.
    ///
    /// # Errors
    /// [`AppError::History`].
    pub async fn read_from(&self, history: &History) -> Result<(), AppError> {
        let json = history.app_setting(KEY).await?;
        let stored = json.and_then(|json| {
            serde_json::from_str(&json)
                .inspect_err(|error| tracing::warn!(%error, "the local server's settings have another shape"))
                .ok()
        });
        self.state.lock().await.stored = stored.unwrap_or_default();
        Ok(())
    }

    /// Starts it if a person switched it on. A failure is told by [`Self::status`].
    pub async fn start_if_enabled(&self) {
        let mut state = self.state.lock().await;
        if state.stored.is_enabled {
            self.apply(&mut state).await;
        }
    }

    /// How it is.
    pub async fn status(&self) -> LocalServerStatus {
        let mut state = self.state.lock().await;
        let unread = self.read_key(&mut state).await.err();
        let shown = self.shown(&state);
        LocalServerStatus { failure: shown.failure.or(unread.map(Into::into)), ..shown }
    }

    /// Switches it on or off, or moves it to another port. That it cannot listen is told in the status.
    ///
    /// # Errors
    /// [`AppError::InvalidSetting`] for the port, [`AppError::Keychain`], [`AppError::History`].
    pub async fn write(
        &self,
        history: &History,
        settings: LocalServerSettings,
    ) -> Result<LocalServerStatus, AppError> {
        if settings.port < LEAST_PORT {
            let value = settings.port.to_string();
            return Err(InvalidParam { field: "port", limit: "1024 to 65535", value }.into());
        }
        let mut state = self.state.lock().await;
        let mut wanted =
            Stored { is_enabled: settings.is_enabled, port: settings.port, key: state.stored.key };
        if settings.is_enabled {
            self.read_key(&mut state).await?;
            if state.key.is_none() {
                wanted.key = self.make_key(&mut state).await?;
            }
        }
        store(history, &wanted).await?;
        state.stored = wanted;
        self.apply(&mut state).await;
        Ok(self.shown(&state))
    }

    /// Makes another key; the one before is refused from now on.
    ///
    /// # Errors
    /// [`AppError::Keychain`], [`AppError::History`].
    pub async fn renew_key(&self, history: &History) -> Result<LocalServerStatus, AppError> {
        let mut state = self.state.lock().await;
        let old = state.stored.key;
        let place = self.make_key(&mut state).await?;
        if place != old {
            self.keys.erase(ACCOUNT, old).await?;
        }
        let wanted = Stored { key: place, ..state.stored.clone() };
        store(history, &wanted).await?;
        state.stored = wanted;
        if let (Some(running), Some(key)) = (&state.running, &state.key) {
            running.server.set_key(key.clone());
        } else {
            // One that could not run without its key can now.
            self.apply(&mut state).await;
        }
        Ok(self.shown(&state))
    }

    /// Stops it until the next start of the app; the setting stays.
    pub async fn stop(&self) {
        let mut state = self.state.lock().await;
        self.stop_running(&mut state, StopCause::AppExit).await;
    }

    /// Makes what runs what is wanted.
    async fn apply(&self, state: &mut State) {
        let wanted = state.stored.clone();
        let is_right = |running: &Running| wanted.is_enabled && running.port == wanted.port;
        if state.running.as_ref().is_some_and(|running| !is_right(running)) {
            self.stop_running(state, StopCause::AppExit).await;
        }
        state.failure = None;
        if wanted.is_enabled
            && state.running.is_none()
            && let Err(error) = self.start(state).await
        {
            tracing::warn!(error = crate::error::in_full(&error), "the local server does not run");
            state.failure = Some(error);
        }
    }

    async fn start(&self, state: &mut State) -> Result<(), AppError> {
        self.read_key(state).await?;
        let key = state.key.clone().ok_or(AppError::ServerKeyGone)?;
        let port = state.stored.port;
        let taken = |source: io::Error| AppError::ServerPort { port, source: Arc::new(source) };
        let listeners = Listeners::bind(port).await.map_err(taken)?;
        let server = Server::start(listeners, key, self.answerer.clone());
        tracing::info!(port, "the local server listens on loopback");
        state.running = Some(Running { server, port });
        Ok(())
    }

    async fn stop_running(&self, state: &mut State, cause: StopCause) {
        let Some(running) = state.running.take() else { return };
        self.requests.stop_of(Asker::Server, cause);
        running.server.stop().await;
        tracing::info!("the local server has stopped");
    }

    async fn read_key(&self, state: &mut State) -> Result<(), AppError> {
        if state.key.is_none() {
            state.key = self.keys.read(ACCOUNT, state.stored.key).await?;
        }
        Ok(())
    }

    /// Makes and keeps a new key. Returns where it is kept.
    async fn make_key(&self, state: &mut State) -> Result<KeyPlace, AppError> {
        let key = Secret::new(&new_key());
        let place = match &key {
            Some(key) => self.keys.store(ACCOUNT, key).await?,
            None => KeyPlace::None,
        };
        state.key = key;
        Ok(place)
    }

    fn shown(&self, state: &State) -> LocalServerStatus {
        LocalServerStatus {
            settings: LocalServerSettings { is_enabled: state.stored.is_enabled, port: state.stored.port },
            address: state.running.as_ref().map(|running| format!("http://127.0.0.1:{}/v1", running.port)),
            key: state.key.as_ref().map(|key| key.expose().to_owned()).unwrap_or_default(),
            served_requests: self.served.load(Ordering::Relaxed),
            failure: state.failure.clone().map(Into::into),
        }
    }
}

async fn store(history: &History, wanted: &Stored) -> Result<(), AppError> {
    Ok(history.set_app_setting(KEY, &to_json("the local server's settings", wanted)?).await?)
}
