//! Mutated files for every format that is read: each must end in a result, in bounded memory, and what is accepted
//! must be sound.
//!
//! The example `fuzz` runs the same cases for as long as one likes.

mod mutate;
mod targets;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use crate::{allocation::peak_during, random::Random};
pub use targets::Target;

/// Memory that reading a file may take beyond its size.
const SPARE_BYTES: u64 = 64 << 20;

/// What came of one case.
pub struct Outcome {
    pub is_accepted: bool,
    /// Held at once beyond what there was before.
    #[allow(dead_code, reason = "the example reports it, the tests do not")]
    pub peak_bytes: u64,
}

/// Runs one case of a target in the empty folder `place`, which is left as it was.
///
/// # Errors
/// What is wrong, with the input that showed it.
pub fn run(target: Target, seed: u64, place: &Path) -> Result<Outcome, (String, Vec<u8>)> {
    let input = target.input(&mut Random::new(seed));
    let (verdict, peak_bytes) =
        peak_during(|| catch_unwind(AssertUnwindSafe(|| target.check(&input, place))));
    let is_accepted = match verdict {
        Err(_) => return Err(("panicked".to_string(), input)),
        Ok(Err(finding)) => return Err((finding, input)),
        Ok(Ok(is_accepted)) => is_accepted,
    };
    if peak_bytes > input.len() as u64 + SPARE_BYTES {
        return Err((format!("took {peak_bytes} bytes for a file of {}", input.len()), input));
    }
    Ok(Outcome { is_accepted, peak_bytes })
}
