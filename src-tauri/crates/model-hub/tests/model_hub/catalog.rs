use std::{fs, path::Path};

use model_hub::{CatalogEntry, ModelHubError, import_gguf, list_models};

use crate::synthetic::GgufFile;

fn import_into(root: &Path, name: &str) {
    let dir = tempfile::tempdir().unwrap();
    import_gguf(&GgufFile::small().write(dir.path()), &root.join(name)).unwrap();
}

fn cut(path: &Path, bytes: u64) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() - bytes).unwrap();
}

#[test]
fn an_imported_model_is_listed_from_its_headers() {
    let root = tempfile::tempdir().unwrap();
    import_into(root.path(), "small");
    let entries = list_models(&[root.path().to_path_buf()]).unwrap();
    let [CatalogEntry::Usable(model)] = entries.as_slice() else { panic!("{entries:?}") };
    assert_eq!((model.id.as_str(), model.name.as_str()), ("small", "small"));
    assert_eq!(model.path, root.path().join("small"));
    assert_eq!(model.bytes, fs::metadata(model.path.join("model.safetensors")).unwrap().len());
    assert_eq!((model.architecture.as_str(), model.quantisation.as_str()), ("llama", "4-bit, group 32"));
    assert_eq!((model.context_tokens, model.licence.as_deref()), (Some(64), Some("mit")));
}

#[test]
fn a_broken_model_is_listed_with_its_reason() {
    let root = tempfile::tempdir().unwrap();
    for name in ["a-cut", "b-no-tokenizer", "c-bad-config", "d-no-weights", "e-cut-header", "f-bad-header"] {
        import_into(root.path(), name);
    }
    let file = |folder: &str, name: &str| root.path().join(folder).join(name);
    cut(&file("a-cut", "model.safetensors"), 1);
    fs::remove_file(file("b-no-tokenizer", "tokenizer.json")).unwrap();
    fs::write(file("c-bad-config", "config.json"), "{").unwrap();
    fs::remove_file(file("d-no-weights", "model.safetensors")).unwrap();
    fs::write(file("e-cut-header", "model.safetensors"), 4096_u64.to_le_bytes()).unwrap();
    fs::write(file("f-bad-header", "model.safetensors"), [u64::MAX.to_le_bytes(), [0; 8]].concat()).unwrap();

    let entries = list_models(&[root.path().to_path_buf()]).unwrap();
    let reasons: Vec<&ModelHubError> = entries
        .iter()
        .map(|entry| match entry {
            CatalogEntry::Broken { reason, .. } => reason,
            CatalogEntry::Usable(model) => panic!("{} is broken", model.id),
        })
        .collect();
    assert!(matches!(reasons[0], ModelHubError::Truncated { .. }), "{:?}", reasons[0]);
    assert!(matches!(reasons[1], ModelHubError::Incomplete { what, .. } if what == "tokenizer.json"));
    assert!(matches!(reasons[2], ModelHubError::Json { .. }), "{:?}", reasons[2]);
    assert!(matches!(reasons[3], ModelHubError::Incomplete { what, .. } if what == "model.safetensors"));
    assert!(matches!(reasons[4], ModelHubError::Truncated { .. }), "{:?}", reasons[4]);
    assert!(matches!(reasons[5], ModelHubError::Damaged { .. }), "{:?}", reasons[5]);
    assert_eq!(reasons.len(), 6);
}

#[test]
fn folders_that_are_no_models_are_left_out() {
    let root = tempfile::tempdir().unwrap();
    import_into(root.path(), "small");
    fs::create_dir(root.path().join("photos")).unwrap();
    fs::create_dir(root.path().join("half.part")).unwrap();
    fs::write(root.path().join("half.part/config.json"), "{}").unwrap();
    fs::write(root.path().join("readme.txt"), "x").unwrap();
    let missing = root.path().join("no-such-root");
    assert_eq!(list_models(&[missing, root.path().to_path_buf()]).unwrap().len(), 1);
}

#[test]
fn a_shard_that_is_missing_breaks_the_model() {
    let root = tempfile::tempdir().unwrap();
    import_into(root.path(), "sharded");
    let folder = root.path().join("sharded");
    let index = r#"{"weight_map": {"model.norm.weight": "model-1.safetensors", "b": "model-2.safetensors"}}"#;
    fs::write(folder.join("model.safetensors.index.json"), index).unwrap();
    fs::rename(folder.join("model.safetensors"), folder.join("model-1.safetensors")).unwrap();
    let roots = [root.path().to_path_buf()];
    let entries = list_models(&roots).unwrap();
    assert!(matches!(
        entries.as_slice(),
        [CatalogEntry::Broken { reason: ModelHubError::Incomplete { what, .. }, .. }] if what == "model-2.safetensors"
    ));
    let header = br#"{"b":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}}"#;
    let shard = [&(header.len() as u64).to_le_bytes(), header.as_slice(), &[0, 0]].concat();
    fs::write(folder.join("model-2.safetensors"), shard).unwrap();
    let entries = list_models(&roots).unwrap();
    assert!(matches!(entries.as_slice(), [CatalogEntry::Usable(_)]), "{entries:?}");
}
