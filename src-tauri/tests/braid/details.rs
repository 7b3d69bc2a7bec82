use app::commands::conversations;
use engine::testing::{Answer, Script, thinking_tokenizer};
use protocol::{
    BiasSetting, BiasTarget, ErrorCode, FinishReason, SamplingSettings, StreamEventBody, StructuredOutput,
    TextPart,
};

use crate::support::{Plan, TestApp};

fn spoken(text: &str) -> Plan {
    Plan::of(Script { answer: Answer::spoken(text), ..Script::default() })
}

fn defaults() -> SamplingSettings {
    app::sampling_settings::defaults()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_recorded_of_the_tokens_outlives_the_app() {
    let app = TestApp::start(spoken("Paris")).await;
    let conversation = app.conversation_with(&SamplingSettings { logprobs: Some(2), ..defaults() }).await;
    let (started, recorder) = app.send(&conversation, "hi").await.unwrap();
    let StreamEventBody::Finished { receipt, .. } = recorder.wait_for_end().await else {
        panic!("it finishes");
    };
    assert_eq!(receipt.recorded_tokens, 6, "five letters, and the token that ended the turn");
    app.state.close_history().await;
    let app = TestApp::start_in(app.folder, spoken("")).await;
    let details = conversations::token_details(&app.state, &started.answer.id).await.unwrap();
    let texts: Vec<&str> = details.iter().map(|detail| detail.text.as_str()).collect();
    assert_eq!(texts, ["P", "a", "r", "i", "s", "<|im_end|>"]);
    for detail in &details {
        assert_eq!(detail.alternatives.len(), 2);
        assert!(!detail.is_forced && detail.logprob.is_some_and(|logprob| logprob <= 0.0));
    }
    let nothing = conversations::token_details(&app.state, &started.user_message.id).await.unwrap();
    assert_eq!(nothing, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn thinking_streams_apart_is_kept_apart_and_is_not_sent_back() {
    let plan = Plan { tokenizer: thinking_tokenizer, ..spoken("Hm.</think>Paris.") };
    let app = TestApp::start(plan).await;
    let conversation = app.new_conversation().await;
    let (_, recorder) = app.send(&conversation, "Capital?").await.unwrap();
    let StreamEventBody::Finished { receipt, .. } = recorder.wait_for_end().await else {
        panic!("it finishes");
    };
    assert_eq!((recorder.part(TextPart::Thinking).trim(), recorder.text().as_str()), ("Hm.", "Paris."));
    let stored = app.messages(&conversation).await.remove(1);
    assert_eq!((stored.thinking.trim(), stored.text.as_str()), ("Hm.", "Paris."));
    assert_eq!(stored.thinking_tokens, receipt.thinking_tokens);
    assert!(stored.thinking_tokens >= 3 && receipt.answer_tokens >= 6, "{receipt:?}");
    let (_, recorder) = app.send(&conversation, "Sure?").await.unwrap();
    let StreamEventBody::Finished { receipt: second, .. } = recorder.wait_for_end().await else {
        panic!("it finishes");
    };
    let turn = "<|im_start|>".len();
    let grown = (second.prompt_tokens - receipt.prompt_tokens) as usize;
    assert!(
        grown < turn + "assistant\nParis.\nuser\nSure?\nassistant\n<think>".len() + 8,
        "{grown} tokens more"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_cannot_be_enforced_is_refused_with_its_place_and_the_message_stays() {
    let app = TestApp::start(spoken("{}")).await;
    let schema = r#"{"type":"object","properties":{"name":{"type":"string","format":"no-such-format"}}}"#;
    let structured_output = Some(StructuredOutput::JsonSchema { schema: schema.into() });
    let conversation = app.conversation_with(&SamplingSettings { structured_output, ..defaults() }).await;
    let (_, recorder) = app.send(&conversation, "Name?").await.unwrap();
    let StreamEventBody::Failed { code, detail, .. } = recorder.wait_for_end().await else {
        panic!("it is refused");
    };
    assert_eq!(code, ErrorCode::GrammarRefused);
    assert!(detail.contains("/properties/name/format"), "{detail}");
    let stored = app.messages(&conversation).await;
    assert_eq!((stored[0].text.as_str(), stored[1].failure), ("Name?", Some(ErrorCode::GrammarRefused)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_follows_a_schema_is_valid_and_one_that_is_cut_off_is_incomplete() {
    let script = Script { answer: Answer::Hashed { eos_one_in: 0 }, ..Script::default() };
    let app = TestApp::start(Plan::of(script)).await;
    let schema = r#"{"type":"object","properties":{"yes":{"type":"boolean"}},"required":["yes"],"additionalProperties":false}"#;
    let structured_output = Some(StructuredOutput::JsonSchema { schema: schema.into() });
    let settings = SamplingSettings { structured_output, ..defaults() };
    for (max_tokens, expected) in [(200, FinishReason::EndOfTurn), (3, FinishReason::Incomplete)] {
        let conversation = app.conversation_with(&SamplingSettings { max_tokens, ..settings.clone() }).await;
        let (_, recorder) = app.send(&conversation, "Yes?").await.unwrap();
        let StreamEventBody::Finished { reason, .. } = recorder.wait_for_end().await else {
            panic!("it finishes");
        };
        assert_eq!(reason, expected, "{:?}", recorder.text());
        let is_json = serde_json::from_str::<serde_json::Value>(&recorder.text())
            .is_ok_and(|value| value["yes"].is_boolean());
        assert_eq!(is_json, reason == FinishReason::EndOfTurn, "{:?}", recorder.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bias_on_a_text_of_several_tokens_is_refused_with_the_tokens() {
    let app = TestApp::start(spoken("ok")).await;
    let conversation = app.new_conversation().await;
    let target = BiasTarget::Text { text: "ab".into() };
    let logit_bias = vec![BiasSetting { target, value: 3.0 }];
    let settings = SamplingSettings { logit_bias, ..defaults() };
    let refused = conversations::write_settings(&app.state, &conversation, &settings).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InvalidSetting);
    assert!(refused.to_string().contains("“ab”, which is 2 tokens"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bias_reaches_the_engine_and_its_trace_the_answer() {
    let app = TestApp::start(spoken("aaaa")).await;
    let target = BiasTarget::Text { text: "b".into() };
    let settings = SamplingSettings {
        temperature: 0.0,
        max_tokens: 3,
        logit_bias: vec![BiasSetting { target, value: 100.0 }],
        wants_bias_trace: true,
        ..defaults()
    };
    let conversation = app.conversation_with(&settings).await;
    let (started, recorder) = app.send(&conversation, "hi").await.unwrap();
    recorder.wait_for_end().await;
    assert_eq!(recorder.text(), "bbb", "the bias outweighs what the model would say");
    let details = conversations::token_details(&app.state, &started.answer.id).await.unwrap();
    let effect = details[0].bias.as_ref().expect("the trace was asked for");
    assert_eq!(effect.unbiased_likeliest, "a");
    assert!(effect.logprob_with > effect.logprob_without, "{effect:?}");
}
