//! The engine against the scripted backend.

mod gate;
mod join_leave;
mod order;
mod reference;
mod support;
