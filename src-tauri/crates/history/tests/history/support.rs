//! A history of one's own, and what several tests need to make in it.

use std::path::PathBuf;

use history::{AnswerEnd, ConversationId, FinishState, History, Message, MessageId};
use sqlx::{Connection, SqliteConnection};
use tempfile::TempDir;

/// A folder with one database, deleted at the end of the test.
pub struct Place {
    _folder: TempDir,
    pub path: PathBuf,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("braid data").join("history.sqlite3");
        Self { _folder: folder, path }
    }

    pub async fn open(&self) -> History {
        History::open(&self.path).await.unwrap()
    }

    /// The file without the crate around it, to look at it or to damage it.
    pub async fn raw(&self) -> SqliteConnection {
        SqliteConnection::connect(&format!("sqlite://{}", self.path.display())).await.unwrap()
    }

    /// Names of the files beside the database that contain `part`, sorted.
    pub fn files_with(&self, part: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path.parent().unwrap()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.contains(part))
            .collect();
        names.sort();
        names
    }
}

pub fn end(state: FinishState) -> AnswerEnd {
    AnswerEnd { state, finish_reason: None, receipt_json: None, error_code: None, token_details_json: None }
}

/// Adds a whole turn below `parent`; returns the answer.
pub async fn turn(
    history: &History,
    conversation: ConversationId,
    parent: Option<MessageId>,
    question: &str,
    answer: &str,
) -> MessageId {
    let turn = history.begin_turn(conversation, parent, question, "{}").await.unwrap();
    history.append_answer_text(turn.answer, answer, 1).await.unwrap();
    history.finish_answer(turn.answer, &end(FinishState::Complete)).await.unwrap();
    turn.answer
}

pub fn texts(path: &[Message]) -> Vec<&str> {
    path.iter().map(|message| message.text.as_str()).collect()
}
