//! A scripted backend, a byte tokenizer and a clock that stands still, for tests (feature `testing`).
//!
//! The scripted backend keeps each row's whole history and computes its logits from that. So a row that is given a
//! neighbour's token, seed or KV cache says something else, and a test notices. It also checks every call against the
//! contract of [`crate::backend`] and panics, with the reason, when the engine breaks it.

mod fake_backend;
mod loading;
mod script;
mod tokenizer;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::clock::Clock;

pub use fake_backend::{Call, FakeBackend, LoggedCall};
pub use loading::{LoadFault, LoadGate, SLICE_BYTES, ScriptedLoad};
pub use script::{Answer, BadLogits, FakeRow, FaultAt, LogitsOf, Scenario, Script};
pub use tokenizer::{
    END_OF_TEXT, END_OF_TURN, START_OF_TURN, SpecialTags, VOCAB_TOKENS, byte_tokenizer, tag_token_tokenizer,
    thinking_tokenizer,
};

/// A clock that moves only when told to. Clones share the time.
#[derive(Debug, Clone)]
pub struct FakeClock {
    now: Arc<Mutex<Instant>>,
}

impl Default for FakeClock {
    fn default() -> Self {
        Self { now: Arc::new(Mutex::new(Instant::now())) }
    }
}

impl FakeClock {
    /// Moves the time on.
    pub fn advance(&self, by: Duration) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Instant {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
