//! Ids of stored rows.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

macro_rules! row_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// Never reused, also after the row is deleted. Crosses IPC as a decimal string (`Display`, `FromStr`).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, sqlx::Type)]
        #[sqlx(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIntError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    };
}

row_id! {
    /// Names one conversation.
    ConversationId
}

row_id! {
    /// Names one message of a conversation. A child's id is greater than its parent's.
    MessageId
}

row_id! {
    /// Names one attachment of a message or of a draft.
    AttachmentId
}

row_id! {
    /// Names the text of attachments; those with the same text share it.
    TextId
}
