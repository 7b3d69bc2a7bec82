//! Settings of the app as a whole.

use crate::{ConversationSummary, GateMode, LastEnd, OverlapMode, SamplingSettings};
use serde::{Deserialize, Serialize};
use specta::Type;

/// Light, dark, or as the system says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum Theme {
    /// Follows the system.
    #[default]
    System,
    /// Always light.
    Light,
    /// Always dark.
    Dark,
}

/// Stored whole; read at start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct AppSettings {
    /// Colour scheme.
    pub theme: Theme,
    /// Size of text; percent of the usual size, 90 to 150.
    pub text_size_percent: u16,
    /// Mode of the gate.
    pub gate_mode: GateMode,
    /// Whether the next forward pass starts before the latest tokens are read.
    pub overlap: OverlapMode,
    /// Whether the performance overlay is shown.
    pub is_overlay_open: bool,
    /// Whether the sidebar is shown.
    pub is_sidebar_open: bool,
    /// Conversations open in tabs, left to right.
    pub open_tabs: Vec<String>,
    /// Conversation of the active tab.
    pub active_tab: Option<String>,
    /// Settings that new conversations start with.
    pub new_conversation: SamplingSettings,
    /// Settings under names that the user gave, in the user's order; no name twice.
    pub presets: Vec<Preset>,
    /// Language of the window, as a BCP 47 tag that the UI has words for; `None` follows the system.
    pub language: Option<String>,
    /// Conversations whose latest answer ended while nobody looked.
    pub unread: Vec<String>,
    /// Whether the welcome of the first start was closed.
    pub has_seen_welcome: bool,
}

/// Sampling settings under a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct Preset {
    /// Given by the user, 1 to 60 characters.
    pub name: String,
    /// What a conversation gets when the preset is chosen.
    pub settings: SamplingSettings,
}

/// What the UI needs to draw its first frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct AppStart {
    /// Version of the app.
    pub version: String,
    /// Settings of the app; `open_tabs` names existing conversations only.
    pub settings: AppSettings,
    /// All conversations, latest first.
    pub conversations: Vec<ConversationSummary>,
    /// Answers found half-written at start, now marked interrupted.
    pub interrupted_answers: u32,
    /// How the app ended before; told to the first page only.
    pub last_end: LastEnd,
}
