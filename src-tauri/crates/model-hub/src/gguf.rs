//! The header of a GGUF file: metadata and where each tensor lies.
//!
//! Source: `ggml` `docs/gguf.md`, versions 2 and 3, little-endian.

mod header;
mod reader;

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufReader, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use crate::ModelHubError;

/// Weights per block of the quantised types.
pub(crate) const BLOCK_WEIGHTS: u64 = 32;

/// How a tensor's weights are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorType {
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    F16,
    /// Blocks of 32: f16 scale, 4-bit weights.
    Q4_0,
    /// Blocks of 32: f16 scale, f16 minimum, 4-bit weights.
    Q4_1,
    /// Blocks of 32: f16 scale, 8-bit weights.
    Q8_0,
    /// A type that this build does not unpack, by its number in the file.
    Other(u32),
}

impl TensorType {
    fn from_code(code: u32) -> Self {
        match code {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            8 => Self::Q8_0,
            other => Self::Other(other),
        }
    }

    /// The name that `ggml` gives the type.
    pub fn name(self) -> String {
        let name = match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q8_0 => "Q8_0",
            Self::Other(code) => return other_type_name(code),
        };
        name.to_string()
    }

    /// Bits per weight once unpacked for MLX, or `None` for floats and for types that are not unpacked.
    pub fn quantised_bits(self) -> Option<u32> {
        match self {
            Self::Q4_0 | Self::Q4_1 => Some(4),
            Self::Q8_0 => Some(8),
            Self::F32 | Self::F16 | Self::Other(_) => None,
        }
    }

    /// (weights, bytes) of the smallest unit, or `None` if this build does not know the type.
    pub(crate) fn block(self) -> Option<(u64, u64)> {
        match self {
            Self::F32 => Some((1, 4)),
            Self::F16 => Some((1, 2)),
            Self::Q4_0 => Some((BLOCK_WEIGHTS, 18)),
            Self::Q4_1 => Some((BLOCK_WEIGHTS, 20)),
            Self::Q8_0 => Some((BLOCK_WEIGHTS, 34)),
            Self::Other(_) => None,
        }
    }
}

fn other_type_name(code: u32) -> String {
    let name = match code {
        6 => "Q5_0",
        7 => "Q5_1",
        9 => "Q8_1",
        10 => "Q2_K",
        11 => "Q3_K",
        12 => "Q4_K",
        13 => "Q5_K",
        14 => "Q6_K",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        29 => "IQ1_M",
        30 => "BF16",
        34 => "TQ1_0",
        35 => "TQ2_0",
        39 => "MXFP4",
        _ => return format!("type {code}"),
    };
    name.to_string()
}

/// One value of the metadata.
#[derive(Debug, Clone, PartialEq)]
pub enum MetadataValue {
    /// Any integer type.
    Integer(i64),
    /// A 32-bit float, kept as such: its shortest decimal is what people meant.
    F32(f32),
    /// A 64-bit float.
    F64(f64),
    /// A truth value.
    Bool(bool),
    /// UTF-8 text.
    Text(String),
    /// Many values of one type.
    Array(MetadataArray),
}

/// An array of the metadata.
#[derive(Debug, Clone, PartialEq)]
pub enum MetadataArray {
    /// Any integer type.
    Integers(Vec<i64>),
    /// Either float type.
    Floats(Vec<f64>),
    /// Truth values.
    Bools(Vec<bool>),
    /// UTF-8 texts.
    Texts(Vec<String>),
}

/// Where a tensor lies and what it looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name in the file.
    pub name: String,
    /// Rows first, unlike in the file.
    pub shape: Vec<u64>,
    /// How its weights are packed.
    pub tensor_type: TensorType,
    /// First byte, from the start of the file.
    pub start_bytes: u64,
    /// Bytes in the file; 0 for a type whose packing this build does not know.
    pub bytes: u64,
}

/// A GGUF file whose header has been read and checked.
#[derive(Debug)]
pub struct Gguf {
    path: PathBuf,
    metadata: BTreeMap<String, MetadataValue>,
    tensors: BTreeMap<String, TensorInfo>,
}

impl Gguf {
    /// Reads and checks the header: every tensor of a known type lies within the file.
    ///
    /// # Errors
    /// [`ModelHubError::Read`], `NotGguf`, `UnsupportedVersion`, `Truncated` or `Damaged`.
    pub fn open(path: &Path) -> Result<Self, ModelHubError> {
        let failed = |source| ModelHubError::Read { path: path.to_path_buf(), source };
        let file = File::open(path).map_err(failed)?;
        let file_bytes = file.metadata().map_err(failed)?.len();
        header::read(reader::Reader::new(BufReader::new(file), path, file_bytes))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All tensors in the order of their names.
    pub fn tensors(&self) -> impl Iterator<Item = &TensorInfo> {
        self.tensors.values()
    }

    /// One tensor by its name in the file.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name)
    }

    /// One value of the metadata.
    pub fn metadata(&self, key: &str) -> Option<&MetadataValue> {
        self.metadata.get(key)
    }

    /// A text, or `None` if the key is absent or holds something else.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.metadata.get(key)? {
            MetadataValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A count that must be there and at least 1.
    ///
    /// # Errors
    /// [`ModelHubError::MissingMetadata`] or [`ModelHubError::UnusableMetadata`].
    pub fn count(&self, key: &str) -> Result<u64, ModelHubError> {
        self.optional_count(key)?.ok_or_else(|| self.missing(key))
    }

    /// A count that may be absent, but is at least 1 and fits 32 bits if it is there.
    ///
    /// # Errors
    /// [`ModelHubError::UnusableMetadata`].
    pub fn optional_count(&self, key: &str) -> Result<Option<u64>, ModelHubError> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(MetadataValue::Integer(count @ 1..=0xFFFF_FFFF)) => Ok(Some(count.unsigned_abs())),
            Some(other) => Err(self.unusable(key, format!("= {}, not a count", describe(other)))),
        }
    }

    /// Reads a tensor's bytes as they are in the file.
    ///
    /// # Errors
    /// [`ModelHubError::Read`].
    pub(crate) fn read_tensor(&self, file: &mut File, tensor: &TensorInfo) -> Result<Vec<u8>, ModelHubError> {
        let failed = |source| ModelHubError::Read { path: self.path.clone(), source };
        let length = usize::try_from(tensor.bytes).map_err(|error| failed(std::io::Error::other(error)))?;
        file.seek(SeekFrom::Start(tensor.start_bytes)).map_err(failed)?;
        let mut bytes = vec![0; length];
        file.read_exact(&mut bytes).map_err(failed)?;
        Ok(bytes)
    }

    pub(crate) fn missing(&self, key: &str) -> ModelHubError {
        ModelHubError::MissingMetadata { path: self.path.clone(), key: key.to_string() }
    }

    pub(crate) fn unusable(&self, key: &str, reason: impl Into<String>) -> ModelHubError {
        ModelHubError::UnusableMetadata {
            path: self.path.clone(),
            key: key.to_string(),
            reason: reason.into(),
        }
    }
}

/// A value in a message: short, whatever the file holds.
pub(crate) fn describe(value: &MetadataValue) -> String {
    match value {
        MetadataValue::Integer(number) => number.to_string(),
        MetadataValue::F32(number) => number.to_string(),
        MetadataValue::F64(number) => number.to_string(),
        MetadataValue::Bool(truth) => truth.to_string(),
        MetadataValue::Text(text) => format!("\"{}\"", text.chars().take(40).collect::<String>()),
        MetadataValue::Array(_) => "an array".to_string(),
    }
}
