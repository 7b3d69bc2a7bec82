//! Folders from elsewhere: copied or referenced, checked first, whole or not at all.

use std::{fs, ops::ControlFlow, path::Path};

use model_hub::{
    CatalogEntry, How, ModelHubError, ModelSource, Progress, free_name, import_folder, import_gguf_with,
    list_models,
};

use crate::{
    catalog::{import_into, only_entry},
    synthetic::GgufFile,
};

pub fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

pub fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A model folder elsewhere, and an empty root.
struct Setting {
    elsewhere: tempfile::TempDir,
    root: tempfile::TempDir,
}

impl Setting {
    fn new() -> Self {
        let setting = Self { elsewhere: tempfile::tempdir().unwrap(), root: tempfile::tempdir().unwrap() };
        import_into(setting.elsewhere.path(), "small");
        setting
    }

    fn source(&self) -> std::path::PathBuf {
        self.elsewhere.path().join("small")
    }

    fn import(&self, how: How) -> Result<model_hub::ModelFolder, ModelHubError> {
        import_folder(&self.source(), self.root.path(), how, &mut go_on)
    }
}

const FILES: [&str; 4] = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"];

#[test]
fn a_copy_has_what_a_model_needs_and_nothing_else() {
    let setting = Setting::new();
    let source = setting.source();
    for name in ["chat_template.jinja", "LICENSE", "README.md", "merges.txt"] {
        fs::write(source.join(name), "text").unwrap();
    }
    for name in ["model.py", "pytorch_model.bin", "other.safetensors", ".hidden.json", "run.sh", "x.gguf"] {
        fs::write(source.join(name), "no").unwrap();
    }
    fs::create_dir(source.join("folder.json")).unwrap();
    let model = setting.import(How::Copy).unwrap();
    let mut expected = [&FILES[..], &["chat_template.jinja", "LICENSE", "README.md", "merges.txt"]].concat();
    expected.sort_unstable();
    assert_eq!(names_in(&model.path), expected);
    for name in FILES {
        assert_eq!(fs::read(model.path.join(name)).unwrap(), fs::read(source.join(name)).unwrap(), "{name}");
    }
    assert_eq!(names_in(setting.root.path()), ["small"], "no part is left");
    let CatalogEntry::Usable(listed) = only_entry(setting.root.path()) else { panic!("it was checked") };
    assert_eq!(listed.id, model.id);
}

#[test]
fn a_reference_is_listed_from_where_it_lies() {
    let setting = Setting::new();
    let model = setting.import(How::Reference).unwrap();
    assert_eq!((model.id.as_str(), &model.source), ("small", &ModelSource::Reference));
    assert_eq!(model.path, setting.source().canonicalize().unwrap());
    assert_eq!(names_in(setting.root.path()), ["small.model.json"]);
}

#[test]
fn a_reference_whose_folder_went_away_is_told_as_missing() {
    let setting = Setting::new();
    setting.import(How::Reference).unwrap();
    fs::rename(setting.source(), setting.elsewhere.path().join("moved")).unwrap();
    let entry = only_entry(setting.root.path());
    let CatalogEntry::Broken { path, source, reason, .. } = &entry else { panic!("{entry:?}") };
    assert!(matches!(reason, ModelHubError::FolderMissing { .. }), "{reason:?}");
    assert_eq!((path.file_name().unwrap().to_str(), source), (Some("small"), &ModelSource::Reference));
}

#[test]
fn a_reference_that_is_damaged_or_relative_is_broken() {
    let root = tempfile::tempdir().unwrap();
    for text in ["{", "{}", r#"{"path":"../small"}"#, r#"{"path":1}"#] {
        fs::write(root.path().join("x.model.json"), text).unwrap();
        let entry = only_entry(root.path());
        let CatalogEntry::Broken { id, reason, .. } = &entry else { panic!("{entry:?}") };
        assert_eq!(id, "x");
        assert!(
            matches!(reason, ModelHubError::Json { .. } | ModelHubError::UnsafePath { .. }),
            "{text}: {reason:?}"
        );
    }
}

#[test]
fn a_name_that_is_taken_gets_a_number() {
    let setting = Setting::new();
    let ids: Vec<String> = [How::Copy, How::Reference, How::Copy, How::Reference]
        .map(|how| setting.import(how).unwrap().id)
        .into();
    assert_eq!(ids, ["small", "small-2", "small-3", "small-4"]);
    assert_eq!(list_models(&[setting.root.path().to_path_buf()]).unwrap().len(), 4);
}

#[test]
fn a_name_that_the_catalogue_would_misread_is_shortened() {
    let root = tempfile::tempdir().unwrap();
    for (given, name) in [
        ("small", "small"),
        (".hidden", "hidden"),
        ("half.part", "half"),
        ("x.model.json", "x"),
        ("x.part.model.json.part", "x"),
        ("..", "model"),
        (".part", "part"),
        ("", "model"),
    ] {
        assert_eq!(free_name(root.path(), given), name, "{given}");
    }
    let setting = Setting::new();
    let odd = setting.elsewhere.path().join("odd.model.json");
    fs::rename(setting.source(), &odd).unwrap();
    let model = import_folder(&odd, setting.root.path(), How::Copy, &mut go_on).unwrap();
    assert_eq!(model.id, "odd");
}

#[test]
fn what_is_no_model_is_refused_before_anything_is_written() {
    for how in [How::Copy, How::Reference] {
        for name in FILES.iter().take(3) {
            let setting = Setting::new();
            fs::remove_file(setting.source().join(name)).unwrap();
            let error = setting.import(how).unwrap_err();
            assert!(
                matches!(&error, ModelHubError::Incomplete { what, .. } if what == name),
                "{error:?} for {name}"
            );
            assert!(names_in(setting.root.path()).is_empty());
        }
        let setting = Setting::new();
        let error = import_folder(&setting.source().join("gone"), setting.root.path(), how, &mut go_on);
        assert!(matches!(error, Err(ModelHubError::FolderMissing { .. })), "{error:?}");
    }
}

#[test]
fn a_model_of_the_root_is_not_imported_into_it_again() {
    let setting = Setting::new();
    for how in [How::Copy, How::Reference] {
        let error = import_folder(&setting.source(), setting.elsewhere.path(), how, &mut go_on).unwrap_err();
        assert!(matches!(error, ModelHubError::AlreadyListed { .. }), "{error:?}");
    }
    assert_eq!(names_in(setting.elsewhere.path()), ["small"]);
}

#[test]
fn a_copy_can_be_ended_at_any_report_and_leaves_nothing() {
    let setting = Setting::new();
    let mut reports = Vec::new();
    let counted = import_folder(&setting.source(), setting.root.path(), How::Copy, &mut |progress| {
        reports.push(progress);
        ControlFlow::Continue(())
    });
    fs::remove_dir_all(counted.unwrap().path).unwrap();
    assert!(reports.is_sorted_by_key(|progress| progress.done_bytes));
    assert!(reports.len() > FILES.len(), "one at the start and one per file at least");
    assert_eq!(reports.first().unwrap().done_bytes, 0);
    assert!(reports.iter().all(|progress| progress.total_bytes == reports.last().unwrap().done_bytes));
    for last in 0..reports.len() {
        let mut heard = 0;
        let error = import_folder(&setting.source(), setting.root.path(), How::Copy, &mut |_| {
            heard += 1;
            if heard > last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(matches!(error, Err(ModelHubError::Cancelled)), "{error:?}");
        assert_eq!(heard, last + 1, "nothing happens after the watcher said no");
        assert!(names_in(setting.root.path()).is_empty());
    }
}

#[test]
fn a_gguf_import_can_be_ended_at_any_report_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let source = GgufFile::small().write(folder.path());
    let target = folder.path().join("out");
    let mut reports = Vec::new();
    import_gguf_with(&source, &target, &mut |progress| {
        reports.push(progress);
        ControlFlow::Continue(())
    })
    .unwrap();
    let weights = fs::read(target.join("model.safetensors")).unwrap();
    let header_bytes = u64::from_le_bytes(weights[..8].try_into().unwrap());
    let last = reports.last().unwrap();
    assert_eq!(
        (last.done_bytes, last.total_bytes),
        (weights.len() as u64 - 8 - header_bytes, last.done_bytes)
    );
    fs::remove_dir_all(&target).unwrap();
    for last in 0..reports.len() {
        let mut heard = 0;
        let error = import_gguf_with(&source, &target, &mut |_| {
            heard += 1;
            if heard > last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(matches!(error, Err(ModelHubError::Cancelled)), "{error:?}");
        assert_eq!((heard, names_in(folder.path()).len()), (last + 1, 1), "only the source remains");
    }
}

#[cfg(unix)]
#[test]
fn a_copy_larger_than_the_disk_is_refused_before_it_begins() {
    let setting = Setting::new();
    // A file with a hole: 4 TiB by its length, nothing on the disk.
    let shape = [2048, i32::MAX as u64];
    let bytes: u64 = shape.iter().product();
    let header = format!(r#"{{"a":{{"dtype":"U8","shape":{shape:?},"data_offsets":[0,{bytes}]}}}}"#);
    let path = setting.source().join("model.safetensors");
    fs::write(&path, [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(8 + header.len() as u64 + bytes).unwrap();
    let mut heard = false;
    let error = import_folder(&setting.source(), setting.root.path(), How::Copy, &mut |_| {
        heard = true;
        ControlFlow::Break(())
    })
    .unwrap_err();
    let ModelHubError::DiskFull { needed_bytes, free_bytes, .. } = error else { panic!("{error:?}") };
    assert!(needed_bytes > bytes && free_bytes < bytes && !heard);
    assert!(names_in(setting.root.path()).is_empty());
}

#[cfg(unix)]
#[test]
fn a_link_to_something_that_is_no_file_is_not_copied() {
    let setting = Setting::new();
    let outside = setting.elsewhere.path().join("template");
    fs::write(&outside, "template").unwrap();
    let link = |target: &Path, name: &str| {
        std::os::unix::fs::symlink(target, setting.source().join(name)).unwrap();
    };
    link(&outside, "chat_template.jinja");
    link(Path::new("/dev/zero"), "endless.json");
    link(setting.elsewhere.path(), "folder.json");
    let model = setting.import(How::Copy).unwrap();
    let mut expected = [&["chat_template.jinja"], &FILES[..]].concat();
    expected.sort_unstable();
    assert_eq!(names_in(&model.path), expected);
    assert!(model.path.join("chat_template.jinja").symlink_metadata().unwrap().is_file());
}
