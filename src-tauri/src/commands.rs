//! What the UI can ask for. Commands only translate; the work is in the modules they name.

pub mod attachments;
pub mod benchmark;
pub mod chat;
pub mod conversations;
pub mod diagnostics;
pub mod engine;
pub mod local_server;
pub mod models;
pub mod remote;
pub mod settings;
pub mod structure;
pub mod transfer;
pub mod versions;
pub mod window;

use protocol::CommandError;

/// What every command returns.
pub type CommandResult<T> = Result<T, CommandError>;
