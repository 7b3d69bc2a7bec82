use app::commands::conversations;
use engine::testing::Scenario;

use crate::support::{Plan, TestApp};

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_found_with_its_conversation_and_what_matched() {
    let app = TestApp::start(Plan::of(Scenario::ShortAnswers)).await;
    let conversation = app.new_conversation().await;
    app.new_conversation().await;
    let (started, recorder) = app.send(&conversation, "Is the Café in Zürich open?").await.unwrap();
    recorder.wait_for_end().await;

    let hits = conversations::search(&app.state, "cafe zurich").await.unwrap();
    assert_eq!(hits.len(), 1, "{hits:?}");
    assert_eq!(hits[0].conversation_id, conversation);
    assert_eq!(hits[0].message_id.as_ref(), Some(&started.user_message.id));
    let matched: Vec<&str> =
        hits[0].snippet.iter().filter(|run| run.is_match).map(|run| run.text.as_str()).collect();
    assert_eq!(matched, ["Café", "Zürich"]);
    let whole: String = hits[0].snippet.iter().map(|run| run.text.as_str()).collect();
    assert_eq!(whole, "Is the Café in Zürich open?");
    assert!(conversations::search(&app.state, "\"").await.unwrap().is_empty(), "no sign is syntax");
}
