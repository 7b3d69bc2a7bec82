use app::{
    commands::{conversations, versions},
    error::AppError,
};
use engine::testing::{Answer, Scenario, Script};
use protocol::{MessageState, SamplingSettings, SeedChoice, StreamEventBody};

use crate::support::{Plan, TestApp};

/// Answers whose text depends on the noise, and so on the seed.
fn warm() -> (Plan, SamplingSettings) {
    let script = Script { answer: Answer::Hashed { eos_one_in: 0 }, ..Script::default() };
    let settings = SamplingSettings {
        temperature: 3.0,
        top_p: 1.0,
        max_tokens: 24,
        ..app::sampling_settings::defaults()
    };
    (Plan::of(script), settings)
}

async fn answered(app: &TestApp, settings: &SamplingSettings) -> String {
    let conversation = app.conversation_with(settings).await;
    let (_, recorder) = app.send(&conversation, "Tell me.").await.expect("the settings are valid");
    recorder.wait_for_end().await;
    conversation
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_seed_gives_the_same_text_beside_the_old_one() {
    let (plan, settings) = warm();
    let app = TestApp::start(plan).await;
    let conversation = answered(&app, &settings).await;
    let old = app.messages(&conversation).await.remove(1);
    // Settings of now have no say: the answer's own are used.
    let colder = SamplingSettings { temperature: 0.0, ..settings };
    conversations::write_settings(&app.state, &conversation, &colder).await.unwrap();
    let (version, recorder) = app.regenerate(&conversation, &old.id, SeedChoice::Same).await.unwrap();
    assert_eq!((version.state, version.text.as_str()), (MessageState::Streaming, ""));
    recorder.wait_for_end().await;

    let shown = app.messages(&conversation).await;
    assert_eq!(shown.len(), 2, "the new version stands in the old one's place");
    let versions = [old.id.clone(), version.id.clone()];
    assert_eq!((&shown[1].id, &shown[1].version_ids[..]), (&version.id, &versions[..]));
    assert_eq!(shown[1].text, old.text);
    let seed = |message: &protocol::MessageView| message.receipt.as_ref().unwrap().settings.seed.clone();
    assert_eq!(seed(&shown[1]), seed(&old));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_seed_is_drawn_although_the_settings_name_one() {
    let (plan, settings) = warm();
    let app = TestApp::start(plan).await;
    let settings = SamplingSettings { seed: Some("7".into()), ..settings };
    let conversation = answered(&app, &settings).await;
    let old = app.messages(&conversation).await.remove(1);
    let (_, recorder) = app.regenerate(&conversation, &old.id, SeedChoice::New).await.unwrap();
    let StreamEventBody::Finished { receipt, .. } = recorder.wait_for_end().await else {
        panic!("it finishes");
    };
    assert_ne!(receipt.settings.seed.as_deref(), Some("7"));
    assert_ne!(app.messages(&conversation).await[1].text, old.text, "24 letters of other noise");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_version_can_be_shown_again_with_what_followed_it() {
    let (plan, settings) = warm();
    let app = TestApp::start(plan).await;
    let conversation = answered(&app, &settings).await;
    let old = app.messages(&conversation).await.remove(1);
    app.send(&conversation, "And then?").await.unwrap().1.wait_for_end().await;
    let whole = app.messages(&conversation).await;
    app.regenerate(&conversation, &old.id, SeedChoice::New).await.unwrap().1.wait_for_end().await;
    assert_eq!(app.messages(&conversation).await.len(), 2, "what followed stays with the old version");
    let view = conversations::select(&app.state, &conversation, &old.id).await.unwrap();
    let ids = |messages: &[protocol::MessageView]| -> Vec<String> {
        messages.iter().map(|message| message.id.clone()).collect()
    };
    assert_eq!(ids(&view.messages), ids(&whole));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_answer_of_the_conversation_gets_versions_and_never_while_one_is_written() {
    let app = TestApp::start(Plan::of(Scenario::LongAnswers)).await;
    let conversation = app.new_conversation().await;
    let (started, recorder) = app.send(&conversation, "a").await.unwrap();
    recorder.wait_for_text().await;
    let busy = app.regenerate(&conversation, &started.answer.id, SeedChoice::New).await;
    assert!(matches!(busy, Err(AppError::AlreadyGenerating { .. })));
    let switched = conversations::select(&app.state, &conversation, &started.answer.id).await;
    assert!(matches!(switched, Err(AppError::AlreadyGenerating { .. })));
    app.state.requests.stop_all(app::requests::StopCause::User);
    recorder.wait_for_end().await;
    let question = app.regenerate(&conversation, &started.user_message.id, SeedChoice::New).await;
    assert!(matches!(question, Err(AppError::UnknownAnswer { .. })));
    assert!(app.regenerate(&conversation, "no number", SeedChoice::New).await.is_err());
    assert_eq!(app.messages(&conversation).await.len(), 2, "what was refused is not stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_question_is_a_version_with_an_answer_of_its_own_and_the_draft_stays() {
    let (plan, settings) = warm();
    let app = TestApp::start(plan).await;
    let conversation = answered(&app, &settings).await;
    app.send(&conversation, "And then?").await.unwrap().1.wait_for_end().await;
    let whole = app.messages(&conversation).await;
    let history = app.state.history().await.unwrap();
    history.save_draft(conversation.parse().unwrap(), "half a thought").await.unwrap();

    let (started, recorder) = app.edit(&conversation, &whole[2].id, "And before?").await.unwrap();
    assert_eq!(started.answer.state, MessageState::Streaming);
    assert_eq!(started.user_message.parent_id.as_ref(), Some(&whole[1].id));
    assert_eq!(started.user_message.version_ids, [whole[2].id.clone(), started.user_message.id.clone()]);
    recorder.wait_for_end().await;
    let view = conversations::open(&app.state, &conversation).await.unwrap();
    let texts: Vec<_> = view.messages.iter().map(|message| message.text.as_str()).collect();
    assert_eq!((texts[0], texts[2]), ("Tell me.", "And before?"));
    assert_eq!(
        (view.messages[3].id.as_str(), view.draft.as_str()),
        (started.answer.id.as_str(), "half a thought")
    );
    let back = conversations::select(&app.state, &conversation, &whole[2].id).await.unwrap();
    assert_eq!(back.messages[3].text, whole[3].text, "the old question keeps its answer");

    let first = app.edit(&conversation, &whole[0].id, "Tell me more.").await.unwrap().0;
    assert_eq!((first.user_message.parent_id, app.messages(&conversation).await.len()), (None, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_question_of_the_conversation_can_be_edited() {
    let (plan, settings) = warm();
    let app = TestApp::start(plan).await;
    let conversation = answered(&app, &settings).await;
    let messages = app.messages(&conversation).await;
    let other = answered(&app, &settings).await;
    for (conversation, message) in [(&conversation, &messages[1].id), (&other, &messages[0].id)] {
        let refused = app.edit(conversation, message, "x").await;
        assert!(matches!(refused, Err(AppError::UnknownAnswer { .. })));
    }
    assert!(matches!(app.edit(&conversation, &messages[0].id, " \n").await, Err(AppError::EmptyMessage)));
    assert_eq!(app.messages(&conversation).await, messages, "what was refused is not stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_a_person_wrote_is_what_the_conversation_goes_on_from() {
    let (plan, settings) = warm();
    let app = TestApp::start(plan).await;
    let conversation = answered(&app, &settings).await;
    let old = app.messages(&conversation).await.remove(1);
    let view = versions::write_version(&app.state, &conversation, &old.id, "My own words.").await.unwrap();
    let mine = &view.messages[1];
    assert_eq!((mine.text.as_str(), mine.state), ("My own words.", MessageState::Complete));
    assert_eq!((mine.finish_reason, &mine.receipt), (None, &None), "nothing was measured");
    let next = app.send(&conversation, "Sure?").await.unwrap();
    next.1.wait_for_end().await;
    assert_eq!(next.0.user_message.parent_id.as_ref(), Some(&mine.id));
    let read = versions::versions(&app.state, &conversation, &mine.id).await.unwrap();
    let texts: Vec<_> = read.iter().map(|version| version.text.as_str()).collect();
    assert_eq!(texts, [old.text.as_str(), "My own words."]);
    let question = &view.messages[0].id;
    let refused = versions::write_version(&app.state, &conversation, question, "x").await;
    assert!(matches!(refused, Err(AppError::UnknownAnswer { .. })));
    let blank = versions::write_version(&app.state, &conversation, &old.id, "\t").await;
    assert!(matches!(blank, Err(AppError::EmptyMessage)));
}
