//! The engine against the scripted backend.
// The whole binary is tests; the lint exempts only functions marked so.
#![allow(clippy::unwrap_used)]

mod cancellation;
mod failure;
mod fairness;
mod gate;
mod grammar;
mod join_leave;
mod memory;
mod neighbours;
mod order;
mod parity;
mod pipeline;
mod prefix;
mod reference;
mod resuming;
mod stats;
mod steering;
mod support;
mod switching;
mod text;
mod thinking;
mod thread;
