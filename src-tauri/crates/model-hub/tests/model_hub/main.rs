//! model-hub from the outside: what an import writes, what it refuses, what the catalogue lists,
//! what a hub is asked and what a download leaves.

#![allow(clippy::unwrap_used, reason = "a failed unwrap in a test is a failed test")]

mod allocation;
mod catalog;
mod damage;
mod delete;
mod download_bench;
mod download_disk;
mod download_faults;
mod downloads;
mod families;
mod fit;
mod fuzz;
mod fuzzing;
mod headers;
mod hostile;
mod hub;
mod hub_cache;
mod hub_server;
mod import_folder;
mod interruptions;
mod random;
mod reference;
mod refusals;
mod synthetic;
