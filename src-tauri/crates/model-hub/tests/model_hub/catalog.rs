use std::{fs, path::Path};

use model_hub::{CatalogEntry, ModelHubError, ModelSource, import_gguf, list_models};

use crate::synthetic::GgufFile;

pub fn import_into(root: &Path, name: &str) {
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
    assert_eq!((&model.source, &model.origin), (&ModelSource::Folder, &model.path));
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

/// The only model under `root`.
pub fn only_entry(root: &Path) -> CatalogEntry {
    let mut entries = list_models(&[root.to_path_buf()]).unwrap();
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries.remove(0)
}

/// Changes `config.json` of a model that is listed, and lists it anew.
fn with_config(change: impl FnOnce(&mut serde_json::Value)) -> CatalogEntry {
    let root = tempfile::tempdir().unwrap();
    import_into(root.path(), "small");
    let path = root.path().join("small/config.json");
    let mut config = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut config);
    fs::write(&path, config.to_string()).unwrap();
    only_entry(root.path())
}

#[test]
fn a_config_with_its_text_part_inside_is_read_there() {
    let entry = with_config(|config| {
        *config = serde_json::json!({ "text_config": {
            "model_type": "gemma3_text", "max_position_embeddings": 32, "torch_dtype": "bfloat16"
        } });
    });
    let CatalogEntry::Usable(model) = entry else { panic!("{entry:?}") };
    assert_eq!((model.architecture.as_str(), model.context_tokens), ("gemma3_text", Some(32)));
    assert_eq!(model.quantisation, "bfloat16");
}

#[test]
fn quantisation_is_told_in_words() {
    use serde_json::{Value, json};
    for (quantization, foreign, words) in [
        (json!({ "group_size": 64, "bits": 6 }), Value::Null, "6-bit, group 64"),
        (json!({ "group_size": 64, "bits": 6, "mode": "affine" }), Value::Null, "6-bit, group 64"),
        (json!({ "group_size": 32, "bits": 4, "mode": "mxfp4" }), Value::Null, "mxfp4"),
        (Value::Null, json!({ "quant_method": "mxfp4" }), "mxfp4"),
        (Value::Null, json!({ "quant_method": "gptq", "bits": 4 }), "4-bit gptq"),
        (Value::Null, Value::Null, "float16"),
    ] {
        let entry = with_config(|config| {
            config["quantization"] = quantization;
            config["quantization_config"] = foreign;
        });
        let CatalogEntry::Usable(model) = entry else { panic!("{entry:?}") };
        assert_eq!(model.quantisation, words);
    }
}

#[test]
fn the_readme_tells_the_licence_where_the_config_does_not() {
    let root = tempfile::tempdir().unwrap();
    import_into(root.path(), "small");
    let path = root.path().join("small/config.json");
    let config = fs::read_to_string(&path).unwrap().replace("\"license\"", "\"was\"");
    fs::write(&path, config).unwrap();
    for (readme, licence) in [
        ("---\ntags: [x]\nlicense: gemma\n---\nlicense: no\n", Some("gemma")),
        ("license: no\n", None),
        ("---\n---\nlicense: no\n", None),
    ] {
        fs::write(root.path().join("small/README.md"), readme).unwrap();
        let CatalogEntry::Usable(model) = only_entry(root.path()) else { panic!("the model is whole") };
        assert_eq!(model.licence.as_deref(), licence, "{readme}");
    }
}

#[test]
fn a_config_of_megabytes_is_refused() {
    let entry = with_config(|config| config["name"] = "x".repeat(1 << 20).into());
    assert!(matches!(entry, CatalogEntry::Broken { reason: ModelHubError::Damaged { .. }, .. }), "{entry:?}");
}

#[cfg(unix)]
#[test]
fn a_file_that_cannot_be_read_is_told_from_one_that_is_not_there() {
    for name in ["tokenizer.json", "model.safetensors", "model.safetensors.index.json"] {
        let root = tempfile::tempdir().unwrap();
        import_into(root.path(), "small");
        let file = root.path().join("small").join(name);
        let _ = fs::remove_file(&file);
        // A link to itself can be read by nobody, not even by root.
        std::os::unix::fs::symlink(&file, &file).unwrap();
        let entry = only_entry(root.path());
        assert!(
            matches!(&entry, CatalogEntry::Broken { reason: ModelHubError::Read { path, .. }, .. } if *path == file),
            "{entry:?}"
        );
    }
}
