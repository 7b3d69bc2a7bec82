//! The one error type of the edge.

use serde::{Deserialize, Serialize};
use specta::Type;

/// What went wrong, as far as the UI acts on it. Wording lives in the UI's table and nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum ErrorCode {
    /// A setting is out of range; `message` names field, limit and value.
    InvalidSetting,
    /// The message has no text.
    EmptyMessage,
    /// The conversation does not exist or was deleted.
    ConversationNotFound,
    /// The conversation already has an answer running.
    AlreadyGenerating,
    /// The prompt does not fit the context window; `message` has the numbers.
    ContextTooLong,
    /// The queue is full.
    QueueFull,
    /// The chat template rejected the conversation.
    TemplateRejected,
    /// No model is loaded yet.
    EngineNotReady,
    /// The engine stopped; restart it.
    EngineFailed,
    /// The model gave numbers that cannot be sampled for this row.
    BadLogits,
    /// Structured output that cannot be enforced as asked; `message` says where and why.
    GrammarRefused,
    /// The grammar allows no token of the model's vocabulary at some place of the answer.
    GrammarDeadEnd,
    /// Enforcing the grammar failed.
    GrammarFailed,
    /// The request can never fit into memory; `message` has the numbers.
    TooLarge,
    /// A fault of the engine ended this answer; the engine goes on.
    EngineFault,
    /// The model could not be found.
    ModelMissing,
    /// The model's files are damaged or not supported.
    ModelUnusable,
    /// The model asks for something that Braid does not have; `message` names it.
    ModelUnsupported,
    /// The model does not fit into memory; `message` has the numbers.
    ModelTooLarge,
    /// The answer ended because another model took its place.
    ModelReplaced,
    /// No model is loaded, because it was unloaded.
    ModelUnloaded,
    /// The folder or file cannot be imported; `message` names what and why.
    ImportRefused,
    /// The hub cannot be reached; `message` says how far it came.
    HubUnreachable,
    /// The hub wants a token, or terms accepted on the model's page.
    HubAccess,
    /// The hub has no such model or revision.
    HubNotFound,
    /// The hub asks to wait; `message` says how long.
    HubBusy,
    /// The hub failed or spoke nonsense.
    HubFault,
    /// What arrived is not what the hub announced, twice.
    DownloadCorrupt,
    /// The model runs, is being loaded, or came with the app: it cannot be deleted.
    ModelInUse,
    /// The folder of downloads cannot be read or written, or another Braid uses it.
    DownloadFailed,
    /// The download or import is not known, or no longer.
    DownloadNotFound,
    /// The disk is full.
    DiskFull,
    /// The file cannot be attached; `message` names file, reason and limit.
    AttachmentRefused,
    /// The answer cannot be continued or branched there; `message` says why.
    CannotContinue,
    /// A file of conversations cannot be written or read; `message` names file and reason.
    TransferFailed,
    /// The server of this tab cannot be reached; `message` says how far it came.
    RemoteUnreachable,
    /// The server wants a key, or another one.
    RemoteAccess,
    /// The server refused the request; `message` has its words.
    RemoteRefused,
    /// The server broke off or spoke nonsense.
    RemoteFault,
    /// The server of this tab was removed from the settings.
    RemoteUnknown,
    /// The address of a server cannot be one; `message` says why.
    RemoteAddress,
    /// The key cannot be stored or read.
    KeychainFailed,
    /// The local server cannot listen on its port; `message` says why.
    ServerPortTaken,
    /// The benchmark needs the engine for itself; answers are running.
    BenchmarkBusy,
    /// The history was written by a newer version of the app.
    HistoryTooNew,
    /// The history could not be read or written.
    HistoryFailed,
    /// A defect in Braid.
    Internal,
}

/// What every command returns when it fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct CommandError {
    /// Looked up in the UI's wording table.
    pub code: ErrorCode,
    /// Detail with the numbers; shown below the wording, never matched on.
    pub message: String,
}
