//! Sound files that this build does not import, and targets that are in the way.

use std::fs;

use model_hub::{ModelHubError, import_gguf};

use crate::synthetic::{GgufFile, Meta};

fn refusal(change: impl FnOnce(&mut GgufFile)) -> ModelHubError {
    let mut file = GgufFile::small();
    change(&mut file);
    let dir = tempfile::tempdir().unwrap();
    let source = file.write(dir.path());
    let error = import_gguf(&source, &dir.path().join("out")).expect_err("must be refused");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "only the source remains after {error}");
    assert!(error.to_string().contains("model.gguf"), "{error} must name the file");
    error
}

#[test]
fn a_k_quant_is_refused_by_name_and_tensor() {
    let error = refusal(|file| file.tensor("blk.0.ffn_up.weight").kind = 12);
    let ModelHubError::UnsupportedTensorType { tensor, tensor_type, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!((tensor.as_str(), tensor_type.as_str()), ("blk.0.ffn_up.weight", "Q4_K"));
    assert!(error.to_string().contains("Q4_0, Q4_1, Q8_0, F16 or F32"), "{error} must say what would do");
}

#[test]
fn another_architecture_is_refused_by_name() {
    let error = refusal(|file| file.set("general.architecture", Meta::Text("mamba".into())));
    assert!(
        matches!(&error, ModelHubError::UnsupportedArchitecture { architecture, .. } if architecture == "mamba")
    );
}

#[test]
fn other_versions_and_other_files_are_told_apart() {
    assert!(matches!(refusal(|file| file.version = 1), ModelHubError::UnsupportedVersion { version: 1, .. }));
    let big_endian = 3_u32.swap_bytes();
    let error = refusal(|file| file.version = big_endian);
    assert!(matches!(error, ModelHubError::UnsupportedVersion { version, .. } if version == big_endian));
}

#[test]
fn missing_and_unknown_tensors_are_named() {
    let error = refusal(|file| file.tensors.retain(|tensor| tensor.name != "blk.0.attn_k.weight"));
    assert!(matches!(&error, ModelHubError::MissingTensor { tensor, .. } if tensor == "blk.0.attn_k.weight"));
    let error = refusal(|file| file.tensor("output_norm.weight").name = "mystery.weight".into());
    assert!(matches!(&error, ModelHubError::MissingTensor { tensor, .. } if tensor == "output_norm.weight"));
    let error = refusal(|file| {
        let mut extra = file.tensor("output_norm.weight").clone();
        extra.name = "mystery.weight".into();
        file.tensors.push(extra);
    });
    assert!(matches!(&error, ModelHubError::UnexpectedTensor { tensor, .. } if tensor == "mystery.weight"));
}

#[test]
fn shapes_must_agree_with_the_metadata() {
    let error = refusal(|file| file.set("llama.feed_forward_length", Meta::Count(64)));
    let ModelHubError::WrongShape { tensor, expected, found, .. } = &error else { panic!("{error:?}") };
    assert_eq!(tensor, "blk.0.ffn_gate.weight");
    assert_eq!((expected.as_slice(), found.as_slice()), ([64, 32].as_slice(), [32, 32].as_slice()));
}

#[test]
fn impossible_metadata_is_refused_by_key() {
    let changes = [
        ("llama.attention.head_count", Meta::Count(0)),
        ("llama.attention.head_count", Meta::Count(5)),
        ("llama.attention.head_count_kv", Meta::Count(3)),
        ("llama.attention.layer_norm_rms_epsilon", Meta::Float(f32::NAN)),
        ("llama.block_count", Meta::Count(u32::MAX)),
        ("llama.expert_count", Meta::Count(8)),
        ("llama.rope.scaling.type", Meta::Text("yarn".into())),
        ("llama.rope.dimension_count", Meta::Count(8)),
        ("tokenizer.ggml.merges", Meta::Texts(vec!["a c".into()])),
        ("tokenizer.ggml.merges", Meta::Texts(vec!["ab".into()])),
        ("tokenizer.ggml.tokens", Meta::Texts(vec!["a".into(), "a".into(), "ab".into()])),
        ("tokenizer.ggml.token_type", Meta::Integers(vec![1])),
        ("tokenizer.ggml.eos_token_id", Meta::Count(3)),
    ];
    for (key, value) in changes {
        let error = refusal(|file| file.set(key, value));
        assert!(
            matches!(&error, ModelHubError::UnusableMetadata { key: named, .. } if named == key),
            "{error:?}"
        );
    }
    let error = refusal(|file| file.remove("llama.context_length"));
    assert!(matches!(&error, ModelHubError::MissingMetadata { key, .. } if key == "llama.context_length"));
}

#[test]
fn another_tokenizer_is_refused_by_name() {
    let error = refusal(|file| file.set("tokenizer.ggml.model", Meta::Text("llama".into())));
    assert!(matches!(&error, ModelHubError::UnsupportedTokenizer { kind, .. } if kind == "llama/smollm"));
    let error = refusal(|file| file.remove("tokenizer.ggml.pre"));
    assert!(matches!(&error, ModelHubError::UnsupportedTokenizer { kind, .. } if kind == "gpt2/none"));
}

#[test]
fn a_weight_beyond_half_precision_fails_while_writing_and_leaves_nothing() {
    let error = refusal(|file| {
        let norm = file.tensor("blk.0.ffn_norm.weight");
        norm.data[4..8].copy_from_slice(&1e6_f32.to_le_bytes());
    });
    assert!(
        matches!(&error, ModelHubError::NotRepresentable { tensor, .. } if tensor == "blk.0.ffn_norm.weight")
    );
}

#[test]
fn an_import_never_overwrites() {
    let dir = tempfile::tempdir().unwrap();
    let source = GgufFile::small().write(dir.path());
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("mine.txt"), "kept").unwrap();
    assert!(matches!(import_gguf(&source, &out), Err(ModelHubError::OutputExists { .. })));
    assert_eq!(fs::read_to_string(out.join("mine.txt")).unwrap(), "kept");
}

#[test]
fn what_a_killed_import_left_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let source = GgufFile::small().write(dir.path());
    let left = dir.path().join("out.part");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("old.txt"), "stale").unwrap();
    import_gguf(&source, &dir.path().join("out")).unwrap();
    assert!(!left.exists());
    assert!(!dir.path().join("out/old.txt").exists(), "nothing stale in the finished folder");
}

#[test]
fn a_target_that_cannot_be_written_is_a_write_error() {
    let dir = tempfile::tempdir().unwrap();
    let source = GgufFile::small().write(dir.path());
    let error = import_gguf(&source, &source.join("out")).unwrap_err();
    assert!(matches!(error, ModelHubError::Write { .. }), "{error:?}");
}
