//! Headers of safetensors files: which tensors a model has and how large they are, without reading one.
//!
//! Source: the safetensors format (8 bytes of length, a JSON object, the tensors' bytes without holes).

mod parse;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{ModelHubError, catalog::exists, json};

pub(crate) const WEIGHTS: &str = "model.safetensors";
pub(crate) const WEIGHTS_INDEX: &str = "model.safetensors.index.json";
/// The safetensors library refuses longer headers as well.
const HEADER_BYTES_MAX: u64 = 100_000_000;
/// The largest models are in some hundred.
const SHARDS_MAX: usize = 4096;

/// How the numbers of a tensor are stored: the types that MLX reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum WeightDtype {
    Bool,
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    Bf16,
    F32,
    F8E4m3,
    F8E8m0,
}

impl WeightDtype {
    fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "BOOL" => Self::Bool,
            "U8" => Self::U8,
            "I8" => Self::I8,
            "U16" => Self::U16,
            "I16" => Self::I16,
            "U32" => Self::U32,
            "I32" => Self::I32,
            "U64" => Self::U64,
            "I64" => Self::I64,
            "F16" => Self::F16,
            "BF16" => Self::Bf16,
            "F32" => Self::F32,
            "F8_E4M3" => Self::F8E4m3,
            "F8_E8M0" => Self::F8E8m0,
            _ => return None,
        })
    }

    /// Bytes of one number.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Bool | Self::U8 | Self::I8 | Self::F8E4m3 | Self::F8E8m0 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 => 8,
        }
    }

    /// Whether it holds fractions of 16 or 32 bits.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32)
    }
}

/// One tensor as its file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorHeader {
    /// Its name.
    pub name: String,
    /// How its numbers are stored.
    pub dtype: WeightDtype,
    /// Rows first; empty for a single number.
    pub shape: Vec<u64>,
    /// Bytes in the file.
    pub bytes: u64,
}

/// The tensors of a model, of all its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightHeaders {
    /// File by file, each in the order of its bytes. Names are unique.
    pub tensors: Vec<TensorHeader>,
    /// Size of all weight files.
    pub file_bytes: u64,
}

impl WeightHeaders {
    /// Reads and checks the headers of a model folder: `model.safetensors`, or the files that
    /// `model.safetensors.index.json` names.
    ///
    /// Every tensor lies within its file, none overlaps another, no byte belongs to none, each name occurs once, and
    /// what the index lists is there.
    ///
    /// # Errors
    /// [`ModelHubError::Read`], `Json`, `Incomplete`, `Truncated`, `Damaged` or `UnsupportedDtype`, with the file and
    /// the tensor.
    pub fn read(folder: &Path) -> Result<Self, ModelHubError> {
        let listing = WeightFiles::find(folder)?;
        let mut headers = Self { tensors: Vec::new(), file_bytes: 0 };
        let mut names = HashSet::new();
        for name in &listing.files {
            let path = folder.join(name);
            if !exists(&path)? {
                return Err(ModelHubError::Incomplete { path: folder.to_path_buf(), what: name.clone() });
            }
            let file = read_file(&path)?;
            headers.file_bytes = headers.file_bytes.saturating_add(file.file_bytes);
            for tensor in file.tensors {
                if !names.insert(tensor.name.clone()) {
                    return Err(ModelHubError::Damaged {
                        path,
                        at_bytes: 8,
                        what: format!("tensor \"{}\"", tensor.name),
                        reason: "is in another file of the model too".to_string(),
                    });
                }
                headers.tensors.push(tensor);
            }
        }
        match listing.tensors.iter().find(|tensor| !names.contains(*tensor)) {
            None => Ok(headers),
            Some(tensor) => {
                let what = format!("tensor \"{tensor}\", which {WEIGHTS_INDEX} lists");
                Err(ModelHubError::Incomplete { path: folder.to_path_buf(), what })
            }
        }
    }
}

#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    weight_map: BTreeMap<String, String>,
}

/// The weight files of a model folder, by name.
pub(crate) struct WeightFiles {
    pub(crate) files: BTreeSet<String>,
    /// Tensors that the index lists; empty without an index.
    tensors: BTreeSet<String>,
}

impl WeightFiles {
    /// Reads the index, if there is one. Files need not exist.
    pub(crate) fn find(folder: &Path) -> Result<Self, ModelHubError> {
        let index = folder.join(WEIGHTS_INDEX);
        if !exists(&index)? {
            let files = BTreeSet::from([WEIGHTS.to_string()]);
            return Ok(Self { files, tensors: BTreeSet::new() });
        }
        let Index { weight_map } = json::read(&index, json::INDEX_BYTES_MAX)?;
        if weight_map.is_empty() {
            let what = format!("\"weight_map\" in {WEIGHTS_INDEX}");
            return Err(ModelHubError::Incomplete { path: folder.to_path_buf(), what });
        }
        let mut listing = Self { files: BTreeSet::new(), tensors: BTreeSet::new() };
        for (tensor, file) in weight_map {
            if !is_weight_file_name(&file) {
                return Err(ModelHubError::UnsafePath { path: index, given: file });
            }
            listing.files.insert(file);
            listing.tensors.insert(tensor);
        }
        if listing.files.len() > SHARDS_MAX {
            return Err(ModelHubError::Damaged {
                path: index,
                at_bytes: 0,
                what: "\"weight_map\"".to_string(),
                reason: format!("names {} files, more than any model has", listing.files.len()),
            });
        }
        Ok(listing)
    }
}

/// A name with a path in it would lead out of the folder.
fn is_weight_file_name(name: &str) -> bool {
    name.len() <= 255
        && name.ends_with(".safetensors")
        && !name.starts_with('.')
        && !name.contains(['/', '\\', ':', '\0'])
}

/// Reads and checks the header of one file.
pub(crate) fn read_file(path: &Path) -> Result<WeightHeaders, ModelHubError> {
    let failed = |source| ModelHubError::Read { path: path.to_path_buf(), source };
    let place = Place { path: path.to_path_buf(), file_bytes: 0 };
    let mut file = fs::File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(failed(std::io::Error::from(std::io::ErrorKind::InvalidInput)));
    }
    let place = Place { file_bytes: metadata.len(), ..place };
    if place.file_bytes < 8 {
        return Err(place.truncated("the length of the header", 8));
    }
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(failed)?;
    let header_bytes = u64::from_le_bytes(length);
    if header_bytes > HEADER_BYTES_MAX {
        return Err(place.damaged(0, "the length of the header", format!("is {header_bytes} bytes")));
    }
    let data_start = 8 + header_bytes;
    if data_start > place.file_bytes {
        return Err(place.truncated("the list of weights", data_start));
    }
    let mut header = Vec::with_capacity(header_bytes as usize);
    file.take(header_bytes).read_to_end(&mut header).map_err(failed)?;
    let tensors = parse::tensors(&header, data_start, &place)?;
    Ok(WeightHeaders { tensors, file_bytes: place.file_bytes })
}

/// Where an error is.
struct Place {
    path: PathBuf,
    file_bytes: u64,
}

impl Place {
    fn damaged(&self, at_bytes: u64, what: &str, reason: impl Into<String>) -> ModelHubError {
        let (what, reason) = (what.to_string(), reason.into());
        ModelHubError::Damaged { path: self.path.clone(), at_bytes, what, reason }
    }

    fn truncated(&self, what: &str, needed_bytes: u64) -> ModelHubError {
        ModelHubError::Truncated {
            path: self.path.clone(),
            what: what.to_string(),
            needed_bytes,
            file_bytes: self.file_bytes,
        }
    }
}
