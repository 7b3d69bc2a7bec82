//! Checking structured output before it is asked for.

use serde::{Deserialize, Serialize};
use specta::Type;

/// What a check of structured output found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct StructureCheck {
    /// Whether answers can be held to it.
    pub is_enforceable: bool,
    /// In order of their place.
    pub problems: Vec<StructureProblem>,
}

/// How bad a [`StructureProblem`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum StructureSeverity {
    /// Nothing can be enforced until it is mended.
    Error,
    /// This part is not enforced; the rest is.
    Ignored,
}

/// Something in a schema, pattern or grammar, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct StructureProblem {
    /// How bad it is.
    pub severity: StructureSeverity,
    /// JSON pointer into the schema, if it has one.
    pub pointer: Option<String>,
    /// Line in the text, from 1, if known.
    pub line: Option<u32>,
    /// Column in that line, in characters from 1, if known.
    pub column: Option<u32>,
    /// What it is, with the words of the text; never matched on.
    pub message: String,
}
