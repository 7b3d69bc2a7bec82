//! Licences of what Braid is made of.

use serde::{Deserialize, Serialize};
use specta::Type;

/// What kind of thing a component is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum ComponentKind {
    /// A crate.
    Rust,
    /// An npm package.
    Npm,
    /// A model.
    Model,
    /// A native library.
    Native,
}

/// One component. The file `licences.json` beside the UI lists them; `cargo xtask setup` makes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct LicensedComponent {
    /// Name as published.
    pub name: String,
    /// Version in use.
    pub version: String,
    /// SPDX expression as published.
    pub license: String,
    /// What kind of thing it is.
    pub kind: ComponentKind,
    /// Index into the texts; `None` when the component ships none.
    pub text_id: Option<u32>,
}

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct Licences {
    /// By kind, then name.
    pub components: Vec<LicensedComponent>,
    /// Distinct licence texts.
    pub texts: Vec<String>,
}
