//! Wire types between the app and its UI.
//!
//! A leaf: serde and specta only, no workspace dependency. The app converts crate types into these at the edge;
//! the TypeScript in `ui/src/lib/ipc/generated` is made from them and never edited by hand.
//!
//! Conventions: ids cross as decimal strings (JavaScript numbers lose bits above 2^53); names are camelCase on
//! the wire; durations end in `_ms`, sizes in `_bytes`, counts in their unit.
#![deny(missing_docs)]

pub mod attachment;
pub mod benchmark;
pub mod chat;
pub mod conversation;
pub mod engine_status;
pub mod error;
pub mod licences;
pub mod local_server;
pub mod model;
pub mod remote;
pub mod sampling;
pub mod settings;
pub mod structure;
pub mod token_details;
pub mod transfer;
pub mod window;

pub use attachment::*;
pub use benchmark::*;
pub use chat::*;
pub use conversation::*;
pub use engine_status::*;
pub use error::*;
pub use licences::*;
pub use local_server::*;
pub use model::*;
pub use remote::*;
pub use sampling::*;
pub use settings::*;
pub use structure::*;
pub use token_details::*;
pub use transfer::*;
pub use window::*;
