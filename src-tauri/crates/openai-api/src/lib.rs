//! The chat part of the API that OpenAI made a convention, from both ends: what asks such a server, and what is one.
//!
//! Knows HTTP and the shapes on the wire, nothing of models, conversations or windows, and none of the workspace's
//! crates. Many servers speak this API and few speak it alike, so [`client`] is lenient in what it takes.
//!
//! Terms: *thinking* is what travels as `reasoning_content` or `reasoning`; *words* are what a server says in an
//! error, for a person to read and never to match on.
//!
//! Flow of an answer, as a client: [`client::Client::chat`] sends a [`request::ChatRequest`] -> bytes ->
//! [`sse::SseDecoder`] -> events -> [`client::ChatEvent`]. Dropping the stream drops the connection, which is how an
//! answer is stopped. As a server: HTTP -> [`server::Asked`] -> a [`server::Answerer`] -> events -> HTTP; a client that
//! goes away drops the events.

pub mod client;
pub mod request;
pub mod response;
mod secret;
pub mod server;
pub mod sse;

pub use secret::Secret;
