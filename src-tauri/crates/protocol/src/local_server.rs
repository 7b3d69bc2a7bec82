//! Braid as a server: other programs of this computer ask the loaded model.

use crate::CommandError;
use serde::{Deserialize, Serialize};
use specta::Type;

/// What a person sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct LocalServerSettings {
    /// Off until a person switches it on.
    pub is_enabled: bool,
    /// Port on loopback, 1024 to 65535.
    pub port: u16,
}

/// How the server is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct LocalServerStatus {
    /// What was set.
    pub settings: LocalServerSettings,
    /// Base address while it listens, as in `http://127.0.0.1:11535/v1`.
    pub address: Option<String>,
    /// What programs must send as their key; made once, until it is renewed. Empty until it was first switched on.
    pub key: String,
    /// Requests that it took since Braid started.
    pub served_requests: u32,
    /// Why it does not listen although it should.
    pub failure: Option<CommandError>,
}
