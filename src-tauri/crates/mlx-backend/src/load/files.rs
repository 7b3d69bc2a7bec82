//! Which files of a folder hold the weights, and what their headers promise.

use super::header::{self, Entry};
use crate::error::{MlxError, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

const INDEX: &str = "model.safetensors.index.json";
const EXTENSION: &str = ".safetensors";
/// Longest index: as the longest header.
const MAX_INDEX_BYTES: u64 = header::MAX_HEADER_BYTES;
const COMPARED_BYTES: usize = 1 << 20;

/// Where one tensor lies.
#[derive(Debug, Clone)]
pub struct Place {
    /// The file, by its index.
    file: usize,
    entry: Entry,
}

/// The weight files of a folder and their tensors, by headers alone.
#[derive(Debug)]
pub struct WeightFiles {
    paths: Vec<PathBuf>,
    places: HashMap<String, Place>,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl WeightFiles {
    /// Finds the files of `dir`: those of its index, else `model*.safetensors`. Nothing else is ever opened.
    ///
    /// # Errors
    /// [`MlxError::NoWeights`], [`MlxError::File`] for a file that is missing, [`MlxError::Config`] for an index that
    /// does not fit its files, [`MlxError::Damaged`] for a file that is not sound.
    pub fn find(dir: &Path) -> Result<WeightFiles> {
        let index_path = dir.join(INDEX);
        let index = match std::fs::metadata(&index_path) {
            Ok(metadata) => Some(read_index(&index_path, metadata.len())?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(source) => return Err(MlxError::File { path: index_path, source }),
        };
        let mut names = match &index {
            Some(index) => index.weight_map.values().cloned().collect(),
            None => listed(dir)?,
        };
        names.sort();
        names.dedup();
        let mut files = WeightFiles { paths: Vec::new(), places: HashMap::new() };
        for name in names {
            files.add(dir.join(name))?;
        }
        if let Some(index) = index {
            files.check(&index, &index_path)?;
        }
        Ok(files)
    }

    fn add(&mut self, path: PathBuf) -> Result<()> {
        let unreadable = |source| MlxError::File { path: path.clone(), source };
        let file = File::open(&path).map_err(unreadable)?;
        let file_bytes = file.metadata().map_err(unreadable)?.len();
        let entries = header::read(&mut BufReader::new(file), file_bytes)
            .map_err(|source| MlxError::Damaged { path: path.clone(), source })?;
        let file = self.paths.len();
        for entry in entries {
            let name = entry.name.clone();
            if let Some(first) = self.places.insert(name.clone(), Place { file, entry }) {
                let reason = format!("tensor {name} is in {} too", self.paths[first.file].display());
                return Err(MlxError::Config { path, reason });
            }
        }
        self.paths.push(path);
        Ok(())
    }

    fn check(&self, index: &Index, index_path: &Path) -> Result<()> {
        for (tensor, file) in &index.weight_map {
            let is_there =
                self.places.get(tensor).is_some_and(|place| self.paths[place.file].ends_with(file));
            if !is_there {
                let reason = format!("tensor {tensor} is not in {file}");
                return Err(MlxError::Config { path: index_path.to_owned(), reason });
            }
        }
        Ok(())
    }

    /// The files, in the order of their names.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Whether two tensors have the same dtype, shape and bytes; `None` if one is not there.
    ///
    /// # Errors
    /// [`MlxError::File`].
    pub fn are_equal(&self, first: &str, second: &str) -> Result<Option<bool>> {
        let (Some(first), Some(second)) = (self.places.get(first), self.places.get(second)) else {
            return Ok(None);
        };
        let of = |place: &Place| (place.entry.dtype.clone(), place.entry.shape.clone());
        if of(first) != of(second) {
            return Ok(Some(false));
        }
        let (mut one, mut other) = (self.content(first)?, self.content(second)?);
        let (mut buffer, mut compared) = (vec![0; COMPARED_BYTES], vec![0; COMPARED_BYTES]);
        let mut left = first.entry.bytes;
        while left > 0 {
            let count = left.min(COMPARED_BYTES as u64) as usize;
            self.fill(first, &mut one, &mut buffer[..count])?;
            self.fill(second, &mut other, &mut compared[..count])?;
            if buffer[..count] != compared[..count] {
                return Ok(Some(false));
            }
            left -= count as u64;
        }
        Ok(Some(true))
    }

    fn content(&self, place: &Place) -> Result<File> {
        let path = &self.paths[place.file];
        let open = || {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(place.entry.offset))?;
            Ok(file)
        };
        open().map_err(|source| MlxError::File { path: path.clone(), source })
    }

    fn fill(&self, place: &Place, file: &mut File, buffer: &mut [u8]) -> Result<()> {
        let path = &self.paths[place.file];
        file.read_exact(buffer).map_err(|source| MlxError::File { path: path.clone(), source })
    }
}

fn read_index(path: &Path, bytes: u64) -> Result<Index> {
    let malformed = |reason: String| MlxError::Config { path: path.to_owned(), reason };
    if bytes > MAX_INDEX_BYTES {
        return Err(malformed(format!("it is {bytes} bytes long")));
    }
    let content = std::fs::read(path).map_err(|source| MlxError::File { path: path.to_owned(), source })?;
    let index: Index = serde_json::from_slice(&content).map_err(|error| malformed(error.to_string()))?;
    if index.weight_map.is_empty() {
        return Err(malformed("it names no tensor".into()));
    }
    for name in index.weight_map.values() {
        // A name with a path in it would lead out of the folder.
        if name.contains(['/', '\\', '\0']) || !name.ends_with(EXTENSION) {
            return Err(malformed(format!("{name:?} is not a {EXTENSION} file of the model's folder")));
        }
    }
    Ok(index)
}

/// `model*.safetensors` of a folder without an index.
fn listed(dir: &Path) -> Result<Vec<String>> {
    let unreadable = |source| MlxError::File { path: dir.to_owned(), source };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        if let Some(name) =
            name.to_str().filter(|name| name.starts_with("model") && name.ends_with(EXTENSION))
        {
            names.push(name.to_owned());
        }
    }
    if names.is_empty() {
        return Err(MlxError::NoWeights { dir: dir.to_owned() });
    }
    // Without an index only the names tell that a part is missing.
    for name in &names {
        if let Some(missing) = parts_of(name).into_iter().flatten().find(|part| !names.contains(part)) {
            let source = std::io::ErrorKind::NotFound.into();
            return Err(MlxError::File { path: dir.join(missing), source });
        }
    }
    Ok(names)
}

/// All names of a series such as `model-00001-of-00003.safetensors`, by one of them.
fn parts_of(name: &str) -> Option<impl Iterator<Item = String>> {
    let (front, total) = name.strip_suffix(EXTENSION)?.rsplit_once("-of-")?;
    let (stem, number) = front.rsplit_once('-')?;
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(number) || !is_number(total) {
        return None;
    }
    let count: u32 = total.parse().ok()?;
    let (stem, total) = (stem.to_owned(), total.to_owned());
    Some((1..=count).map(move |part| format!("{stem}-{part:05}-of-{total}{EXTENSION}")))
}
