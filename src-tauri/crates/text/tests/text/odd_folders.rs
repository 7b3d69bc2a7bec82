//! Model folders as people bring them: files missing, odd or contradicting each other.

use std::fs;

use serde_json::{Value, json};
use text::{ChatMessage, RenderOptions, Role, SpecialTokens, Tokenizer};

use crate::vocabulary::{Folder, added, byte_level, byte_level_of};

fn hi() -> [ChatMessage; 1] {
    [ChatMessage::new(Role::User, "hi")]
}

fn with_added(tokens: impl FnOnce(usize) -> Vec<Value>) -> Folder {
    let folder = byte_level();
    let mut json: Value =
        serde_json::from_slice(&fs::read(folder.path().join("tokenizer.json")).unwrap()).unwrap();
    let next = folder.tokenizer().vocab_tokens();
    json["added_tokens"].as_array_mut().unwrap().extend(tokens(next));
    folder.write("tokenizer.json", &json);
    folder
}

#[test]
fn a_gap_before_an_added_token_is_part_of_the_vocabulary() {
    // The library numbers added tokens itself; what matters is that every id it gives is within the vocabulary.
    let folder = with_added(|next| vec![added(next + 100, "<far>", true)]);
    let tokenizer = folder.tokenizer();
    let id = tokenizer.token_id("<far>").unwrap();
    assert!((id as usize) < tokenizer.vocab_tokens());
    assert_eq!(tokenizer.encode("<far>", SpecialTokens::Parse).unwrap(), [id]);
}

#[test]
fn added_tokens_given_twice_empty_or_within_each_other_do_no_harm() {
    let folder = with_added(|next| {
        vec![
            added(next, "<|im_end|>", true),
            added(next, "", true),
            added(next, "<|im_end|><|im_end|>", true),
            added(next + 1, " ", false),
            added(next + 2, "the", true),
        ]
    });
    let tokenizer = folder.tokenizer();
    for text in ["", " ", "the <|im_end|><|im_end|><|im_end|> the", "a  b"] {
        let ids = tokenizer.encode(text, SpecialTokens::AsText).unwrap();
        assert!(!ids.iter().any(|id| tokenizer.is_control(*id)), "{text:?} became {ids:?}");
        assert_eq!(tokenizer.decode(&ids).unwrap(), text);
    }
}

#[test]
fn a_tokenizer_config_that_is_no_object_counts_as_none() {
    for config in
        [json!([]), json!("x"), json!(1), json!(null), json!({ "eos_token": 7, "chat_template": 1 })]
    {
        let folder = byte_level();
        folder.write("tokenizer_config.json", &config);
        let tokenizer = folder.tokenizer();
        assert!(tokenizer.chat_template().is_none() && tokenizer.eos_ids().is_empty(), "{config}");
    }
}

#[test]
fn end_of_sequence_ids_that_are_no_ids_are_left_out() {
    let folder = byte_level();
    let end = folder.tokenizer().token_id("<|im_end|>").unwrap();
    let odd = json!({ "eos_token_id": [end, -1, 1.5, "2", null, [3], 4_294_967_296_u64, 5, end] });
    folder.write("generation_config.json", &odd);
    folder.write("config.json", &json!({ "eos_token_id": { "a": 1 } }));
    assert_eq!(folder.tokenizer().eos_ids(), [end, 5]);
}

#[test]
fn the_template_may_be_in_any_of_three_files() {
    let render = |folder: &Folder| {
        let tokenizer: Tokenizer = folder.tokenizer();
        tokenizer.chat_template().map(|template| template.render(&hi(), &RenderOptions::default()).unwrap())
    };
    let folder = byte_level_of(&[("<s>", true)], &json!({}));
    assert_eq!(render(&folder), None);
    folder.write("chat_template.json", &json!({ "chat_template": "third {{ bos_token }}" }));
    folder.write("special_tokens_map.json", &json!({ "bos_token": { "content": "<s>" } }));
    assert_eq!(render(&folder).unwrap(), "third <s>");
    folder.write("tokenizer_config.json", &json!({ "chat_template": "second", "bos_token": null }));
    assert_eq!(render(&folder).unwrap(), "second");
    fs::write(folder.path().join("chat_template.jinja"), "first {{ bos_token }}").unwrap();
    assert_eq!(render(&folder).unwrap(), "first <s>");
}

#[test]
fn a_template_of_channels_keeps_their_marks_in_the_streamed_text() {
    let tokens =
        ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|return|>"].map(|token| (token, true));
    let template = "{{ '<|start|>assistant<|channel|>analysis<|message|>' }}";
    let folder = byte_level_of(&tokens, &json!({ "chat_template": template, "eos_token": "<|return|>" }));
    let tokenizer = folder.tokenizer();
    let answer =
        "<|channel|>analysis<|message|>so<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>";
    let mut detokenizer = text::Detokenizer::new(tokenizer.clone());
    let mut splitter =
        text::ThinkingSplitter::new(tokenizer.thinking_tags().cloned(), text::ThinkingStage::Outside);
    let mut parts = text::SplitText::default();
    for id in tokenizer.encode(answer, SpecialTokens::Parse).unwrap() {
        let split = splitter.push(&detokenizer.push(id).unwrap());
        parts.thinking.push_str(&split.thinking);
        parts.answer.push_str(&split.answer);
    }
    assert_eq!((parts.thinking.as_str(), parts.answer.as_str()), ("so", "Yes."));
}
