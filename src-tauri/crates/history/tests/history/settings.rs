//! App settings, settings per conversation, drafts.

use history::{ConversationId, HistoryError};

use crate::support::Place;

#[tokio::test]
async fn settings_and_drafts_survive_a_restart_and_the_last_one_wins() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    for value in [r#"["1","2"]"#, r#"["2"]"#] {
        history.set_app_setting("open_tabs", value).await.unwrap();
        history.set_conversation_settings(chat, value).await.unwrap();
        history.save_draft(chat, value).await.unwrap();
    }
    history.close().await;

    let history = place.open().await;
    assert_eq!(history.app_setting("open_tabs").await.unwrap().as_deref(), Some(r#"["2"]"#));
    assert_eq!(history.app_setting("theme").await.unwrap(), None);
    assert_eq!(history.conversation_settings(chat).await.unwrap().as_deref(), Some(r#"["2"]"#));
    assert_eq!(history.draft(chat).await.unwrap(), r#"["2"]"#);
    let opened = history.open_conversation(chat).await.unwrap();
    assert_eq!(opened.settings_json.as_deref(), Some(r#"["2"]"#));
    assert_eq!(opened.draft, r#"["2"]"#);
}

#[tokio::test]
async fn what_is_not_json_is_refused_and_changes_nothing() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    history.set_app_setting("theme", r#""dark""#).await.unwrap();
    for bad in ["", "{", "{} {}", "dark"] {
        let app = history.set_app_setting("theme", bad).await;
        assert!(matches!(app, Err(HistoryError::InvalidJson { field: "value_json", .. })), "{bad:?}");
        let conversation = history.set_conversation_settings(chat, bad).await;
        assert!(
            matches!(conversation, Err(HistoryError::InvalidJson { field: "settings_json", .. })),
            "{bad:?}"
        );
    }
    assert_eq!(history.app_setting("theme").await.unwrap().as_deref(), Some(r#""dark""#));
}

#[tokio::test]
async fn nothing_is_stored_for_a_conversation_that_is_not_there() {
    let place = Place::new();
    let history = place.open().await;
    let nobody = ConversationId(5);
    let draft = history.save_draft(nobody, "x").await;
    assert!(matches!(draft, Err(HistoryError::ConversationNotFound(id)) if id == nobody));
    let settings = history.set_conversation_settings(nobody, "{}").await;
    assert!(matches!(settings, Err(HistoryError::ConversationNotFound(id)) if id == nobody));
}
