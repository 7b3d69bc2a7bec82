//! Whole conversations that come in and go out.

use history::{
    AttachmentKind, FinishState, HistoryError, MessageState, NewAttachment, NewConversation, NewMessage,
    Origin, Role,
};

use crate::support::{Place, texts};

fn message(parent: Option<usize>, role: Role, text: &str) -> NewMessage {
    NewMessage {
        parent,
        role,
        state: FinishState::Stopped,
        text: text.into(),
        thinking: String::new(),
        output_tokens: 3,
        thinking_tokens: 0,
        created_at_ms: 40,
        finished_at_ms: None,
        finish_reason: None,
        error_code: None,
        settings_json: None,
        receipt_json: None,
        token_details_json: None,
        attachments: Vec::new(),
    }
}

/// Two versions of the first answer, the older one shown.
fn conversation() -> NewConversation {
    let attached = |name: &str| NewAttachment {
        name: name.into(),
        kind: AttachmentKind::Markdown,
        pages: None,
        text: "attached".into(),
    };
    let question = NewMessage { attachments: vec![attached("plan.md")], ..message(None, Role::User, "q") };
    let answer = NewMessage {
        thinking: "hm".into(),
        finished_at_ms: Some(50),
        receipt_json: Some(r#"{"ttftMs":1}"#.into()),
        token_details_json: Some("[1]".into()),
        ..message(Some(0), Role::Assistant, "an answer from elsewhere")
    };
    NewConversation {
        title: "imported".into(),
        created_at_ms: 30,
        updated_at_ms: 60,
        is_pinned: true,
        settings_json: Some(r#"{"topK":3}"#.into()),
        draft: "unsent".into(),
        draft_attachments: vec![attached("later.md")],
        messages: vec![question, answer, message(Some(0), Role::Assistant, "another version")],
        active: Some(1),
        origin: Origin { source: "openAi".into(), source_id: "x-1".into(), sha256: [1; 32] },
    }
}

#[tokio::test]
async fn a_conversation_comes_in_as_it_was_and_is_found_at_once() {
    let place = Place::new();
    let history = place.open().await;
    let id = history.import_conversation(&conversation()).await.unwrap();
    history.close().await;

    let history = place.open().await;
    let opened = history.open_conversation(id).await.unwrap();
    assert_eq!(texts(&opened.path), ["q", "an answer from elsewhere"]);
    assert_eq!((opened.created_at_ms, opened.updated_at_ms, opened.is_pinned), (30, 60, true));
    assert_eq!((opened.draft.as_str(), opened.draft_attachments[0].name.as_str()), ("unsent", "later.md"));
    assert_eq!(opened.settings_json.as_deref(), Some(r#"{"topK":3}"#));
    let [question, answer] = opened.path.as_slice() else { panic!("two messages") };
    assert_eq!((question.state, question.attachments[0].name.as_str()), (MessageState::Complete, "plan.md"));
    assert_eq!(
        (answer.state, answer.siblings.len(), answer.finished_at_ms),
        (MessageState::Stopped, 2, Some(50))
    );
    assert_eq!(history.token_details(answer.id).await.unwrap().as_deref(), Some("[1]"));
    assert_eq!(history.search("from elsewhere", 9).await.unwrap()[0].message, Some(answer.id));
    assert_eq!(history.search("plan.md", 9).await.unwrap()[0].message, Some(question.id));

    let whole = history.whole_conversation(id).await.unwrap();
    assert_eq!(texts(&whole.conversation.path), ["q", "an answer from elsewhere", "another version"]);
    assert_eq!(whole.conversation.active_leaf, Some(answer.id));
    assert_eq!(whole.origin, Some(conversation().origin));
}

#[tokio::test]
async fn a_conversation_that_makes_no_sense_leaves_nothing() {
    let place = Place::new();
    let history = place.open().await;
    let mut later = conversation();
    later.messages[1].parent = Some(2);
    let mut itself = conversation();
    itself.messages[0].parent = Some(0);
    let nowhere = NewConversation { active: Some(3), ..conversation() };
    for (new, at) in [(later, 1), (itself, 0), (nowhere, 3)] {
        let refused = history.import_conversation(&new).await;
        assert!(matches!(refused, Err(HistoryError::NotATree { place }) if place == at), "{refused:?}");
    }
    let mut no_json = conversation();
    no_json.messages[1].receipt_json = Some("{".into());
    let refused = history.import_conversation(&no_json).await;
    assert!(matches!(refused, Err(HistoryError::InvalidJson { field: "receipt_json", .. })), "{refused:?}");
    assert!(history.list_conversations().await.unwrap().is_empty());
    assert!(history.imported_digests("openAi", "x-1").await.unwrap().is_empty());
}

#[tokio::test]
async fn what_was_imported_is_known_until_it_is_deleted() {
    let place = Place::new();
    let history = place.open().await;
    let id = history.import_conversation(&conversation()).await.unwrap();
    let changed =
        NewConversation { origin: Origin { sha256: [2; 32], ..conversation().origin }, ..conversation() };
    history.import_conversation(&changed).await.unwrap();
    assert_eq!(history.imported_digests("openAi", "x-1").await.unwrap(), [[1; 32], [2; 32]]);
    assert!(history.imported_digests("lmStudio", "x-1").await.unwrap().is_empty());
    history.delete_conversation(id).await.unwrap();
    assert_eq!(history.imported_digests("openAi", "x-1").await.unwrap(), [[2; 32]]);
}
