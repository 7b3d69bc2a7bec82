//! Attachments as the model reads them.

use std::fmt::Write as _;

use history::{History, Message};

use crate::error::AppError;

/// Puts the texts of attachments before the texts of the messages that they belong to.
///
/// # Errors
/// The history's.
pub async fn spell_out(history: &History, messages: &mut [Message]) -> Result<(), AppError> {
    for message in messages.iter_mut().filter(|message| !message.attachments.is_empty()) {
        let mut attached = Vec::with_capacity(message.attachments.len());
        for attachment in &message.attachments {
            attached.push((attachment.name.as_str(), history.attachment_text(attachment.id).await?));
        }
        message.text = with_attachments(&attached, &message.text);
    }
    Ok(())
}

/// Each name, then its text in a fence longer than any in it, then the message: no text can seem to be another's.
fn with_attachments(attached: &[(&str, String)], text: &str) -> String {
    let mut whole = String::new();
    for (name, content) in attached {
        let fence = fence_around(content);
        let end = if content.ends_with('\n') { "" } else { "\n" };
        // Writing to a string cannot fail.
        let _ = write!(whole, "Attached file: {name}\n\n{fence}\n{content}{end}{fence}\n\n");
    }
    whole.push_str(text);
    whole
}

/// A fence that no line of `text` can close.
pub fn fence_around(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attachments_stand_before_the_question_in_fences_that_hold() {
        let attached = [("a.md", "```rust\nfn x() {}\n```\n".to_owned()), ("b.txt", "plain".to_owned())];
        assert_eq!(
            with_attachments(&attached, "What is it?"),
            "Attached file: a.md\n\n````\n```rust\nfn x() {}\n```\n````\n\n\
             Attached file: b.txt\n\n```\nplain\n```\n\nWhat is it?"
        );
        assert_eq!(fence_around("a `````` b"), "```````");
    }
}
