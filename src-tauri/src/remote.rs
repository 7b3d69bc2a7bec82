//! Servers that answer instead of the local engine: which there are, their keys, and their answers.

mod ask;

use std::{sync::Arc, time::Instant};

use engine::params::InvalidParam;
use history::History;
use openai_api::{
    Secret,
    client::{Address, Client, Patience},
};
use protocol::{
    FinishReason, KeyChange, KeyPlace, RemoteServer, RemoteServerChange, RemoteServerModel, RemoteTarget,
    SamplingSettings,
};
use serde::{Deserialize, Serialize};
use text::ChatMessage;
use tokio::sync::{Mutex, mpsc};

pub use ask::check_settings;
pub use openai_api::response::Usage;

use crate::{
    error::AppError,
    keychain::{Keys, new_id},
    settings_store::to_json,
};

const KEY: &str = "remoteServers";

/// Events of one answer that may wait for their reader; a full channel holds the server back.
const EVENTS_WAITING: usize = 64;

/// What a server says in an answer. Text is appended, never replaced.
#[derive(Debug, Clone)]
pub enum RemoteEvent {
    /// More of the thinking.
    Thinking(String),
    /// More of the answer.
    Text(String),
    /// The answer ended; the last event.
    Finished {
        /// Why.
        reason: FinishReason,
        /// Counts of tokens, if the server says.
        usage: Option<Usage>,
    },
    /// The answer failed; the last event. What came before stays.
    Failed(AppError),
}

/// A server as it is stored. Its key is kept elsewhere.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    id: String,
    name: String,
    base_url: String,
    key: KeyPlace,
}

/// The servers that were set up. Cloning shares them.
#[derive(Clone)]
pub struct RemoteServers {
    keys: Keys,
    servers: Arc<Mutex<Vec<Stored>>>,
    patience: Patience,
}

impl RemoteServers {
    /// No servers yet; their keys are kept with the app's.
    pub fn new(keys: Keys) -> Self {
        Self { keys, servers: Arc::default(), patience: Patience::default() }
    }

    /// Takes over what is stored; what has another shape counts as nothing.
    ///
    /// # Errors
    /// [`AppError::History`].
    pub async fn read_from(&self, history: &History) -> Result<(), AppError> {
        let json = history.app_setting(KEY).await?;
        let stored = json.and_then(|json| {
            serde_json::from_str(&json)
                .inspect_err(|error| tracing::warn!(%error, "the remote servers have another shape"))
                .ok()
        });
        *self.servers.lock().await = stored.unwrap_or_default();
        Ok(())
    }

    /// The servers, in the order in which they were set up.
    pub async fn list(&self) -> Vec<RemoteServer> {
        self.servers.lock().await.iter().map(shown).collect()
    }

    /// Sets a server up, or changes one. The key is kept first, so that no server is stored without its key.
    ///
    /// # Errors
    /// [`AppError::InvalidSetting`] for an empty name, [`AppError::Remote`] for an address that cannot be one,
    /// [`AppError::UnknownServer`], [`AppError::Keychain`], [`AppError::History`].
    pub async fn save(
        &self,
        history: &History,
        change: RemoteServerChange,
    ) -> Result<RemoteServer, AppError> {
        let name = change.name.trim().to_owned();
        if name.is_empty() {
            let limit = "at least one character";
            return Err(InvalidParam { field: "name", limit, value: "empty".into() }.into());
        }
        let base_url = Address::parse(&change.base_url)?.as_str().to_owned();
        let mut servers = self.servers.lock().await;
        let mut changed = servers.clone();
        let place = match &change.id {
            Some(id) => Some(position(&changed, id)?),
            None => None,
        };
        let old_key = place.map_or(KeyPlace::None, |place| changed[place].key);
        let id = change.id.unwrap_or_else(new_id);
        let key = self.change_key(&id, old_key, change.key).await?;
        let server = Stored { id, name, base_url, key };
        let view = shown(&server);
        match place {
            Some(place) => changed[place] = server,
            None => changed.push(server),
        }
        history.set_app_setting(KEY, &to_json("the remote servers", &changed)?).await?;
        *servers = changed;
        Ok(view)
    }

    async fn change_key(&self, id: &str, old: KeyPlace, change: KeyChange) -> Result<KeyPlace, AppError> {
        let account = account(id);
        let given = match change {
            KeyChange::Keep => return Ok(old),
            KeyChange::Remove => None,
            KeyChange::Set { key } => Secret::new(&key),
        };
        let Some(key) = given else {
            self.keys.erase(&account, old).await?;
            return Ok(KeyPlace::None);
        };
        let place = self.keys.store(&account, &key).await?;
        if place != old {
            // A copy in the other place would outlive the server.
            self.keys.erase(&account, old).await?;
        }
        Ok(place)
    }

    /// Forgets a server and its key.
    ///
    /// # Errors
    /// [`AppError::UnknownServer`], [`AppError::Keychain`], [`AppError::History`].
    pub async fn delete(&self, history: &History, id: &str) -> Result<(), AppError> {
        let mut servers = self.servers.lock().await;
        let mut changed = servers.clone();
        let gone = changed.remove(position(&changed, id)?);
        self.keys.erase(&account(id), gone.key).await?;
        history.set_app_setting(KEY, &to_json("the remote servers", &changed)?).await?;
        *servers = changed;
        Ok(())
    }

    /// Asks a server for its models.
    ///
    /// # Errors
    /// [`AppError::UnknownServer`], [`AppError::Keychain`], [`AppError::Remote`].
    pub async fn models(&self, id: &str) -> Result<Vec<RemoteServerModel>, AppError> {
        let models = self.client(id).await?.models().await?;
        let shown = |model: openai_api::client::Model| RemoteServerModel {
            id: model.id,
            context_tokens: model.context_tokens,
        };
        Ok(models.into_iter().map(shown).collect())
    }

    /// Whether a server is set up.
    ///
    /// # Errors
    /// [`AppError::UnknownServer`].
    pub async fn check(&self, target: &RemoteTarget) -> Result<(), AppError> {
        position(&self.servers.lock().await, &target.server_id).map(|_| ())
    }

    /// Asks a server for an answer. Returns at once; whatever happens is told by the events, the last of which is
    /// [`RemoteEvent::Finished`] or [`RemoteEvent::Failed`]. Dropping the receiver stops the answer, in every phase.
    ///
    /// See [`check_settings`] for which settings a server is asked for.
    pub fn stream(
        &self,
        target: RemoteTarget,
        messages: Vec<ChatMessage>,
        settings: SamplingSettings,
    ) -> mpsc::Receiver<RemoteEvent> {
        let (sender, receiver) = mpsc::channel(EVENTS_WAITING);
        let servers = self.clone();
        tokio::spawn(async move {
            let began = Instant::now();
            tokio::select! {
                () = sender.closed() => {}
                asked = ask::ask(&servers, &target, &messages, &settings, &sender) => {
                    if let Err(error) = asked {
                        // A receiver that is gone wants to know no more.
                        let _ = sender.send(RemoteEvent::Failed(error)).await;
                    }
                }
            }
            tracing::debug!(took = ?began.elapsed(), "a server's answer ended");
        });
        receiver
    }

    async fn client(&self, id: &str) -> Result<Client, AppError> {
        let server = {
            let servers = self.servers.lock().await;
            servers[position(&servers, id)?].clone()
        };
        let key = self.keys.read(&account(id), server.key).await?;
        Ok(Client::new(Address::parse(&server.base_url)?, key, self.patience)?)
    }
}

fn position(servers: &[Stored], id: &str) -> Result<usize, AppError> {
    let found = servers.iter().position(|server| server.id == id);
    found.ok_or_else(|| AppError::UnknownServer { given: id.to_owned() })
}

fn account(id: &str) -> String {
    format!("server-{id}")
}

fn shown(server: &Stored) -> RemoteServer {
    RemoteServer {
        id: server.id.clone(),
        name: server.name.clone(),
        base_url: server.base_url.clone(),
        key: server.key,
    }
}
