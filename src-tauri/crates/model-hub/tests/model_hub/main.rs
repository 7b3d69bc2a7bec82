//! model-hub from the outside: what an import writes, what it refuses, what the catalogue lists.

#![allow(clippy::unwrap_used, reason = "a failed unwrap in a test is a failed test")]

mod allocation;
mod catalog;
mod damage;
mod delete;
mod fit;
mod headers;
mod hub_cache;
mod import_folder;
mod random;
mod reference;
mod refusals;
mod synthetic;
