use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    fmt,
};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};

use super::{Place, TensorHeader, WeightDtype};
use crate::ModelHubError;

/// MLX's arrays have no more that mean anything in a model.
const DIMENSIONS_MAX: usize = 8;
/// MLX counts a dimension in 32 bits with a sign.
const DIMENSION_MAX: u64 = i32::MAX as u64;
const TENSORS_MAX: usize = 1 << 20;
const METADATA_KEY: &str = "__metadata__";

/// The tensors of a header, in the order of their bytes.
pub(super) fn tensors(
    header: &[u8],
    data_start: u64,
    place: &Place,
) -> Result<Vec<TensorHeader>, ModelHubError> {
    let text = std::str::from_utf8(header).map_err(|error| {
        place.damaged(8 + error.valid_up_to() as u64, "the list of weights", "is not UTF-8 text")
    })?;
    let Entries(mut entries) = serde_json::from_str(text)
        .map_err(|source| ModelHubError::Json { path: place.path.clone(), source })?;
    entries.sort_by_key(|(_, entry)| entry.data_offsets);
    let mut names = HashSet::with_capacity(entries.len());
    let mut end_of_last = 0;
    let mut tensors = Vec::with_capacity(entries.len());
    for (name, entry) in &entries {
        let what = format!("tensor \"{name}\"");
        let (begin, end) = entry.data_offsets;
        let at_bytes = data_start.saturating_add(begin);
        if !names.insert(name.as_ref()) {
            return Err(place.damaged(at_bytes, &what, "appears twice"));
        }
        if begin != end_of_last {
            let reason =
                if begin < end_of_last { "overlaps the one before" } else { "leaves a hole before it" };
            return Err(place.damaged(at_bytes, &what, reason));
        }
        let dtype = WeightDtype::of_name(&entry.dtype).ok_or_else(|| ModelHubError::UnsupportedDtype {
            path: place.path.clone(),
            tensor: name.to_string(),
            dtype: entry.dtype.chars().take(40).collect(),
        })?;
        let bytes = entry.shape.0.iter().try_fold(dtype.bytes(), |product, dimension| {
            (*dimension <= DIMENSION_MAX).then(|| product.checked_mul(*dimension)).flatten()
        });
        let Some(bytes) = bytes else {
            return Err(place.damaged(
                at_bytes,
                &what,
                format!("has the impossible shape {:?}", entry.shape.0),
            ));
        };
        if end.checked_sub(begin) != Some(bytes) {
            let reason = format!("lies at {begin} to {end}, but its shape {:?} takes {bytes}", entry.shape.0);
            return Err(place.damaged(at_bytes, &what, reason));
        }
        let needed_bytes = data_start.saturating_add(end);
        if needed_bytes > place.file_bytes {
            return Err(place.truncated(&what, needed_bytes));
        }
        end_of_last = end;
        tensors.push(TensorHeader { name: name.to_string(), dtype, shape: entry.shape.0.clone(), bytes });
    }
    let data_end = data_start + end_of_last;
    if data_end != place.file_bytes {
        let reason = format!("belong to no tensor: {} bytes", place.file_bytes - data_end);
        return Err(place.damaged(data_end, "the bytes at the end", reason));
    }
    Ok(tensors)
}

/// Tensors as they are written, in the order of the file. Duplicate names are kept, to be found.
struct Entries<'a>(Vec<(Cow<'a, str>, Entry<'a>)>);

#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    dtype: Cow<'a, str>,
    shape: Shape,
    data_offsets: (u64, u64),
}

struct Shape(Vec<u64>);

/// Borrows where the text has no escapes.
#[derive(Deserialize, PartialEq, Eq, Hash)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(Name(name)) = map.next_key()? {
            if name == METADATA_KEY {
                map.next_value::<HashMap<Name<'de>, Name<'de>>>()?;
                continue;
            }
            if entries.len() == TENSORS_MAX {
                return Err(A::Error::custom("more tensors than any model has"));
            }
            entries.push((name, map.next_value()?));
        }
        Ok(Entries(entries))
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ShapeVisitor)
    }
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a shape")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut dimensions: A) -> Result<Shape, A::Error> {
        let mut shape = Vec::new();
        while let Some(dimension) = dimensions.next_element()? {
            if shape.len() == DIMENSIONS_MAX {
                return Err(A::Error::custom("a shape of more dimensions than any tensor has"));
            }
            shape.push(dimension);
        }
        Ok(Shape(shape))
    }
}
