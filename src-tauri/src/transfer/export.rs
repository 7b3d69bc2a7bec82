//! The history -> files: written beside their place under a name of the moment, then renamed.

use std::{
    collections::HashSet,
    fs,
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use history::{ConversationId, History, HistoryError};
use protocol::{ExportFormat, ExportReport};
use tempfile::NamedTempFile;
use tokio::runtime::Handle;

use super::{
    file::{self, FORMAT, FileConversation, VERSION},
    library_id, markdown, names,
};
use crate::{error::AppError, state::AppState};

/// Source of conversations that another Braid exported.
const BRAID: &str = "braid";

/// Writes one conversation. Blocks; to be called on a blocking thread of a runtime.
///
/// # Errors
/// [`AppError::Transfer`], the history's.
pub fn conversation(
    state: &AppState,
    id: ConversationId,
    format: ExportFormat,
    path: &Path,
) -> Result<ExportReport, AppError> {
    let runtime = Handle::current();
    let history = runtime.block_on(state.history())?;
    match format {
        ExportFormat::Markdown => {
            let stored = runtime.block_on(history.open_conversation(id))?;
            let file = Target::beside(path)?;
            file.write(markdown::conversation(&stored).as_bytes())?.replace(path)?;
        }
        ExportFormat::Json => {
            let library = runtime.block_on(library_id(history))?;
            let conversation = runtime.block_on(file_of(history, id, &library))?;
            let file = Target::beside(path)?.write(head().as_bytes())?.json(&conversation)?;
            file.write(TAIL.as_bytes())?.replace(path)?;
        }
    }
    Ok(report(path, 1, 0))
}

/// Writes every conversation. Blocks; to be called on a blocking thread of a runtime.
///
/// # Errors
/// [`AppError::Transfer`], the history's.
pub fn library(state: &AppState, format: ExportFormat, path: &Path) -> Result<ExportReport, AppError> {
    let runtime = Handle::current();
    let history = runtime.block_on(state.history())?;
    let mut ids: Vec<_> =
        runtime.block_on(history.list_conversations())?.into_iter().map(|line| line.id).collect();
    // The oldest first: the order in which an import makes them anew.
    ids.sort();
    match format {
        ExportFormat::Json => as_json(&runtime, history, &ids, path),
        ExportFormat::Markdown => as_markdown(&runtime, history, &ids, path),
    }
}

fn as_json(
    runtime: &Handle,
    history: &History,
    ids: &[ConversationId],
    path: &Path,
) -> Result<ExportReport, AppError> {
    let library = runtime.block_on(library_id(history))?;
    let mut file = Target::beside(path)?.write(head().as_bytes())?;
    let (mut written, mut unreadable) = (0, 0);
    for id in ids {
        let Some(conversation) =
            readable(runtime.block_on(file_of(history, *id, &library)), &mut unreadable)?
        else {
            continue;
        };
        if written > 0 {
            file = file.write(b",\n")?;
        }
        file = file.json(&conversation)?;
        written += 1;
    }
    file.write(TAIL.as_bytes())?.replace(path)?;
    Ok(report(path, written, unreadable))
}

fn as_markdown(
    runtime: &Handle,
    history: &History,
    ids: &[ConversationId],
    folder: &Path,
) -> Result<ExportReport, AppError> {
    fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
    let mut taken = HashSet::new();
    let (mut written, mut unreadable) = (0, 0);
    for id in ids {
        let stored = runtime.block_on(history.open_conversation(*id)).map_err(AppError::from);
        let Some(stored) = readable(stored, &mut unreadable)? else { continue };
        let text = markdown::conversation(&stored);
        let mut file = Target::in_folder(folder)?.write(text.as_bytes())?;
        for path in names::candidates(folder, &stored.title, "md") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            if !taken.insert(name) {
                continue;
            }
            match file.keep_beside_others(&path)? {
                None => break,
                Some(again) => file = again,
            }
        }
        written += 1;
    }
    Ok(report(folder, written, unreadable))
}

/// Passes over what is damaged or was deleted meanwhile; other failures end the export.
fn readable<T>(read: Result<T, AppError>, unreadable: &mut u32) -> Result<Option<T>, AppError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(AppError::History(error)) => match &*error {
            HistoryError::Corrupt { .. } => {
                *unreadable += 1;
                Ok(None)
            }
            HistoryError::ConversationNotFound(_) => Ok(None),
            _ => Err(AppError::History(error)),
        },
        Err(error) => Err(error),
    }
}

/// A conversation as it stands in the file.
///
/// # Errors
/// The history's.
pub async fn file_of(
    history: &History,
    id: ConversationId,
    library: &str,
) -> Result<FileConversation, AppError> {
    let whole = history.whole_conversation(id).await?;
    // What came from another Braid keeps its name there.
    let name = match &whole.origin {
        Some(origin) if origin.source == BRAID => origin.source_id.clone(),
        _ => format!("{library}-{id}"),
    };
    file::from_history(history, whole, name).await
}

fn head() -> String {
    format!("{{\"format\":\"{FORMAT}\",\"version\":{VERSION},\"conversations\":[\n")
}

const TAIL: &str = "\n]}\n";

fn report(path: &Path, conversations: u32, unreadable: u32) -> ExportReport {
    ExportReport { path: path.display().to_string(), conversations, unreadable }
}

fn failed(path: &Path, source: io::Error) -> AppError {
    AppError::Transfer { path: path.to_owned(), source: Arc::new(source) }
}

/// A file that does not have its name yet. Dropped before it has, it is gone.
struct Target {
    file: BufWriter<NamedTempFile>,
    /// Named in errors.
    shown: PathBuf,
}

impl Target {
    fn beside(path: &Path) -> Result<Self, AppError> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if path.is_dir() {
            return Err(failed(path, io::ErrorKind::IsADirectory.into()));
        }
        Self::create(folder, path)
    }

    fn in_folder(folder: &Path) -> Result<Self, AppError> {
        Self::create(folder, folder)
    }

    fn create(folder: &Path, shown: &Path) -> Result<Self, AppError> {
        let file = tempfile::Builder::new().prefix(".braid-").suffix(".part").tempfile_in(folder);
        let file = file.map_err(|source| failed(shown, source))?;
        Ok(Self { file: BufWriter::with_capacity(1 << 16, file), shown: shown.to_owned() })
    }

    fn write(mut self, bytes: &[u8]) -> Result<Self, AppError> {
        self.file.write_all(bytes).map_err(|source| failed(&self.shown, source))?;
        Ok(self)
    }

    fn json(mut self, conversation: &FileConversation) -> Result<Self, AppError> {
        serde_json::to_writer(&mut self.file, conversation)
            .map_err(|source| failed(&self.shown, source.into()))?;
        Ok(self)
    }

    /// Takes the place of what is at `path`.
    fn replace(self, path: &Path) -> Result<(), AppError> {
        let (file, _) = self.whole()?;
        file.persist(path).map_err(|error| failed(path, error.error))?;
        Ok(())
    }

    /// Takes a name that no file has; gives itself back if one has it.
    fn keep_beside_others(self, path: &Path) -> Result<Option<Self>, AppError> {
        let (file, shown) = self.whole()?;
        match file.persist_noclobber(path) {
            Ok(_) => Ok(None),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                Ok(Some(Self { file: BufWriter::new(error.file), shown }))
            }
            Err(error) => Err(failed(path, error.error)),
        }
    }

    /// All of it, on the disk.
    fn whole(self) -> Result<(NamedTempFile, PathBuf), AppError> {
        let shown = self.shown;
        let file = self.file.into_inner().map_err(|error| failed(&shown, error.into_error()))?;
        file.as_file().sync_all().map_err(|source| failed(&shown, source))?;
        Ok((file, shown))
    }
}
