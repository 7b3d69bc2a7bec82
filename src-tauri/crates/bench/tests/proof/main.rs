//! Claims about the whole engine on the starter model. Each test prints what it measured (`-- --nocapture`).
// The whole binary is tests; the lint exempts only functions marked so.
#![allow(clippy::unwrap_used)]

mod fairness;
mod jitter;
mod modes;
mod overlay;
mod schema_sweep;
mod sharing;
mod soak;
mod support;
