//! A vocabulary of single bytes.

use serde_json::{Map, Value, json};
use text::{TextError, TokenId, Tokenizer};

/// Ends a turn; named as the end-of-sequence token.
pub const END_OF_TURN: TokenId = 256;
/// Starts a turn.
pub const START_OF_TURN: TokenId = 257;
/// Ends a document; an end-of-sequence token too.
pub const END_OF_TEXT: TokenId = 258;
/// Tokens of the vocabulary.
pub const VOCAB_TOKENS: u32 = 259;

const CONTROL_TOKENS: [(TokenId, &str); 3] =
    [(END_OF_TURN, "<|im_end|>"), (START_OF_TURN, "<|im_start|>"), (END_OF_TEXT, "<|endoftext|>")];

const CHAT_TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}\
                             <|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// What [`thinking_tokenizer`]'s template ends a prompt with.
const OPENED_THINKING: &str = "{% if add_generation_prompt %}<think>\n{% else %}</think>{% endif %}";

/// Makes a tokenizer whose token ids 0 to 255 are the bytes of the text, followed by the three control tokens.
///
/// # Errors
/// [`TextError`] if the files it is read from cannot be written or read back.
pub fn byte_tokenizer() -> Result<Tokenizer, TextError> {
    made(CHAT_TEMPLATE, &CONTROL_TOKENS, &[])
}

/// Makes the [`byte_tokenizer`] of a model that thinks between `<think>` and `</think>`, spelled in bytes. Its template
/// opens the thinking.
///
/// # Errors
/// As [`byte_tokenizer`].
pub fn thinking_tokenizer() -> Result<Tokenizer, TextError> {
    made(&format!("{CHAT_TEMPLATE}{OPENED_THINKING}"), &CONTROL_TOKENS, &[])
}

/// Makes the [`byte_tokenizer`] of a model whose thinking tags are tokens: `[THINK]` (259) and `[/THINK]` (260), both
/// special, or `<think>` and `</think>`, both ordinary added tokens.
///
/// # Errors
/// As [`byte_tokenizer`].
pub fn tag_token_tokenizer(special: SpecialTags) -> Result<Tokenizer, TextError> {
    let tags = |open, close| [(VOCAB_TOKENS, open), (VOCAB_TOKENS + 1, close)];
    match special {
        SpecialTags::Yes => {
            made(CHAT_TEMPLATE, &[&CONTROL_TOKENS[..], &tags("[THINK]", "[/THINK]")].concat(), &[])
        }
        SpecialTags::No => made(CHAT_TEMPLATE, &CONTROL_TOKENS, &tags("<think>", "</think>")),
    }
}

/// Whether thinking tags are hidden from text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialTags {
    /// As in Mistral's vocabularies.
    Yes,
    /// As in Qwen's.
    No,
}

type AddedToken = (TokenId, &'static str);

fn made(template: &str, special: &[AddedToken], ordinary: &[AddedToken]) -> Result<Tokenizer, TextError> {
    let unwritable = |source| TextError::Read { path: std::env::temp_dir(), source };
    let dir = tempfile::tempdir().map_err(unwritable)?;
    let write = |name: &str, value: Value| {
        let path = dir.path().join(name);
        std::fs::write(&path, value.to_string()).map_err(|source| TextError::Read { path, source })
    };
    write("tokenizer.json", tokenizer_json(special, ordinary))?;
    write("tokenizer_config.json", json!({ "chat_template": template, "eos_token": "<|im_end|>" }))?;
    write("generation_config.json", json!({ "eos_token_id": [END_OF_TURN, END_OF_TEXT] }))?;
    Tokenizer::from_dir(dir.path())
}

fn tokenizer_json(special: &[AddedToken], ordinary: &[AddedToken]) -> Value {
    let byte_level = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false
    });
    let mut vocab: Map<String, Value> =
        (0..=255).map(|byte: u8| (spelling(byte).to_string(), json!(byte))).collect();
    let added = special.iter().map(|token| (token, true)).chain(ordinary.iter().map(|token| (token, false)));
    let added: Vec<Value> = added
        .map(|((id, content), special)| {
            vocab.insert((*content).to_string(), json!(id));
            json!({
                "id": id, "content": content, "special": special,
                "single_word": false, "lstrip": false, "rstrip": false, "normalized": false
            })
        })
        .collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": null, "pre_tokenizer": byte_level, "post_processor": null, "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab, "merges": []
        }
    })
}

/// The character that byte-level vocabularies write for a byte: printable ones stand for themselves, the others for
/// the characters from U+0100 on, in order.
fn spelling(byte: u8) -> char {
    let is_own = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    if is_own(byte) {
        return char::from(byte);
    }
    let earlier = (0..byte).filter(|other| !is_own(*other)).count() as u32;
    char::from_u32(0x100 + earlier).expect("at most 68 bytes are not printable")
}

#[cfg(test)]
mod tests {
    use super::*;
    use text::SpecialTokens;

    #[test]
    fn tokens_are_bytes() {
        let tokenizer = byte_tokenizer().expect("a temporary folder can be written");
        let text = "Hi, wörld 🌍\n";
        let ids = tokenizer.encode(text, SpecialTokens::Parse).expect("any text is bytes");
        assert_eq!(ids, text.bytes().map(TokenId::from).collect::<Vec<_>>());
        assert_eq!(tokenizer.decode(&ids).expect("the bytes of a text"), text);
        assert_eq!(tokenizer.eos_ids(), [END_OF_TURN, END_OF_TEXT]);
        assert_eq!(tokenizer.vocab_tokens(), VOCAB_TOKENS as usize);
    }
}
