use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use app::{
    attachments::{self, Attachments, Refusal},
    commands::conversations,
    error::AppError,
};
use engine::testing::Scenario;
use pdf_extract::{
    Dictionary, Document, EncryptionState, EncryptionVersion, Object, Permissions, Stream, StringFormat,
};
use protocol::{AttachmentKind, AttachmentView, ErrorCode};

use crate::support::{Plan, TestApp};

async fn app() -> TestApp {
    let mut app = TestApp::start(Plan::of(Scenario::ShortAnswers)).await;
    let mut attachments = Attachments::default();
    attachments.pdf_program = env!("CARGO_BIN_EXE_braid").into();
    app.state.attachments = Arc::new(attachments);
    app
}

fn written(app: &TestApp, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = app.folder.path().join(name);
    std::fs::write(&path, bytes).expect("the folder is writable");
    path
}

/// A PDF with one page for each text; an empty one has no text on it.
fn pdf(pages: &[&str]) -> Document {
    let mut document = Document::with_version("1.5");
    let tree = document.new_object_id();
    let entries = |pairs: Vec<(&str, Object)>| -> Dictionary { pairs.into_iter().collect() };
    let font = document.add_object(entries(vec![
        ("Type", "Font".into()),
        ("Subtype", "Type1".into()),
        ("BaseFont", "Helvetica".into()),
        ("Encoding", "WinAnsiEncoding".into()),
    ]));
    let fonts = entries(vec![("F1", font.into())]);
    let resources = document.add_object(entries(vec![("Font", fonts.into())]));
    let mut kids = Vec::new();
    for text in pages {
        let draw =
            if text.is_empty() { String::new() } else { format!("BT /F1 12 Tf 72 700 Td ({text}) Tj ET") };
        let content = document.add_object(Stream::new(Dictionary::new(), draw.into_bytes()));
        let page = document.add_object(entries(vec![
            ("Type", "Page".into()),
            ("Parent", tree.into()),
            ("Contents", content.into()),
        ]));
        kids.push(page.into());
    }
    let count = kids.len() as i64;
    document.objects.insert(
        tree,
        Object::Dictionary(entries(vec![
            ("Type", "Pages".into()),
            ("Kids", kids.into()),
            ("Count", count.into()),
            ("Resources", resources.into()),
            ("MediaBox", vec![0.into(), 0.into(), 595.into(), 842.into()].into()),
        ])),
    );
    let catalog = document.add_object(entries(vec![("Type", "Catalog".into()), ("Pages", tree.into())]));
    document.trailer.set("Root", catalog);
    let id = Object::String(b"0123456789abcdef".to_vec(), StringFormat::Literal);
    document.trailer.set("ID", vec![id.clone(), id]);
    document
}

fn bytes(mut document: Document) -> Vec<u8> {
    let mut bytes = Vec::new();
    document.save_to(&mut bytes).expect("memory takes it");
    bytes
}

fn encrypted(password: &str) -> Vec<u8> {
    let mut document = pdf(&["secret words"]);
    let version = EncryptionVersion::V2 {
        document: &document,
        owner_password: "owner",
        user_password: password,
        key_length: 128,
        permissions: Permissions::empty(),
    };
    let state = EncryptionState::try_from(version).expect("a known version");
    document.encrypt(&state).expect("it is not encrypted yet");
    bytes(document)
}

async fn refusal(app: &TestApp, conversation: &str, path: &Path) -> (Refusal, String) {
    let refused = attachments::attach_file(&app.state, conversation, path).await.expect_err("it is refused");
    assert_eq!(refused.code(), ErrorCode::AttachmentRefused);
    let text = refused.to_string();
    let AppError::AttachmentRefused { refusal, name } = refused else { panic!("{refused:?}") };
    assert!(text.starts_with(&name), "{text}");
    (refusal, text)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_attached_is_read_by_the_model_with_the_question_and_in_later_turns() {
    let app = app().await;
    let conversation = app.new_conversation().await;
    let code = written(&app, "main.rs", "fn main() {}\n");
    let attached = attachments::attach_file(&app.state, &conversation, &code).await.unwrap();
    let expected = AttachmentView {
        id: attached.id.clone(),
        name: "main.rs".into(),
        kind: AttachmentKind::Code,
        chars: 13,
        // The scripted model's tokens are bytes.
        tokens: Some(13),
        pages: None,
    };
    assert_eq!(attached, expected);
    attachments::attach_text(&app.state, &conversation, "pasted", "some words".into()).await.unwrap();
    assert_eq!(attachments::text(&app.state, &attached.id).await.unwrap(), "fn main() {}\n");

    let (started, recorder) = app.send(&conversation, "What is it?").await.unwrap();
    recorder.wait_for_end().await;
    assert_eq!(started.user_message.text, "What is it?", "the message stays what was typed");
    assert_eq!(started.user_message.attachments[0], expected, "with what is known of it");
    let names: Vec<_> = started.user_message.attachments.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["main.rs", "pasted"]);

    let view = conversations::open(&app.state, &conversation).await.unwrap();
    assert!(view.draft_attachments.is_empty());
    assert_eq!(view.messages[0].attachments[0], expected, "known counts come with the conversation");
    let prompt_tokens = |message: &protocol::MessageView| message.receipt.as_ref().unwrap().prompt_tokens;
    let bare = app.new_conversation().await;
    app.send(&bare, "What is it?").await.unwrap().1.wait_for_end().await;
    let without = prompt_tokens(&app.messages(&bare).await[1]);
    let spelled = "Attached file: main.rs\n\n```\nfn main() {}\n```\n\nAttached file: pasted\n\n```\nsome words\n```\n\n";
    assert_eq!(prompt_tokens(&view.messages[1]), without + spelled.len() as u32);

    app.send(&conversation, "And now?").await.unwrap().1.wait_for_end().await;
    let later = app.messages(&conversation).await;
    assert!(
        prompt_tokens(&later[3]) > prompt_tokens(&view.messages[1]),
        "the files stay in the conversation"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_those_of_the_model_and_count_by_the_next_opening() {
    let app = app().await;
    let conversation = app.new_conversation().await;
    attachments::attach_text(&app.state, &conversation, "a", "four".into()).await.unwrap();
    // Another run of the app knows nothing yet.
    let mut state = app.state.clone();
    state.attachments = Arc::default();
    let opened = conversations::open(&state, &conversation).await.unwrap();
    assert_eq!(opened.draft_attachments[0].tokens, Some(4), "a short text is counted while one waits");
    assert_eq!(attachments::count_tokens(&state.engine, "naïve".into()).await, Some(6));
    state.engine.unload().await;
    assert_eq!(attachments::count_tokens(&state.engine, "x".into()).await, None);
    let without_model = conversations::open(&state, &conversation).await.unwrap();
    assert_eq!(without_model.draft_attachments[0].tokens, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attachment_can_be_taken_away_until_it_is_sent_and_only_twenty_go_along() {
    let app = app().await;
    let conversation = app.new_conversation().await;
    let one = attachments::attach_text(&app.state, &conversation, "one", "1".into()).await.unwrap();
    attachments::remove(&app.state, &one.id).await.unwrap();
    attachments::remove(&app.state, &one.id).await.unwrap();
    attachments::remove(&app.state, "no id").await.unwrap();
    let gone = attachments::text(&app.state, &one.id).await.unwrap_err();
    assert_eq!(gone.code(), ErrorCode::AttachmentRefused);
    for number in 0..20 {
        let name = format!("{number}.txt");
        attachments::attach_text(&app.state, &conversation, &name, name.clone()).await.unwrap();
    }
    let (full, text) = refusal(&app, &conversation, &written(&app, "late.txt", "late")).await;
    assert!(matches!(full, Refusal::TooManyAttachments { .. }));
    assert_eq!(text, "late.txt is one too many: 20 of 20 files are attached");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_a_pdf_is_read_page_by_page() {
    let app = app().await;
    let conversation = app.new_conversation().await;
    let file = written(&app, "report.pdf", bytes(pdf(&["First page", "", "Third page"])));
    let attached = attachments::attach_file(&app.state, &conversation, &file).await.unwrap();
    assert_eq!((attached.kind, attached.pages), (AttachmentKind::Pdf, Some(3)));
    assert_eq!(attachments::text(&app.state, &attached.id).await.unwrap(), "First page\n\nThird page");
    // A PDF that only forbids something opens for everyone.
    let open = written(&app, "open.pdf", encrypted(""));
    let attached = attachments::attach_file(&app.state, &conversation, &open).await.unwrap();
    assert_eq!(attachments::text(&app.state, &attached.id).await.unwrap(), "secret words");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pdf_that_cannot_be_read_says_why_and_takes_nothing_down() {
    let app = app().await;
    let conversation = app.new_conversation().await;
    let refused = async |name: &str, content: &[u8]| {
        refusal(&app, &conversation, &written(&app, name, content)).await.0
    };
    let locked = refused("locked.pdf", &encrypted("hidden")).await;
    assert!(matches!(locked, Refusal::PdfEncrypted), "{locked:?}");
    let pictures = refused("scan.pdf", &bytes(pdf(&["", ""]))).await;
    assert!(matches!(pictures, Refusal::PdfWithoutText { pages: 2 }), "{pictures:?}");
    let whole = bytes(pdf(&["some text"]));
    for damaged in [&b"%PDF-1.7"[..], b"%PDF-1.4\nnot really", &whole[..whole.len() / 2]] {
        let damaged = refused("damaged.pdf", damaged).await;
        assert!(matches!(damaged, Refusal::PdfDamaged), "{damaged:?}");
    }
    // Deep enough to overflow the stack of whoever reads it by recursion.
    let deep =
        [b"%PDF-1.4\n1 0 obj\n".as_slice(), &b"[".repeat(4_000_000), b"\nendobj\ntrailer\n<</Root 1 0 R>>\n"];
    let deep = refused("deep.pdf", &deep.concat()).await;
    assert!(matches!(deep, Refusal::PdfDamaged | Refusal::PdfTooHard), "{deep:?}");
    assert!(attachments::attach_text(&app.state, &conversation, "after", "fine".into()).await.is_ok());
}

/// Cuts, flips and repeats bytes of PDFs; each must end in a text or in a refusal.
#[tokio::test(flavor = "multi_thread")]
async fn no_damage_of_a_pdf_hangs_or_crashes_the_app() {
    let program = Path::new(env!("CARGO_BIN_EXE_braid"));
    let seeds = [bytes(pdf(&["First page", "Second page"])), encrypted("")];
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut below = |limit: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % limit as u64) as usize
    };
    for round in 0..24 {
        let mut damaged = seeds[round % 2].clone();
        for _ in 0..=below(6) {
            let at = below(damaged.len());
            match below(3) {
                0 => damaged[at] = below(256) as u8,
                1 => damaged.truncate(at.max(8)),
                _ => {
                    let to = (at + below(64)).min(damaged.len());
                    let copy = damaged[at..to].to_vec();
                    damaged.splice(at..at, copy);
                }
            }
        }
        let began = Instant::now();
        let read = attachments::pdf::read(program, damaged).await;
        assert!(!matches!(read, Err(Refusal::PdfReader(_))), "round {round}: {read:?}");
        assert!(began.elapsed() < attachments::pdf::TIME_LIMIT + Duration::from_secs(5), "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_file_is_named_with_the_reason_and_nothing_is_attached() {
    let app = app().await;
    let conversation = app.new_conversation().await;
    let png = written(&app, "photo.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    let (_, text) = refusal(&app, &conversation, &png).await;
    assert_eq!(text, "photo.png is a picture (PNG); text, Markdown, code and PDF can be attached");
    let folder = app.folder.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    assert!(matches!(refusal(&app, &conversation, &folder).await.0, Refusal::Folder));
    let empty = written(&app, "empty.txt", b"");
    assert_eq!(refusal(&app, &conversation, &empty).await.1, "empty.txt has no text");
    let gone = app.folder.path().join("gone.txt");
    assert!(matches!(refusal(&app, &conversation, &gone).await.0, Refusal::Unreadable(_)));
    assert!(conversations::open(&app.state, &conversation).await.unwrap().draft_attachments.is_empty());
    let nowhere = attachments::attach_text(&app.state, "99", "a", "a".into()).await.unwrap_err();
    assert_eq!(nowhere.code(), ErrorCode::ConversationNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_is_kept_and_one_of_another_conversation_is_not() {
    let app = app().await;
    let conversation = app.new_conversation().await;
    app.send(&conversation, "a").await.unwrap().1.wait_for_end().await;
    let message_id = app.messages(&conversation).await.remove(1).id;
    let place = protocol::ScrollPlace { message_id, above_px: 40 };
    conversations::keep_scroll(&app.state, &conversation, Some(place.clone())).await.unwrap();
    assert_eq!(conversations::open(&app.state, &conversation).await.unwrap().scroll, Some(place.clone()));
    let other = app.new_conversation().await;
    assert!(conversations::keep_scroll(&app.state, &other, Some(place)).await.is_err());
}
