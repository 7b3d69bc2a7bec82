//! Two small vocabularies, one of each way that models spell text.

use std::{fs, path::Path};

use serde_json::{Map, Value, json};
use tempfile::TempDir;
use text::Tokenizer;

/// A model folder that lives as long as the test.
pub struct Folder {
    dir: TempDir,
}

impl Folder {
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn write(&self, name: &str, content: &Value) {
        fs::write(self.path().join(name), content.to_string()).unwrap();
    }

    pub fn tokenizer(&self) -> Tokenizer {
        Tokenizer::from_dir(self.path()).unwrap()
    }
}

const CHATML: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}\
                      {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

pub fn folder(tokenizer: &Value, config: &Value) -> Folder {
    let folder = Folder { dir: tempfile::tempdir().unwrap() };
    folder.write("tokenizer.json", tokenizer);
    folder.write("tokenizer_config.json", config);
    folder
}

pub fn added(id: usize, content: &str, special: bool) -> Value {
    json!({
        "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        "special": special,
    })
}

/// GPT-2's alphabet: the character that stands for each byte.
fn byte_alphabet() -> Vec<char> {
    let mut next_free = 0x100_u32;
    (0..=0xFF_u32)
        .map(|byte| {
            if matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF) {
                return char::from_u32(byte).unwrap();
            }
            next_free += 1;
            char::from_u32(next_free - 1).unwrap()
        })
        .collect()
}

/// Byte-level BPE: ids 0..256 are the bytes, then a few words, then the added tokens.
pub fn byte_level() -> Folder {
    byte_level_with(CHATML)
}

/// As [`byte_level`] with another chat template.
pub fn byte_level_with(template: &str) -> Folder {
    let tokens = [
        ("<|im_start|>", true),
        ("<|im_end|>", true),
        ("<think>", false),
        ("</think>", false),
        ("日本", false),
    ];
    byte_level_of(&tokens, &json!({ "eos_token": { "content": "<|im_end|>" }, "chat_template": template }))
}

/// As [`byte_level`] with other added tokens, each special or not, and another `tokenizer_config.json`.
pub fn byte_level_of(added_tokens: &[(&str, bool)], config: &Value) -> Folder {
    let mut vocab: Vec<String> = byte_alphabet().into_iter().map(String::from).collect();
    vocab.extend(["th", "the", "Ġthe", "im", "<|"].map(String::from));
    let vocab: Map<String, Value> =
        vocab.into_iter().enumerate().map(|(id, token)| (token, json!(id))).collect();
    let added_tokens: Vec<Value> = added_tokens
        .iter()
        .enumerate()
        .map(|(index, (content, special))| added(vocab.len() + index, content, *special))
        .collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "added_tokens": added_tokens,
        "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true },
        "decoder": { "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true },
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab, "merges": [["t", "h"], ["th", "e"], ["Ġ", "the"], ["i", "m"], ["<", "|"]],
        },
    });
    folder(&tokenizer, config)
}

/// SentencePiece with byte fallback, as Llama 2 has it: "▁" for a space, `<0x41>` for what has no piece.
pub fn sentence_piece() -> Folder {
    let mut vocab = vec!["<unk>".to_string(), "<s>".to_string(), "</s>".to_string()];
    vocab.extend((0..=0xFF_u32).map(|byte| format!("<0x{byte:02X}>")));
    vocab.extend(["▁", "a", "b", "c", "h", "e", "l", "o", "▁h", "he", "ll", "é"].map(String::from));
    let vocab: Map<String, Value> =
        vocab.into_iter().enumerate().map(|(id, token)| (token, json!(id))).collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": { "max_length": 4, "stride": 0, "strategy": "LongestFirst", "direction": "Right" },
        "padding": null, "pre_tokenizer": null, "post_processor": null,
        "added_tokens": [added(0, "<unk>", true), added(1, "<s>", true), added(2, "</s>", true)],
        "normalizer": { "type": "Sequence", "normalizers": [
            { "type": "Prepend", "prepend": "▁" },
            { "type": "Replace", "pattern": { "String": " " }, "content": "▁" },
        ] },
        "decoder": { "type": "Sequence", "decoders": [
            { "type": "Replace", "pattern": { "String": "▁" }, "content": " " },
            { "type": "ByteFallback" }, { "type": "Fuse" },
            { "type": "Strip", "content": " ", "start": 1, "stop": 0 },
        ] },
        "model": {
            "type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": vocab, "merges": [["▁", "h"], ["h", "e"], ["l", "l"]],
        },
    });
    folder(&tokenizer, &json!({ "eos_token": "</s>" }))
}
