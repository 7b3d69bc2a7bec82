//! Headers of safetensors files, checked before MLX reads one: its reader trusts lengths and offsets.
//!
//! Source of the format and its limits: huggingface/safetensors, README.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::Read;

/// Longest header, in bytes: what the safetensors library allows.
pub const MAX_HEADER_BYTES: u64 = 100_000_000;
/// Most axes of a tensor.
const MAX_AXES: usize = 8;

/// Why a file is not a safetensors file that can be read.
#[derive(Debug, thiserror::Error)]
pub enum HeaderError {
    /// Shorter than its own lengths say.
    #[error("it ends early: {needed_bytes} bytes are needed and {file_bytes} are there")]
    Truncated {
        /// Bytes that the lengths add up to.
        needed_bytes: u64,
        /// Bytes of the file.
        file_bytes: u64,
    },
    /// The header is longer than [`MAX_HEADER_BYTES`].
    #[error("its header would be {header_bytes} bytes long")]
    TooLong {
        /// Length by the first eight bytes.
        header_bytes: u64,
    },
    /// The header is not JSON of the right form.
    #[error("its header cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// MLX does not have the dtype.
    #[error("tensor {name} has dtype {dtype}, which is not supported")]
    Dtype {
        /// Name of the tensor.
        name: String,
        /// Dtype in the header.
        dtype: String,
    },
    /// More axes or elements than an array can have.
    #[error("tensor {name} has shape {shape:?}, which is not supported")]
    Shape {
        /// Name of the tensor.
        name: String,
        /// Shape in the header.
        shape: Vec<u64>,
    },
    /// Shape and dtype need another number of bytes than the header gives the tensor.
    #[error("tensor {name} takes bytes {start} to {end}, but needs {needed_bytes}")]
    Size {
        /// Name of the tensor.
        name: String,
        /// First byte.
        start: u64,
        /// Byte after the last.
        end: u64,
        /// Bytes by shape and dtype.
        needed_bytes: u64,
    },
    /// Tensors overlap, or bytes between or after them belong to none.
    #[error("tensor {name} starts at byte {start}, where {expected} was expected")]
    Place {
        /// Name of the tensor, or "(end)".
        name: String,
        /// Where it starts.
        start: u64,
        /// Where the tensor before it ends.
        expected: u64,
    },
    /// The file could not be read.
    #[error("it cannot be read")]
    Io(#[from] std::io::Error),
}

/// A tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name in the file.
    pub name: String,
    /// Dtype as the header spells it.
    pub dtype: String,
    /// Lengths of its axes.
    pub shape: Vec<u64>,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes of the tensor.
    pub bytes: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// The header's tensors in its order; a name that occurs twice is an error.
struct Listed(Vec<(String, Described)>);

impl<'de> Deserialize<'de> for Listed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Listed, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Listed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Listed, A::Error> {
                let (mut listed, mut names) = (Vec::new(), HashSet::new());
                while let Some(name) = map.next_key::<String>()? {
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom(format_args!("{name:?} occurs twice")));
                    }
                    if name == "__metadata__" {
                        map.next_value::<HashMap<String, String>>()?;
                    } else {
                        listed.push((name, map.next_value()?));
                    }
                }
                Ok(Listed(listed))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// Bytes of an element; `None` for a dtype that MLX does not read.
fn element_bytes(dtype: &str) -> Option<u64> {
    match dtype {
        "BOOL" | "U8" | "I8" | "F8_E4M3" | "F8_E8M0" => Some(1),
        "F16" | "BF16" | "U16" | "I16" => Some(2),
        "F32" | "U32" | "I32" => Some(4),
        "U64" | "I64" | "C64" => Some(8),
        _ => None,
    }
}

/// Tensors of a file of `file_bytes`, read from its beginning, in the order of their data.
///
/// # Errors
/// [`HeaderError`].
pub fn read(file: &mut impl Read, file_bytes: u64) -> Result<Vec<Entry>, HeaderError> {
    let truncated = |needed_bytes| HeaderError::Truncated { needed_bytes, file_bytes };
    if file_bytes < 8 {
        return Err(truncated(8));
    }
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    let header_bytes = u64::from_le_bytes(length);
    if header_bytes > MAX_HEADER_BYTES {
        return Err(HeaderError::TooLong { header_bytes });
    }
    if 8 + header_bytes > file_bytes {
        return Err(truncated(8 + header_bytes));
    }
    let mut header = Vec::new();
    file.take(header_bytes).read_to_end(&mut header)?;
    let Listed(listed) = serde_json::from_slice(&header)?;
    let mut entries: Vec<Entry> = listed
        .into_iter()
        .map(|(name, described)| entry(name, described, 8 + header_bytes))
        .collect::<Result<_, _>>()?;
    entries.sort_by_key(|entry| (entry.offset, entry.bytes));
    let mut end = 8 + header_bytes;
    for entry in &entries {
        if entry.offset != end {
            let (name, start) = (entry.name.clone(), entry.offset);
            return Err(HeaderError::Place { name, start, expected: end });
        }
        end = end.saturating_add(entry.bytes);
    }
    match end.cmp(&file_bytes) {
        std::cmp::Ordering::Equal => Ok(entries),
        std::cmp::Ordering::Greater => Err(truncated(end)),
        std::cmp::Ordering::Less => {
            Err(HeaderError::Place { name: "(end)".into(), start: file_bytes, expected: end })
        }
    }
}

fn entry(name: String, described: Described, data_start: u64) -> Result<Entry, HeaderError> {
    let Described { dtype, shape, data_offsets: [start, end] } = described;
    let Some(element_bytes) = element_bytes(&dtype) else {
        return Err(HeaderError::Dtype { name, dtype });
    };
    // MLX counts axes and elements of an axis in i32.
    let fits = shape.len() <= MAX_AXES && shape.iter().all(|length| i32::try_from(*length).is_ok());
    let elements = shape.iter().try_fold(1_u64, |product, length| product.checked_mul(*length));
    let needed_bytes = elements.and_then(|elements| elements.checked_mul(element_bytes)).filter(|_| fits);
    let Some(needed_bytes) = needed_bytes else {
        return Err(HeaderError::Shape { name, shape });
    };
    if end.checked_sub(start) != Some(needed_bytes) {
        return Err(HeaderError::Size { name, start, end, needed_bytes });
    }
    let offset = data_start.saturating_add(start);
    Ok(Entry { name, dtype, shape, offset, bytes: needed_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, body: usize) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.bytes());
        bytes.resize(bytes.len() + body, 7);
        bytes
    }

    fn parse(bytes: &[u8]) -> Result<Vec<Entry>, HeaderError> {
        read(&mut &*bytes, bytes.len() as u64)
    }

    const TWO: &str = r#"{"__metadata__":{"format":"mlx"},
        "b":{"dtype":"U32","shape":[2,1],"data_offsets":[4,12]},
        "a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}  "#;

    #[test]
    fn a_sound_header_lists_its_tensors_in_the_order_of_their_bytes() {
        let entries = parse(&file(TWO, 12)).expect("is sound");
        let start = 8 + TWO.len() as u64;
        let placed: Vec<_> = entries.iter().map(|e| (e.name.as_str(), e.offset - start, e.bytes)).collect();
        assert_eq!(placed, [("a", 0, 4), ("b", 4, 8)]);
        assert_eq!(entries[1].shape, [2, 1]);
    }

    #[test]
    fn lengths_and_places_that_do_not_fit_are_refused() {
        let one = |entry: &str| file(&format!(r#"{{"a":{entry}}}"#), 4);
        let tensor = |dtype: &str, shape: &str, offsets: &str| {
            one(&format!(r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#))
        };
        assert!(parse(&tensor("F32", "[1]", "[0,4]")).is_ok());
        for (bytes, word) in [
            (vec![1, 2, 3], "8 bytes are needed"),
            (u64::MAX.to_le_bytes().to_vec(), "would be"),
            (9_u64.to_le_bytes().to_vec(), "17 bytes are needed"),
            (file(TWO, 11), "ends early"),
            (file(TWO, 13), "(end)"),
            (tensor("F32", "[2]", "[0,4]"), "needs 8"),
            (tensor("F32", "[1]", "[4,0]"), "bytes 4 to 0"),
            (tensor("F32", "[1]", "[1,5]"), "starts at byte"),
            (tensor("F32", "[1]", "[18446744073709551612,18446744073709551615]"), "needs 4"),
            (tensor("F32", "[4294967296,4294967296,0]", "[0,0]"), "shape"),
            (tensor("F32", "[2147483648,0]", "[0,0]"), "shape"),
            (tensor("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), "shape"),
            (tensor("F64", "[1]", "[0,8]"), "F64"),
            (tensor("F32", "[-1]", "[0,4]"), "cannot be read"),
            (one("[]"), "cannot be read"),
            (file(&"[".repeat(100_000), 0), "cannot be read"),
            (file(r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{}}"#, 4), "occurs twice"),
            (
                file(
                    r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},
                        "b":{"dtype":"U8","shape":[3],"data_offsets":[1,4]}}"#,
                    4,
                ),
                "b starts at byte",
            ),
        ] {
            let refused = parse(&bytes).expect_err(word).to_string();
            assert!(refused.contains(word), "{refused}: {word}");
        }
    }

    #[test]
    fn no_change_of_one_byte_makes_the_check_panic_or_accept_other_sizes() {
        let sound = file(TWO, 12);
        for place in 0..sound.len() {
            for flip in [1_u8, 2, 16, 64, 128, 255] {
                let mut bytes = sound.clone();
                bytes[place] ^= flip;
                if let Ok(entries) = parse(&bytes) {
                    let sum: u64 = entries.iter().map(|entry| entry.bytes).sum();
                    let end = entries.last().map_or(0, |entry| entry.offset + entry.bytes);
                    assert_eq!(end, bytes.len() as u64, "byte {place} ^ {flip}: all bytes belong to tensors");
                    assert!(sum <= bytes.len() as u64);
                }
            }
        }
    }
}
