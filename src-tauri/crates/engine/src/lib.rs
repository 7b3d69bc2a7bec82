//! Batching policy: which rows run together, how each is sampled, and what a row's tokens become.
//!
//! Must not depend on mlx-rs, tauri or sqlx: it builds and tests on any machine, against a scripted backend.
#![deny(missing_docs)]

pub mod backend;
pub mod params;
pub mod request;
pub mod sampling;

pub use request::RequestId;
pub use text::TokenId;
