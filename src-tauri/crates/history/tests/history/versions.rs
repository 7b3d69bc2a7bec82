//! Several answers at once, answers that go on, answers that begin with a given text, answers that a person wrote.

use history::{AnswerPiece, AnswerWriter, Beginning, FinishState, HistoryError, MessageState};

use crate::support::{Place, end, texts, turn};

fn settings(count: usize) -> Vec<String> {
    (0..count).map(|index| format!(r#"{{"seed":{index}}}"#)).collect()
}

#[tokio::test]
async fn a_fan_out_is_stored_whole_or_not_at_all_and_its_first_answer_is_shown() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    let before = turn(&history, chat, None, "one", "1").await;
    history.save_draft(chat, "two?").await.unwrap();
    let mut broken = settings(2);
    broken.push("{".into());
    let refused = history.begin_fan_out(chat, Some(before), "two?", &broken).await;
    assert!(matches!(refused, Err(HistoryError::InvalidJson { .. })), "{refused:?}");
    assert_eq!(history.open_conversation(chat).await.unwrap().draft, "two?");

    let fanned = history.begin_fan_out(chat, Some(before), "two?", &settings(3)).await.unwrap();
    let seen = history.open_conversation(chat).await.unwrap();
    assert_eq!((texts(&seen.path), seen.draft.as_str()), (vec!["one", "1", "two?", ""], ""));
    assert_eq!((seen.path[3].id, &seen.path[3].siblings), (fanned.answers[0], &fanned.answers));
    let versions = history.versions(chat, fanned.answers[1]).await.unwrap();
    let asked: Vec<_> = versions.iter().map(|version| version.settings_json.clone().unwrap()).collect();
    assert_eq!(asked, settings(3));
    assert!(versions.iter().all(|version| version.state == MessageState::Streaming));
}

#[tokio::test]
async fn one_of_several_answers_ends_and_the_others_stream_on() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    let fanned = history.begin_fan_out(chat, None, "?", &settings(2)).await.unwrap();
    let writers: Vec<_> =
        fanned.answers.iter().map(|answer| AnswerWriter::spawn(&history, *answer)).collect();
    for (writer, text) in writers.iter().zip(["left", "right"]) {
        writer.push(text, 1).unwrap();
        writer.flush().await.unwrap();
    }
    writers[0].finish(end(FinishState::Stopped)).await.unwrap();
    let read = history.versions(chat, fanned.answers[0]).await.unwrap();
    assert_eq!(texts(&read), ["left", "right"]);
    let states: Vec<_> = read.iter().map(|version| version.state).collect();
    assert_eq!(states, [MessageState::Stopped, MessageState::Streaming]);
    history.select_branch(chat, fanned.answers[1]).await.unwrap();
    assert_eq!(texts(&history.open_conversation(chat).await.unwrap().path), ["?", "right"]);
}

#[tokio::test]
async fn an_answer_that_goes_on_keeps_its_text_whatever_happens() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    let asked = history.begin_turn(chat, None, "?", "{}").await.unwrap();
    let first =
        AnswerPiece { text: "Once upon".into(), thinking: "hm".into(), output_tokens: 2, thinking_tokens: 1 };
    history.append_answer_piece(asked.answer, &first).await.unwrap();
    let details = Some("[1]".to_owned());
    let stopped = history::AnswerEnd { token_details_json: details.clone(), ..end(FinishState::Stopped) };
    history.finish_answer(asked.answer, &stopped).await.unwrap();

    history.reopen_answer(chat, asked.answer, r#"{"maxTokens":9}"#).await.unwrap();
    let again = history.reopen_answer(chat, asked.answer, "{}").await;
    assert!(matches!(again, Err(HistoryError::AnswerStreaming(_))), "{again:?}");
    let streaming = history.open_conversation(chat).await.unwrap().path.pop().unwrap();
    assert_eq!(
        (streaming.text.as_str(), streaming.thinking.as_str(), streaming.state),
        ("Once upon", "hm", MessageState::Streaming)
    );
    assert_eq!((streaming.output_tokens, streaming.thinking_tokens), (2, 1));
    assert_eq!((streaming.finished_at_ms, streaming.finish_reason), (None, None));
    assert_eq!(history.search("upon", 9).await.unwrap().len(), 1, "what was found before is found still");
    history.append_answer_text(asked.answer, " a time", 4).await.unwrap();
    history.close().await;

    let history = place.open().await;
    let cut = history.open_conversation(chat).await.unwrap().path.pop().unwrap();
    assert_eq!((cut.text.as_str(), cut.state), ("Once upon a time", MessageState::Interrupted));
    assert_eq!((cut.thinking.as_str(), cut.output_tokens), ("hm", 4));
    assert_eq!(history.token_details(asked.answer).await.unwrap(), details);
    history.reopen_answer(chat, asked.answer, "{}").await.unwrap();
    history.append_answer_text(asked.answer, ".", 5).await.unwrap();
    let whole = history::AnswerEnd { token_details_json: Some("[1,2]".into()), ..end(FinishState::Complete) };
    history.finish_answer(asked.answer, &whole).await.unwrap();
    let done = history.open_conversation(chat).await.unwrap().path.pop().unwrap();
    assert_eq!((done.text.as_str(), done.state), ("Once upon a time.", MessageState::Complete));
    assert_eq!(history.token_details(asked.answer).await.unwrap().as_deref(), Some("[1,2]"));
    assert_eq!(history.search("time.", 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn only_an_answer_of_the_conversation_can_go_on() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    let other = history.create_conversation("").await.unwrap();
    let answer = turn(&history, chat, None, "?", "!").await;
    let question = history.open_conversation(chat).await.unwrap().path[0].id;
    for (conversation, message) in [(chat, question), (other, answer)] {
        let refused = history.reopen_answer(conversation, message, "{}").await;
        assert!(matches!(refused, Err(HistoryError::MessageNotFound(_))), "{refused:?}");
    }
    turn(&history, chat, Some(answer), "more?", "more").await;
    let followed = history.reopen_answer(chat, answer, "{}").await;
    assert!(matches!(followed, Err(HistoryError::AnswerFollowed(_))), "{followed:?}");
    history.delete_conversation(chat).await.unwrap();
    let gone = history.reopen_answer(chat, answer, "{}").await;
    assert!(matches!(gone, Err(HistoryError::ConversationNotFound(_))), "{gone:?}");
}

#[tokio::test]
async fn a_version_can_begin_with_a_text_and_stream_on() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    let old = turn(&history, chat, None, "?", "Paris.").await;
    let question = history.open_conversation(chat).await.unwrap().path[0].id;
    let beginning = Beginning {
        piece: AnswerPiece { text: "Par".into(), output_tokens: 3, ..AnswerPiece::default() },
        token_details_json: Some("[1,2,3]".into()),
    };
    let version = history.start_answer_with(question, "{}", &beginning).await.unwrap();
    let shown = history.open_conversation(chat).await.unwrap().path.pop().unwrap();
    assert_eq!((shown.id, shown.text.as_str(), shown.output_tokens), (version, "Par", 3));
    assert_eq!(shown.siblings, [old, version]);
    assert_eq!(history.token_details(version).await.unwrap().as_deref(), Some("[1,2,3]"));
    history.append_answer_text(version, "ma.", 6).await.unwrap();
    history.finish_answer(version, &end(FinishState::Complete)).await.unwrap();
    assert_eq!(texts(&history.versions(chat, old).await.unwrap()), ["Paris.", "Parma."]);
}

#[tokio::test]
async fn an_answer_that_a_person_wrote_is_a_complete_version() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    let old = turn(&history, chat, None, "?", "Lyon.").await;
    let question = history.open_conversation(chat).await.unwrap().path[0].id;
    let version = history.write_answer(question, "Paris, in fact.").await.unwrap();
    let shown = history.open_conversation(chat).await.unwrap().path.pop().unwrap();
    assert_eq!(
        (shown.id, shown.text.as_str(), shown.state),
        (version, "Paris, in fact.", MessageState::Complete)
    );
    assert_eq!((shown.finish_reason, shown.receipt_json), (None, None));
    assert_eq!(history.search("in fact", 9).await.unwrap().len(), 1);
    assert!(matches!(history.write_answer(old, "x").await, Err(HistoryError::NotAUserMessage(_))));
}

#[tokio::test]
async fn versions_are_those_of_one_place_and_roots_are_one_place() {
    let place = Place::new();
    let history = place.open().await;
    let chat = history.create_conversation("").await.unwrap();
    let answer = turn(&history, chat, None, "first", "1").await;
    turn(&history, chat, Some(answer), "deeper", "2").await;
    turn(&history, chat, None, "second", "3").await;
    let other = history.create_conversation("").await.unwrap();
    turn(&history, other, None, "elsewhere", "4").await;
    let root = history.message_path(chat, answer).await.unwrap()[0].id;
    assert_eq!(texts(&history.versions(chat, root).await.unwrap()), ["first", "second"]);
    assert_eq!(texts(&history.versions(chat, answer).await.unwrap()), ["1"]);
    let foreign = history.versions(other, root).await;
    assert!(matches!(foreign, Err(HistoryError::MessageNotFound(_))), "{foreign:?}");
}
