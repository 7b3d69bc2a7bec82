//! Tokens of an answer that goes on, made from its text.

use serde_json::json;
use text::{ChatMessage, Detokenizer, RenderOptions, Role, SplitText, TextError, TokenId, Tokenizer};

use crate::{
    kinds::{cases, kinds},
    vocabulary::{byte_level, byte_level_of, byte_level_with, sentence_piece},
};

const OPENS: &str = "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}<think>\n";
const CLOSES: &str =
    "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}<think>\n\n</think>\n\n";

fn prompt(tokenizer: &Tokenizer) -> Vec<TokenId> {
    let message = ChatMessage::new(Role::User, "so?");
    tokenizer.prompt_tokens(&[message], &RenderOptions::default()).unwrap()
}

fn said(thinking: &str, answer: &str) -> SplitText {
    SplitText { thinking: thinking.into(), answer: answer.into() }
}

fn streamed(tokenizer: &Tokenizer, ids: &[TokenId]) -> String {
    let mut detokenizer = Detokenizer::new(tokenizer.clone());
    ids.iter().map(|id| detokenizer.push(*id).unwrap()).collect()
}

#[test]
fn thinking_is_laid_out_as_the_prompt_leaves_it() {
    let (plain, opens, closes) = (byte_level(), byte_level_with(OPENS), byte_level_with(CLOSES));
    let cases = [
        (&plain, "", "it is", "it is"),
        (&plain, "hm", "", "<think>\nhm"),
        (&plain, "hm", "it is", "<think>\nhm\n</think>\n\nit is"),
        (&opens, "hm 日本", "", "hm 日本"),
        (&opens, "hm", "it is", "hm\n</think>\n\nit is"),
        (&opens, "", "it is", "\n</think>\n\nit is"),
        (&closes, "", " it is", " it is"),
        (&plain, "", "", ""),
    ];
    for (folder, thinking, answer, text) in cases {
        let tokenizer = folder.tokenizer();
        let tokens = tokenizer.answer_tokens(&prompt(&tokenizer), &said(thinking, answer)).unwrap();
        assert_eq!(streamed(&tokenizer, &tokens), text);
        let tags = tokens.iter().filter(|id| tokenizer.is_control(**id)).count();
        assert_eq!(tags, text.matches("think>").count(), "the tags are tokens: {text:?}");
    }
}

#[test]
fn the_beginning_of_an_answer_says_what_no_further_token_can_change() {
    let tokenizer = byte_level_with(OPENS).tokenizer();
    let prompt = prompt(&tokenizer);
    let stage = tokenizer.thinking_stage(&prompt);
    let whole = said("hm", "日本 it is");
    let tokens = tokenizer.answer_tokens(&prompt, &whole).unwrap();
    let mut before = SplitText::default();
    for count in 0..=tokens.len() {
        let now = tokenizer.read_answer(&tokens[..count], stage).unwrap();
        assert!(now.thinking.starts_with(&before.thinking) && whole.thinking.starts_with(&now.thinking));
        assert!(now.answer.starts_with(&before.answer) && whole.answer.starts_with(&now.answer));
        before = now;
    }
    assert_eq!(before, whole);
}

#[test]
fn hidden_tags_and_channels_come_without_line_breaks() {
    let tokens = [("[THINK]", true), ("[/THINK]", true), ("</s>", true)];
    let config = json!({ "eos_token": "</s>", "chat_template": "{{ messages[0].content }}" });
    let folder = byte_level_of(&tokens, &config);
    let tokenizer = folder.tokenizer();
    let ids = tokenizer.answer_tokens(&prompt(&tokenizer), &said("hm", "it is")).unwrap();
    let spelled: String = ids.iter().filter_map(|id| tokenizer.token_spelling(*id)).collect();
    assert_eq!(spelled, "[THINK]hm[/THINK]itĠis");
    assert_eq!(streamed(&tokenizer, &ids), "hmit is");
}

#[test]
fn control_tokens_that_an_answer_quotes_stay_text() {
    let tokenizer = byte_level().tokenizer();
    let answer = "write <|im_end|> and </think> there";
    let tokens = tokenizer.answer_tokens(&prompt(&tokenizer), &said("", answer)).unwrap();
    assert!(tokens.iter().all(|id| !tokenizer.is_control(*id)), "{tokens:?}");
    assert_eq!(streamed(&tokenizer, &tokens), answer);
}

#[test]
fn what_has_no_place_or_no_spelling_is_refused() {
    let closes = byte_level_with(CLOSES).tokenizer();
    let refused = closes.answer_tokens(&prompt(&closes), &said("hm", "it is"));
    assert!(matches!(refused, Err(TextError::NoPlaceForThinking)), "{refused:?}");
    let without = sentence_piece().tokenizer();
    let refused = without.answer_tokens(&[5], &said("he", "hello"));
    assert!(matches!(refused, Err(TextError::NoPlaceForThinking)), "{refused:?}");
    let plain = byte_level().tokenizer();
    let refused = plain.answer_tokens(&prompt(&plain), &said("", "<think>that is how tags look"));
    assert!(matches!(refused, Err(TextError::InexactAnswer)), "it would be read as thinking: {refused:?}");
}

#[test]
fn every_kind_of_vocabulary_spells_an_answer_exactly_or_says_that_it_cannot() {
    let (mut exact, mut all) = (0, 0);
    for kind in kinds() {
        let tokenizer = kind.folder.tokenizer();
        for case in cases(&kind, "cases") {
            let text = case["text"].as_str().unwrap();
            all += 1;
            match tokenizer.answer_tokens(&[5], &said("", text)) {
                Ok(tokens) => {
                    assert_eq!(streamed(&tokenizer, &tokens), text, "{}", kind.name);
                    exact += 1;
                }
                Err(error) => {
                    assert!(matches!(error, TextError::InexactAnswer), "{}: {text:?}: {error}", kind.name);
                    assert_ne!(case["decoded"], text, "{}: nothing is lost of {text:?}", kind.name);
                }
            }
        }
    }
    assert!(exact * 2 > all, "{exact} of {all}");
}
