//! Which files are read, and what is refused about them.

use crate::folder::{self, Tensor, llama};
use mlx_backend::config::ModelConfig;
use mlx_backend::load::{Numerics, Weights};
use mlx_backend::model::linear::Bias;
use mlx_backend::mx::{self, Purpose};
use mlx_backend::{LoadOptions, MlxBackend, MlxError};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A folder with the config of a one-layer llama, changed by `extra`.
fn folder_of(name: &str, extra: Value) -> PathBuf {
    let folder = folder::empty(name);
    folder::write(&folder, "config.json", folder::config(extra).to_string());
    folder
}

fn load(folder: &Path) -> Result<MlxBackend, MlxError> {
    MlxBackend::load(folder, LoadOptions::new(1, 48))
}

fn written(name: &str, extra: Value, tensors: &[Tensor]) -> PathBuf {
    let folder = folder_of(name, extra);
    folder::write(&folder, "model.safetensors", folder::file(tensors));
    folder
}

/// Why a folder does not load.
fn refusal(folder: &Path) -> MlxError {
    match load(folder) {
        Ok(_) => panic!("{folder:?} must be refused"),
        Err(error) => error,
    }
}

const INDEX: &str = "model.safetensors.index.json";

/// Writes the tensors as two files and returns the index of them.
fn split(folder: &Path, names: [&str; 2], tensors: &[Tensor]) -> Value {
    let (first, second) = tensors.split_at(tensors.len() / 2);
    let mut map = serde_json::Map::new();
    for (name, part) in names.into_iter().zip([first, second]) {
        folder::write(folder, name, folder::file(part));
        map.extend(part.iter().map(|tensor| (tensor.name.clone(), json!(name))));
    }
    json!({ "metadata": { "total_size": 1 }, "weight_map": map })
}

const PARTS: [&str; 2] = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];

#[test]
fn one_file_or_many_with_or_without_an_index_are_the_same_model() {
    for dtype in ["F16", "BF16", "F32"] {
        let tensors = llama(dtype, None);
        load(&written("one-file", json!({}), &tensors)).expect("one file loads");
        let folder = folder_of("parts", json!({}));
        let index = split(&folder, PARTS, &tensors);
        load(&folder).expect("parts load by their names");
        folder::write(&folder, INDEX, index.to_string());
        load(&folder).expect("parts load by the index");
        let folder = folder_of("parts-of-other-names", json!({}));
        let index = split(&folder, ["a.safetensors", "b.safetensors"], &tensors);
        folder::write(&folder, INDEX, index.to_string());
        load(&folder).expect("the index may name any safetensors file");
    }
}

#[test]
fn a_model_of_mixed_dtypes_loads() {
    let mut tensors = llama("BF16", None);
    tensors[0] = Tensor::floats(&tensors[0].name, "F16", &tensors[0].shape);
    tensors[8] = Tensor::floats(&tensors[8].name, "F32", &tensors[8].shape);
    load(&written("mixed-dtypes", json!({}), &tensors)).expect("it loads");
}

#[test]
fn a_missing_part_is_named() {
    for has_index in [false, true] {
        let folder = folder_of("missing-part", json!({}));
        let index = split(&folder, PARTS, &llama("F32", None));
        if has_index {
            folder::write(&folder, INDEX, index.to_string());
        }
        std::fs::remove_file(folder.join(PARTS[1])).expect("the part was written");
        let refused = refusal(&folder);
        assert!(matches!(&refused, MlxError::File { path, .. } if path.ends_with(PARTS[1])), "{refused}");
    }
}

#[test]
fn an_index_that_does_not_fit_its_files_is_refused() {
    let tensors = llama("F32", None);
    let fresh = || {
        let folder = folder_of("wrong-index", json!({}));
        let index = split(&folder, PARTS, &tensors);
        (folder, index)
    };
    for (change, word) in [
        (json!("../elsewhere.safetensors"), "is not a .safetensors file"),
        (json!("/etc/x.safetensors"), "is not a .safetensors file"),
        (json!("..\\x.safetensors"), "is not a .safetensors file"),
        (json!("model.bin"), "is not a .safetensors file"),
        (json!(PARTS[1]), "is not in model-00002"),
        (json!(3), "expected a string"),
    ] {
        let (folder, mut index) = fresh();
        index["weight_map"][&tensors[0].name] = change;
        folder::write(&folder, INDEX, index.to_string());
        let refused = refusal(&folder).to_string();
        assert!(refused.contains(word), "{refused}");
    }
    for (index, word) in [(json!({}), "weight_map"), (json!({ "weight_map": {} }), "names no tensor")] {
        let (folder, _) = fresh();
        folder::write(&folder, INDEX, index.to_string());
        let refused = refusal(&folder).to_string();
        assert!(refused.contains(word), "{refused}");
    }
    let (folder, _) = fresh();
    folder::write(&folder, "model.safetensors", folder::file(&tensors[..1]));
    let refused = refusal(&folder).to_string();
    assert!(refused.contains(&tensors[0].name), "a tensor in two files is refused: {refused}");
}

#[test]
fn weights_in_other_formats_are_never_opened() {
    let folder = folder_of("no-safetensors", json!({}));
    for name in ["pytorch_model.bin", "model.pt", "model.gguf", "consolidated.safetensors"] {
        folder::write(&folder, name, b"anything");
    }
    assert!(matches!(refusal(&folder), MlxError::NoWeights { .. }));
}

#[test]
fn a_damaged_file_is_refused_before_mlx_reads_it() {
    let whole = folder::file(&llama("F32", None));
    let long = u64::MAX.to_le_bytes();
    for bytes in
        [&whole[..whole.len() - 1], &whole[..100], &whole[..5], &[], &long, b"not a safetensors file"]
    {
        let folder = folder_of("damaged", json!({}));
        folder::write(&folder, "model.safetensors", bytes);
        let refused = refusal(&folder);
        assert!(matches!(refused, MlxError::Damaged { .. }), "{refused}");
    }
}

#[test]
fn a_tied_model_may_hold_its_head_twice_but_not_another_head() {
    let head = "lm_head.weight";
    let mut tensors = llama("BF16", Some(head));
    let refused = refusal(&written("tied-other-head", json!({}), &tensors));
    assert!(matches!(&refused, MlxError::TiedHead { name } if name == head), "{refused}");
    let embedding = tensors.iter().find(|tensor| tensor.name == "model.embed_tokens.weight");
    let same = Tensor { name: head.into(), ..embedding.cloned().expect("the model has one") };
    tensors.pop();
    tensors.push(same);
    load(&written("tied-same-head", json!({}), &tensors)).expect("the head is the embedding");
}

#[test]
fn an_untied_model_needs_its_head() {
    let untied = json!({ "tie_word_embeddings": false });
    load(&written("untied", untied.clone(), &llama("F16", Some("lm_head.weight")))).expect("it has its head");
    let refused = refusal(&written("untied-headless", untied, &llama("F16", None)));
    assert!(
        matches!(&refused, MlxError::MissingTensors { count: 1, first } if first == "lm_head.weight"),
        "{refused}"
    );
}

#[test]
fn a_bias_that_the_design_does_not_ask_for_is_refused() {
    let mut tensors = llama("F32", None);
    let name = "model.layers.0.mlp.down_proj.bias";
    tensors.push(Tensor::floats(name, "F32", &[64]));
    let refused = refusal(&written("unasked-bias", json!({}), &tensors));
    assert!(matches!(&refused, MlxError::UnusedTensors { first, .. } if first == name), "{refused}");
}

/// The llama with its first matrix packed with 4 bits in groups of 32.
fn packed_first() -> Vec<Tensor> {
    let mut tensors = llama("BF16", None);
    let prefix = tensors[0].name.replace(".weight", "");
    tensors[0] = Tensor::codes(&tensors[0].name, &[64, 8]);
    tensors.push(Tensor::floats(&format!("{prefix}.scales"), "BF16", &[64, 2]));
    tensors.push(Tensor::floats(&format!("{prefix}.biases"), "BF16", &[64, 2]));
    tensors
}

#[test]
fn config_and_files_must_agree_on_what_is_packed() {
    let first = "model.layers.0.self_attn.q_proj";
    let most = json!({ "group_size": 64, "bits": 8 });
    let with = |name: &str, entry: Value| {
        let mut most = most.clone();
        most[name] = entry;
        json!({ "quantization": most })
    };
    let four = json!({ "group_size": 32, "bits": 4 });
    load(&written("agreed", with(first, four.clone()), &packed_first())).expect("the entry says how");
    load(&written("evident", json!({ "quantization": most }), &packed_first())).expect("its shapes say how");
    for (config, tensors, word) in [
        (json!({}), packed_first(), "no quantization entry"),
        (with(first, json!(false)), packed_first(), "is not quantised, but"),
        (with("model.layers.0.self_attn.k_proj", four.clone()), packed_first(), "no scales of it"),
        (json!({ "quantization": four }), llama("F32", None), "no scales at all"),
    ] {
        let refused = refusal(&written("disagreed", config, &tensors));
        assert!(matches!(refused, MlxError::Quantisation { .. }), "{refused}");
        assert!(refused.to_string().contains(word), "{refused}");
        assert!(refused.to_string().contains("model."), "the tensor is named: {refused}");
    }
}

#[test]
fn tensors_of_another_dtype_than_their_quantisation_are_refused() {
    let quantization = json!({ "quantization": { "group_size": 32, "bits": 4 } });
    let scales = |tensors: &mut Vec<Tensor>| tensors.len() - 2;
    let changes: [fn(&mut Vec<Tensor>, usize); 3] = [
        |tensors, _| tensors[0] = Tensor::floats(&tensors[0].name, "F32", &[64, 8]),
        |tensors, at| tensors[at] = Tensor::bytes(&tensors[at].name, &[64, 2], 120, 4),
        |tensors, _| {
            tensors[1].dtype = "I32";
            tensors[1].bytes = vec![0; 64 * 64 * 4];
        },
    ];
    for change in changes {
        let mut tensors = packed_first();
        let at = scales(&mut tensors);
        change(&mut tensors, at);
        let refused = refusal(&written("dtypes", quantization.clone(), &tensors));
        let is_named = matches!(refused, MlxError::Quantisation { .. } | MlxError::UnusedTensors { .. });
        assert!(is_named, "{refused}");
    }
}

#[test]
fn a_packed_matrix_with_missing_tensors_is_missing_tensors() {
    let quantization = json!({ "quantization": { "group_size": 32, "bits": 4 } });
    for gone in ["q_proj.weight", "q_proj.biases"] {
        let mut tensors = packed_first();
        tensors.retain(|tensor| !tensor.name.ends_with(gone));
        let refused = refusal(&written("half-packed", quantization.clone(), &tensors));
        assert!(
            matches!(&refused, MlxError::MissingTensors { count: 1, first } if first.ends_with(gone)),
            "{refused}"
        );
    }
}

#[test]
fn methods_that_are_not_mlxs_are_refused_with_the_way_out() {
    let config = json!({ "quantization_config": { "quant_method": "gptq", "bits": 4, "group_size": 128 } });
    let refused = refusal(&written("gptq", config, &llama("F16", None))).to_string();
    assert!(refused.contains("gptq") && refused.contains("MLX version"), "{refused}");
}

#[test]
fn a_decoder_inside_a_larger_checkpoint_is_found_and_the_rest_is_left_out() {
    for (body, head) in [
        ("model.", "lm_head.weight"),
        ("language_model.model.", "language_model.lm_head.weight"),
        ("model.language_model.", "lm_head.weight"),
    ] {
        let folder = folder_of(
            "inside",
            json!({ "quantization": {
                "group_size": 64, "bits": 8, (format!("{body}m")): { "group_size": 32, "bits": 4 }
            } }),
        );
        let tensors = [
            Tensor::codes(&format!("{body}m.weight"), &[2, 8]),
            Tensor::floats(&format!("{body}m.scales"), "F32", &[2, 2]),
            Tensor::floats(&format!("{body}m.biases"), "F32", &[2, 2]),
            Tensor::floats(head, "F32", &[2, 64]),
            Tensor::floats(&format!("{body}layers.7.k.weight"), "F32", &[2]),
            Tensor::floats("vision_tower.patch.weight", "F32", &[3]),
            Tensor::floats("model.vision_tower.patch.weight", "F32", &[3]),
        ];
        folder::write(&folder, "model.safetensors", folder::file(&tensors));
        let config = ModelConfig::from_dir(&folder).expect("the config is read");
        let mut weights = Weights::open(&folder, &config, Numerics::FullPrecision).expect("opens");
        weights.find_decoder("language_model.", &["vision_tower."]);
        weights.skip("model.layers.7.k.");
        let matrix = weights.linear("model.m", 2, 64, Bias::Absent).expect("the entry is found by its name");
        assert_eq!(matrix.arrays().len(), 3, "{body}: it stays packed");
        let head = weights.linear("lm_head", 2, 64, Bias::Absent).expect("the head is found");
        mx::wait(head.arrays(), Purpose::Load).expect("reads");
        let missing = weights.vector("model.norm.weight", 64).map(|_| weights.finish());
        assert!(
            matches!(&missing, Ok(Err(MlxError::MissingTensors { count: 1, first }))
                if *first == format!("{body}norm.weight")),
            "{missing:?}"
        );
    }
}
