//! Deleting takes what the catalogue lists, and nothing else.

use std::fs;

use model_hub::{CatalogEntry, How, ModelHubError, delete_model, import_folder, list_models};

use crate::{
    catalog::{import_into, only_entry},
    import_folder::{go_on, names_in},
};

#[test]
fn a_folder_goes_with_its_files() {
    let root = tempfile::tempdir().unwrap();
    import_into(root.path(), "small");
    import_into(root.path(), "other");
    let roots = [root.path().to_path_buf()];
    let entries = list_models(&roots).unwrap();
    delete_model(&entries[1], &roots).unwrap();
    assert_eq!(names_in(root.path()), ["other"]);
    let again = delete_model(&entries[1], &roots).unwrap_err();
    assert!(matches!(again, ModelHubError::NotListed { .. }), "{again:?}");
}

#[test]
fn a_broken_model_can_be_deleted() {
    let root = tempfile::tempdir().unwrap();
    import_into(root.path(), "small");
    fs::remove_file(root.path().join("small/config.json")).unwrap();
    delete_model(&only_entry(root.path()), &[root.path().to_path_buf()]).unwrap();
    assert!(names_in(root.path()).is_empty());
}

#[test]
fn of_a_reference_only_the_reference_goes() {
    let (elsewhere, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    import_into(elsewhere.path(), "small");
    let source = elsewhere.path().join("small");
    import_folder(&source, root.path(), How::Reference, &mut go_on).unwrap();
    let before = names_in(&source);
    delete_model(&only_entry(root.path()), &[root.path().to_path_buf()]).unwrap();
    assert!(names_in(root.path()).is_empty());
    assert_eq!(names_in(&source), before);
}

#[test]
fn a_model_outside_the_roots_is_never_deleted() {
    let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    import_into(inside.path(), "small");
    import_into(outside.path(), "small");
    let foreign = only_entry(outside.path());
    let CatalogEntry::Usable(model) = only_entry(inside.path()) else { panic!("it is whole") };
    let climbing = model_hub::ModelFolder {
        origin: inside.path().join("small/../..").join(outside.path().file_name().unwrap()).join("small"),
        ..model.clone()
    };
    let whole_root = model_hub::ModelFolder { origin: inside.path().to_path_buf(), ..model.clone() };
    let no_model = model_hub::ModelFolder { origin: inside.path().join("photos"), ..model };
    fs::create_dir(inside.path().join("photos")).unwrap();
    let roots = [inside.path().to_path_buf()];
    for entry in [
        foreign,
        CatalogEntry::Usable(climbing),
        CatalogEntry::Usable(whole_root),
        CatalogEntry::Usable(no_model),
    ] {
        let error = delete_model(&entry, &roots).unwrap_err();
        assert!(matches!(error, ModelHubError::NotListed { .. }), "{error:?}");
    }
    assert_eq!(names_in(inside.path()), ["photos", "small"]);
    assert_eq!(names_in(outside.path()), ["small"]);
}

#[cfg(unix)]
#[test]
fn of_a_linked_folder_only_the_link_goes() {
    let (elsewhere, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    import_into(elsewhere.path(), "small");
    std::os::unix::fs::symlink(elsewhere.path().join("small"), root.path().join("linked")).unwrap();
    let weights = elsewhere.path().join("small/model.safetensors");
    // A link inside a model's folder leads nowhere either.
    import_into(root.path(), "whole");
    std::os::unix::fs::symlink(elsewhere.path(), root.path().join("whole/away")).unwrap();
    let roots = [root.path().to_path_buf()];
    for entry in list_models(&roots).unwrap() {
        delete_model(&entry, &roots).unwrap();
    }
    assert!(names_in(root.path()).is_empty());
    assert!(weights.exists());
}
