use std::path::PathBuf;

/// Why a model could not be read, imported or listed. Each message says what, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ModelHubError {
    /// The system refused to read.
    #[error("cannot read {}: check that it exists and may be read", path.display())]
    Read {
        /// File or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The system refused to write.
    #[error("cannot write {}: check free space and permissions", path.display())]
    Write {
        /// File or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The output folder is there already; an import never overwrites.
    #[error("{} exists already: delete it or choose another folder", path.display())]
    OutputExists {
        /// The folder.
        path: PathBuf,
    },
    /// The file does not begin as a GGUF file does.
    #[error("{} is not a GGUF file: choose a file that ends in .gguf", path.display())]
    NotGguf {
        /// The file.
        path: PathBuf,
    },
    /// A GGUF version that this build does not read.
    #[error("{} is GGUF version {version}: this build reads little-endian versions 2 and 3; convert it anew", path.display())]
    UnsupportedVersion {
        /// The file.
        path: PathBuf,
        /// Version as stored.
        version: u32,
    },
    /// The file ends too early.
    #[error(
        "{} ends at byte {file_bytes}, but {what} needs it up to byte {needed_bytes}: the download was cut off, fetch it again",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// What was being read.
        what: String,
        /// Where that ends, in bytes from the start.
        needed_bytes: u64,
        /// Length of the file.
        file_bytes: u64,
    },
    /// The file contradicts itself or any sense.
    #[error("{} is damaged at byte {at_bytes}: {what} {reason}; fetch the file again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where, in bytes from the start.
        at_bytes: u64,
        /// What is wrong there.
        what: String,
        /// Why it cannot be right.
        reason: String,
    },
    /// Metadata that the import needs is not there.
    #[error("{} lacks \"{key}\" in its metadata: it is incomplete, choose another conversion of this model", path.display())]
    MissingMetadata {
        /// The file.
        path: PathBuf,
        /// The metadata key.
        key: String,
    },
    /// Metadata holds something that cannot be right.
    #[error("{} has \"{key}\" {reason}: choose another conversion of this model", path.display())]
    UnusableMetadata {
        /// The file.
        path: PathBuf,
        /// The metadata key.
        key: String,
        /// What is wrong with its value.
        reason: String,
    },
    /// A model family that this build cannot run.
    #[error("{} is of the architecture \"{architecture}\": this build imports \"llama\", \"qwen2\" and \"qwen3\"", path.display())]
    UnsupportedArchitecture {
        /// The file.
        path: PathBuf,
        /// As the file names it.
        architecture: String,
    },
    /// A way of packing weights that cannot be imported.
    #[error(
        "tensor \"{tensor}\" in {} is packed as {tensor_type}: choose a file in Q4_0, Q4_1, Q8_0, F16 or F32",
        path.display()
    )]
    UnsupportedTensorType {
        /// The file.
        path: PathBuf,
        /// Name in the file.
        tensor: String,
        /// The packing by its GGUF name.
        tensor_type: String,
    },
    /// A tensor that the architecture has no place for.
    #[error("tensor \"{tensor}\" in {} has no place in a plain model of its architecture: this variant is not supported", path.display())]
    UnexpectedTensor {
        /// The file.
        path: PathBuf,
        /// Name in the file.
        tensor: String,
    },
    /// A tensor that the architecture needs.
    #[error("tensor \"{tensor}\" is not in {}: it is incomplete or split over several files; fetch it again or join it", path.display())]
    MissingTensor {
        /// The file.
        path: PathBuf,
        /// Name that it should have in the file.
        tensor: String,
    },
    /// A tensor of the wrong size.
    #[error("tensor \"{tensor}\" in {} has shape {found:?} where the metadata says {expected:?}: choose another conversion", path.display())]
    WrongShape {
        /// The file.
        path: PathBuf,
        /// Name in the file.
        tensor: String,
        /// Rows first.
        expected: Vec<u64>,
        /// Rows first.
        found: Vec<u64>,
    },
    /// A weight too large for half precision.
    #[error("tensor \"{tensor}\" in {} holds a value that half precision cannot: choose another conversion", path.display())]
    NotRepresentable {
        /// The file.
        path: PathBuf,
        /// Name in the file.
        tensor: String,
    },
    /// A kind of tokenizer that cannot be imported.
    #[error("{} uses the tokenizer \"{kind}\": this build imports byte-level BPE as in GPT-2, SmolLM, Llama 3 and Qwen 2", path.display())]
    UnsupportedTokenizer {
        /// The file.
        path: PathBuf,
        /// Model and pre-tokenizer as the file names them.
        kind: String,
    },
    /// The weights file could not be laid out.
    #[error("cannot lay out {}", path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What the safetensors library said.
        source: safetensors::SafeTensorError,
    },
    /// A JSON file of a model folder does not parse.
    #[error("{} is not valid JSON: fetch the model again", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why parsing stopped.
        source: serde_json::Error,
    },
    /// A name that would lead out of the model's folder or to something that is no weights, or a path that is not
    /// absolute.
    #[error("{} names {given:?}, which leads where it may not: fetch or import the model again", path.display())]
    UnsafePath {
        /// The file that names it.
        path: PathBuf,
        /// The name as given.
        given: String,
    },
    /// A tensor of numbers that nothing here can read.
    #[error("tensor \"{tensor}\" in {} is stored as {dtype}: choose another conversion of this model", path.display())]
    UnsupportedDtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// As the file names it.
        dtype: String,
    },
    /// The disk has no room for an import.
    #[error("{} needs {needed_bytes} bytes and {free_bytes} are free: make room and try again", path.display())]
    DiskFull {
        /// What was to be written.
        path: PathBuf,
        /// With a margin.
        needed_bytes: u64,
        /// Free where it was to be written.
        free_bytes: u64,
    },
    /// The import was ended by whoever watched it.
    #[error("the import was cancelled")]
    Cancelled,
    /// The folder is a model of this root already.
    #[error("{} is in the list already", path.display())]
    AlreadyListed {
        /// The folder.
        path: PathBuf,
    },
    /// Something that is no model of these roots is never deleted.
    #[error("{} is no model in one of Braid's folders: it was not deleted", path.display())]
    NotListed {
        /// What was to be deleted.
        path: PathBuf,
    },
    /// A folder that is not there, or not any more.
    #[error("{} is not there: connect the drive it lies on, or remove the model from the list", path.display())]
    FolderMissing {
        /// The folder.
        path: PathBuf,
    },
    /// A link in a cache of downloads that leads out of its repository.
    #[error("{} leads to {}, outside its repository: fetch the model again", path.display(), target.display())]
    LinkOutside {
        /// The link.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// A folder without the files that make a model.
    #[error("{} has no {what}: fetch the model again", path.display())]
    Incomplete {
        /// The folder.
        path: PathBuf,
        /// The file or entry that is missing.
        what: String,
    },
}
