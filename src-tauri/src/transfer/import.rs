//! Files of conversations -> the history, one transaction a conversation.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::Path,
};

use history::{ConversationId, History, HistoryError, Origin};
use protocol::{
    ConversationImportReport, ImportSource, ImportedConversation, SamplingSettings, SkipReason, SkippedImport,
};
use serde_json::{Map, Value, value::RawValue};
use tokio::runtime::Handle;
use zip::{ZipArchive, result::ZipError};

use super::{
    export::file_of,
    file::{self, FORMAT, VERSION},
    foreign::{Foreign, Refused},
    library_id, lm_studio, openai,
    parts::{Part, Parts, PartsError, mended},
};
use crate::{
    convert::{self, conversation::word},
    error::{AppError, in_full},
    settings_store::to_json,
    state::AppState,
};

/// Bytes of one conversation in a file at most.
const MAX_CONVERSATION_BYTES: usize = 256 << 20;

/// Bytes of a file at most, unpacked.
const MAX_FILE_BYTES: u64 = 16 << 30;

/// Files of an archive that are looked into at most.
const MAX_ARCHIVE_FILES: usize = 10_000;

/// What was left out is told one by one up to here.
const MAX_SKIPPED: usize = 500;

/// Brings in the conversations of files. Blocks; to be called on a blocking thread of a runtime.
///
/// # Errors
/// The history's: nothing more can be stored. What came before stays.
pub fn import(state: &AppState, paths: &[String]) -> Result<ConversationImportReport, AppError> {
    let runtime = Handle::current();
    let history = runtime.block_on(state.history())?;
    let new_conversation = runtime.block_on(state.settings.current()).new_conversation;
    let library = runtime.block_on(library_id(history))?;
    let report = ConversationImportReport { imported: Vec::new(), skipped: Vec::new() };
    let mut import = Import { runtime, history, new_conversation, library, report, untold: 0 };
    for path in paths {
        import.path(Path::new(path))?;
    }
    Ok(import.finish())
}

struct Import<'a> {
    runtime: Handle,
    history: &'a History,
    new_conversation: SamplingSettings,
    library: String,
    report: ConversationImportReport,
    untold: usize,
}

/// What was found in a file.
#[derive(Default)]
struct Found {
    /// Conversations, taken or not.
    conversations: u64,
    /// Values that are none.
    others: u64,
}

impl Import<'_> {
    fn path(&mut self, path: &Path) -> Result<(), AppError> {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let opened = (|| {
            if !fs::metadata(path)?.is_file() {
                return Err(std::io::Error::other("it is no file"));
            }
            let mut input = BufReader::with_capacity(1 << 16, File::open(path)?);
            let is_archive = input.fill_buf()?.starts_with(b"PK\x03\x04");
            Ok((input, is_archive))
        })();
        match opened {
            Err(error) => self.skip(&name, None, SkipReason::Unreadable, in_full(&error)),
            Ok((input, true)) => self.archive(&name, input.into_inner())?,
            Ok((input, false)) => {
                let found = self.json(&name, input)?;
                if found.conversations == 0 {
                    let reason = if found.others > 0 { SkipReason::UnknownFormat } else { SkipReason::Empty };
                    self.skip(&name, None, reason, "it holds no conversation".into());
                }
            }
        }
        Ok(())
    }

    /// Looks into every JSON file of an archive; the others are pictures and pages.
    fn archive(&mut self, name: &str, file: File) -> Result<(), AppError> {
        let unreadable = |error: ZipError| in_full(&error);
        let mut archive = match ZipArchive::new(BufReader::new(file)) {
            Ok(archive) => archive,
            Err(error) => {
                self.skip(name, None, SkipReason::Unreadable, unreadable(error));
                return Ok(());
            }
        };
        let is_json =
            |name: &String| name.to_lowercase().ends_with(".json") && !name.starts_with("__MACOSX/");
        let names = archive.file_names().flatten().map(|name| name.to_string());
        let mut inside: Vec<String> = names.filter(is_json).collect();
        inside.sort();
        inside.truncate(MAX_ARCHIVE_FILES);
        let mut conversations = 0;
        for entry in &inside {
            let shown = format!("{name}: {entry}");
            match archive.by_name(entry) {
                Err(error) => self.skip(&shown, None, SkipReason::Unreadable, unreadable(error)),
                Ok(file) => {
                    conversations +=
                        self.json(&shown, BufReader::with_capacity(1 << 16, file))?.conversations;
                }
            }
        }
        if conversations == 0 {
            let detail = format!("none of its {} JSON files holds a conversation", inside.len());
            self.skip(name, None, SkipReason::UnknownFormat, detail);
        }
        Ok(())
    }

    /// Reads a JSON file of any of the formats.
    fn json(&mut self, name: &str, input: impl BufRead) -> Result<Found, AppError> {
        let mut found = Found::default();
        let mut members = Map::new();
        let parts = Parts::new(BufReader::new(input.take(MAX_FILE_BYTES)), MAX_CONVERSATION_BYTES);
        let mut is_object = false;
        for part in parts {
            match part {
                Err(error) => {
                    let is_nothing = found.conversations + found.others == 0 && members.is_empty();
                    self.skip(name, None, reason_of(&error, is_nothing), in_full(&error));
                    found.conversations += 1;
                    return Ok(found);
                }
                Ok(Part::TooLong { bytes }) => {
                    let detail = format!("{} of {} MiB", bytes >> 20, MAX_CONVERSATION_BYTES >> 20);
                    self.skip(name, None, SkipReason::TooLarge, detail);
                    found.conversations += 1;
                }
                Ok(Part::Member { key, value }) => {
                    is_object = true;
                    if let Ok(value) = value_of(&value) {
                        members.insert(key, value);
                    }
                }
                Ok(Part::Element(json)) if members.contains_key("format") => {
                    if !self.is_known(name, &members) {
                        found.conversations += 1;
                        return Ok(found);
                    }
                    found.conversations += 1;
                    self.own(name, &json)?;
                }
                Ok(Part::Element(json)) => self.element(name, &json, &mut found)?,
            }
        }
        if is_object && found.conversations == 0 {
            if members.contains_key("format") && members.contains_key("version") {
                // A library without conversations.
                found.conversations += u64::from(self.is_known(name, &members));
            } else {
                self.foreign(name, &Value::Object(members), &mut found)?;
            }
        }
        Ok(found)
    }

    /// Whether the file is Braid's own, of a version that can be read.
    fn is_known(&mut self, name: &str, members: &Map<String, Value>) -> bool {
        let version = members.get("version").and_then(Value::as_u64);
        match (members.get("format").and_then(Value::as_str), version) {
            (Some(FORMAT), Some(version)) if version <= u64::from(VERSION) => true,
            (Some(FORMAT), version) => {
                let version = version.map_or_else(|| "unknown".into(), |version| version.to_string());
                let detail = format!("version {version} of the format; this Braid reads up to {VERSION}");
                self.skip(name, None, SkipReason::UnknownFormat, detail);
                false
            }
            _ => {
                self.skip(name, None, SkipReason::UnknownFormat, "its format is not known".into());
                false
            }
        }
    }

    /// A conversation of Braid's own file.
    fn own(&mut self, name: &str, json: &[u8]) -> Result<(), AppError> {
        let read = serde_json::from_slice(json).or_else(|_| serde_json::from_str(&mended(json)));
        match read {
            Ok(conversation) => {
                let system_prompt = String::new();
                let own = Foreign { conversation, system_prompt, left_out_parts: 0 };
                self.store(name, ImportSource::Braid, own)
            }
            Err(error) => {
                self.skip(name, None, SkipReason::Unreadable, place_of(&error));
                Ok(())
            }
        }
    }

    fn element(&mut self, name: &str, json: &[u8], found: &mut Found) -> Result<(), AppError> {
        match value_of(json) {
            Ok(value) => self.foreign(name, &value, found),
            Err(error) => {
                found.conversations += 1;
                self.skip(name, None, SkipReason::Unreadable, place_of(&error));
                Ok(())
            }
        }
    }

    /// A value that may be a conversation of another program.
    fn foreign(&mut self, name: &str, value: &Value, found: &mut Found) -> Result<(), AppError> {
        let (source, read) = if openai::is_one(value) {
            (ImportSource::OpenAi, openai::read(value))
        } else if lm_studio::is_one(value) {
            (ImportSource::LmStudio, lm_studio::read(value))
        } else {
            found.others += 1;
            return Ok(());
        };
        found.conversations += 1;
        match read {
            Ok(foreign) => self.store(name, source, foreign),
            Err(Refused { title, reason, detail }) => {
                self.skip(name, title, reason, detail);
                Ok(())
            }
        }
    }

    fn store(&mut self, name: &str, source: ImportSource, foreign: Foreign) -> Result<(), AppError> {
        let Foreign { mut conversation, system_prompt, left_out_parts } = foreign;
        let title = super::foreign::shown_title(&conversation.title);
        if conversation.messages.is_empty() && conversation.draft.is_empty() {
            self.skip(name, title, SkipReason::Empty, "it has no message".into());
            return Ok(());
        }
        let sha256 = file::digest(&conversation)?;
        let source_id = match conversation.id.as_str() {
            "" => hex(&sha256),
            id => id.to_owned(),
        };
        let word = word(&source).unwrap_or_default();
        let origin = Origin { source: word, source_id, sha256 };
        if self.is_here(source, &origin)? {
            self.skip(name, title, SkipReason::AlreadyHere, "imported before, and the same since".into());
            return Ok(());
        }
        // After the digest: what is set for new conversations may change between two imports of the same file.
        if !system_prompt.trim().is_empty() {
            let settings = SamplingSettings { system_prompt, ..self.new_conversation.clone() };
            conversation.settings = RawValue::from_string(to_json("sampling settings", &settings)?).ok();
        }
        let messages = convert::count(conversation.messages.len());
        let new = file::to_history(conversation, origin);
        match self.runtime.block_on(self.history.import_conversation(&new)) {
            Ok(id) => {
                let conversation_id = id.to_string();
                let imported = ImportedConversation { conversation_id, source, messages, left_out_parts };
                self.report.imported.push(imported);
                Ok(())
            }
            Err(error @ (HistoryError::NotATree { .. } | HistoryError::InvalidJson { .. })) => {
                self.skip(name, title, SkipReason::Unreadable, in_full(&error));
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the same was imported before, or was exported from here and has not changed.
    fn is_here(&self, source: ImportSource, origin: &Origin) -> Result<bool, AppError> {
        let digests = self.history.imported_digests(&origin.source, &origin.source_id);
        if self.runtime.block_on(digests)?.contains(&origin.sha256) {
            return Ok(true);
        }
        let own = origin.source_id.strip_prefix(&self.library).and_then(|rest| rest.strip_prefix('-'));
        let Some(id) = own.and_then(|id| id.parse::<ConversationId>().ok()) else { return Ok(false) };
        if source != ImportSource::Braid {
            return Ok(false);
        }
        match self.runtime.block_on(file_of(self.history, id, &self.library)) {
            Ok(here) => Ok(here.id == origin.source_id && file::digest(&here)? == origin.sha256),
            Err(AppError::History(error)) if matches!(*error, HistoryError::ConversationNotFound(_)) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn skip(&mut self, file: &str, title: Option<String>, reason: SkipReason, detail: String) {
        if self.report.skipped.len() < MAX_SKIPPED {
            self.report.skipped.push(SkippedImport { file: file.to_owned(), title, reason, detail });
        } else {
            self.untold += 1;
        }
    }

    fn finish(mut self) -> ConversationImportReport {
        if let (Some(last), true) = (self.report.skipped.last_mut(), self.untold > 0) {
            last.detail.push_str(&format!("; {} more were left out and are not listed", self.untold));
        }
        self.report
    }
}

fn value_of(json: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice(json).or_else(|_| serde_json::from_str(&mended(json)))
}

/// Where and what, without the text around it: it may be of a message.
fn place_of(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Data => "has another shape than expected",
        serde_json::error::Category::Eof => "ends too early",
        _ => "is no JSON",
    };
    format!("it {what} at line {}, column {} of the conversation", error.line(), error.column())
}

fn reason_of(error: &PartsError, is_nothing: bool) -> SkipReason {
    match error {
        PartsError::Malformed { .. } if is_nothing => SkipReason::UnknownFormat,
        PartsError::Io(_) | PartsError::Truncated { .. } | PartsError::Malformed { .. } => {
            SkipReason::Unreadable
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
