//! Reading columns so that one damaged value costs only itself.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, ValueRef};

use crate::HistoryError;

/// The text of a column; bytes that are not UTF-8 become U+FFFD, with a warning.
pub fn text(row: &SqliteRow, column: &str) -> Result<String, HistoryError> {
    Ok(optional_text(row, column)?.unwrap_or_default())
}

/// As [`text`], `None` for NULL.
pub fn optional_text(row: &SqliteRow, column: &str) -> Result<Option<String>, HistoryError> {
    if row.try_get_raw(column)?.is_null() {
        return Ok(None);
    }
    let bytes: Vec<u8> = row.try_get_unchecked(column)?;
    Ok(Some(String::from_utf8(bytes).unwrap_or_else(|error| {
        tracing::warn!(column, "stored text is not UTF-8; showing what can be read");
        String::from_utf8_lossy(error.as_bytes()).into_owned()
    })))
}

/// The JSON text of a column; `None`, with a warning, if it is not JSON.
pub fn json(row: &SqliteRow, column: &str) -> Result<Option<String>, HistoryError> {
    let Some(text) = optional_text(row, column)? else { return Ok(None) };
    if let Err(error) = validate_json(&text) {
        tracing::warn!(
            column,
            line = error.line(),
            at = error.column(),
            "stored JSON is unreadable; ignored"
        );
        return Ok(None);
    }
    Ok(Some(text))
}

/// Checks a value before it is stored as JSON.
pub fn require_json(field: &'static str, text: &str) -> Result<(), HistoryError> {
    validate_json(text).map_err(|source| HistoryError::InvalidJson { field, source })
}

fn validate_json(text: &str) -> Result<(), serde_json::Error> {
    serde_json::from_str::<serde::de::IgnoredAny>(text).map(|_| ())
}
