//! The pieces of a streamed answer, joined, are the answer.

use text::{Detokenizer, SpecialTokens, StopMatcher, TokenId, Tokenizer};

use crate::vocabulary::{byte_level, sentence_piece};

const TEXTS: [&str; 10] = [
    "hello the other",
    "😀 👩‍👩‍👧‍👦 👍🏽 🇨🇭",
    "日本語と中文, 안녕하세요",
    "e\u{301} Z\u{351}\u{36b}\u{343}al\u{363}go ﬁ",
    "مرحبا بالعالم",
    "a  b   c \n\n\t d ",
    " leading",
    "𝕏 \u{10FFFF} \u{FFFD} kept",
    "",
    "▁ Ġ Ċ <0x41>",
];

fn streamed(tokenizer: &Tokenizer, ids: &[TokenId]) -> (String, Vec<String>) {
    let mut detokenizer = Detokenizer::new(tokenizer.clone());
    let pieces: Vec<String> = ids.iter().map(|id| detokenizer.push(*id).unwrap()).collect();
    let rest = detokenizer.finish().unwrap();
    assert!(!detokenizer.has_partial(), "nothing is held after the end");
    (pieces.concat() + &rest, pieces)
}

#[test]
fn streamed_text_equals_decoded_text_at_every_token() {
    for folder in [byte_level(), sentence_piece()] {
        let tokenizer = folder.tokenizer();
        for text in TEXTS {
            let ids = tokenizer.encode(text, SpecialTokens::AsText).unwrap();
            let (joined, pieces) = streamed(&tokenizer, &ids);
            assert_eq!(joined, tokenizer.decode(&ids).unwrap(), "{text:?}");
            if !text.contains('\u{FFFD}') {
                assert!(!pieces.concat().contains('\u{FFFD}'), "no half character is ever shown: {pieces:?}");
            }
        }
    }
}

#[test]
fn a_character_is_held_until_its_last_byte() {
    // SentencePiece begins with a piece for the space that decoding strips: no character, but nothing held either.
    for (folder, tokens_before) in [(byte_level(), 0), (sentence_piece(), 1)] {
        let tokenizer = folder.tokenizer();
        for character in ["\u{301}", "語", "😀"] {
            let whole = format!("a{character}b");
            let ids = tokenizer.encode(&whole, SpecialTokens::AsText).unwrap();
            let mut detokenizer = Detokenizer::new(tokenizer.clone());
            let mut shown = String::new();
            for (consumed, id) in ids.iter().enumerate() {
                shown.push_str(&detokenizer.push(*id).unwrap());
                let bytes = (consumed + 1).saturating_sub(tokens_before);
                assert_eq!(
                    detokenizer.has_partial(),
                    !whole.is_char_boundary(bytes),
                    "{bytes} bytes of {whole:?}"
                );
                assert_eq!(
                    shown,
                    whole[..whole.floor_char_boundary(bytes)],
                    "all complete characters, at once"
                );
            }
        }
    }
}

#[test]
fn an_answer_cut_within_a_character_ends_before_it() {
    for folder in [byte_level(), sentence_piece()] {
        let tokenizer = folder.tokenizer();
        let ids = tokenizer.encode("ab😀", SpecialTokens::AsText).unwrap();
        let mut detokenizer = Detokenizer::new(tokenizer.clone());
        let mut shown: String =
            ids[..ids.len() - 1].iter().map(|id| detokenizer.push(*id).unwrap()).collect();
        assert!(detokenizer.has_partial());
        shown.push_str(&detokenizer.finish().unwrap());
        assert_eq!(shown, "ab");
    }
}

#[test]
fn special_tokens_are_skipped_by_id_even_within_a_character() {
    let tokenizer = byte_level().tokenizer();
    let end = tokenizer.token_id("<|im_end|>").unwrap();
    let mut ids = tokenizer.encode("a😀", SpecialTokens::AsText).unwrap();
    ids.insert(2, end);
    ids.push(end);
    assert_eq!(streamed(&tokenizer, &ids).0, "a😀");
    let quoted = tokenizer.encode("<|im_end|>", SpecialTokens::AsText).unwrap();
    assert_eq!(streamed(&tokenizer, &quoted).0, "<|im_end|>", "the same characters as text stay on screen");
}

#[test]
fn bytes_that_are_no_text_do_not_hold_up_the_stream() {
    let tokenizer = byte_level().tokenizer();
    let ids: [TokenId; 10] = [0xFF, 0x41, 0xE2, 0x82, 0x42, 0xF0, 0x9F, 0x98, 0x43, 0x80];
    assert_eq!(streamed(&tokenizer, &ids).0, tokenizer.decode(&ids).unwrap());

    let tokenizer = sentence_piece().tokenizer();
    let stray = tokenizer.token_id("<0xFF>").unwrap();
    let letter = tokenizer.token_id("a").unwrap();
    let mut detokenizer = Detokenizer::new(tokenizer);
    let shown: String = [letter, stray, stray, stray, stray, stray, letter]
        .iter()
        .map(|id| detokenizer.push(*id).unwrap())
        .collect();
    assert!(shown.starts_with('a') && shown.ends_with('a'), "{shown:?}");
}

#[test]
fn ids_outside_the_vocabulary_add_nothing() {
    let tokenizer = byte_level().tokenizer();
    let beyond = tokenizer.vocab_tokens() as TokenId;
    assert_eq!(streamed(&tokenizer, &[beyond, 0x61, u32::MAX]).0, "a");
}

#[test]
fn a_stop_string_is_found_wherever_tokens_cut_it() {
    let tokenizer = byte_level().tokenizer();
    for stop in ["\nUser:", "日本語", "👩‍👧", "the end"] {
        let text = format!("An answer, the 日 👩‍👩 {stop} and more");
        let ids = tokenizer.encode(&text, SpecialTokens::AsText).unwrap();
        let mut detokenizer = Detokenizer::new(tokenizer.clone());
        let mut matcher = StopMatcher::new(vec!["never".into(), stop.into()]);
        let mut shown = String::new();
        let mut stopped = None;
        for id in ids {
            let outcome = matcher.push(&detokenizer.push(id).unwrap());
            shown.push_str(&outcome.emit);
            stopped = stopped.or(outcome.stopped);
        }
        assert_eq!(stopped, Some(1));
        assert_eq!(shown, "An answer, the 日 👩‍👩 ", "all of the text before the stop string and none of it");
    }
}
