use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    collections::HashMap,
    fs::File,
    path::Path,
};

use safetensors::{Dtype, View};

use super::{Progress, Watch, blocks, disk, go_on, part_folder::write_error, plan::PlannedTensor};
use crate::{Gguf, ModelHubError, TensorType};

/// Writes all tensors in MLX's layout, if the disk has room for them. Holds one tensor in memory at a time.
pub(super) fn write(
    gguf: &Gguf,
    tensors: &[PlannedTensor],
    target: &Path,
    watch: Watch<'_>,
) -> Result<(), ModelHubError> {
    let file = File::open(gguf.path())
        .map_err(|source| ModelHubError::Read { path: gguf.path().to_path_buf(), source })?;
    let source = Source {
        gguf,
        file: RefCell::new(file),
        failure: RefCell::new(None),
        progress: Cell::new(Progress { done_bytes: 0, total_bytes: 0 }),
        watch: RefCell::new(watch),
    };
    let mut views = Vec::new();
    for tensor in tensors {
        let name = |part: &str| format!("{}.{part}", tensor.module);
        if tensor.source.tensor_type.quantised_bits().is_some() {
            views.push((name("weight"), LazyTensor::new(&source, tensor, Content::Words)));
            views.push((name("scales"), LazyTensor::new(&source, tensor, Content::Scales)));
            views.push((name("biases"), LazyTensor::new(&source, tensor, Content::Biases)));
        } else {
            views.push((name(tensor.part), LazyTensor::new(&source, tensor, Content::Halves)));
        }
    }
    let total_bytes = views.iter().map(|(_, view)| view.data_len() as u64).sum();
    source.progress.set(Progress { done_bytes: 0, total_bytes });
    disk::check_space(target, total_bytes)?;
    let metadata = HashMap::from([("format".to_string(), "mlx".to_string())]);
    let written = safetensors::serialize_to_file(views, Some(metadata), target);
    if let Some(failure) = source.failure.take() {
        return Err(failure);
    }
    written.map_err(|error| match error {
        safetensors::SafeTensorError::IoError(source) => write_error(target, source),
        source => ModelHubError::Safetensors { path: target.to_path_buf(), source },
    })
}

struct Source<'a> {
    gguf: &'a Gguf,
    file: RefCell<File>,
    /// The first failure: the safetensors interface has no way to report one while it writes.
    failure: RefCell<Option<ModelHubError>>,
    progress: Cell<Progress>,
    watch: RefCell<Watch<'a>>,
}

impl Source<'_> {
    fn advance(&self, bytes: usize) -> Result<(), ModelHubError> {
        let Progress { done_bytes, total_bytes } = self.progress.get();
        let progress = Progress { done_bytes: done_bytes + bytes as u64, total_bytes };
        self.progress.set(progress);
        go_on(&mut **self.watch.borrow_mut(), progress)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Words,
    Scales,
    Biases,
    Halves,
}

struct LazyTensor<'a, 's> {
    source: &'a Source<'s>,
    tensor: &'a PlannedTensor,
    content: Content,
    shape: Vec<usize>,
}

impl<'a, 's> LazyTensor<'a, 's> {
    fn new(source: &'a Source<'s>, tensor: &'a PlannedTensor, content: Content) -> Self {
        let mut shape: Vec<usize> = tensor.source.shape.iter().map(|dimension| *dimension as usize).collect();
        let bits = tensor.source.tensor_type.quantised_bits().unwrap_or(0) as usize;
        if let Some(columns) = shape.last_mut() {
            *columns = match content {
                Content::Words => *columns * bits / 32,
                Content::Scales | Content::Biases => *columns / blocks::GROUP_WEIGHTS,
                Content::Halves => *columns,
            };
        }
        Self { source, tensor, content, shape }
    }

    fn read(&self) -> Result<Vec<u8>, ModelHubError> {
        let info = &self.tensor.source;
        let raw = self.source.gguf.read_tensor(&mut self.source.file.borrow_mut(), info)?;
        let unpacked = match (self.content, info.tensor_type) {
            (Content::Words, packing) => blocks::packed_weights(packing, &raw),
            (Content::Scales, packing) => blocks::scales(packing, &raw),
            (Content::Biases, packing) => blocks::biases(packing, &raw),
            (Content::Halves, TensorType::F32) => {
                blocks::to_half(&raw).ok_or_else(|| ModelHubError::NotRepresentable {
                    path: self.source.gguf.path().to_path_buf(),
                    tensor: info.name.clone(),
                })?
            }
            (Content::Halves, _) => raw,
        };
        Ok(match self.tensor.permuted_heads {
            Some(heads) => blocks::unpermute_rows(&unpacked, unpacked.len() / self.shape[0], heads),
            None => unpacked,
        })
    }
}

impl View for LazyTensor<'_, '_> {
    fn dtype(&self) -> Dtype {
        if self.content == Content::Words { Dtype::U32 } else { Dtype::F16 }
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        if self.source.failure.borrow().is_some() {
            return Cow::Owned(Vec::new());
        }
        let bytes = self.read().and_then(|bytes| self.source.advance(bytes.len()).map(|()| bytes));
        match bytes {
            Ok(bytes) => Cow::Owned(bytes),
            Err(error) => {
                *self.source.failure.borrow_mut() = Some(error);
                Cow::Owned(Vec::new())
            }
        }
    }

    fn data_len(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype().bitsize() / 8
    }
}
