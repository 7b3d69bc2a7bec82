//! Files of other programs, in their shapes.

use std::io::Write as _;

use app::commands::conversations;
use protocol::{ConversationView, ImportSource, MessageView, Role, SkipReason};
use serde_json::{Value, json};

use super::{app, import, written};
use crate::support::TestApp;

/// A node of ChatGPT's export.
pub fn node(id: &str, parent: Option<&str>, children: &[&str], message: Value) -> (String, Value) {
    (id.to_owned(), json!({ "id": id, "message": message, "parent": parent, "children": children }))
}

pub fn message(role: &str, at: f64, content: Value) -> Value {
    json!({
        "id": "m", "author": { "role": role, "name": null, "metadata": {} }, "create_time": at,
        "content": content, "status": "finished_successfully", "weight": 1.0, "metadata": {}, "recipient": "all"
    })
}

pub fn text(text: &str) -> Value {
    json!({ "content_type": "text", "parts": [text] })
}

/// A conversation with a hidden root, instructions, a picture, a tool between two parts of an answer, thinking, and two
/// versions of the second question.
pub fn openai_conversation() -> Value {
    let mut instructions = message(
        "user",
        1.0,
        json!({ "content_type": "user_editable_context", "user_profile": "I sail.", "user_instructions": "Be brief." }),
    );
    instructions["metadata"]["is_visually_hidden_from_conversation"] = json!(true);
    let mut call = message(
        "assistant",
        1700000002.0,
        json!({ "content_type": "code", "language": "python", "text": "1+1" }),
    );
    call["recipient"] = json!("python");
    let mut tool = message("tool", 1700000003.0, json!({ "content_type": "execution_output", "text": "2" }));
    tool["author"]["name"] = json!("python");
    let thoughts = json!({ "content_type": "thoughts", "thoughts": [{ "summary": "Adding", "content": "One and one." }] });
    let picture = json!({
        "content_type": "multimodal_text",
        "parts": [{ "content_type": "image_asset_pointer", "asset_pointer": "file-service://x" }, "What is this?"]
    });
    let mapping: serde_json::Map<String, Value> = [
        node("root", None, &["system"], Value::Null),
        node("system", Some("root"), &["instructions"], message("system", 0.0, text(""))),
        node("instructions", Some("system"), &["q1"], instructions),
        node("q1", Some("instructions"), &["t1"], message("user", 1700000001.5, picture)),
        node("t1", Some("q1"), &["c1"], message("assistant", 1700000001.6, thoughts)),
        node("c1", Some("t1"), &["o1"], call),
        node("o1", Some("c1"), &["a1"], tool),
        node("a1", Some("o1"), &["q2", "q2b"], message("assistant", 1700000004.0, text("It is **two**."))),
        node("q2", Some("a1"), &["a2"], message("user", 1700000005.0, text("Sure?"))),
        node("a2", Some("q2"), &[], message("assistant", 1700000006.0, text("Sure."))),
        node("q2b", Some("a1"), &["a2b"], message("user", 1700000007.0, text("Really sure?"))),
        node("a2b", Some("q2b"), &[], message("assistant", 1700000008.0, text("Really."))),
    ]
    .into_iter()
    .collect();
    json!({
        "title": "Adding up", "create_time": 1700000000.25, "update_time": 1700000009.0, "mapping": mapping,
        "current_node": "a2", "conversation_id": "11111111-2222", "id": "11111111-2222"
    })
}

/// A chat of LM Studio: a regenerated answer in steps with thinking, and a file.
pub fn lm_studio_conversation() -> Value {
    let block = |text: &str, style: Value| json!({ "type": "contentBlock", "stepIdentifier": "1-1", "content": [{ "type": "text", "text": text }], "style": style });
    json!({
        "name": "Packing list", "pinned": true, "createdAt": 1717000000123_u64, "tokenCount": 64,
        "systemPrompt": "", "usePerChatPredictionConfig": true,
        "perChatPredictionConfig": { "fields": [
            { "key": "llm.prediction.temperature", "value": 0.5 },
            { "key": "llm.prediction.systemPrompt", "value": "You pack light." }
        ] },
        "messages": [
            { "versions": [{ "type": "singleStep", "role": "user", "content": [
                { "type": "text", "text": "What do I need?" },
                { "type": "file", "name": "map.png", "fileType": "image" }
            ] }], "currentlySelected": 0 },
            { "versions": [
                { "type": "multiStep", "role": "assistant", "steps": [
                    block("Socks? Surely.", json!({ "type": "thinking", "ended": true })),
                    block("Socks.", Value::Null),
                    { "type": "debugInfoBlock", "debugInfo": "internal" }
                ] },
                { "type": "multiStep", "role": "assistant", "steps": [block("Shoes.", Value::Null)] }
            ], "currentlySelected": 0 },
            { "versions": [{ "type": "singleStep", "role": "user", "content": [{ "type": "text", "text": "And?" }] }],
              "currentlySelected": 0 },
            { "versions": [{ "type": "singleStep", "role": "assistant",
                "content": "<think>\nWater.\n</think>\n\nA bottle." }], "currentlySelected": 0 }
        ]
    })
}

async fn opened(app: &TestApp, id: &str) -> ConversationView {
    conversations::open(&app.state, id).await.expect("the test's own step works")
}

fn texts(messages: &[MessageView]) -> Vec<(Role, &str)> {
    messages.iter().map(|message| (message.role, message.text.as_str())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chatgpt_export_comes_with_branches_times_instructions_and_notes() {
    let app = app().await;
    let file = written(&app, "whatever.name", json!([openai_conversation()]).to_string());
    let report = import(&app, &file).await;
    assert_eq!(report.skipped, []);
    let [imported] = report.imported.as_slice() else { panic!("{report:?}") };
    assert_eq!((imported.source, imported.messages, imported.left_out_parts), (ImportSource::OpenAi, 6, 3));

    let view = opened(&app, &imported.conversation_id).await;
    assert_eq!((view.summary.title.as_str(), view.summary.updated_at_ms), ("Adding up", 1700000009000));
    assert_eq!(view.settings.system_prompt, "I sail.\n\nBe brief.");
    let first = "*[Left out: a call of the tool python]*\n\n*[Left out: what the tool python gave]*\n\nIt is **two**.";
    let shown = [
        (Role::User, "*[Left out: a picture]*\n\nWhat is this?"),
        (Role::Assistant, first),
        (Role::User, "Sure?"),
        (Role::Assistant, "Sure."),
    ];
    assert_eq!(texts(&view.messages), shown, "the current node is shown");
    assert_eq!(view.messages[1].thinking, "Adding\n\nOne and one.");
    assert_eq!(view.messages[0].created_at_ms, 1700000001500);
    assert_eq!(view.messages[2].version_ids.len(), 2);
    let other = &view.messages[2].version_ids[1];
    let other = conversations::select(&app.state, &imported.conversation_id, other).await.unwrap();
    assert_eq!(texts(&other.messages)[2..], [(Role::User, "Really sure?"), (Role::Assistant, "Really.")]);
    assert_eq!(conversations::search(&app.state, "really sure").await.unwrap().len(), 1);

    // What new conversations are set to has no part in it.
    let change = |settings: &mut protocol::AppSettings| settings.new_conversation.top_k = 7;
    app.state.settings.change(app.state.history().await.unwrap(), change).await.unwrap();
    let again = import(&app, &file).await;
    assert_eq!((again.imported.len(), again.skipped[0].reason), (0, SkipReason::AlreadyHere));
    let mut changed = openai_conversation();
    changed["title"] = json!("Adding up again");
    let alone = import(&app, &written(&app, "one.json", changed.to_string())).await;
    assert_eq!(alone.imported.len(), 1, "a conversation alone in a file, and changed since");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_is_looked_through_for_conversations() {
    let app = app().await;
    let path = app.folder.path().join("export.zip");
    let mut archive = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    let options = zip::write::SimpleFileOptions::default();
    let list = json!([openai_conversation()]).to_string();
    for (name, content) in [
        ("chat.html", "<html></html>"),
        ("user.json", r#"{"id":"user-1","email":"x"}"#),
        ("message_feedback.json", "[]"),
        ("conversations.json", &list),
        ("nested/broken.json", "[{"),
    ] {
        archive.start_file(name, options).unwrap();
        archive.write_all(content.as_bytes()).unwrap();
    }
    archive.finish().unwrap();
    let report = import(&app, &path).await;
    assert_eq!(report.imported.len(), 1);
    let skipped: Vec<_> =
        report.skipped.iter().map(|skipped| (skipped.file.as_str(), skipped.reason)).collect();
    assert_eq!(skipped, [("export.zip: nested/broken.json", SkipReason::Unreadable)]);

    let whole = std::fs::read(&path).unwrap();
    let cut = written(&app, "cut.zip", &whole[..whole.len() / 2]);
    assert_eq!(import(&app, &cut).await.skipped[0].reason, SkipReason::Unreadable);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_lm_studio_chat_comes_with_versions_thinking_and_its_system_prompt() {
    let app = app().await;
    let file = written(&app, "1717000000123.conversation.json", lm_studio_conversation().to_string());
    let report = import(&app, &file).await;
    let [imported] = report.imported.as_slice() else { panic!("{report:?}") };
    assert_eq!((imported.source, imported.messages, imported.left_out_parts), (ImportSource::LmStudio, 5, 1));
    let view = opened(&app, &imported.conversation_id).await;
    assert_eq!((view.summary.title.as_str(), view.summary.is_pinned), ("Packing list", true));
    assert_eq!(view.settings.system_prompt, "You pack light.");
    let shown = [
        (Role::User, "What do I need?\n\n*[Left out: the file map.png]*"),
        (Role::Assistant, "Socks."),
        (Role::User, "And?"),
        (Role::Assistant, "A bottle."),
    ];
    assert_eq!(texts(&view.messages), shown);
    assert_eq!(
        (view.messages[1].thinking.as_str(), view.messages[3].thinking.as_str()),
        ("Socks? Surely.", "Water.")
    );
    assert_eq!(view.messages[1].version_ids.len(), 2);
    assert_eq!(view.messages[0].created_at_ms, 1717000000123);
    assert_eq!(import(&app, &file).await.skipped[0].reason, SkipReason::AlreadyHere);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_branch_between_tools_become_versions() {
    let app = app().await;
    let mapping: serde_json::Map<String, Value> = [
        node("q", None, &["a"], message("user", 1.0, text("q"))),
        node("a", Some("q"), &["b", "c", "u"], message("assistant", 2.0, text("start"))),
        node("b", Some("a"), &[], message("assistant", 3.0, text("one way"))),
        node("c", Some("a"), &[], message("assistant", 4.0, text("another"))),
        node("u", Some("a"), &[], message("user", 5.0, text("asked after the start"))),
    ]
    .into_iter()
    .collect();
    let value = json!([{ "title": "", "mapping": mapping, "current_node": "b" }]);
    let report = import(&app, &written(&app, "x.json", value.to_string())).await;
    let view = opened(&app, &report.imported[0].conversation_id).await;
    assert_eq!(texts(&view.messages), [(Role::User, "q"), (Role::Assistant, "start\n\none way")]);
    let other = &view.messages[1].version_ids[1];
    let other = conversations::select(&app.state, &report.imported[0].conversation_id, other).await.unwrap();
    assert_eq!(other.messages[1].text, "start\n\nanother");
    assert_eq!(view.summary.title, "q", "without a title, the first words are one");
}
