use app::{commands, settings_store};
use engine::testing::Scenario;
use protocol::{AppSettings, SamplingSettings};

use crate::support::{Plan, TestApp};

#[tokio::test(flavor = "multi_thread")]
async fn only_tabs_of_existing_conversations_come_back() {
    let app = TestApp::start(Plan::of(Scenario::ShortAnswers)).await;
    let (kept, deleted) = (app.new_conversation().await, app.new_conversation().await);
    let tabs = vec![kept.clone(), deleted.clone(), "999".into()];
    let settings =
        AppSettings { open_tabs: tabs, active_tab: Some(deleted.clone()), ..settings_store::defaults() };
    commands::settings::write(&app.state, settings).await.unwrap();
    app.state.history().await.unwrap().delete_conversation(deleted.parse().unwrap()).await.unwrap();
    let start = commands::window::start(&app.state).await.unwrap();
    assert_eq!(
        (start.settings.open_tabs, start.settings.active_tab),
        (vec![kept.clone()], Some(kept.clone()))
    );
    assert_eq!(start.conversations.iter().map(|conversation| &conversation.id).collect::<Vec<_>>(), [&kept]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_conversation_starts_with_the_settings_for_new_ones_and_keeps_its_own() {
    let app = TestApp::start(Plan::of(Scenario::ShortAnswers)).await;
    let warm = SamplingSettings { temperature: 1.1, ..app::sampling_settings::defaults() };
    let settings = AppSettings { new_conversation: warm.clone(), ..settings_store::defaults() };
    commands::settings::write(&app.state, settings.clone()).await.unwrap();
    let conversation = app.new_conversation().await;
    commands::settings::write(&app.state, settings_store::defaults()).await.unwrap();
    let view = commands::conversations::open(&app.state, &conversation).await.unwrap();
    assert_eq!(view.settings, warm);
    let bad = SamplingSettings { max_tokens: 0, ..warm };
    let refused =
        commands::settings::write(&app.state, AppSettings { new_conversation: bad, ..settings }).await;
    assert_eq!(refused.unwrap_err().code(), protocol::ErrorCode::InvalidSetting);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_size_of_text_is_kept_and_one_out_of_range_refused() {
    let app = TestApp::start(Plan::of(Scenario::ShortAnswers)).await;
    let sized = |text_size_percent| AppSettings { text_size_percent, ..settings_store::defaults() };
    commands::settings::write(&app.state, sized(150)).await.unwrap();
    for percent in [0, 89, 151] {
        let refused = commands::settings::write(&app.state, sized(percent)).await;
        assert_eq!(refused.unwrap_err().code(), protocol::ErrorCode::InvalidSetting, "{percent}");
    }
    let start = commands::window::start(&app.state).await.unwrap();
    assert_eq!(start.settings.text_size_percent, 150);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_cannot_be_opened_is_tried_again() {
    let app = TestApp::start(Plan::of(Scenario::ShortAnswers)).await;
    let second = TestApp::start_in(tempfile::tempdir().unwrap(), Plan::of(Scenario::ShortAnswers)).await;
    let (engine, library) = (second.state.engine.clone(), second.state.library.clone());
    let state = app::state::AppState::new(app.folder.path().join("history.sqlite3"), engine, library);
    let refused = commands::window::start(&state).await.unwrap_err();
    assert_eq!(refused.code(), protocol::ErrorCode::HistoryFailed, "another Braid has it open");
    app.state.close_history().await;
    commands::window::start(&state).await.expect("the other Braid is gone");
}
