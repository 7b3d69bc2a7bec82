//! Damaged files: every one gets a typed error, none leaves anything on disk, none takes memory it does not need.

use std::fs;

use model_hub::{ModelHubError, import_gguf};

use crate::{
    allocation::largest_during,
    import_folder::names_in,
    synthetic::{GgufFile, Meta},
};

fn import_bytes(bytes: &[u8]) -> Result<model_hub::ImportSummary, ModelHubError> {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("model.gguf");
    fs::write(&source, bytes).unwrap();
    let outcome = import_gguf(&source, &dir.path().join("out"));
    let expected: &[&str] = if outcome.is_ok() { &["model.gguf", "out"] } else { &["model.gguf"] };
    assert_eq!(names_in(dir.path()), expected, "a failed import leaves nothing behind");
    outcome
}

#[test]
fn the_small_file_itself_imports() {
    assert_eq!(import_bytes(&GgufFile::small().bytes()).unwrap().layers, 1);
}

#[test]
fn every_truncation_is_refused_and_leaves_nothing() {
    let whole = GgufFile::small().bytes();
    for length in 0..whole.len() {
        let error = import_bytes(&whole[..length]).expect_err("a cut file must not import");
        match error {
            ModelHubError::Truncated { file_bytes, needed_bytes, .. } => {
                assert_eq!(file_bytes, length as u64);
                assert!(needed_bytes > file_bytes, "at {length}");
            }
            ModelHubError::NotGguf { .. } => assert!(length < 4, "at {length}"),
            other => panic!("cut at {length} of {}: {other:?}", whole.len()),
        }
    }
}

#[test]
fn any_single_wrong_byte_in_the_header_ends_in_a_result() {
    let file = GgufFile::small();
    let whole = file.bytes();
    let payload: usize = file.tensors.iter().map(|tensor| tensor.data.len().next_multiple_of(32)).sum();
    for at in 0..whole.len() - payload {
        for flip in [0x01, 0x80, 0xFF] {
            let mut damaged = whole.clone();
            damaged[at] ^= flip;
            // Some bytes are free to change, a licence text for example: what counts is that nothing panics or stays.
            let _ = import_bytes(&damaged);
        }
    }
}

#[test]
fn no_lying_count_or_length_makes_the_import_allocate_for_it() {
    let whole = GgufFile::small().bytes();
    for at in 8..whole.len().min(1200) {
        for lie in [u64::MAX, u64::MAX / 2, 1 << 40, 1 << 33] {
            let mut damaged = whole.clone();
            let end = (at + 8).min(damaged.len());
            damaged[at..end].copy_from_slice(&lie.to_le_bytes()[..end - at]);
            // A sound import needs a 1 MiB write buffer.
            let largest = largest_during(|| drop(import_bytes(&damaged)));
            assert!(largest <= 1 << 20, "{largest} bytes at once for {lie} at {at}");
        }
    }
}

#[test]
fn a_count_beyond_the_file_names_what_was_counted() {
    let mut bytes = GgufFile::small().bytes();
    bytes[8..16].copy_from_slice(&60_000_u64.to_le_bytes());
    let error = import_bytes(&bytes).unwrap_err();
    let ModelHubError::Truncated { what, .. } = &error else { panic!("{error:?}") };
    assert_eq!(what, "the number of tensors");
    bytes[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(matches!(import_bytes(&bytes), Err(ModelHubError::Damaged { .. })));
}

#[test]
fn contradictions_are_damage() {
    type Change = fn(&mut GgufFile);
    let changes: [(&str, Change); 7] = [
        ("appears twice", |file| file.metadata.push(("general.license".into(), Meta::Text("mit".into())))),
        ("appears twice", |file| {
            let copy = file.tensors[0].clone();
            file.tensors.push(copy);
        }),
        ("whole blocks", |file| file.tensor("token_embd.weight").shape = vec![3, 31]),
        ("impossible shape", |file| file.tensor("token_embd.weight").shape = vec![3, 0]),
        ("impossible shape", |file| file.tensor("token_embd.weight").shape = vec![1 << 40, 1 << 40]),
        ("5 dimensions", |file| file.tensor("token_embd.weight").shape = vec![1; 5]),
        ("is 24", |file| file.set("general.alignment", Meta::Count(24))),
    ];
    for (reason, change) in changes {
        let mut file = GgufFile::small();
        change(&mut file);
        let error = import_bytes(&file.bytes()).unwrap_err();
        assert!(matches!(error, ModelHubError::Damaged { .. }), "{error:?}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}
