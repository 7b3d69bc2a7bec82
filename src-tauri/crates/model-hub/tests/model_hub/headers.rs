//! Headers of safetensors files: what is read, and what is refused with its name and place.

use std::{fs, path::Path};

use model_hub::{ModelHubError, TensorHeader, WeightDtype, WeightHeaders};

use crate::allocation::largest_during;

fn write(path: &Path, header: &str, data_bytes: usize) {
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0; data_bytes]].concat();
    fs::write(path, bytes).unwrap();
}

fn read(header: &str, data_bytes: usize) -> Result<WeightHeaders, ModelHubError> {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("model.safetensors"), header, data_bytes);
    WeightHeaders::read(folder.path())
}

fn entry(name: &str, dtype: &str, shape: &str, begin: u64, end: u64) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}}"#)
}

#[test]
fn tensors_come_in_the_order_of_their_bytes_with_their_sizes() {
    let (b, a) = (entry("b", "BF16", "[2,3]", 4, 16), entry("a", "F32", "[]", 0, 4));
    let headers = read(&format!(r#"{{"__metadata__":{{"format":"mlx"}},{b},{a}}}"#), 12 + 4).unwrap();
    assert_eq!(
        headers.tensors,
        [
            TensorHeader { name: "a".into(), dtype: WeightDtype::F32, shape: vec![], bytes: 4 },
            TensorHeader { name: "b".into(), dtype: WeightDtype::Bf16, shape: vec![2, 3], bytes: 12 },
        ]
    );
    assert!(headers.file_bytes > 16);
}

#[test]
fn what_cannot_be_right_is_damage_with_the_tensors_name() {
    let ok = entry("a", "F32", "[1]", 0, 4);
    for (entries, data_bytes, reason) in [
        (format!("{ok},{}", entry("b", "F32", "[1]", 2, 6)), 6, "tensor \"b\" overlaps"),
        (format!("{ok},{}", entry("b", "F32", "[1]", 8, 12)), 12, "tensor \"b\" leaves a hole"),
        (format!("{ok},{}", entry("a", "F32", "[1]", 4, 8)), 8, "tensor \"a\" appears twice"),
        (format!("{ok},{}", entry("b", "F32", "[2]", 4, 8)), 8, "takes 8"),
        (format!("{ok},{}", entry("b", "F32", "[1]", 4, 3)), 8, "lies at 4 to 3"),
        (format!("{ok},{}", entry("b", "F32", "[4294967296,0]", 4, 4)), 4, "impossible shape"),
        (entry("b", "F32", "[2147483647,2147483647,2147483647]", 0, 4), 4, "impossible shape"),
        (ok.clone(), 5, "belong to no tensor: 1 bytes"),
    ] {
        let error = read(&format!("{{{entries}}}"), data_bytes).unwrap_err();
        assert!(matches!(error, ModelHubError::Damaged { .. }), "{error:?}");
        assert!(error.to_string().contains(reason), "{error} must contain {reason}");
    }
}

#[test]
fn a_tensor_past_the_end_is_a_cut_file() {
    let error = read(&format!("{{{}}}", entry("a", "F32", "[2]", 0, 8)), 7).unwrap_err();
    let ModelHubError::Truncated { what, needed_bytes, file_bytes, .. } = &error else { panic!("{error:?}") };
    assert_eq!((what.as_str(), *needed_bytes), ("tensor \"a\"", file_bytes + 1));
    let far = entry("a", "U8", "[2147483647,2147483647]", 0, 2_147_483_647 * 2_147_483_647);
    assert!(matches!(read(&format!("{{{far}}}"), 4), Err(ModelHubError::Truncated { .. })));
}

#[test]
fn numbers_that_nothing_reads_are_refused_by_tensor_and_type() {
    for dtype in ["F64", "C64", "F4", "F8_E5M2", "f32", ""] {
        let error = read(&format!("{{{}}}", entry("a", dtype, "[1]", 0, 8)), 8).unwrap_err();
        assert!(
            matches!(&error, ModelHubError::UnsupportedDtype { tensor, dtype: named, .. }
                if tensor == "a" && named == dtype),
            "{error:?}"
        );
    }
}

#[test]
fn a_header_that_is_no_list_of_tensors_is_bad_json() {
    for header in [
        "",
        "[]",
        "{",
        r#"{"a":1}"#,
        r#"{"a":{"dtype":"F32","shape":[1]}}"#,
        r#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#,
        r#"{"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}}"#,
        r#"{"a":{"dtype":"F32","shape":[1],"shape":[2],"data_offsets":[0,4]}}"#,
    ] {
        assert!(matches!(read(header, 4), Err(ModelHubError::Json { .. })), "{header}");
    }
}

#[test]
fn metadata_is_texts_and_every_byte_of_the_header_is_utf_8() {
    let ok = entry("a", "U8", "[1]", 0, 1);
    for metadata in ["1", r#"{"format":1}"#, r#"{"format":{"a":"b"}}"#] {
        let header = format!(r#"{{"__metadata__":{metadata},{ok}}}"#);
        assert!(matches!(read(&header, 1), Err(ModelHubError::Json { .. })), "{metadata}");
    }
    let folder = tempfile::tempdir().unwrap();
    let header = [br#"{"__metadata__":{"a":"#.as_slice(), &[b'"', 0x8D, b'"'], b"}}"].concat();
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_slice()].concat();
    fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
    let error = WeightHeaders::read(folder.path()).unwrap_err();
    assert!(matches!(&error, ModelHubError::Damaged { at_bytes: 30, .. }), "{error:?}");
}

#[test]
fn a_shape_without_end_is_not_kept() {
    let shape = format!("[{}1]", "1,".repeat(1 << 20));
    let header = format!("{{{}}}", entry("a", "U8", &shape, 0, 1));
    let mut outcome = None;
    let largest = largest_during(|| outcome = Some(read(&header, 1)));
    assert!(matches!(outcome, Some(Err(ModelHubError::Json { .. }))));
    assert!(largest < 3 * header.len(), "{largest} bytes at once for a header of {}", header.len());
}

#[test]
fn a_length_that_lies_allocates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    for lie in [u64::MAX, 1 << 40, 99_999_999] {
        fs::write(&path, [lie.to_le_bytes(), [0; 8]].concat()).unwrap();
        let largest = largest_during(|| assert!(WeightHeaders::read(folder.path()).is_err()));
        assert!(largest < 1 << 16, "{largest} bytes for a length of {lie}");
    }
}

struct Sharded(tempfile::TempDir);

impl Sharded {
    fn new(index: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
        for (file, tensor) in [("1.safetensors", "a"), ("2.safetensors", "b")] {
            write(&folder.path().join(file), &format!("{{{}}}", entry(tensor, "U8", "[3]", 0, 3)), 3);
        }
        Self(folder)
    }

    fn read(&self) -> Result<WeightHeaders, ModelHubError> {
        WeightHeaders::read(self.0.path())
    }
}

#[test]
fn shards_are_read_as_one_model() {
    let model = Sharded::new(r#"{"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}"#);
    let headers = model.read().unwrap();
    assert_eq!(headers.tensors.iter().map(|tensor| tensor.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let file_bytes = |name| fs::metadata(model.0.path().join(name)).unwrap().len();
    assert_eq!(headers.file_bytes, file_bytes("1.safetensors") + file_bytes("2.safetensors"));
}

#[test]
fn a_tensor_in_two_shards_or_in_none_is_named() {
    let index = r#"{"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}"#;
    let twice = Sharded::new(index);
    fs::copy(twice.0.path().join("1.safetensors"), twice.0.path().join("2.safetensors")).unwrap();
    let error = twice.read().unwrap_err();
    assert!(matches!(&error, ModelHubError::Damaged { what, .. } if what == "tensor \"a\""), "{error:?}");

    let none = Sharded::new(r#"{"weight_map": {"a": "1.safetensors", "c": "2.safetensors"}}"#);
    let error = none.read().unwrap_err();
    assert!(matches!(&error, ModelHubError::Incomplete { what, .. } if what.contains("\"c\"")), "{error:?}");
}

#[test]
fn an_index_cannot_lead_out_of_the_folder_or_to_other_files() {
    for name in [
        "../1.safetensors",
        "/etc/passwd",
        "a/1.safetensors",
        "a\\\\1.safetensors",
        "C:1.safetensors",
        "weights.bin",
        "",
    ] {
        let error = Sharded::new(&format!(r#"{{"weight_map": {{"a": "{name}"}}}}"#)).read().unwrap_err();
        assert!(matches!(error, ModelHubError::UnsafePath { .. }), "{name}: {error:?}");
    }
    for index in [r#"{"weight_map": {}}"#, "{}"] {
        assert!(matches!(Sharded::new(index).read(), Err(ModelHubError::Incomplete { .. })), "{index}");
    }
}
