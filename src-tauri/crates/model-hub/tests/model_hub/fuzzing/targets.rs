use std::{collections::BTreeMap, fs, path::Path};

use model_hub::{CatalogEntry, Gguf, WeightHeaders, import_gguf, list_models};
use safetensors::SafeTensors;
use serde_json::json;

use super::mutate;
use crate::{
    random::Random,
    synthetic::{GgufFile, Meta},
};

/// A format that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Safetensors,
    Gguf,
    Config,
    Index,
}

const DTYPES: [(&str, u64); 8] =
    [("F32", 4), ("F16", 2), ("BF16", 2), ("U32", 4), ("U8", 1), ("I64", 8), ("BOOL", 1), ("F8_E4M3", 1)];

impl Target {
    pub const ALL: [Self; 4] = [Self::Safetensors, Self::Gguf, Self::Config, Self::Index];

    pub fn name(self) -> &'static str {
        match self {
            Self::Safetensors => "safetensors",
            Self::Gguf => "gguf",
            Self::Config => "config",
            Self::Index => "index",
        }
    }

    /// A valid file with none to some changes.
    pub fn input(self, random: &mut Random) -> Vec<u8> {
        let changes = random.size(4);
        match self {
            Self::Safetensors => {
                let (mut header, mut payload) = safetensors_parts(random);
                let mut has_honest_length = true;
                for _ in 0..changes {
                    match random.below(8) {
                        0 => mutate::bytes(random, &mut payload),
                        1 => has_honest_length = false,
                        _ => mutate::json(random, &mut header),
                    }
                }
                let length = if has_honest_length { header.len() as u64 } else { mutate::edge(random) };
                [&length.to_le_bytes(), header.as_slice(), &payload].concat()
            }
            Self::Gguf => {
                let families = ["llama", "qwen2", "qwen3"];
                let mut file = GgufFile::of_family(families[random.below(3) as usize]);
                let structural = random.below(changes + 1);
                (0..structural).for_each(|_| change_gguf(random, &mut file));
                let mut bytes = file.bytes();
                (structural..changes).for_each(|_| mutate::bytes(random, &mut bytes));
                bytes
            }
            Self::Config => {
                let mut text = config(random).to_string().into_bytes();
                (0..changes).for_each(|_| mutate::json(random, &mut text));
                text
            }
            Self::Index => {
                let index = json!({
                    "metadata": { "total_size": random.size(40) },
                    "weight_map": { "a": "1.safetensors", "b": "2.safetensors", "c": "2.safetensors" },
                });
                let mut text = index.to_string().into_bytes();
                (0..changes).for_each(|_| mutate::json(random, &mut text));
                text
            }
        }
    }

    /// Reads the file; says whether it was accepted, or what is wrong with that.
    pub fn check(self, input: &[u8], place: &Path) -> Result<bool, String> {
        match self {
            Self::Safetensors => check_safetensors(input, place),
            Self::Gguf => check_gguf(input, place),
            Self::Config => check_config(input, place),
            Self::Index => check_index(input, place),
        }
    }
}

fn safetensors_parts(random: &mut Random) -> (Vec<u8>, Vec<u8>) {
    let mut offset = 0;
    let mut entries = vec![r#""__metadata__":{"format":"mlx"}"#.to_string()];
    for tensor in 0..random.below(5) {
        let (dtype, width) = DTYPES[random.below(DTYPES.len() as u64) as usize];
        let shape: Vec<u64> = (0..random.below(4)).map(|_| random.below(5)).collect();
        let end = offset + width * shape.iter().product::<u64>();
        entries.push(format!(
            r#""layer.{tensor}.weight":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{offset},{end}]}}"#
        ));
        offset = end;
    }
    (format!("{{{}}}", entries.join(",")).into_bytes(), vec![0; offset as usize])
}

fn change_gguf(random: &mut Random, file: &mut GgufFile) {
    let entries = file.metadata.len() as u64;
    let tensors = file.tensors.len() as u64;
    match random.below(10) {
        0 if entries > 0 => {
            let key = file.metadata[random.below(entries) as usize].0.clone();
            let value = match random.below(5) {
                0 => Meta::Count(mutate::edge(random) as u32),
                1 => Meta::Float(f32::from_bits(random.bits() as u32)),
                2 => Meta::Text("x".repeat(random.size(10) as usize)),
                3 => Meta::Texts((0..random.size(8)).map(|i| format!("{}", i % 5)).collect()),
                _ => Meta::Integers((0..random.size(8)).map(|_| random.bits() as i32).collect()),
            };
            file.set(&key, value);
        }
        1 if entries > 0 => drop(file.metadata.remove(random.below(entries) as usize)),
        2 if tensors > 0 => drop(file.tensors.remove(random.below(tensors) as usize)),
        3 if tensors > 0 => {
            let copy = file.tensors[random.below(tensors) as usize].clone();
            file.tensors.push(copy);
        }
        4 if tensors > 0 => file.tensors[random.below(tensors) as usize].kind = random.below(41) as u32,
        5 if tensors > 0 => {
            let shape = &mut file.tensors[random.below(tensors) as usize].shape;
            let at = random.below(shape.len() as u64 + 1) as usize;
            if at == shape.len() {
                shape.push(mutate::edge(random))
            } else {
                shape[at] = mutate::edge(random)
            }
        }
        6 if tensors > 0 => {
            let tensor = &mut file.tensors[random.below(tensors) as usize];
            mutate::bytes(random, &mut tensor.data);
        }
        7 => {
            let values = (0..random.size(4)).map(|_| f32::from_bits(random.bits() as u32)).collect();
            file.add_floats("rope_freqs.weight", values);
        }
        8 => {
            let names = ["gpt-2", "smollm", "llama-bpe", "qwen2", "none"];
            let name = names[random.below(names.len() as u64) as usize];
            file.set("tokenizer.ggml.pre", Meta::Text(name.into()));
        }
        _ => file.version = mutate::edge(random) as u32,
    }
}

fn config(random: &mut Random) -> serde_json::Value {
    let text = json!({
        "model_type": "llama", "hidden_size": 32, "num_hidden_layers": 1, "max_position_embeddings": 64,
        "torch_dtype": "float16", "license": "mit", "name": "small",
        "quantization": { "group_size": 32, "bits": 4, "lm_head": { "group_size": 32, "bits": 8 } },
        "rope_scaling": { "rope_type": "llama3", "factor": 8.0 },
    });
    match random.below(3) {
        0 => json!({ "model_type": "gemma3", "text_config": text, "vision_config": { "layers": [1, 2] } }),
        1 => json!({ "text_config": text, "quantization_config": { "quant_method": "mxfp4", "bits": 4 } }),
        _ => text,
    }
}

/// What is accepted, the safetensors library accepts too, with the same tensors.
fn check_safetensors(input: &[u8], place: &Path) -> Result<bool, String> {
    write(&place.join("model.safetensors"), input);
    let Ok(headers) = WeightHeaders::read(place) else { return Ok(false) };
    let reference = SafeTensors::deserialize(input).map_err(|error| format!("accepted, but {error}"))?;
    let ours: BTreeMap<&str, (&[u64], u64)> = headers
        .tensors
        .iter()
        .map(|tensor| (tensor.name.as_str(), (tensor.shape.as_slice(), tensor.bytes)))
        .collect();
    let mut total = 0;
    for (name, view) in reference.iter() {
        let shape: Vec<u64> = view.shape().iter().map(|dimension| *dimension as u64).collect();
        let bytes = view.data().len() as u64;
        total += bytes;
        if ours.get(name) != Some(&(shape.as_slice(), bytes)) {
            return Err(format!("{name}: {:?} here, {shape:?} of {bytes} bytes there", ours.get(name)));
        }
    }
    if ours.len() != headers.tensors.len() || ours.len() != reference.len() {
        return Err("tensors that only one of both has".to_string());
    }
    let sum: u64 = headers.tensors.iter().map(|tensor| tensor.bytes).sum();
    (sum == total && headers.file_bytes == input.len() as u64)
        .then_some(true)
        .ok_or_else(|| format!("{sum} bytes of tensors in {}", headers.file_bytes))
}

/// What is imported, the catalogue finds whole; what is not leaves nothing.
fn check_gguf(input: &[u8], place: &Path) -> Result<bool, String> {
    let (source, root) = (place.join("model.gguf"), place.join("root"));
    write(&source, input);
    fs::create_dir_all(&root).expect("the place is writable");
    let opened = Gguf::open(&source);
    let imported = import_gguf(&source, &root.join("out"));
    let entries = list_models(std::slice::from_ref(&root)).map_err(|error| error.to_string())?;
    let left: Vec<_> = fs::read_dir(&root).expect("it was made above").flatten().collect();
    fs::remove_dir_all(&root).expect("it was made above");
    match (&imported, entries.as_slice()) {
        (Ok(_), [CatalogEntry::Usable(_)]) if opened.is_ok() => Ok(true),
        (Err(_), []) if left.is_empty() => Ok(false),
        _ => Err(format!("{imported:?} and then {entries:?}, {left:?}")),
    }
}

/// One folder under the root is one entry, whatever its config holds.
fn check_config(input: &[u8], place: &Path) -> Result<bool, String> {
    let folder = place.join("model");
    if !folder.exists() {
        fs::create_dir(&folder).expect("the place is writable");
        write(&folder.join("tokenizer.json"), b"{}");
        write(&folder.join("model.safetensors"), b"\x02\0\0\0\0\0\0\0{}");
    }
    write(&folder.join("config.json"), input);
    let entries = list_models(&[place.to_path_buf()]).map_err(|error| error.to_string())?;
    match entries.as_slice() {
        [CatalogEntry::Usable(model)] => {
            let is_named =
                !model.architecture.is_empty() || serde_json::from_slice::<serde_json::Value>(input).is_ok();
            is_named.then_some(true).ok_or_else(|| "a model of no JSON".to_string())
        }
        [CatalogEntry::Broken { .. }] => Ok(false),
        _ => Err(format!("{} entries", entries.len())),
    }
}

/// What is accepted has exactly the tensors of shards in the folder.
fn check_index(input: &[u8], place: &Path) -> Result<bool, String> {
    let shards = [
        ("1.safetensors", r#"{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}"#),
        (
            "2.safetensors",
            r#"{"b":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"c":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}}"#,
        ),
    ];
    for (name, header) in shards {
        let path = place.join(name);
        if !path.exists() {
            write(&path, &[&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0]].concat());
        }
    }
    write(&place.join("model.safetensors.index.json"), input);
    let Ok(headers) = WeightHeaders::read(place) else { return Ok(false) };
    let names: Vec<&str> = headers.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let sound: [&[&str]; 3] = [&["a"], &["b", "c"], &["a", "b", "c"]];
    sound.contains(&names.as_slice()).then_some(true).ok_or_else(|| format!("read {names:?}"))
}

fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("the place is writable");
}
