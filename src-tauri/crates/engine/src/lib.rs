//! Batching policy: which rows run together, how each is sampled, and what a row's tokens become.
//!
//! Must not depend on mlx-rs, tauri or sqlx: it builds and tests on any machine, against a scripted backend.
//!
//! Terms. A *request* lives from arrival to its terminal event; a *row* is its place in the *batch*; a *step* is one
//! pass of the engine loop: one prefill chunk, or one *decode step*, which gives each row of the batch one token.
//!
//! The life of a token. [`thread::EngineHandle::submit`] checks a request and sends it to the thread that owns the
//! backend. It waits in the queue until a slot and memory are free; its prompt, all but the last token and what an
//! earlier or parallel one has in common with it, is read in chunks into a private KV cache, between the decode steps
//! of the others; then it joins the batch. From there each
//! [`engine::Engine::step`] runs the forward pass for every row, asks the [`gate`] which rows share the fused
//! sampling graph, samples, and gives every row its token: end of turn, detokeniser, stop strings, limits. What
//! became certain goes to the request's mailbox ([`event`]). Rows that ended leave at once, and the backend's KV
//! cache follows by the same list; snapshots of it stay for the next turn.
//!
//! A row fails alone. Only a fault of the backend ends the batch, and only repeated faults or a panic the engine.
//!
//! Models come and go on the same thread ([`loading`]): a new one is read in slices between the steps of the one that
//! answers, and takes its place when it is ready.
#![deny(missing_docs)]

pub mod backend;
mod batch;
pub mod clock;
pub mod engine;
pub mod error;
pub mod event;
pub mod gate;
mod grammar;
pub mod loading;
mod memory;
pub mod metrics;
pub mod overlap;
pub mod params;
mod prefix_cache;
pub mod request;
mod row;
pub mod sampling;
mod scheduler;
mod seen;
pub mod status;
mod steering;
#[cfg(feature = "testing")]
pub mod testing;
mod thinking;
pub mod thread;
mod transcript;

pub use backend::BackendError;
pub use error::EngineError;
pub use event::{
    EngineEvent, EventReceiver, FinishReason, RequestSummary, RowPath, TextPart, TokenLogprobEntry,
};
pub use gate::{ForcedReference, GateMode, Reason, SamplerKind, SamplingPath};
pub use grammar::{GrammarCheck, GrammarProblem, ProblemSeverity, check_grammar};
pub use loading::{FreedMemory, LoadStep, Loading, Replace};
pub use memory::LedgerUse;
pub use metrics::{
    modes::ModeEffect,
    steps::{StepBar, StepStats},
};
pub use overlap::{OverlapMode, OverlapOff};
pub use request::{NewRequest, OwnerId, RequestId};
pub use status::{EnginePhase, EngineSnapshot, RowPhase, RowSnapshot};
pub use text::TokenId;
pub use thread::{EngineConfig, EngineHandle, EngineThread, Pulse};
