//! Answers that go on after their end, and answers that take another way at a token.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use app::{
    commands::{conversations, versions},
    error::AppError,
    generation::{self, CannotContinue},
    requests::StopCause,
};
use engine::testing::{Answer, END_OF_TURN, FakeRow, Scenario, Script, thinking_tokenizer};
use protocol::{
    BranchAnswer, ContinueAnswer, ErrorCode, FinishReason, MessageState, MessageView, Receipt, RemoteTarget,
    SamplingSettings, StreamEventBody, StructuredOutput, TextPart,
};

use crate::support::{PATIENCE, Plan, Recorder, Sink, TestApp};

/// Answers that depend on every token before, and on the seed.
fn hashed(step_ms: u64) -> Plan {
    let answer = Answer::Hashed { eos_one_in: 0 };
    Plan::of(Script { answer, step: Duration::from_millis(step_ms), ..Script::default() })
}

fn warm(max_tokens: u32) -> SamplingSettings {
    let settings = app::sampling_settings::defaults();
    SamplingSettings { temperature: 3.0, top_p: 1.0, seed: Some("7".into()), max_tokens, ..settings }
}

/// Says `text` after the opening of the answer, wherever the answer was taken up.
fn saying(text: &'static str) -> Plan {
    let logits = move |row: &FakeRow| {
        let tokens: Vec<u8> = row.tokens.iter().map(|token| u8::try_from(*token).unwrap_or(0)).collect();
        let opening = b"<think>\n";
        let opened = tokens.windows(opening.len()).rposition(|window| window == opening);
        let said = tokens.len() - opened.expect("the template opens the thinking") - opening.len();
        let next = text.as_bytes().get(said).map_or(END_OF_TURN, |byte| u32::from(*byte));
        (0..272).map(|id| if id == next { 20.0 } else { -20.0 }).collect()
    };
    let script = Script { answer: Answer::Custom(Arc::new(logits)), ..Script::default() };
    Plan { tokenizer: thinking_tokenizer, ..Plan::of(script) }
}

async fn go_on(
    app: &TestApp,
    conversation: &str,
    answer_id: &str,
) -> Result<(MessageView, Arc<Recorder>), AppError> {
    let recorder = Arc::new(Recorder::default());
    let request = ContinueAnswer {
        request_id: format!("r{conversation}"),
        conversation_id: conversation.into(),
        answer_id: answer_id.into(),
    };
    let sink = Sink(recorder.clone());
    let view = generation::continue_answer(&app.state, request, Instant::now(), sink).await?;
    Ok((view, recorder))
}

async fn branch(
    app: &TestApp,
    conversation: &str,
    answer_id: &str,
    (token_index, token): (u32, u32),
) -> Result<(MessageView, Arc<Recorder>), AppError> {
    let recorder = Arc::new(Recorder::default());
    let request = BranchAnswer {
        request_id: format!("r{conversation}"),
        conversation_id: conversation.into(),
        answer_id: answer_id.into(),
        token_index,
        token,
    };
    let view = generation::branch(&app.state, request, Instant::now(), Sink(recorder.clone())).await?;
    Ok((view, recorder))
}

async fn finished(recorder: &Recorder) -> (FinishReason, Receipt) {
    match recorder.wait_for_end().await {
        StreamEventBody::Finished { reason, receipt } => (reason, receipt),
        other => panic!("it finishes, and does not {other:?}"),
    }
}

async fn answered(app: &TestApp, settings: &SamplingSettings) -> (String, MessageView) {
    let conversation = app.conversation_with(settings).await;
    let (_, recorder) = app.send(&conversation, "Tell me.").await.expect("the settings are valid");
    finished(&recorder).await;
    let answer = app.messages(&conversation).await.remove(1);
    (conversation, answer)
}

fn reason_of<T>(result: Result<T, AppError>) -> CannotContinue {
    match result {
        Err(AppError::CannotContinue(reason)) => reason,
        Err(other) => panic!("another error: {other:?}"),
        Ok(_) => panic!("it is refused"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_cut_by_its_limit_goes_on_as_if_it_had_never_been_cut() {
    let app = TestApp::start(hashed(0)).await;
    for logprobs in [None, Some(2)] {
        let settings = |max_tokens| SamplingSettings { logprobs, ..warm(max_tokens) };
        let (_, uncut) = answered(&app, &settings(24)).await;
        let (conversation, cut) = answered(&app, &settings(12)).await;
        assert_eq!(cut.finish_reason, Some(FinishReason::MaxTokens));
        let (view, recorder) = go_on(&app, &conversation, &cut.id).await.unwrap();
        assert_eq!((&view.id, &view.text, view.state), (&cut.id, &cut.text, MessageState::Streaming));
        let (_, receipt) = finished(&recorder).await;

        let stored = app.messages(&conversation).await.remove(1);
        assert_eq!((&stored.id, &stored.text), (&cut.id, &uncut.text), "it keeps its id and its text");
        assert_eq!(format!("{}{}", cut.text, recorder.text()), uncut.text, "only what is new is streamed");
        assert_eq!(stored.receipt, Some(receipt.clone()));
        let whole = uncut.receipt.unwrap();
        assert_eq!(receipt.settings, whole.settings, "twelve tokens more");
        assert_eq!(receipt.answer_tokens, 24);
        assert_eq!(receipt.fused_steps + receipt.per_row_steps, 24);
        assert_eq!(
            (receipt.prompt_tokens, receipt.ttft_ms),
            (whole.prompt_tokens, cut.receipt.unwrap().ttft_ms)
        );
        let details = conversations::token_details(&app.state, &stored.id).await.unwrap();
        assert_eq!(details, conversations::token_details(&app.state, &uncut.id).await.unwrap());
        assert_eq!(receipt.recorded_tokens as usize, details.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_answer_goes_on_and_can_be_stopped_again() {
    let app = TestApp::start(Plan::of(Scenario::LongAnswers)).await;
    let conversation = app.conversation_with(&warm(200)).await;
    let (started, recorder) = app.send(&conversation, "a").await.unwrap();
    let mut shown = String::new();
    let mut recorder = recorder;
    for _ in 0..3 {
        recorder.wait_for_text().await;
        app.state.requests.stop(&format!("r{conversation}"), StopCause::User);
        assert_eq!(finished(&recorder).await.0, FinishReason::Stopped);
        shown.push_str(&recorder.text());
        let stored = app.messages(&conversation).await.remove(1);
        assert_eq!((stored.state, &stored.text), (MessageState::Stopped, &shown));
        recorder = go_on(&app, &conversation, &started.answer.id).await.unwrap().1;
    }
    assert_eq!(finished(&recorder).await.0, FinishReason::MaxTokens);
    shown.push_str(&recorder.text());
    let stored = app.messages(&conversation).await.remove(1);
    assert_eq!((&stored.text, stored.text.len()), (&shown, 200), "the limit is that of the whole answer");
    let (_, uncut) = {
        let other = app.conversation_with(&warm(200)).await;
        let (_, recorder) = app.send(&other, "a").await.unwrap();
        finished(&recorder).await;
        (other.clone(), app.messages(&other).await.remove(1))
    };
    assert_eq!(stored.text, uncut.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn thinking_goes_on_as_thinking_and_ends_where_it_would_have() {
    let app = TestApp::start(saying("Hm, so it is.\n</think>\n\nParis, of course.")).await;
    for logprobs in [None, Some(0)] {
        let settings = SamplingSettings {
            max_tokens: 13,
            logprobs,
            temperature: 0.0,
            ..app::sampling_settings::defaults()
        };
        let (conversation, first) = answered(&app, &settings).await;
        assert_eq!((first.thinking.as_str(), first.text.as_str()), ("Hm, so it is.", ""));
        let mut texts = [first.thinking, first.text];
        for round in 1.. {
            let (_, recorder) = go_on(&app, &conversation, &first.id).await.unwrap();
            let (reason, receipt) = finished(&recorder).await;
            texts[0].push_str(&recorder.part(TextPart::Thinking));
            texts[1].push_str(&recorder.text());
            assert_eq!(receipt.settings.max_tokens, 13 * (round + 1));
            if reason == FinishReason::EndOfTurn {
                break;
            }
        }
        assert_eq!(texts, ["Hm, so it is.", "Paris, of course."]);
        let stored = app.messages(&conversation).await.remove(1);
        assert_eq!([stored.thinking, stored.text], texts);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn structured_output_that_was_cut_off_goes_on_to_a_valid_end() {
    let app = TestApp::start(hashed(0)).await;
    let schema = r#"{"type":"object","properties":{"yes":{"type":"boolean"}},"required":["yes"],"additionalProperties":false}"#;
    let structured_output = Some(StructuredOutput::JsonSchema { schema: schema.into() });
    let (conversation, cut) = answered(&app, &SamplingSettings { structured_output, ..warm(4) }).await;
    assert_eq!(cut.finish_reason, Some(FinishReason::Incomplete));
    let more = SamplingSettings { max_tokens: 200, ..warm(200) };
    conversations::write_settings(&app.state, &conversation, &more).await.unwrap();
    let (_, recorder) = go_on(&app, &conversation, &cut.id).await.unwrap();
    assert_eq!(finished(&recorder).await.0, FinishReason::EndOfTurn);
    let stored = app.messages(&conversation).await.remove(1);
    let value: serde_json::Value = serde_json::from_str(&stored.text).expect(&stored.text);
    assert!(value["yes"].is_boolean() && stored.text.starts_with(&cut.text), "{value}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_answer_is_taken_up_again_also_without_a_word() {
    let app = TestApp::start(hashed(0)).await;
    let long = SamplingSettings { system_prompt: "long ".repeat(1_000), ..warm(12) };
    let conversation = app.conversation_with(&long).await;
    let (started, recorder) = app.send(&conversation, "a").await.unwrap();
    assert!(matches!(recorder.wait_for_end().await, StreamEventBody::Failed { .. }));
    let (_, recorder) = go_on(&app, &conversation, &started.answer.id).await.unwrap();
    let StreamEventBody::Failed { code, .. } = recorder.wait_for_end().await else { panic!("as before") };
    assert_eq!(code, ErrorCode::ContextTooLong);
    assert_eq!(app.messages(&conversation).await[1].failure, Some(ErrorCode::ContextTooLong));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_go_on_is_refused_in_words_and_stays_as_it_is() {
    let script = Script { answer: Answer::spoken("Done."), ..Script::default() };
    let app = TestApp::start(Plan::of(script)).await;
    let settings = app::sampling_settings::defaults();
    let (conversation, complete) = answered(&app, &settings).await;
    let refused = go_on(&app, &conversation, &complete.id).await;
    assert_eq!(reason_of(refused), CannotContinue::Complete);
    let view = versions::write_version(&app.state, &conversation, &complete.id, "Mine.").await.unwrap();
    let refused = go_on(&app, &conversation, &view.messages[1].id).await;
    assert_eq!(reason_of(refused), CannotContinue::Complete);
    let (question, other) = (&view.messages[0].id, app.new_conversation().await);
    assert!(matches!(go_on(&app, &conversation, question).await, Err(AppError::UnknownAnswer { .. })));
    assert!(go_on(&app, &other, &complete.id).await.is_err());
    assert_eq!(app.messages(&conversation).await, view.messages);

    let (conversation, cut) = answered(&app, &SamplingSettings { max_tokens: 3, ..settings }).await;
    app.send(&conversation, "And?").await.unwrap().1.wait_for_end().await;
    let before = app.messages(&conversation).await;
    let refused = go_on(&app, &conversation, &cut.id).await;
    assert_eq!(reason_of(refused), CannotContinue::Followed);
    assert_eq!(app.messages(&conversation).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_a_server_gave_does_not_go_on_here() {
    let app = TestApp::start(hashed(0)).await;
    let remote = Some(RemoteTarget { server_id: "gone".into(), model: "m".into() });
    let conversation = app.conversation_with(&SamplingSettings { remote, ..warm(9) }).await;
    let history = app.state.history().await.unwrap();
    let json = serde_json::to_string(&conversations::open(&app.state, &conversation).await.unwrap().settings);
    let turn = history.begin_turn(conversation.parse().unwrap(), None, "?", &json.unwrap()).await.unwrap();
    let end = history::AnswerEnd {
        state: history::FinishState::Stopped,
        finish_reason: None,
        receipt_json: None,
        error_code: None,
        token_details_json: None,
    };
    history.finish_answer(turn.answer, &end).await.unwrap();
    let answer = turn.answer.to_string();
    assert_eq!(reason_of(go_on(&app, &conversation, &answer).await), CannotContinue::Served);
    assert_eq!(reason_of(branch(&app, &conversation, &answer, (0, 65)).await), CannotContinue::Served);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_goes_on_can_be_stopped_while_it_waits_and_loses_nothing() {
    let plan = hashed(0);
    let app = TestApp::start(plan.clone()).await;
    let (conversation, cut) = answered(&app, &warm(12)).await;
    plan.gate.close();
    app.state.engine.restart().await;
    let (_, recorder) = go_on(&app, &conversation, &cut.id).await.unwrap();
    let open = conversations::open(&app.state, &conversation).await.unwrap();
    assert_eq!(open.active_requests[0].answer_id, cut.id);
    assert_eq!((&open.messages[1].text, open.messages[1].state), (&cut.text, MessageState::Streaming));
    app.state.requests.stop(&format!("r{conversation}"), StopCause::User);
    let (reason, receipt) = finished(&recorder).await;
    assert_eq!((reason, receipt.answer_tokens), (FinishReason::Stopped, 12), "the first part's figures stay");
    let stored = app.messages(&conversation).await.remove(1);
    assert_eq!((&stored.text, stored.state), (&cut.text, MessageState::Stopped));
    plan.gate.open();
    let (_, recorder) = go_on(&app, &conversation, &cut.id).await.unwrap();
    recorder.wait_for_text().await;
    recorder.wait_for_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn neighbours_of_an_answer_that_goes_on_are_unharmed() {
    let app = TestApp::start(hashed(5)).await;
    let neighbour = app.conversation_with(&warm(60)).await;
    let alone = app.send(&neighbour, "b").await.unwrap().1;
    finished(&alone).await;
    let (conversation, cut) = answered(&app, &warm(12)).await;
    let beside = app.conversation_with(&warm(60)).await;
    let (_, recorder) = app.send(&beside, "b").await.unwrap();
    recorder.wait_for_text().await;
    let (_, more) = go_on(&app, &conversation, &cut.id).await.unwrap();
    finished(&more).await;
    finished(&recorder).await;
    assert_eq!(recorder.text(), alone.text());
}

#[test]
fn an_app_that_vanishes_while_an_answer_goes_on_keeps_both_parts() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (folder, conversation, cut) = runtime.block_on(async {
        let app = TestApp::start(Plan::of(Scenario::LongAnswers)).await;
        let settings = SamplingSettings { logprobs: Some(1), ..warm(12) };
        let (conversation, cut) = answered(&app, &settings).await;
        let more = SamplingSettings { max_tokens: 2_000, ..settings };
        conversations::write_settings(&app.state, &conversation, &more).await.unwrap();
        let (_, recorder) = go_on(&app, &conversation, &cut.id).await.unwrap();
        recorder.wait_for_text().await;
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        (app.folder, conversation, cut)
    });
    runtime.shutdown_background();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let app = TestApp::start_in(folder, Plan::of(Scenario::LongAnswers)).await;
        let stored = app.messages(&conversation).await.remove(1);
        assert_eq!((&stored.id, stored.state), (&cut.id, MessageState::Interrupted));
        assert!(stored.text.starts_with(&cut.text) && stored.text.len() > cut.text.len(), "{stored:?}");
        // What was recorded is of the first part only, so the text is what it goes on from.
        let (_, recorder) = go_on(&app, &conversation, &cut.id).await.unwrap();
        recorder.wait_for_text().await;
        app.state.requests.stop(&format!("r{conversation}"), StopCause::User);
        let (_, receipt) = finished(&recorder).await;
        let whole = app.messages(&conversation).await.remove(1);
        assert_eq!(whole.text, stored.text.clone() + &recorder.text());
        let details = conversations::token_details(&app.state, &cut.id).await.unwrap();
        assert_eq!(details.len(), whole.text.len(), "every token has its place again");
        assert_eq!(receipt.recorded_tokens as usize, details.len());
        assert!(details[0].logprob.is_none() && details.last().unwrap().logprob.is_some());
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_is_gone_interrupts_an_answer_that_goes_on() {
    let app = TestApp::start(Plan::of(Scenario::LongAnswers)).await;
    let (conversation, cut) = answered(&app, &warm(12)).await;
    conversations::write_settings(&app.state, &conversation, &warm(2_000)).await.unwrap();
    let (_, recorder) = go_on(&app, &conversation, &cut.id).await.unwrap();
    recorder.wait_for_text().await;
    recorder.is_closed.store(true, Ordering::Relaxed);
    assert_eq!(app.state.requests.drained(PATIENCE).await, 0);
    let stored = app.messages(&conversation).await.remove(1);
    assert_eq!(stored.state, MessageState::Interrupted);
    assert!(stored.text.starts_with(&cut.text) && stored.text.len() > cut.text.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_is_a_version_that_takes_the_other_token_and_goes_on_from_it() {
    let app = TestApp::start(hashed(0)).await;
    let settings = SamplingSettings { logprobs: Some(5), ..warm(24) };
    let (conversation, old) = answered(&app, &settings).await;
    let details = conversations::token_details(&app.state, &old.id).await.unwrap();
    let place = 7;
    let is_other = |token: u32| token != details[place].token && token < 128;
    let other = details[place].alternatives.iter().find(|other| is_other(other.token)).expect("five of them");
    let (view, recorder) = branch(&app, &conversation, &old.id, (place as u32, other.token)).await.unwrap();
    let beginning = format!("{}{}", &old.text[..place], other.text);
    assert_eq!((&view.text, view.state), (&beginning, MessageState::Streaming), "on disk before it streams");
    assert_eq!(view.version_ids, [old.id.clone(), view.id.clone()]);
    let (reason, receipt) = finished(&recorder).await;
    assert_eq!((reason, receipt.answer_tokens), (FinishReason::MaxTokens, 24), "the limit is of the whole");

    let shown = app.messages(&conversation).await.remove(1);
    assert_eq!((&shown.id, &shown.text), (&view.id, &(beginning + &recorder.text())));
    let new = conversations::token_details(&app.state, &view.id).await.unwrap();
    assert_eq!((new.len(), receipt.recorded_tokens), (24, 24));
    assert_eq!(new[..place], details[..place]);
    assert_eq!((new[place].token, new[place].logprob), (other.token, other.logprob));
    assert_eq!(new[place].alternatives, details[place].alternatives);
    let read = versions::versions(&app.state, &conversation, &old.id).await.unwrap();
    assert_eq!((&read[0].text, read[0].receipt.as_ref()), (&old.text, old.receipt.as_ref()));
    // The last token replaced: there is room for as many more.
    let last = details.len() - 1;
    let (_, recorder) = branch(&app, &conversation, &old.id, (last as u32, 65)).await.unwrap();
    let (_, receipt) = finished(&recorder).await;
    assert_eq!(receipt.answer_tokens, 48);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_within_the_thinking_thinks_on() {
    let app = TestApp::start(saying("Hm, so it is.\n</think>\n\nParis.")).await;
    let settings = SamplingSettings { logprobs: Some(3), ..app::sampling_settings::defaults() };
    let (conversation, old) = answered(&app, &settings).await;
    assert_eq!((old.thinking.as_str(), old.text.as_str()), ("Hm, so it is.", "Paris."));
    let (view, recorder) = branch(&app, &conversation, &old.id, (1, u32::from(b'a'))).await.unwrap();
    assert_eq!((view.thinking.as_str(), view.text.as_str()), ("Ha", ""));
    finished(&recorder).await;
    let shown = app.messages(&conversation).await.remove(1);
    assert_eq!((shown.thinking.as_str(), shown.text.as_str()), ("Ha, so it is.", "Paris."));
    let in_answer = old.thinking.len() + "\n</think>\n\n".len() + 1;
    let place = (in_answer as u32, u32::from(b'o'));
    let (view, recorder) = branch(&app, &conversation, &old.id, place).await.unwrap();
    assert_eq!((view.thinking.as_str(), view.text.as_str()), ("Hm, so it is.", "Po"));
    finished(&recorder).await;
    assert_eq!(app.messages(&conversation).await[1].text, "Poris.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_that_cannot_be_is_refused_in_words_and_nothing_is_stored() {
    let plan = hashed(0);
    let app = TestApp::start(plan.clone()).await;
    let (conversation, bare) = answered(&app, &warm(9)).await;
    let refused = reason_of(branch(&app, &conversation, &bare.id, (0, 65)).await);
    assert_eq!(refused, CannotContinue::NotRecorded { recorded_tokens: 0, token_index: 0 });
    let (conversation, old) = answered(&app, &SamplingSettings { logprobs: Some(1), ..warm(9) }).await;
    let refused = reason_of(branch(&app, &conversation, &old.id, (9, 65)).await);
    assert_eq!(refused, CannotContinue::NotRecorded { recorded_tokens: 9, token_index: 9 });
    for token in [END_OF_TURN, 999_999] {
        let refused = reason_of(branch(&app, &conversation, &old.id, (3, token)).await);
        assert_eq!(refused, CannotContinue::NoWayOn { token });
    }
    let before = app.messages(&conversation).await;
    assert_eq!(before[1].version_ids.len(), 1);
    let other = app.new_conversation().await;
    assert!(branch(&app, &other, &old.id, (3, 65)).await.is_err(), "it is of another conversation");
}
