//! Models in a cache of downloads.

#![cfg(unix)]

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use model_hub::{
    CatalogEntry, How, ModelFolder, ModelHubError, ModelSource, delete_model, import_folder, list_models,
};

use crate::{
    catalog::{import_into, only_entry},
    import_folder::{go_on, names_in},
};

const OLD: &str = "1111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222";

/// Adds a snapshot of `repo` whose files are links to blobs, as `huggingface_hub` writes it.
fn add_snapshot(cache: &Path, repo: &str, commit: &str) -> PathBuf {
    let folder = cache.join(format!("models--{}", repo.replace('/', "--")));
    let (blobs, snapshot) = (folder.join("blobs"), folder.join("snapshots").join(commit));
    fs::create_dir_all(&blobs).unwrap();
    fs::create_dir_all(&snapshot).unwrap();
    let whole = tempfile::tempdir().unwrap();
    import_into(whole.path(), "model");
    for entry in fs::read_dir(whole.path().join("model")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let blob = format!("{}{name}", &commit[..4]);
        fs::copy(entry.path(), blobs.join(&blob)).unwrap();
        symlink(Path::new("../../blobs").join(blob), snapshot.join(name)).unwrap();
    }
    folder
}

fn set_main(repo: &Path, commit: &str) {
    fs::create_dir_all(repo.join("refs")).unwrap();
    fs::write(repo.join("refs/main"), commit).unwrap();
}

fn usable(cache: &Path) -> ModelFolder {
    let entry = only_entry(cache);
    let CatalogEntry::Usable(model) = entry else { panic!("{entry:?}") };
    model
}

#[test]
fn a_repository_is_one_model_by_its_main_ref() {
    let cache = tempfile::tempdir().unwrap();
    let repo = add_snapshot(cache.path(), "org/small--4bit", OLD);
    add_snapshot(cache.path(), "org/small--4bit", NEW);
    for commit in [OLD, NEW] {
        set_main(&repo, commit);
        let model = usable(cache.path());
        assert_eq!(model.id, "org/small--4bit");
        let source = ModelSource::HubCache { repo: "org/small--4bit".into(), commit: commit.into() };
        assert_eq!((&model.source, &model.origin), (&source, &repo));
        assert_eq!(model.path, repo.join("snapshots").join(commit));
    }
}

#[test]
fn without_a_usable_main_ref_the_newest_snapshot_counts() {
    let cache = tempfile::tempdir().unwrap();
    let repo = add_snapshot(cache.path(), "org/small", NEW);
    add_snapshot(cache.path(), "org/small", OLD);
    let past = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1);
    fs::File::open(repo.join("snapshots").join(OLD)).unwrap().set_modified(past).unwrap();
    for main in [None, Some("3333"), Some("../../../elsewhere"), Some("")] {
        if let Some(main) = main {
            set_main(&repo, main);
        }
        assert_eq!(usable(cache.path()).path, repo.join("snapshots").join(NEW), "{main:?}");
    }
}

#[test]
fn repositories_without_weights_for_us_are_left_out() {
    let cache = tempfile::tempdir().unwrap();
    let repo = add_snapshot(cache.path(), "org/tokenizer", NEW);
    fs::remove_file(repo.join("snapshots").join(NEW).join("model.safetensors")).unwrap();
    fs::create_dir_all(cache.path().join("models--org--empty/snapshots")).unwrap();
    fs::create_dir_all(cache.path().join("datasets--org--set/snapshots").join(NEW)).unwrap();
    assert!(list_models(&[cache.path().to_path_buf()]).unwrap().is_empty());
}

#[test]
fn a_link_that_leaves_its_repository_breaks_the_model() {
    let cache = tempfile::tempdir().unwrap();
    let repo = add_snapshot(cache.path(), "org/small", NEW);
    let other = add_snapshot(cache.path(), "org/other", NEW);
    let config = repo.join("snapshots").join(NEW).join("config.json");
    let outside = other.join("snapshots").join(NEW).join("config.json");
    fs::remove_file(&config).unwrap();
    symlink(&outside, &config).unwrap();
    let entries = list_models(&[cache.path().to_path_buf()]).unwrap();
    let broken = entries.iter().find(|entry| entry.id() == "org/small").unwrap();
    let CatalogEntry::Broken { reason: ModelHubError::LinkOutside { path, .. }, .. } = broken else {
        panic!("{broken:?}")
    };
    assert_eq!(*path, config);
}

#[test]
fn a_blob_that_is_gone_breaks_the_model() {
    let cache = tempfile::tempdir().unwrap();
    let repo = add_snapshot(cache.path(), "org/small", NEW);
    fs::remove_file(repo.join("blobs/2222tokenizer.json")).unwrap();
    let entry = only_entry(cache.path());
    assert!(matches!(&entry, CatalogEntry::Broken { reason: ModelHubError::Read { .. }, .. }), "{entry:?}");
}

#[test]
fn deleting_a_cached_model_removes_its_repository_and_no_other() {
    let cache = tempfile::tempdir().unwrap();
    add_snapshot(cache.path(), "org/small", NEW);
    add_snapshot(cache.path(), "org/other", NEW);
    let roots = [cache.path().to_path_buf()];
    let entries = list_models(&roots).unwrap();
    let entry = entries.iter().find(|entry| entry.id() == "org/small").unwrap();
    delete_model(entry, &roots).unwrap();
    assert_eq!(names_in(cache.path()), ["models--org--other"]);
    assert_eq!(only_entry(cache.path()).id(), "org/other");
}

#[test]
fn a_cached_model_can_be_copied_or_referenced() {
    let (cache, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let repo = add_snapshot(cache.path(), "org/small", NEW);
    let snapshot = repo.join("snapshots").join(NEW);
    let copy = import_folder(&repo, root.path(), How::Copy, &mut go_on).unwrap();
    assert_eq!((copy.id.as_str(), &copy.source), ("small", &ModelSource::Folder));
    for name in names_in(&copy.path) {
        let copied = copy.path.join(&name);
        assert!(copied.symlink_metadata().unwrap().is_file(), "{name} is a file of its own");
        assert_eq!(fs::read(&copied).unwrap(), fs::read(snapshot.join(&name)).unwrap());
    }
    let reference = import_folder(&snapshot, root.path(), How::Reference, &mut go_on).unwrap();
    assert_eq!((reference.id.as_str(), &reference.source), ("small-2", &ModelSource::Reference));
    assert_eq!(reference.path, snapshot.canonicalize().unwrap());
}
