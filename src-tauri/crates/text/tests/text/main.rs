//! text from the outside: tokens, templates and streams of small made-up vocabularies.

#![allow(clippy::unwrap_used, reason = "a failed unwrap in a test is a failed test")]

mod allocation;
mod answers;
mod families;
mod fuzz;
#[allow(dead_code, reason = "shared with the example, which uses all of it")]
mod fuzzing;
mod hostile;
mod kinds;
mod odd_folders;
mod prompts;
mod streaming;
mod templates;
mod tokenizer;
mod vocabulary;
