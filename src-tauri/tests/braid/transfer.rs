//! Conversations that leave as files and come back.

mod damage;
mod foreign;

use std::path::{Path, PathBuf};

use app::{commands::conversations, error::AppError, transfer};
use engine::testing::Scenario;
use protocol::{
    ConversationImportReport, ErrorCode, ExportFormat, ImportSource, MessageView, SamplingSettings,
    SeedChoice, SkipReason,
};

use crate::support::{Plan, TestApp};

async fn app() -> TestApp {
    TestApp::start(Plan::of(Scenario::ShortAnswers)).await
}

/// A conversation with two questions, versions of both kinds, an attachment, details, a pin and a draft.
async fn rich_conversation(app: &TestApp) -> String {
    let settings = SamplingSettings {
        logprobs: Some(2),
        system_prompt: "Be brief.".into(),
        ..app::sampling_settings::defaults()
    };
    let conversation = app.conversation_with(&settings).await;
    app::attachments::attach_text(&app.state, &conversation, "plan.md", "# Day 1\n".into())
        .await
        .expect("the test's own step works");
    app.send(&conversation, "Is the lighthouse open?")
        .await
        .expect("the test's own step works")
        .1
        .wait_for_end()
        .await;
    let first = app.messages(&conversation).await.remove(1);
    app.send(&conversation, "And on Monday?")
        .await
        .expect("the test's own step works")
        .1
        .wait_for_end()
        .await;
    app.regenerate(&conversation, &first.id, SeedChoice::New)
        .await
        .expect("the test's own step works")
        .1
        .wait_for_end()
        .await;
    let history = app.state.history().await.expect("the test's own step works");
    let id = conversation.parse().expect("the test's own step works");
    history.pin_conversation(id).await.expect("the test's own step works");
    history.save_draft(id, "unsent \"words\"").await.expect("the test's own step works");
    conversation
}

async fn export(app: &TestApp, name: &str) -> PathBuf {
    let path = app.folder.path().join(name);
    transfer::export_library(&app.state, ExportFormat::Json, path.clone())
        .await
        .expect("the test's own step works");
    path
}

async fn import(app: &TestApp, path: &Path) -> ConversationImportReport {
    transfer::import_conversations(&app.state, vec![path.display().to_string()])
        .await
        .expect("the test's own step works")
}

fn written(app: &TestApp, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = app.folder.path().join(name);
    std::fs::write(&path, content).expect("the test's own step works");
    path
}

/// Messages without what belongs to one database only.
fn said(messages: Vec<MessageView>) -> Vec<MessageView> {
    let bare = |message: MessageView| MessageView {
        id: String::new(),
        parent_id: message.parent_id.map(|_| String::new()),
        version_ids: vec![String::new(); message.version_ids.len()],
        attachments: message
            .attachments
            .into_iter()
            .map(|attached| protocol::AttachmentView { id: String::new(), tokens: None, ..attached })
            .collect(),
        ..message
    };
    messages.into_iter().map(bare).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_library_that_was_exported_and_imported_exports_the_same_file() {
    let (here, there) = (app().await, app().await);
    let conversation = rich_conversation(&here).await;
    here.send(&here.new_conversation().await, "A second one.").await.unwrap().1.wait_for_end().await;
    let file = export(&here, "library.json").await;

    let report = import(&there, &file).await;
    assert_eq!(report.skipped, []);
    assert_eq!(report.imported.len(), 2);
    assert_eq!((report.imported[0].source, report.imported[0].messages), (ImportSource::Braid, 5));
    let again = export(&there, "again.json").await;
    assert_eq!(std::fs::read_to_string(&again).unwrap(), std::fs::read_to_string(&file).unwrap());

    let original = conversations::open(&here.state, &conversation).await.unwrap();
    let imported = conversations::open(&there.state, &report.imported[0].conversation_id).await.unwrap();
    assert_eq!(said(imported.messages.clone()), said(original.messages));
    assert_eq!((imported.draft, imported.settings), (original.draft, original.settings));
    assert!(imported.summary.is_pinned);
    let versions = &imported.messages[1].version_ids;
    assert_eq!(versions.len(), 2);
    let other = conversations::select(&there.state, &report.imported[0].conversation_id, &versions[0]).await;
    assert_eq!(other.unwrap().messages.len(), 4, "the other branch came along");
    let details = conversations::token_details(&there.state, &versions[1]).await.unwrap();
    assert!(!details.is_empty(), "what was recorded of tokens came along");
    let hits = conversations::search(&there.state, "lighthouse").await.unwrap();
    assert_eq!(hits.len(), 1, "what was imported is found");
    assert_eq!(conversations::search(&there.state, "plan.md").await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_here_is_not_imported_again_until_it_changed() {
    let (here, there) = (app().await, app().await);
    let conversation = rich_conversation(&here).await;
    let file = export(&here, "library.json").await;
    let skipped = |report: &ConversationImportReport| {
        report.skipped.iter().map(|skipped| skipped.reason).collect::<Vec<_>>()
    };
    let own = import(&here, &file).await;
    assert_eq!((own.imported.len(), skipped(&own)), (0, vec![SkipReason::AlreadyHere]));
    assert_eq!(own.skipped[0].title.as_deref(), Some("Is the lighthouse open?"));
    import(&there, &file).await;
    let twice = import(&there, &file).await;
    assert_eq!((twice.imported.len(), skipped(&twice)), (0, vec![SkipReason::AlreadyHere]));

    here.send(&conversation, "More.").await.unwrap().1.wait_for_end().await;
    let grown = export(&here, "grown.json").await;
    let changed = import(&there, &grown).await;
    assert_eq!((changed.imported.len(), skipped(&changed)), (1, vec![]), "it has another message now");

    let deleted = &changed.imported[0].conversation_id;
    there.state.history().await.unwrap().delete_conversation(deleted.parse().unwrap()).await.unwrap();
    assert_eq!(import(&there, &grown).await.imported.len(), 1, "what was deleted can be brought back");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_conversation_is_exported_as_json_and_as_markdown() {
    let app = app().await;
    let conversation = rich_conversation(&app).await;
    let json = app.folder.path().join("one.json");
    let report = transfer::export_conversation(&app.state, &conversation, ExportFormat::Json, json.clone())
        .await
        .unwrap();
    assert_eq!((report.conversations, report.path), (1, json.display().to_string()));
    let value: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!((value["format"].as_str(), value["version"].as_u64()), (Some("braid-conversations"), Some(1)));
    assert_eq!(value["conversations"][0]["messages"].as_array().unwrap().len(), 5);

    let markdown = app.folder.path().join("one.md");
    std::fs::write(&markdown, "an older export").unwrap();
    transfer::export_conversation(&app.state, &conversation, ExportFormat::Markdown, markdown.clone())
        .await
        .unwrap();
    let text = std::fs::read_to_string(&markdown).unwrap();
    let answer = app.messages(&conversation).await.remove(1).text;
    let expected = format!(
        "# Is the lighthouse open?\n\n## User\n\nAttached: `plan.md`\n\nIs the lighthouse open?\n\n## Assistant\n\n{answer}\n"
    );
    assert_eq!(text, expected);
    assert_eq!(transfer::conversation_markdown(&app.state, &conversation).await.unwrap(), expected);
    let unknown = transfer::conversation_markdown(&app.state, "99").await.unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::ConversationNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_library_of_markdown_overwrites_no_file_and_no_conversation() {
    let app = app().await;
    for title in ["a/b", "A:b", "", "CON"] {
        let conversation = app.new_conversation().await;
        app.state
            .history()
            .await
            .unwrap()
            .rename_conversation(conversation.parse().unwrap(), title)
            .await
            .unwrap();
    }
    let folder = app.folder.path().join("out");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("a b.md"), "mine").unwrap();
    let report = transfer::export_library(&app.state, ExportFormat::Markdown, folder.clone()).await.unwrap();
    assert_eq!((report.conversations, report.unreadable), (4, 0));
    let mut names: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    // The same name in other letters gets a number too: some systems do not tell them apart.
    assert_eq!(names, ["A b (3).md", "CON_.md", "Conversation.md", "a b (2).md", "a b.md"]);
    assert_eq!(std::fs::read_to_string(folder.join("a b.md")).unwrap(), "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_fails_says_so_and_leaves_what_was_there() {
    let app = app().await;
    rich_conversation(&app).await;
    let old = written(&app, "old.json", "an older export");
    let failed = async |path: PathBuf| {
        let error = transfer::export_library(&app.state, ExportFormat::Json, path).await.unwrap_err();
        assert!(matches!(error, AppError::Transfer { .. }), "{error:?}");
        error.code()
    };
    assert_eq!(failed(app.folder.path().join("gone").join("x.json")).await, ErrorCode::TransferFailed);
    assert_eq!(failed(app.folder.path().to_owned()).await, ErrorCode::TransferFailed, "a folder");
    // A folder that takes no file, not even from an administrator.
    #[cfg(target_os = "linux")]
    assert_eq!(failed("/proc/library.json".into()).await, ErrorCode::TransferFailed);
    assert_eq!(std::fs::read_to_string(&old).unwrap(), "an older export");
    let parts = std::fs::read_dir(app.folder.path()).unwrap();
    let left = parts.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".part"));
    assert_eq!(left.count(), 0, "nothing half-written stays");
}
