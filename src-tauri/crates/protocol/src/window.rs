//! The window's native side: its menu bar, and how the app ended last time.

use serde::{Deserialize, Serialize};
use specta::Type;
use specta_typescript::Number;

/// An entry of the menu bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum MenuItem {
    /// What this app is. The system does it, as it does all up to [`MenuItem::Zoom`].
    About,
    /// What other apps offer to do with a selection.
    Services,
    /// Hides the app.
    Hide,
    /// Hides every other app.
    HideOthers,
    /// Shows every app again.
    ShowAll,
    /// Ends the app.
    Quit,
    /// Takes the latest change of a text field back.
    Undo,
    /// Makes it again.
    Redo,
    /// Moves the selection to the clipboard.
    Cut,
    /// Copies the selection to the clipboard.
    Copy,
    /// Puts the clipboard in place of the selection.
    Paste,
    /// Selects everything.
    SelectAll,
    /// Lets the window fill the screen, or ends that.
    FullScreen,
    /// Puts the window into the dock.
    Minimise,
    /// Makes the window as large as is useful.
    Zoom,
    /// Closes the window. The app does it, as it does all that follow.
    CloseWindow,
    /// Opens a tab.
    NewTab,
    /// Closes the active tab.
    CloseTab,
    /// Shows the tab to the right.
    NextTab,
    /// Shows the tab to the left.
    PreviousTab,
    /// Searches the conversations.
    Search,
    /// Opens the command palette.
    Palette,
    /// Shows the settings.
    Settings,
    /// Shows the models.
    Models,
    /// Shows or hides the list of conversations.
    Sidebar,
    /// Shows or hides the performance overlay.
    Overlay,
    /// Makes text larger.
    LargerText,
    /// Makes text smaller.
    SmallerText,
    /// Gives text its usual size.
    UsualText,
    /// Shows the keyboard shortcuts.
    Sheet,
    /// Shows the report for who helps.
    Diagnostics,
}

/// The words of the menu bar, in the window's language.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct MenuWords {
    /// Title of the menu of tabs and windows.
    pub file: String,
    /// Title of the menu of editing.
    pub edit: String,
    /// Title of the menu of what is shown.
    pub view: String,
    /// Title of the menu of windows.
    pub window: String,
    /// Title of the menu of help.
    pub help: String,
    /// Words of the entries; one that is missing keeps the system's.
    pub items: Vec<MenuWord>,
}

/// The words of one entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct MenuWord {
    /// The entry.
    pub item: MenuItem,
    /// Its words.
    pub text: String,
}

/// How the app ended before this start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum LastEnd {
    /// As it should, or this is the first start.
    Clean,
    /// It was killed, crashed, or lost power. Told once.
    Abrupt {
        /// Unix time of the start that ended so.
        #[specta(type = Number)]
        started_at_ms: i64,
        /// Where in the code it broke, if it said so.
        place: Option<String>,
    },
}

/// Files that are dragged over the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub struct FileDrop {
    /// How far it is.
    pub phase: FileDropPhase,
    /// The files; none while they are only moved on.
    pub paths: Vec<String>,
    /// Where they are, from the left, in CSS pixels of the window.
    #[specta(type = Number)]
    pub x: f64,
    /// Where they are, from the top, in CSS pixels of the window.
    #[specta(type = Number)]
    pub y: f64,
}

/// How far a [`FileDrop`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub enum FileDropPhase {
    /// Held over the window.
    Over,
    /// Let go there.
    Dropped,
}
