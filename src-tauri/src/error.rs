//! Errors of the app, and their one way to the UI: [`CommandError`] with an [`ErrorCode`].
//!
//! Every variant of every crate's error has its code in an exhaustive match; nothing looks at message text.

use std::{error::Error, io, path::PathBuf, sync::Arc};

use engine::{EngineError, params::InvalidParam};
use history::HistoryError;
use mlx_backend::MlxError;
use model_hub::{HubError, ModelHubError, fit::FitReport};
use openai_api::client::ClientError;
use protocol::{CommandError, ErrorCode};
use text::TextError;

use crate::{attachments::Refusal, generation::CannotContinue, keychain::KeychainError};

/// Why the app could not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppError {
    /// A sampling setting is out of range.
    #[error(transparent)]
    InvalidSetting(InvalidParam),
    /// The message has no text.
    #[error("the message has no text")]
    EmptyMessage,
    /// An id that names no conversation.
    #[error("\"{given}\" names no conversation")]
    UnknownConversation {
        /// As the UI sent it.
        given: String,
    },
    /// An id that names no answer of the conversation.
    #[error("\"{given}\" names no answer")]
    UnknownAnswer {
        /// As the UI sent it.
        given: String,
    },
    /// A file cannot be attached.
    #[error("{name} {refusal}")]
    AttachmentRefused {
        /// Its name.
        name: String,
        /// Why, and the limit.
        refusal: Refusal,
    },
    /// A file of conversations cannot be written.
    #[error("cannot write {}", path.display())]
    Transfer {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: Arc<io::Error>,
    },
    /// An id that names no attachment.
    #[error("\"{given}\" names no attachment")]
    UnknownAttachment {
        /// As the UI sent it.
        given: String,
    },
    /// The conversation, or the request id, is busy with an answer.
    #[error("conversation {conversation_id} is being answered already")]
    AlreadyGenerating {
        /// The conversation.
        conversation_id: String,
    },
    /// No folder holds a model.
    #[error("no model in {}", list(.looked_in))]
    NoModel {
        /// Where the app looked.
        looked_in: Vec<PathBuf>,
    },
    /// The folders that look like models cannot be used; the reason of the first one.
    #[error("{}: {reason}", path.display())]
    BrokenModel {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: Arc<ModelHubError>,
    },
    /// The model's config asks for something that Braid does not have, or makes no sense.
    #[error("{} cannot be run", path.display())]
    UnsupportedModel {
        /// The model folder.
        path: PathBuf,
        /// Which field, and why.
        source: Arc<MlxError>,
    },
    /// The model does not fit into memory, by the headers of its files.
    #[error(
        "it needs {} with a context of {} tokens, {} of that for weights, and {} of {} are free{}",
        bytes(.0.needed_bytes), .0.context_tokens, bytes(.0.weights_bytes), bytes(.0.free_bytes),
        bytes(.0.total_bytes), offer(.0.offered_context_tokens)
    )]
    ModelTooLarge(Box<FitReport>),
    /// The device that models run on could not be asked for its memory.
    #[error("cannot ask the device for its memory")]
    Device(#[source] Arc<MlxError>),
    /// An id that names no model.
    #[error("there is no model \"{given}\"")]
    UnknownModel {
        /// As the UI sent it.
        given: String,
    },
    /// The model runs or is being loaded, or came with the app.
    #[error("\"{model_id}\" is in use or came with Braid")]
    ModelInUse {
        /// The model.
        model_id: String,
    },
    /// A model could not be imported or deleted.
    #[error(transparent)]
    ModelFiles(Arc<ModelHubError>),
    /// The hub, or a download from it.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// The file of the hub's token could not be read or written.
    #[error("cannot use {}", path.display())]
    HubToken {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Arc<io::Error>,
    },
    /// A folder of models could not be listed.
    #[error("cannot look for models")]
    ModelList(#[source] Arc<ModelHubError>),
    /// The model's tokenizer or template could not be read.
    #[error("cannot read the tokenizer of {}", path.display())]
    Tokenizer {
        /// The model folder.
        path: PathBuf,
        /// Why.
        source: Arc<TextError>,
    },
    /// The conversation could not be turned into a prompt.
    #[error("the conversation could not be turned into a prompt")]
    Prompt(#[source] Arc<TextError>),
    /// The system gave no thread for the engine.
    #[error("the engine's thread could not be started")]
    EngineThread(#[source] Arc<io::Error>),
    /// The request can never fit into memory.
    #[error(
        "it needs {} and there can be {} at most; an answer of {fitting_answer_tokens} tokens would fit",
        bytes(*.needed_bytes), bytes(*.limit_bytes)
    )]
    TooLarge {
        /// What it would take.
        needed_bytes: u64,
        /// What there can be.
        limit_bytes: u64,
        /// Longest answer to the same prompt that would fit.
        fitting_answer_tokens: u32,
    },
    /// The engine refused or failed.
    #[error(transparent)]
    Engine(EngineError),
    /// The history could not be opened, read or written.
    #[error(transparent)]
    History(Arc<HistoryError>),
    /// A key could not be kept, read or erased.
    #[error(transparent)]
    Keychain(#[from] KeychainError),
    /// The server of a tab did not answer, or no further.
    #[error(transparent)]
    Remote(#[from] ClientError),
    /// The server of a tab ended an answer because of what it says.
    #[error("the server's filter of content ended the answer")]
    RemoteFiltered,
    /// The server of a tab ended an answer because of a fault that it does not name.
    #[error("the server says that the answer ended with an error")]
    RemoteEndedBadly,
    /// The local server cannot listen.
    #[error("port {port} of this computer cannot be used")]
    ServerPort {
        /// The port.
        port: u16,
        /// Why.
        source: Arc<io::Error>,
    },
    /// The local server's key was taken out of the place where it was kept.
    #[error("the local server's key is gone: renew it")]
    ServerKeyGone,
    /// An id that names no server.
    #[error("there is no server \"{given}\"")]
    UnknownServer {
        /// As the UI sent it.
        given: String,
    },
    /// The answer cannot go on, or take another way there.
    #[error(transparent)]
    CannotContinue(#[from] CannotContinue),
    /// A value of the app's own could not be written as JSON.
    #[error("cannot write {what} as JSON")]
    Json {
        /// Which value.
        what: &'static str,
        /// Why.
        source: Arc<serde_json::Error>,
    },
    /// A task of the app panicked.
    #[error("a task of the app panicked")]
    TaskPanicked,
    /// The benchmark needs the engine for itself.
    #[error("answers are running")]
    BenchmarkBusy,
    /// A row of the benchmark took too long.
    #[error("a row of the benchmark was not done within {} s", limit.as_secs())]
    BenchmarkSlow {
        /// How long it may take.
        limit: std::time::Duration,
    },
    /// There is nothing to save yet.
    #[error("there is no report yet")]
    NoReport,
    /// A report cannot be written.
    #[error("{} cannot be written", path.display())]
    ReportNotWritten {
        /// Where.
        path: PathBuf,
        /// Why.
        source: Arc<io::Error>,
    },
    /// The system refuses the menu bar.
    #[error("the system refuses the menu bar: {reason}")]
    Menu {
        /// Its words.
        reason: String,
    },
}

impl From<HistoryError> for AppError {
    fn from(error: HistoryError) -> Self {
        Self::History(Arc::new(error))
    }
}

impl From<EngineError> for AppError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::TooLarge { needed_bytes, limit_bytes, fitting_answer_tokens } => {
                Self::TooLarge { needed_bytes, limit_bytes, fitting_answer_tokens }
            }
            error => Self::Engine(error),
        }
    }
}

impl From<InvalidParam> for AppError {
    fn from(invalid: InvalidParam) -> Self {
        Self::InvalidSetting(invalid)
    }
}

impl From<AppError> for CommandError {
    fn from(error: AppError) -> Self {
        Self { code: error.code(), message: in_full(&error) }
    }
}

/// An error's message and those of its causes, separated by colons.
pub fn in_full(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

impl AppError {
    /// Of an import or a deletion.
    pub fn model_files(error: ModelHubError) -> Self {
        Self::ModelFiles(Arc::new(error))
    }

    /// What the UI acts on.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::InvalidSetting(_) => ErrorCode::InvalidSetting,
            Self::EmptyMessage => ErrorCode::EmptyMessage,
            Self::UnknownConversation { .. } => ErrorCode::ConversationNotFound,
            Self::UnknownAnswer { .. } => ErrorCode::Internal,
            Self::Transfer { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                ErrorCode::DiskFull
            }
            Self::Transfer { .. } => ErrorCode::TransferFailed,
            Self::AttachmentRefused { .. } | Self::UnknownAttachment { .. } => ErrorCode::AttachmentRefused,
            Self::TooLarge { .. } => ErrorCode::TooLarge,
            Self::AlreadyGenerating { .. } => ErrorCode::AlreadyGenerating,
            Self::NoModel { .. } => ErrorCode::ModelMissing,
            Self::BrokenModel { reason, .. } | Self::ModelList(reason) => hub_code(reason),
            Self::Tokenizer { .. } => ErrorCode::ModelUnusable,
            Self::UnknownModel { .. } => ErrorCode::ModelMissing,
            Self::ModelInUse { .. } => ErrorCode::ModelInUse,
            Self::ModelFiles(error) => files_code(error),
            Self::Hub(error) => remote_code(error),
            Self::HubToken { .. } => ErrorCode::HubAccess,
            Self::UnsupportedModel { source, .. } => load_code(source),
            Self::ModelTooLarge(_) => ErrorCode::ModelTooLarge,
            Self::Device(_) => ErrorCode::EngineFailed,
            Self::Prompt(error) => text_code(error),
            Self::EngineThread(_) => ErrorCode::EngineFailed,
            Self::Engine(error) => engine_code(error),
            Self::History(error) => history_code(error),
            Self::Keychain(_) | Self::ServerKeyGone => ErrorCode::KeychainFailed,
            Self::ServerPort { .. } => ErrorCode::ServerPortTaken,
            Self::Remote(error) => server_code(error),
            Self::RemoteFiltered => ErrorCode::RemoteRefused,
            Self::RemoteEndedBadly => ErrorCode::RemoteFault,
            Self::UnknownServer { .. } => ErrorCode::RemoteUnknown,
            Self::BenchmarkBusy => ErrorCode::BenchmarkBusy,
            Self::BenchmarkSlow { .. } => ErrorCode::EngineFault,
            Self::ReportNotWritten { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                ErrorCode::DiskFull
            }
            Self::NoReport | Self::ReportNotWritten { .. } => ErrorCode::TransferFailed,
            Self::CannotContinue(_) => ErrorCode::CannotContinue,
            Self::Json { .. } | Self::TaskPanicked | Self::Menu { .. } => ErrorCode::Internal,
        }
    }
}

/// What the UI acts on when a model on this computer is at fault.
pub fn hub_code(error: &ModelHubError) -> ErrorCode {
    match error {
        ModelHubError::Write { .. } | ModelHubError::Cancelled => ErrorCode::Internal,
        ModelHubError::DiskFull { .. } => ErrorCode::DiskFull,
        ModelHubError::FolderMissing { .. } | ModelHubError::NotListed { .. } => ErrorCode::ModelMissing,
        ModelHubError::OutputExists { .. }
        | ModelHubError::AlreadyListed { .. }
        | ModelHubError::LinkOutside { .. } => ErrorCode::ImportRefused,
        ModelHubError::Read { .. }
        | ModelHubError::NotGguf { .. }
        | ModelHubError::UnsupportedVersion { .. }
        | ModelHubError::Truncated { .. }
        | ModelHubError::Damaged { .. }
        | ModelHubError::MissingMetadata { .. }
        | ModelHubError::UnusableMetadata { .. }
        | ModelHubError::UnsupportedArchitecture { .. }
        | ModelHubError::UnsupportedTensorType { .. }
        | ModelHubError::UnexpectedTensor { .. }
        | ModelHubError::MissingTensor { .. }
        | ModelHubError::WrongShape { .. }
        | ModelHubError::NotRepresentable { .. }
        | ModelHubError::UnsupportedTokenizer { .. }
        | ModelHubError::Safetensors { .. }
        | ModelHubError::Json { .. }
        | ModelHubError::UnsafePath { .. }
        | ModelHubError::Incomplete { .. } => ErrorCode::ModelUnusable,
        ModelHubError::UnsupportedDtype { .. } => ErrorCode::ModelUnsupported,
    }
}

/// Of an import or a deletion: what is wrong with a model is a reason to refuse it.
fn files_code(error: &ModelHubError) -> ErrorCode {
    match hub_code(error) {
        ErrorCode::DiskFull => ErrorCode::DiskFull,
        ErrorCode::ModelUnsupported => ErrorCode::ModelUnsupported,
        _ => ErrorCode::ImportRefused,
    }
}

fn remote_code(error: &HubError) -> ErrorCode {
    match error {
        HubError::InvalidEndpoint { .. } | HubError::InvalidProxy | HubError::InvalidToken => {
            ErrorCode::InvalidSetting
        }
        HubError::Offline { .. }
        | HubError::Dns { .. }
        | HubError::Connect { .. }
        | HubError::Tls { .. }
        | HubError::Proxy { .. }
        | HubError::Timeout { .. }
        | HubError::Interrupted { .. } => ErrorCode::HubUnreachable,
        HubError::Unauthorized { .. } | HubError::Gated { .. } | HubError::Forbidden { .. } => {
            ErrorCode::HubAccess
        }
        HubError::InvalidRepo { .. }
        | HubError::InvalidRevision { .. }
        | HubError::NotFound { .. }
        | HubError::NoSuchFile { .. } => ErrorCode::HubNotFound,
        HubError::RateLimited { .. } => ErrorCode::HubBusy,
        HubError::Server { .. }
        | HubError::UnexpectedStatus { .. }
        | HubError::Redirect { .. }
        | HubError::BadAnswer { .. }
        | HubError::TooLarge { .. }
        | HubError::UnsafeListing { .. } => ErrorCode::HubFault,
        HubError::NoWeights { .. } => ErrorCode::ModelUnsupported,
        HubError::WrongSize { .. } | HubError::Corrupt { .. } | HubError::KeepsChanging { .. } => {
            ErrorCode::DownloadCorrupt
        }
        HubError::DiskFull { .. } => ErrorCode::DiskFull,
        HubError::UnknownDownload => ErrorCode::DownloadNotFound,
        HubError::Disk { .. } | HubError::InUse { .. } => ErrorCode::DownloadFailed,
        HubError::Client { .. } | HubError::Aborted => ErrorCode::Internal,
    }
}

fn server_code(error: &ClientError) -> ErrorCode {
    match error {
        ClientError::Address { .. } | ClientError::Redirect { .. } => ErrorCode::RemoteAddress,
        ClientError::Unreachable { .. } | ClientError::Silent { .. } | ClientError::Client { .. } => {
            ErrorCode::RemoteUnreachable
        }
        ClientError::InvalidKey | ClientError::Access { .. } => ErrorCode::RemoteAccess,
        ClientError::Refused { .. } => ErrorCode::RemoteRefused,
        ClientError::Failed { .. } | ClientError::BadAnswer { .. } | ClientError::BrokeOff { .. } => {
            ErrorCode::RemoteFault
        }
    }
}

fn text_code(error: &TextError) -> ErrorCode {
    match error {
        TextError::NoChatTemplate
        | TextError::TemplateSyntax { .. }
        | TextError::TemplateRefused { .. }
        | TextError::TemplateFailed { .. }
        | TextError::TemplateEndless { .. }
        | TextError::TemplateOutput { .. }
        | TextError::TemplateTooLong { .. }
        | TextError::TemplateSlow { .. }
        | TextError::TemplateMemory { .. }
        | TextError::TemplateCutsLiteral { .. } => ErrorCode::TemplateRejected,
        TextError::Read { .. } | TextError::Json { .. } | TextError::TokenizerFile { .. } => {
            ErrorCode::ModelUnusable
        }
        TextError::NoPlaceForThinking | TextError::InexactAnswer => ErrorCode::CannotContinue,
        TextError::Encode { .. } | TextError::Decode { .. } => ErrorCode::Internal,
    }
}

fn engine_code(error: &EngineError) -> ErrorCode {
    match error {
        EngineError::PromptTooLong { .. } => ErrorCode::ContextTooLong,
        EngineError::QueueFull { .. } => ErrorCode::QueueFull,
        EngineError::NotReady | EngineError::LoadCancelled => ErrorCode::EngineNotReady,
        EngineError::ModelReplaced => ErrorCode::ModelReplaced,
        EngineError::ModelUnloaded => ErrorCode::ModelUnloaded,
        EngineError::Load(source) => source.downcast_ref().map_or(ErrorCode::ModelUnusable, load_code),
        EngineError::NonFiniteLogits | EngineError::NothingAllowed => ErrorCode::BadLogits,
        EngineError::AnswerEnded { .. } | EngineError::AnswerRefused { .. } => ErrorCode::CannotContinue,
        EngineError::Grammar { .. } => ErrorCode::GrammarRefused,
        EngineError::GrammarDeadEnd => ErrorCode::GrammarDeadEnd,
        EngineError::GrammarFailed { .. } => ErrorCode::GrammarFailed,
        EngineError::TooLarge { .. } => ErrorCode::TooLarge,
        EngineError::Prefill(_)
        | EngineError::Backend(_)
        | EngineError::ResultCount { .. }
        | EngineError::AllRowsBad { .. } => ErrorCode::EngineFault,
        EngineError::Stopped | EngineError::Panicked { .. } | EngineError::RepeatedFaults { .. } => {
            ErrorCode::EngineFailed
        }
        EngineError::EmptyPrompt
        | EngineError::UnknownToken { .. }
        | EngineError::Text(_)
        | EngineError::RowPanicked { .. } => ErrorCode::Internal,
    }
}

fn load_code(error: &MlxError) -> ErrorCode {
    match error {
        MlxError::UnsupportedArchitecture(_) | MlxError::UnsupportedField { .. } => {
            ErrorCode::ModelUnsupported
        }
        MlxError::OutOfMemory { .. } => ErrorCode::ModelTooLarge,
        MlxError::File { .. }
        | MlxError::Config { .. }
        | MlxError::NoWeights { .. }
        | MlxError::Damaged { .. }
        | MlxError::TiedHead { .. }
        | MlxError::UnsupportedQuantisation(_)
        | MlxError::Quantisation { .. }
        | MlxError::MissingTensors { .. }
        | MlxError::UnusedTensors { .. }
        | MlxError::Shape { .. } => ErrorCode::ModelUnusable,
        MlxError::Op { .. }
        | MlxError::Read { .. }
        | MlxError::BatchFull { .. }
        | MlxError::Misuse { .. } => ErrorCode::EngineFailed,
    }
}

fn history_code(error: &HistoryError) -> ErrorCode {
    match error {
        HistoryError::NewerSchema { .. } => ErrorCode::HistoryTooNew,
        HistoryError::DiskFull => ErrorCode::DiskFull,
        HistoryError::ConversationNotFound(_) => ErrorCode::ConversationNotFound,
        HistoryError::Backup { source, .. } => history_code(source),
        HistoryError::File { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
            ErrorCode::DiskFull
        }
        HistoryError::AlreadyOpen { .. }
        | HistoryError::ForeignSchema { .. }
        | HistoryError::Corrupt { .. }
        | HistoryError::ReadOnly
        | HistoryError::Io { .. }
        | HistoryError::Busy
        | HistoryError::File { .. }
        | HistoryError::Migration(_)
        | HistoryError::Database(_) => ErrorCode::HistoryFailed,
        HistoryError::DraftFull { .. } | HistoryError::AttachmentNotFound(_) => ErrorCode::AttachmentRefused,
        HistoryError::MessageNotFound(_)
        | HistoryError::NotATree { .. }
        | HistoryError::AnswerStreaming(_)
        | HistoryError::AnswerFollowed(_)
        | HistoryError::NotAUserMessage(_)
        | HistoryError::AnswerNotStreaming { .. }
        | HistoryError::InvalidJson { .. }
        | HistoryError::WriterStopped => ErrorCode::Internal,
    }
}

/// Bytes as a person counts them.
fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut size, mut unit) = (count as f64, 0);
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0 && size < 100.0);
    format!("{size:.decimals$} {}", UNITS[unit])
}

fn offer(context_tokens: Option<u32>) -> String {
    context_tokens.map_or_else(String::new, |tokens| format!("; a context of {tokens} tokens would fit"))
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_other_reasons_why_a_file_is_not_written() {
        let failed = |kind: io::ErrorKind| AppError::Transfer {
            path: "/x/library.json".into(),
            source: Arc::new(kind.into()),
        };
        assert_eq!(failed(io::ErrorKind::StorageFull).code(), ErrorCode::DiskFull);
        assert_eq!(failed(io::ErrorKind::PermissionDenied).code(), ErrorCode::TransferFailed);
        let message = CommandError::from(failed(io::ErrorKind::PermissionDenied)).message;
        assert_eq!(message, "cannot write /x/library.json: permission denied");
    }

    #[test]
    fn what_can_never_fit_is_told_in_units_that_a_person_reads() {
        let error = AppError::from(EngineError::TooLarge {
            needed_bytes: 9 << 30,
            limit_bytes: 600 << 20,
            fitting_answer_tokens: 70,
        });
        assert_eq!(error.code(), ErrorCode::TooLarge);
        assert_eq!(
            error.to_string(),
            "it needs 9.0 GiB and there can be 600 MiB at most; an answer of 70 tokens would fit"
        );
    }
}
