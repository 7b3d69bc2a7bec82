//! What the UI can ask for. Commands only translate; the work is in the modules they name.

pub mod chat;
pub mod conversations;
pub mod engine;
pub mod models;
pub mod settings;
pub mod window;

use protocol::CommandError;

/// What every command returns.
pub type CommandResult<T> = Result<T, CommandError>;
