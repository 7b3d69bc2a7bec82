use std::{collections::BTreeMap, io::Read};

use super::{Gguf, MetadataArray, MetadataValue, TensorInfo, TensorType, reader::Reader};
use crate::ModelHubError;

const ENTRIES_MAX: u64 = 1 << 16;
const ARRAY_ITEMS_MAX: u64 = 1 << 22;
const DIMENSIONS_MAX: u32 = 4;
const ALIGNMENT_KEY: &str = "general.alignment";
const DEFAULT_ALIGNMENT: u64 = 32;
const ALIGNMENT_MAX: u64 = 1 << 20;

pub(super) fn read<R: Read>(mut reader: Reader<R>) -> Result<Gguf, ModelHubError> {
    if reader.file_bytes() < 4 || reader.array::<4>("the magic number")? != *b"GGUF" {
        return Err(ModelHubError::NotGguf { path: reader.path().to_path_buf() });
    }
    let version = reader.u32("the version")?;
    if !(2..=3).contains(&version) {
        return Err(ModelHubError::UnsupportedVersion { path: reader.path().to_path_buf(), version });
    }
    // A tensor entry takes at least 32 bytes, a metadata entry at least 13.
    let tensor_count = reader.count("the number of tensors", 32, ENTRIES_MAX)?;
    let entry_count = reader.count("the number of metadata entries", 13, ENTRIES_MAX)?;

    let mut metadata = BTreeMap::new();
    for _ in 0..entry_count {
        let key = reader.text("a metadata key")?;
        let value_type = reader.u32(&key)?;
        let value = read_value(&mut reader, &key, value_type)?;
        if metadata.insert(key.clone(), value).is_some() {
            return Err(reader.damaged(&key, "appears twice"));
        }
    }
    let entries = (0..tensor_count).map(|_| read_tensor_entry(&mut reader)).collect::<Result<Vec<_>, _>>()?;

    let alignment = alignment(&reader, &metadata)?;
    let data_start = reader.at_bytes().next_multiple_of(alignment);
    let mut tensors = BTreeMap::new();
    for entry in entries {
        let tensor = locate(&reader, entry, data_start, alignment)?;
        let name = tensor.name.clone();
        if tensors.insert(name.clone(), tensor).is_some() {
            return Err(reader.damaged(&name, "appears twice"));
        }
    }
    Ok(Gguf { path: reader.path().to_path_buf(), metadata, tensors })
}

fn read_value<R: Read>(
    reader: &mut Reader<R>,
    key: &str,
    value_type: u32,
) -> Result<MetadataValue, ModelHubError> {
    Ok(match value_type {
        6 => MetadataValue::F32(f32::from_le_bytes(reader.array(key)?)),
        12 => MetadataValue::F64(f64::from_le_bytes(reader.array(key)?)),
        7 => MetadataValue::Bool(read_bool(reader, key)?),
        8 => MetadataValue::Text(reader.text(key)?),
        9 => MetadataValue::Array(read_array(reader, key)?),
        integer => MetadataValue::Integer(read_integer(reader, key, integer)?),
    })
}

fn read_array<R: Read>(reader: &mut Reader<R>, key: &str) -> Result<MetadataArray, ModelHubError> {
    let item_type = reader.u32(key)?;
    let Some(item_bytes) = smallest_bytes(item_type) else {
        return Err(reader.damaged(key, format!("is an array of the unknown type {item_type}")));
    };
    let count = reader.count(key, item_bytes, ARRAY_ITEMS_MAX)?;
    let items = 0..count;
    Ok(match item_type {
        6 => MetadataArray::Floats(
            items
                .map(|_| Ok(f64::from(f32::from_le_bytes(reader.array(key)?))))
                .collect::<Result<_, ModelHubError>>()?,
        ),
        12 => MetadataArray::Floats(
            items
                .map(|_| Ok(f64::from_le_bytes(reader.array(key)?)))
                .collect::<Result<_, ModelHubError>>()?,
        ),
        7 => MetadataArray::Bools(items.map(|_| read_bool(reader, key)).collect::<Result<_, _>>()?),
        8 => MetadataArray::Texts(items.map(|_| reader.text(key)).collect::<Result<_, _>>()?),
        integer => MetadataArray::Integers(
            items.map(|_| read_integer(reader, key, integer)).collect::<Result<_, _>>()?,
        ),
    })
}

/// Bytes that a value of this type takes at least. Arrays within arrays are in the specification, but in no model.
fn smallest_bytes(value_type: u32) -> Option<u64> {
    match value_type {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        8 | 10..=12 => Some(8),
        _ => None,
    }
}

fn read_integer<R: Read>(reader: &mut Reader<R>, key: &str, value_type: u32) -> Result<i64, ModelHubError> {
    Ok(match value_type {
        0 => i64::from(reader.u8(key)?),
        1 => i64::from(i8::from_le_bytes(reader.array(key)?)),
        2 => i64::from(u16::from_le_bytes(reader.array(key)?)),
        3 => i64::from(i16::from_le_bytes(reader.array(key)?)),
        4 => i64::from(reader.u32(key)?),
        5 => i64::from(i32::from_le_bytes(reader.array(key)?)),
        10 => i64::try_from(reader.u64(key)?).map_err(|_| reader.damaged(key, "is beyond 63 bits"))?,
        11 => i64::from_le_bytes(reader.array(key)?),
        unknown => return Err(reader.damaged(key, format!("has the unknown type {unknown}"))),
    })
}

fn read_bool<R: Read>(reader: &mut Reader<R>, key: &str) -> Result<bool, ModelHubError> {
    match reader.u8(key)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(reader.damaged(key, format!("is {other} where true or false belongs"))),
    }
}

struct TensorEntry {
    name: String,
    shape: Vec<u64>,
    type_code: u32,
    offset_bytes: u64,
}

fn read_tensor_entry<R: Read>(reader: &mut Reader<R>) -> Result<TensorEntry, ModelHubError> {
    let name = reader.text("a tensor name")?;
    let dimensions = reader.u32(&name)?;
    if !(1..=DIMENSIONS_MAX).contains(&dimensions) {
        return Err(reader.damaged(&name, format!("has {dimensions} dimensions")));
    }
    let mut shape = (0..dimensions).map(|_| reader.u64(&name)).collect::<Result<Vec<_>, _>>()?;
    // The file lists the fastest-changing dimension first.
    shape.reverse();
    let type_code = reader.u32(&name)?;
    let offset_bytes = reader.u64(&name)?;
    Ok(TensorEntry { name, shape, type_code, offset_bytes })
}

fn alignment<R: Read>(
    reader: &Reader<R>,
    metadata: &BTreeMap<String, MetadataValue>,
) -> Result<u64, ModelHubError> {
    match metadata.get(ALIGNMENT_KEY) {
        None => Ok(DEFAULT_ALIGNMENT),
        Some(MetadataValue::Integer(bytes))
            if bytes.count_ones() == 1 && (1..=ALIGNMENT_MAX).contains(&bytes.unsigned_abs()) =>
        {
            Ok(bytes.unsigned_abs())
        }
        Some(other) => Err(reader.damaged(ALIGNMENT_KEY, format!("is {}", super::describe(other)))),
    }
}

fn locate<R: Read>(
    reader: &Reader<R>,
    entry: TensorEntry,
    data_start: u64,
    alignment: u64,
) -> Result<TensorInfo, ModelHubError> {
    let TensorEntry { name, shape, type_code, offset_bytes } = entry;
    let tensor_type = TensorType::from_code(type_code);
    let weights = shape.iter().try_fold(1_u64, |product, dimension| product.checked_mul(*dimension));
    let Some(weights) = weights.filter(|weights| *weights > 0) else {
        return Err(reader.damaged(&name, format!("has the impossible shape {shape:?}")));
    };
    if offset_bytes % alignment != 0 {
        return Err(reader.damaged(&name, format!("is not aligned to {alignment} bytes")));
    }
    let bytes = match tensor_type.block() {
        None => 0,
        Some((block_weights, block_bytes)) => {
            let row_weights = shape.last().copied().unwrap_or(0);
            if row_weights % block_weights != 0 {
                return Err(reader.damaged(&name, format!("has rows of {row_weights}, not of whole blocks")));
            }
            (weights / block_weights)
                .checked_mul(block_bytes)
                .ok_or_else(|| reader.damaged(&name, format!("has the impossible shape {shape:?}")))?
        }
    };
    let start_bytes = data_start.checked_add(offset_bytes);
    match start_bytes.and_then(|start| Some((start, start.checked_add(bytes)?))) {
        Some((start_bytes, end)) if end <= reader.file_bytes() => {
            Ok(TensorInfo { name, shape, tensor_type, start_bytes, bytes })
        }
        Some((_, end)) => Err(reader.truncated(&format!("tensor \"{name}\""), end)),
        None => Err(reader.damaged(&name, "lies beyond any file")),
    }
}
