//! Vocabularies of every kind that models come with, against Hugging Face's `tokenizers`
//! (`tests/fixtures/make_tokenizers.py`).

use std::{fs, path::Path};

use serde_json::Value;
use text::{Detokenizer, SpecialTokens, TokenId, Tokenizer};

use crate::vocabulary::{Folder, folder};

/// A vocabulary and what it makes of texts.
pub struct Kind {
    pub name: String,
    pub folder: Folder,
    fixture: Value,
}

pub fn kinds() -> Vec<Kind> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokenizers");
    let read = |entry: fs::DirEntry| {
        let fixture: Value = serde_json::from_slice(&fs::read(entry.path()).unwrap()).unwrap();
        let name = entry.file_name().to_str().unwrap().to_owned();
        Kind { name, folder: folder(&fixture["tokenizer"], &Value::Null), fixture }
    };
    let kinds: Vec<Kind> = fs::read_dir(path).unwrap().map(|entry| read(entry.unwrap())).collect();
    assert!(kinds.len() >= 8, "fixtures are missing");
    kinds
}

fn ids(case: &Value) -> Vec<TokenId> {
    case["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap().try_into().unwrap()).collect()
}

pub fn cases<'a>(kind: &'a Kind, which: &str) -> &'a [Value] {
    kind.fixture[which].as_array().unwrap()
}

fn streamed(tokenizer: &Tokenizer, ids: &[TokenId]) -> String {
    let mut detokenizer = Detokenizer::new(tokenizer.clone());
    let mut text: String = ids.iter().map(|id| detokenizer.push(*id).unwrap()).collect();
    text.push_str(&detokenizer.finish().unwrap());
    text
}

#[test]
fn texts_become_the_ids_that_hugging_face_makes_of_them() {
    for kind in kinds() {
        let tokenizer = kind.folder.tokenizer();
        for case in cases(&kind, "cases") {
            let text = case["text"].as_str().unwrap();
            let made = tokenizer.encode(text, SpecialTokens::Parse).unwrap();
            assert_eq!(made, ids(case), "{}: {text:?}", kind.name);
            assert_eq!(case["decoded"], tokenizer.decode(&made).unwrap(), "{}: {text:?}", kind.name);
        }
    }
}

#[test]
fn streamed_text_equals_decoded_text_in_every_kind() {
    for kind in kinds() {
        let tokenizer = kind.folder.tokenizer();
        for case in cases(&kind, "cases").iter().chain(cases(&kind, "streams")) {
            let ids = ids(case);
            assert_eq!(case["decoded"], streamed(&tokenizer, &ids), "{}: {ids:?}", kind.name);
        }
    }
}

#[test]
fn control_tokens_in_text_stay_text_in_every_kind() {
    for kind in kinds() {
        let tokenizer = kind.folder.tokenizer();
        for case in cases(&kind, "cases") {
            let text = case["text"].as_str().unwrap();
            let made = tokenizer.encode(text, SpecialTokens::AsText).unwrap();
            let controls: Vec<_> = made.iter().filter(|id| tokenizer.is_control(**id)).collect();
            assert!(controls.is_empty(), "{}: {text:?} became {made:?}", kind.name);
            let has_quotation =
                ["<s>", "</s>", "<|end|>", "<pad>", "<mask>"].iter().any(|token| text.contains(token));
            if !has_quotation {
                assert_eq!(made, ids(case), "{}: {text:?} is the same either way", kind.name);
            }
        }
    }
}

#[test]
fn the_bytes_of_tokens_joined_are_the_decoded_text() {
    for kind in kinds() {
        let tokenizer = kind.folder.tokenizer();
        for case in cases(&kind, "cases") {
            let ids = ids(case);
            let bytes: Vec<u8> = ids
                .iter()
                .filter(|id| !tokenizer.is_special(**id))
                .flat_map(|id| tokenizer.token_bytes(*id))
                .collect();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let decoded = case["decoded"].as_str().unwrap();
            assert_eq!(
                text.trim_start_matches(' '),
                decoded.trim_start_matches(' '),
                "{}: {ids:?}",
                kind.name
            );
        }
    }
}
