//! Servers with an OpenAI-compatible API that a tab may ask instead of the local engine.

use serde::{Deserialize, Serialize};
use specta::Type;

/// Which model of which server answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct RemoteTarget {
    /// [`RemoteServer::id`].
    pub server_id: String,
    /// The server's name for the model.
    pub model: String,
}

/// Where a server's key is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum KeyPlace {
    /// There is none.
    None,
    /// In the system's keychain.
    Keychain,
    /// In a file that only this user can read, because the system has no keychain.
    File,
}

/// A server that a person has set up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct RemoteServer {
    /// Chosen by the app.
    pub id: String,
    /// Given by the user.
    pub name: String,
    /// As in `http://127.0.0.1:8000/v1`.
    pub base_url: String,
    /// Where its key is; the key itself never reaches the window.
    pub key: KeyPlace,
}

/// A new server, or what changes about one.
#[derive(Debug, Clone, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct RemoteServerChange {
    /// `None` for a new one.
    pub id: Option<String>,
    /// Not empty.
    pub name: String,
    /// `http` or `https`; `http` is added if there is no scheme, `/v1` if there is no path.
    pub base_url: String,
    /// What becomes of the key.
    pub key: KeyChange,
}

/// What becomes of a stored key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum KeyChange {
    /// It stays.
    Keep,
    /// It is erased.
    Remove,
    /// Another takes its place.
    Set {
        /// The key.
        key: String,
    },
}

impl std::fmt::Debug for KeyChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Keep => "Keep",
            Self::Remove => "Remove",
            Self::Set { .. } => "Set",
        })
    }
}

/// A model that a server offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct RemoteServerModel {
    /// The server's name for it.
    pub id: String,
    /// Context window, if the server says.
    pub context_tokens: Option<u32>,
}
