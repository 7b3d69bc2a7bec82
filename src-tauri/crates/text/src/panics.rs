//! Panics of the libraries that read a model's files: such a file must not end more than what reads it.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A library panicked, most likely over a file that contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("panicked: {words}")]
pub(crate) struct Panicked {
    words: String,
}

/// Runs `work`, which changes nothing that is looked at again if it panics.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let literal = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
        let words = literal.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Panicked { words }
    })
}
