//! Full-text search over the titles and texts of conversations that are not deleted.

mod marks;

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::{ConversationId, History, HistoryError, MessageId, decode};

pub use marks::Marked;
use marks::{folded, mark_line, mark_snippet};

/// Words of a query at most; further ones are ignored.
pub const MAX_QUERY_WORDS: usize = 12;

/// Characters of a word of a query at most; the word is cut there.
pub const MAX_WORD_CHARS: usize = 64;

/// Shortest word that the index can find, in characters.
const INDEXED_CHARS: usize = 3;

/// A conversation that a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    /// The conversation.
    pub conversation: ConversationId,
    /// Its title on one line, with what matched in it.
    pub title: Marked,
    /// The newest of its messages that match; `None` if only the title does.
    pub message: Option<MessageId>,
    /// The part of that message around its first match, on one line; names of its attachments stand before it if only
    /// they match. Empty without a message.
    pub snippet: Marked,
    /// When that message was stored; without one, when the conversation was last updated. Unix milliseconds.
    pub at_ms: i64,
}

/// The statement for both kinds of query; `?1` is a JSON list of LIKE patterns that a text must match too, `?2` the
/// limit, `?3` the query of the index where there is one.
macro_rules! search_sql {
    ($titles:literal, $messages:literal, $names:literal) => {
        concat!(
            "WITH matches (conversation_id, is_title, message_id) AS (
                 SELECT t.id, 1, NULL FROM ",
            $titles,
            " NOT EXISTS (SELECT 1 FROM json_each(?1) AS word WHERE t.title NOT LIKE word.value ESCAPE '\\')
                 UNION ALL
                 SELECT m.conversation_id, 0, max(m.id) FROM ",
            $messages,
            " NOT EXISTS (SELECT 1 FROM json_each(?1) AS word WHERE m.text NOT LIKE word.value ESCAPE '\\')
                 GROUP BY m.conversation_id
                 UNION ALL
                 SELECT a.conversation_id, 0, max(a.message_id) FROM ",
            $names,
            " a.message_id IS NOT NULL AND
                 NOT EXISTS (SELECT 1 FROM json_each(?1) AS word WHERE a.name NOT LIKE word.value ESCAPE '\\')
                 GROUP BY a.conversation_id
             ),
             found (conversation_id, is_title, message_id) AS (
                 SELECT conversation_id, max(is_title), max(message_id) FROM matches GROUP BY conversation_id
             )
             SELECT c.id, c.title, found.message_id, coalesce(m.text, '') AS text,
                    (SELECT group_concat(a.name, ', ' ORDER BY a.id) FROM attachments AS a
                     WHERE a.conversation_id = c.id AND a.message_id = m.id) AS names,
                    coalesce(m.created_at_ms, c.updated_at_ms) AS at_ms
             FROM found
             CROSS JOIN conversations AS c ON c.id = found.conversation_id
             LEFT JOIN messages AS m ON m.id = found.message_id
             WHERE c.deleted_at_ms IS NULL
             ORDER BY found.is_title DESC, at_ms DESC, c.id DESC LIMIT ?2"
        )
    };
}

/// CROSS JOIN keeps the index first: no statistics could talk the planner into reading every message.
const INDEXED: &str = search_sql!(
    "title_search CROSS JOIN conversations AS t ON t.id = title_search.rowid WHERE title_search MATCH ?3 AND",
    "message_search CROSS JOIN messages AS m ON m.id = message_search.rowid WHERE message_search MATCH ?3 AND",
    "attachment_search CROSS JOIN attachments AS a ON a.id = attachment_search.rowid
     WHERE attachment_search MATCH ?3 AND"
);

const SCANNED: &str =
    search_sql!("conversations AS t WHERE", "messages AS m WHERE", "attachments AS a WHERE");

/// Each index: what cannot be answered when it is damaged at its root, and what makes it anew from its table.
const INDEXES: [(&str, &str); 3] = [
    (
        "SELECT rowid FROM title_search WHERE title_search MATCH '\"aaa\"' LIMIT 1",
        "INSERT INTO title_search (title_search) VALUES ('rebuild')",
    ),
    (
        "SELECT rowid FROM message_search WHERE message_search MATCH '\"aaa\"' LIMIT 1",
        "INSERT INTO message_search (message_search) VALUES ('rebuild')",
    ),
    (
        "SELECT rowid FROM attachment_search WHERE attachment_search MATCH '\"aaa\"' LIMIT 1",
        "INSERT INTO attachment_search (attachment_search) VALUES ('rebuild')",
    ),
];

/// Makes an index anew that is damaged at its root: no text could be stored with it, and it holds nothing of its own.
///
/// # Errors
/// The disk's, and [`HistoryError::Corrupt`] if the table is damaged as well.
pub async fn repair_indexes(connection: &mut SqliteConnection) -> Result<(), HistoryError> {
    for (probe, rebuild) in INDEXES {
        let probed = sqlx::query(probe).fetch_optional(&mut *connection).await.map_err(HistoryError::from);
        let Err(HistoryError::Corrupt { detail }) = probed else {
            probed?;
            continue;
        };
        tracing::warn!(%detail, "a search index of the history is damaged; making it anew");
        sqlx::query(rebuild).execute(&mut *connection).await?;
    }
    Ok(())
}

impl History {
    /// Conversations whose title, one message, or the name of one attachment that was sent, contains every word of
    /// `query`, at most `limit`.
    ///
    /// Words are parted by white space and stand for themselves, whatever signs they hold. Case and diacritics do not
    /// count, except that words of one or two characters heed them outside ASCII. Matches in titles come first, then
    /// the newest messages. A query without a word finds nothing. Answers are found once they have ended; thinking
    /// is not searched.
    pub async fn search(&self, query: &str, limit: u32) -> Result<Vec<SearchHit>, HistoryError> {
        let query = Query::parse(query);
        if query.words.is_empty() {
            return Ok(Vec::new());
        }
        let statement = match query.indexed() {
            Some(indexed) => sqlx::query(INDEXED).bind(query.like_patterns()).bind(limit).bind(indexed),
            None => sqlx::query(SCANNED).bind(query.like_patterns()).bind(limit),
        };
        let rows = statement.fetch_all(&self.shared.reader).await?;
        rows.iter().map(|row| query.read_hit(row)).collect()
    }
}

/// What was typed, as words.
struct Query {
    words: Vec<String>,
    /// The words as [`folded`] gives them.
    folded: Vec<Vec<char>>,
}

impl Query {
    fn parse(typed: &str) -> Self {
        let words: Vec<String> = typed
            // A NUL would end the query of the index within its quotes.
            .split(|c: char| c.is_whitespace() || c.is_control())
            .map(|word| word.chars().take(MAX_WORD_CHARS).collect::<String>())
            .filter(|word| !folded(word).is_empty())
            .take(MAX_QUERY_WORDS)
            .collect();
        let folded = words.iter().map(|word| folded(word)).collect();
        Self { words, folded }
    }

    /// The words that the index can find, each as a quoted phrase; `None` if there is none.
    fn indexed(&self) -> Option<String> {
        let phrases: Vec<String> = self
            .words_by(|chars| chars >= INDEXED_CHARS)
            .map(|word| format!("\"{}\"", word.replace('"', "\"\"")))
            .collect();
        (!phrases.is_empty()).then(|| phrases.join(" "))
    }

    /// The other words, as a JSON list of LIKE patterns.
    fn like_patterns(&self) -> String {
        let patterns: Vec<String> = self
            .words_by(|chars| chars < INDEXED_CHARS)
            .map(|word| {
                let literal = word.replace('\\', r"\\").replace('%', r"\%").replace('_', r"\_");
                format!("%{literal}%")
            })
            .collect();
        serde_json::Value::from(patterns).to_string()
    }

    fn words_by(&self, is_wanted: impl Fn(usize) -> bool) -> impl Iterator<Item = &String> {
        let words = self.words.iter().zip(&self.folded);
        words.filter(move |(_, folded)| is_wanted(folded.len())).map(|(word, _)| word)
    }

    fn snippet(&self, text: &str, attachment_names: Option<String>) -> Marked {
        let snippet = mark_snippet(text, &self.folded);
        match attachment_names {
            Some(names) if snippet.marks.is_empty() => {
                mark_snippet(&format!("{names} · {text}"), &self.folded)
            }
            _ => snippet,
        }
    }

    fn read_hit(&self, row: &SqliteRow) -> Result<SearchHit, HistoryError> {
        Ok(SearchHit {
            conversation: row.try_get("id")?,
            title: mark_line(&decode::text(row, "title")?, &self.folded),
            message: row.try_get("message_id")?,
            snippet: self.snippet(&decode::text(row, "text")?, decode::optional_text(row, "names")?),
            at_ms: row.try_get("at_ms")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10,000 messages in 200 conversations; one in a thousand says "needle".
    async fn filled(history: &History) {
        let mut connection = history.shared.writer.acquire().await.unwrap();
        sqlx::raw_sql(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
             INSERT INTO conversations (title, created_at_ms, updated_at_ms) SELECT 'chat ' || i, i, i FROM n;
             WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)
             INSERT INTO messages (conversation_id, role, state, created_at_ms, text)
             SELECT 1 + i / 50, 'user', 'complete', i,
                    'hay ' || i || iif(i % 1000 = 7, ' a needle', ' straw') FROM n;
             ANALYZE",
        )
        .execute(&mut *connection)
        .await
        .unwrap();
    }

    async fn plan(history: &History, statement: &'static str, typed: &str) -> Vec<String> {
        let query = Query::parse(typed);
        let explained = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
        let mut statement = sqlx::query(explained).bind(query.like_patterns()).bind(50);
        if let Some(indexed) = query.indexed() {
            statement = statement.bind(indexed);
        }
        let rows = statement.fetch_all(&history.shared.reader).await.unwrap();
        rows.iter().map(|row| row.get::<String, _>("detail")).collect()
    }

    #[tokio::test]
    async fn among_ten_thousand_messages_the_index_is_asked_and_no_table_is_read_through() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::open(folder.path().join("history.sqlite3")).await.unwrap();
        filled(&history).await;

        let indexed = plan(&history, INDEXED, "needle").await;
        for table in ["title_search", "message_search", "attachment_search"] {
            let line = format!("SCAN {table} VIRTUAL TABLE INDEX 0:M1");
            assert!(indexed.contains(&line), "{table} is asked for the match: {indexed:#?}");
        }
        let read_through = |line: &String| ["SCAN m", "SCAN t", "SCAN c", "SCAN a"].contains(&line.as_str());
        assert!(!indexed.iter().any(read_through), "{indexed:#?}");
        let scanned = plan(&history, SCANNED, "ne").await;
        assert!(scanned.iter().any(|line| line.starts_with("SCAN m")), "the check can fail: {scanned:#?}");

        let hits = history.search("needle", 50).await.unwrap();
        assert_eq!(hits.len(), 10, "messages 7, 1007, … 9007 lie in ten conversations");
        assert!(hits.is_sorted_by(|a, b| a.at_ms > b.at_ms), "{hits:#?}");
        assert_eq!(hits[0].at_ms, 9007);
        assert_eq!(history.search("needle", 2).await.unwrap(), hits[..2]);
    }
}
