//! One database per test, in a folder of its own.
#![allow(clippy::unwrap_used, reason = "the lint's exemption for tests does not reach what tests share")]

mod attachments;
mod conversations;
mod damage;
mod schema;
mod search;
mod settings;
mod support;
mod survival;
mod transfer;
mod turns;
mod versions;
mod writer;
