//! Keys that no log and no error shows.

use std::fmt;

/// Bytes of a key that is one.
const LEAST_BYTES: usize = 6;

/// A key as it is sent with every request.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// `None` for a blank text; white space around a key is not part of it.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// The key itself.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// `text` with a mark wherever the key stood in it. Keys of a few letters, which guard nothing, may be words.
    pub(crate) fn redact(&self, text: &str) -> String {
        if self.0.len() < LEAST_BYTES { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
