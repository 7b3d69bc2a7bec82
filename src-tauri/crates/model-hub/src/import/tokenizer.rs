//! Writes `tokenizer.json` and `tokenizer_config.json` from GGUF metadata.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::family::Family;
use crate::{Gguf, MetadataArray, MetadataValue, ModelHubError};

const TOKENS: &str = "tokenizer.ggml.tokens";
const MERGES: &str = "tokenizer.ggml.merges";
const TYPES: &str = "tokenizer.ggml.token_type";
const TYPE_CONTROL: i64 = 3;
const TYPE_USER_DEFINED: i64 = 4;

/// Contractions, then letters with what stands before them: the pattern of Llama 3 and Qwen 2 up to its numbers.
const WORDS_BEFORE_NUMBERS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|";
/// Signs, line ends and space.
const WORDS_AFTER_NUMBERS: &str = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Both tokenizer files of an MLX folder.
pub(super) struct TokenizerFiles {
    pub(super) tokenizer: Value,
    pub(super) config: Value,
}

/// Builds the files for a byte-level BPE vocabulary.
pub(super) fn read(gguf: &Gguf, family: Family) -> Result<TokenizerFiles, ModelHubError> {
    let Splits { normalizer, pre_tokenizer, ignores_merges } = splits(gguf)?;
    let tokens = texts(gguf, TOKENS)?;
    let merges = texts(gguf, MERGES)?;
    let mut known = HashSet::with_capacity(tokens.len());
    if let Some(twice) = tokens.iter().find(|token| !known.insert(token.as_str())) {
        return Err(gguf.unusable(TOKENS, format!("with {twice:?} twice")));
    }
    let pairs = merges
        .iter()
        .map(|merge| {
            merge_pair(merge, &known)
                .ok_or_else(|| gguf.unusable(MERGES, format!("with the impossible merge {merge:?}")))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let vocab: Map<String, Value> =
        tokens.iter().enumerate().map(|(id, token)| (token.clone(), json!(id))).collect();
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added_tokens(gguf, tokens)?,
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": null,
        "decoder": { "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true },
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": ignores_merges,
            "vocab": vocab,
            "merges": pairs,
        },
    });
    Ok(TokenizerFiles { tokenizer, config: config(gguf, family, tokens)? })
}

/// What happens to a text before its pieces are merged.
struct Splits {
    normalizer: Value,
    pre_tokenizer: Value,
    /// Whether a piece that is a token as a whole is taken without merging.
    ignores_merges: bool,
}

/// By the names that llama.cpp gives to the published tokenizers of GPT-2, SmolLM, Llama 3 and Qwen 2.
fn splits(gguf: &Gguf) -> Result<Splits, ModelHubError> {
    let model = gguf.text("tokenizer.ggml.model").ok_or_else(|| gguf.missing("tokenizer.ggml.model"))?;
    let pre = gguf.text("tokenizer.ggml.pre").unwrap_or("none");
    let byte_level = |use_regex: bool| json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex });
    let sequence = |first: Value, use_regex: bool| json!({ "type": "Sequence", "pretokenizers": [first, byte_level(use_regex)] });
    let words = |numbers: &str| {
        let pattern = format!("{WORDS_BEFORE_NUMBERS}{numbers}{WORDS_AFTER_NUMBERS}");
        let split = json!({
            "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false,
        });
        sequence(split, false)
    };
    let plain = |pre_tokenizer| Splits { normalizer: Value::Null, pre_tokenizer, ignores_merges: false };
    match (model, pre) {
        ("gpt2", "gpt-2") => Ok(plain(byte_level(true))),
        ("gpt2", "smollm") => {
            Ok(plain(sequence(json!({ "type": "Digits", "individual_digits": true }), true)))
        }
        ("gpt2", "llama-bpe") => Ok(Splits { ignores_merges: true, ..plain(words(r"\p{N}{1,3}")) }),
        ("gpt2", "qwen2") => Ok(Splits { normalizer: json!({ "type": "NFC" }), ..plain(words(r"\p{N}")) }),
        _ => Err(ModelHubError::UnsupportedTokenizer {
            path: gguf.path().to_path_buf(),
            kind: format!("{model}/{pre}"),
        }),
    }
}

/// Splits a merge at the space between its halves. Both halves and what they make must be tokens.
fn merge_pair(merge: &str, known: &HashSet<&str>) -> Option<[String; 2]> {
    let (left, right) = merge.split_once(' ')?;
    let whole = format!("{left}{right}");
    let is_complete = known.contains(left) && known.contains(right) && known.contains(whole.as_str());
    is_complete.then(|| [left.to_string(), right.to_string()])
}

fn added_tokens(gguf: &Gguf, tokens: &[String]) -> Result<Vec<Value>, ModelHubError> {
    let types = match gguf.metadata(TYPES) {
        Some(MetadataValue::Array(MetadataArray::Integers(types))) if types.len() == tokens.len() => types,
        Some(_) => return Err(gguf.unusable(TYPES, "that does not match the tokens")),
        None => return Err(gguf.missing(TYPES)),
    };
    let added = tokens
        .iter()
        .zip(types)
        .enumerate()
        .filter(|(_, (_, kind))| [TYPE_CONTROL, TYPE_USER_DEFINED].contains(kind));
    Ok(added
        .map(|(id, (token, kind))| {
            json!({
                "id": id,
                "content": token,
                "single_word": false,
                "lstrip": false,
                "rstrip": false,
                "normalized": false,
                "special": *kind == TYPE_CONTROL,
            })
        })
        .collect())
}

fn config(gguf: &Gguf, family: Family, tokens: &[String]) -> Result<Value, ModelHubError> {
    let mut config = Map::new();
    config.insert("tokenizer_class".into(), json!("PreTrainedTokenizerFast"));
    for (entry, key) in
        [("bos_token", "bos"), ("eos_token", "eos"), ("pad_token", "padding"), ("unk_token", "unknown")]
    {
        let key = format!("tokenizer.ggml.{key}_token_id");
        let id = match gguf.metadata(&key) {
            None => continue,
            Some(MetadataValue::Integer(id)) => usize::try_from(*id).ok(),
            Some(_) => None,
        };
        let token =
            id.and_then(|id| tokens.get(id)).ok_or_else(|| gguf.unusable(&key, "that is no token"))?;
        config.insert(entry.into(), json!(token));
    }
    if let Some(template) = gguf.text("tokenizer.chat_template") {
        config.insert("chat_template".into(), json!(template));
    }
    config.insert("model_max_length".into(), json!(gguf.count(&family.key("context_length"))?));
    config.insert("clean_up_tokenization_spaces".into(), json!(false));
    Ok(Value::Object(config))
}

fn texts<'a>(gguf: &'a Gguf, key: &str) -> Result<&'a [String], ModelHubError> {
    match gguf.metadata(key) {
        Some(MetadataValue::Array(MetadataArray::Texts(texts))) => Ok(texts),
        Some(_) => Err(gguf.unusable(key, "that is not a list of texts")),
        None => Err(gguf.missing(key)),
    }
}
