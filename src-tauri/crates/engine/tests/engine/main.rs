//! The engine against the scripted backend.

mod join_leave;
mod support;
