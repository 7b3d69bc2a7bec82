//! What goes along with messages, and where readers are.

use history::{
    AttachmentKind, ConversationId, FinishState, History, HistoryError, MessageId, NewAttachment, ScrollPlace,
};

use crate::support::{Place, end, turn};

fn file(name: &str, text: &str) -> NewAttachment {
    NewAttachment { name: name.into(), kind: AttachmentKind::Code, pages: None, text: text.into() }
}

async fn attach(history: &History, chat: ConversationId, name: &str, text: &str) {
    history.attach(chat, &file(name, text), 20).await.unwrap();
}

async fn names_of(history: &History, chat: ConversationId, message: usize) -> Vec<String> {
    let path = history.open_conversation(chat).await.unwrap().path;
    path[message].attachments.iter().map(|attachment| attachment.name.clone()).collect()
}

#[tokio::test]
async fn a_draft_keeps_its_attachments_over_a_restart_and_sending_moves_them_to_the_message() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    let pdf =
        NewAttachment { kind: AttachmentKind::Pdf, pages: Some(7), ..file("report.pdf", "Résumé\n字") };
    let attached = history.attach(chat, &pdf, 20).await.unwrap();
    attach(&history, chat, "main.rs", "fn main() {}").await;
    history.close().await;

    let history = place.open().await;
    let draft = history.open_conversation(chat).await.unwrap().draft_attachments;
    assert_eq!(draft[0], attached);
    assert_eq!((draft[0].chars, draft[0].pages, draft[0].kind), (8, Some(7), AttachmentKind::Pdf));
    assert_eq!(history.attachment_text(attached.id).await.unwrap(), "Résumé\n字");

    history.begin_turn(chat, None, "read these", "{}").await.unwrap();
    let sent = history.open_conversation(chat).await.unwrap();
    assert_eq!(sent.draft_attachments, []);
    assert_eq!(sent.path[0].attachments, draft, "same ids, same order");
    assert_eq!(sent.path[1].attachments, []);
    assert!(!history.remove_attachment(attached.id).await.unwrap(), "what was sent stays");
    assert_eq!(names_of(&history, chat, 0).await, ["report.pdf", "main.rs"]);
}

#[tokio::test]
async fn an_edit_copies_the_attachments_of_its_question_and_leaves_the_draft_alone() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    attach(&history, chat, "a.txt", "one text").await;
    let first = history.begin_turn(chat, None, "q", "{}").await.unwrap();
    history.finish_answer(first.answer, &end(FinishState::Complete)).await.unwrap();
    history.save_draft(chat, "later").await.unwrap();
    attach(&history, chat, "later.txt", "for later").await;

    let edit = history.begin_edit(chat, first.user_message, "q edited", "{}").await.unwrap();
    let shown = history.open_conversation(chat).await.unwrap();
    assert_eq!(shown.path[0].siblings, [first.user_message, edit.user_message]);
    assert_eq!((shown.path[0].text.as_str(), shown.active_leaf), ("q edited", Some(edit.answer)));
    assert_eq!(names_of(&history, chat, 0).await, ["a.txt"]);
    assert_eq!((shown.draft.as_str(), shown.draft_attachments.len()), ("later", 1));

    let of_answer = history.begin_edit(chat, first.answer, "x", "{}").await;
    assert!(matches!(of_answer, Err(HistoryError::NotAUserMessage(id)) if id == first.answer));
    let other = history.create_conversation("").await.unwrap();
    let elsewhere = history.begin_edit(other, first.user_message, "x", "{}").await;
    assert!(matches!(elsewhere, Err(HistoryError::MessageNotFound(id)) if id == first.user_message));
}

#[tokio::test]
async fn a_text_is_stored_once_and_goes_with_its_last_attachment() {
    let place = Place::new();
    let history = place.open().await;
    let texts = async || {
        let mut raw = place.raw().await;
        sqlx::query_scalar::<_, i64>("SELECT count(*) FROM attachment_texts")
            .fetch_one(&mut raw)
            .await
            .unwrap()
    };
    let (gone, kept) =
        (history.create_conversation("").await.unwrap(), history.create_conversation("").await.unwrap());
    let shared = history.attach(gone, &file("a", "same"), 20).await.unwrap();
    history.attach(kept, &file("b", "same"), 20).await.unwrap();
    let alone = history.attach(gone, &file("c", "other"), 20).await.unwrap();
    assert_eq!(texts().await, 2);
    assert!(history.remove_attachment(alone.id).await.unwrap());
    assert!(!history.remove_attachment(alone.id).await.unwrap());
    assert_eq!(texts().await, 1);
    turn(&history, gone, None, "sent", "a").await;
    history.delete_conversation(gone).await.unwrap();
    history.purge_deleted(std::time::Duration::ZERO).await.unwrap();
    assert_eq!(texts().await, 1, "the other conversation has it");
    let missing = history.attachment_text(shared.id).await;
    assert!(matches!(missing, Err(HistoryError::AttachmentNotFound(id)) if id == shared.id));
    history.delete_conversation(kept).await.unwrap();
    history.purge_deleted(std::time::Duration::ZERO).await.unwrap();
    assert_eq!(texts().await, 0);
    history.check_integrity().await.unwrap();
}

#[tokio::test]
async fn a_full_draft_and_a_deleted_conversation_take_nothing() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    history.attach(chat, &file("a", "a"), 1).await.unwrap();
    let full = history.attach(chat, &file("b", "b"), 1).await;
    assert!(matches!(full, Err(HistoryError::DraftFull { max_attachments: 1 })), "{full:?}");
    assert_eq!(history.open_conversation(chat).await.unwrap().draft_attachments.len(), 1);
    history.delete_conversation(chat).await.unwrap();
    let deleted = history.attach(chat, &file("c", "c"), 20).await;
    assert!(matches!(deleted, Err(HistoryError::ConversationNotFound(id)) if id == chat));
}

#[tokio::test]
async fn what_was_sent_is_found_by_the_name_of_its_attachment() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    attach(&history, chat, "Jahresbericht Übersicht.pdf", "nothing to find here").await;
    assert!(history.search("jahresbericht", 9).await.unwrap().is_empty(), "not sent yet");
    let asked = history.begin_turn(chat, None, "What does it say?", "{}").await.unwrap();
    for query in ["jahresbericht ubersicht", "report.pdf Jahr", "ht Ü"] {
        let hits = history.search(query, 9).await.unwrap();
        if query.starts_with("report") {
            assert!(hits.is_empty(), "every word must be there");
            continue;
        }
        assert_eq!(hits.len(), 1, "{query}");
        assert_eq!(hits[0].message, Some(asked.user_message));
        assert_eq!(hits[0].snippet.text, "Jahresbericht Übersicht.pdf · What does it say?");
        assert!(!hits[0].snippet.marks.is_empty());
    }
    let by_text = history.search("does", 9).await.unwrap();
    assert_eq!(by_text[0].snippet.text, "What does it say?");
}

#[tokio::test]
async fn a_reader_comes_back_to_the_place_and_never_to_one_that_is_not_shown() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    let first = turn(&history, chat, None, "q1", "a1").await;
    let second = turn(&history, chat, Some(first), "q2", "a2").await;
    let there = Some(ScrollPlace { message: second, above_px: -12 });
    history.save_scroll(chat, Some(ScrollPlace { message: first, above_px: 3 })).await.unwrap();
    history.save_scroll(chat, there).await.unwrap();
    history.close().await;
    let history = place.open().await;
    let scroll = async || history.open_conversation(chat).await.unwrap().scroll;
    assert_eq!(scroll().await, there);
    turn(&history, chat, None, "another root", "a").await;
    assert_eq!(scroll().await, None, "the message is on another branch");
    history.select_branch(chat, first).await.unwrap();
    assert_eq!(scroll().await, there);
    history.save_scroll(chat, None).await.unwrap();
    assert_eq!(scroll().await, None);

    let unknown = history.save_scroll(chat, Some(ScrollPlace { message: MessageId(99), above_px: 0 })).await;
    assert!(matches!(unknown, Err(HistoryError::MessageNotFound(MessageId(99)))));
    let nowhere = history.save_scroll(ConversationId(99), None).await;
    assert!(matches!(nowhere, Err(HistoryError::ConversationNotFound(ConversationId(99)))));
}
