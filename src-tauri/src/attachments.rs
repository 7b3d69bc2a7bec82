//! Files that go along with a message: read once, attached to the draft as text, put before the message in the prompt.
//!
//! Reading happens on blocking threads, that of a PDF in a process of its own ([`pdf`]). Tokens are counted in the
//! background and known from then on ([`counts`]).

mod counts;
mod file;
pub mod pdf;
mod prompt;
mod refusal;
mod written;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use history::{AttachmentId, AttachmentKind, ConversationId, HistoryError, Message, NewAttachment};
use protocol::{AttachmentView, ConversationView, MessageView};

pub use counts::count_tokens;
pub use prompt::{fence_around, spell_out};
pub use refusal::Refusal;

use crate::{
    convert::conversation::{attachment, parse_id},
    error::AppError,
    state::AppState,
};
use counts::TokenCounts;

/// Bytes of a file at most.
pub const MAX_FILE_BYTES: u64 = 20_000_000;

/// Characters of a text at most.
pub const MAX_CHARS: usize = 2_000_000;

/// Attachments of a message at most.
pub const MAX_ATTACHMENTS: u32 = 20;

/// Characters of a name at most; a longer one is cut before its extension.
const MAX_NAME_CHARS: usize = 120;

/// What attaching needs besides the history and the model.
pub struct Attachments {
    /// The program that reads PDFs; this one, unless a test names another.
    pub pdf_program: PathBuf,
    counts: TokenCounts,
}

impl Default for Attachments {
    fn default() -> Self {
        // A path that cannot be found out is refused when a PDF is to be read.
        let pdf_program = std::env::current_exe().unwrap_or_default();
        Self { pdf_program, counts: TokenCounts::default() }
    }
}

/// Reads a file and attaches its text to the draft of a conversation.
///
/// # Errors
/// [`AppError::AttachmentRefused`], [`AppError::UnknownConversation`], the history's.
pub async fn attach_file(
    state: &AppState,
    conversation_id: &str,
    path: &Path,
) -> Result<AttachmentView, AppError> {
    let conversation = parse_id(conversation_id)?;
    let name =
        path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into());
    let name = tidy_name(&name);
    let refused = |refusal| AppError::AttachmentRefused { name: name.clone(), refusal };
    let owned = path.to_owned();
    let read = tokio::task::spawn_blocking(move || file::read(&owned));
    let content = read.await.map_err(|_| AppError::TaskPanicked)?.map_err(refused)?;
    let (kind, pages, text) = match content {
        file::Content::Text { kind, text } => (kind, None, text),
        file::Content::Pdf(bytes) => {
            let read = pdf::read(&state.attachments.pdf_program, bytes).await.map_err(refused)?;
            (AttachmentKind::Pdf, Some(read.pages), read.text)
        }
    };
    attach(state, conversation, NewAttachment { name, kind, pages, text }).await
}

/// Attaches a text to the draft of a conversation.
///
/// # Errors
/// As [`attach_file`].
pub async fn attach_text(
    state: &AppState,
    conversation_id: &str,
    name: &str,
    text: String,
) -> Result<AttachmentView, AppError> {
    let conversation = parse_id(conversation_id)?;
    let name = tidy_name(name);
    let kind = file::kind_by_name(&name).unwrap_or(AttachmentKind::Text);
    attach(state, conversation, NewAttachment { name, kind, pages: None, text }).await
}

async fn attach(
    state: &AppState,
    conversation: ConversationId,
    new: NewAttachment,
) -> Result<AttachmentView, AppError> {
    let refused = |refusal| AppError::AttachmentRefused { name: new.name.clone(), refusal };
    file::check_text(&new.text).map_err(refused)?;
    let stored = match state.history().await?.attach(conversation, &new, MAX_ATTACHMENTS).await {
        Err(HistoryError::DraftFull { max_attachments }) => {
            return Err(refused(Refusal::TooManyAttachments { max_attachments }));
        }
        stored => stored?,
    };
    let tokens = state.attachments.counts.count(&state.engine, stored.text, Arc::from(new.text)).await;
    Ok(AttachmentView { tokens, ..attachment(&stored) })
}

/// Takes an attachment off a draft; nothing happens if it was sent or is gone.
///
/// # Errors
/// The history's.
pub async fn remove(state: &AppState, attachment_id: &str) -> Result<(), AppError> {
    if let Ok(id) = attachment_id.parse() {
        state.history().await?.remove_attachment(id).await?;
    }
    Ok(())
}

/// The text of an attachment.
///
/// # Errors
/// [`AppError::UnknownAttachment`], the history's.
pub async fn text(state: &AppState, attachment_id: &str) -> Result<String, AppError> {
    let unknown = || AppError::UnknownAttachment { given: attachment_id.to_owned() };
    let id: AttachmentId = attachment_id.parse().map_err(|_| unknown())?;
    match state.history().await?.attachment_text(id).await {
        Err(HistoryError::AttachmentNotFound(_)) => Err(unknown()),
        text => Ok(text?),
    }
}

/// Fills in the tokens of a conversation's attachments, as far as they are known soon; the others are counted in the
/// background and known when the conversation is opened again.
pub async fn fill_in_tokens(state: &AppState, stored: &history::Conversation, view: &mut ConversationView) {
    let of_messages = stored
        .path
        .iter()
        .map(|message| &message.attachments)
        .zip(view.messages.iter_mut().map(|message| &mut message.attachments));
    // The draft first: its tokens are about to be sent.
    let pairs: Vec<_> = std::iter::once((&stored.draft_attachments, &mut view.draft_attachments))
        .chain(of_messages)
        .flat_map(|(stored, views)| stored.iter().zip(views.iter_mut()))
        .collect();
    if pairs.is_empty() {
        return;
    }
    let Ok(history) = state.history().await else { return };
    let wanted = pairs.iter().map(|(stored, _)| (stored.text, stored.id)).collect();
    let known = state.attachments.counts.soon(&state.engine, history, wanted).await;
    for (stored, view) in pairs {
        view.tokens = known.get(&stored.text).copied();
    }
}

/// Fills in the tokens of a message's attachments that are known now.
pub fn fill_in_known_tokens(state: &AppState, stored: &Message, view: &mut MessageView) {
    for (stored, view) in stored.attachments.iter().zip(&mut view.attachments) {
        view.tokens = state.attachments.counts.known(&state.engine, stored.text);
    }
}

/// One short line without control characters, also invisible ones that turn the direction of text.
fn tidy_name(name: &str) -> String {
    let is_shown = |c: &char| {
        !c.is_control()
            && !matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let name: String = name.chars().filter(is_shown).collect();
    let name = name.trim();
    if name.is_empty() {
        return "text".to_owned();
    }
    let chars = name.chars().count();
    if chars <= MAX_NAME_CHARS {
        return name.to_owned();
    }
    let extension = name.rsplit_once('.').map(|(_, extension)| extension).filter(|part| part.len() <= 12);
    let end = extension.map_or_else(String::new, |extension| format!(".{extension}"));
    let kept: String = name.chars().take(MAX_NAME_CHARS - 1 - end.chars().count()).collect();
    format!("{kept}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_short_line_that_shows_what_it_is() {
        assert_eq!(tidy_name("  report.pdf "), "report.pdf");
        assert_eq!(tidy_name("a\nb\u{0}.txt"), "ab.txt");
        assert_eq!(tidy_name("fdp.\u{202e}exe"), "fdp.exe", "no character may hide the extension");
        assert_eq!(tidy_name("\t"), "text");
        let long = tidy_name(&format!("{}.tar", "字".repeat(300)));
        assert_eq!(long.chars().count(), MAX_NAME_CHARS);
        assert!(long.ends_with("字….tar"), "{long}");
    }
}
