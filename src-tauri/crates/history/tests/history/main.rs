//! One database per test, in a folder of its own.

mod support;
mod turns;
