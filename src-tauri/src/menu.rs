//! The menu bar: its entries here, its words from the UI, whose table of words is the only one.

use std::collections::HashMap;

use protocol::{MenuItem, MenuWords};
use tauri::{
    AppHandle, Manager, Wry,
    menu::{
        HELP_SUBMENU_ID, Menu, MenuEvent, MenuItem as Item, PredefinedMenuItem, Submenu, WINDOW_SUBMENU_ID,
    },
};

use crate::{platform, state::AppState, window};

/// One line of a menu.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Separator,
    /// The system does it.
    System(MenuItem),
    /// The UI does it; shown with a key.
    Ui(MenuItem, Option<&'static str>),
}

/// A menu with the id that macOS knows it by.
struct Section {
    id: &'static str,
    title: fn(&MenuWords) -> &str,
    lines: &'static [Line],
}

use Line::{Separator, System, Ui};

/// Menus from left to right. Keys are those of the UI's table of shortcuts, so that either way does the same once.
const SECTIONS: &[Section] = &[
    Section {
        id: "app",
        // The system shows the app's own name here.
        title: |_| "Braid",
        lines: &[
            System(MenuItem::About),
            Separator,
            Ui(MenuItem::Settings, Some("CmdOrCtrl+,")),
            Ui(MenuItem::Models, Some("CmdOrCtrl+Shift+M")),
            Separator,
            System(MenuItem::Services),
            Separator,
            System(MenuItem::Hide),
            System(MenuItem::HideOthers),
            System(MenuItem::ShowAll),
            Separator,
            System(MenuItem::Quit),
        ],
    },
    Section {
        id: "file",
        title: |words| &words.file,
        lines: &[
            Ui(MenuItem::NewTab, Some("CmdOrCtrl+T")),
            Ui(MenuItem::CloseTab, Some("CmdOrCtrl+W")),
            Separator,
            Ui(MenuItem::CloseWindow, Some("CmdOrCtrl+Shift+W")),
        ],
    },
    Section {
        id: "edit",
        title: |words| &words.edit,
        lines: &[
            System(MenuItem::Undo),
            System(MenuItem::Redo),
            Separator,
            System(MenuItem::Cut),
            System(MenuItem::Copy),
            System(MenuItem::Paste),
            System(MenuItem::SelectAll),
            Separator,
            Ui(MenuItem::Search, Some("CmdOrCtrl+F")),
        ],
    },
    Section {
        id: "view",
        title: |words| &words.view,
        lines: &[
            Ui(MenuItem::Sidebar, Some("CmdOrCtrl+B")),
            Ui(MenuItem::Overlay, Some("CmdOrCtrl+Shift+P")),
            Ui(MenuItem::Palette, Some("CmdOrCtrl+K")),
            Separator,
            Ui(MenuItem::LargerText, Some("CmdOrCtrl+=")),
            Ui(MenuItem::SmallerText, Some("CmdOrCtrl+-")),
            Ui(MenuItem::UsualText, Some("CmdOrCtrl+0")),
            Separator,
            System(MenuItem::FullScreen),
        ],
    },
    Section {
        id: WINDOW_SUBMENU_ID,
        title: |words| &words.window,
        lines: &[
            System(MenuItem::Minimise),
            System(MenuItem::Zoom),
            Separator,
            Ui(MenuItem::NextTab, Some("Ctrl+Tab")),
            Ui(MenuItem::PreviousTab, Some("Ctrl+Shift+Tab")),
        ],
    },
    Section {
        id: HELP_SUBMENU_ID,
        title: |words| &words.help,
        lines: &[Ui(MenuItem::Sheet, Some("CmdOrCtrl+/")), Ui(MenuItem::Diagnostics, None)],
    },
];

/// Shows the menu bar in the window's language, where there is one.
///
/// # Errors
/// Tauri's.
pub fn show(app: &AppHandle, words: &MenuWords) -> tauri::Result<()> {
    if platform::HAS_MENU_BAR {
        app.set_menu(build(app, words)?)?;
    }
    Ok(())
}

/// Does what a chosen entry stands for, or has the UI do it.
pub fn chosen(app: &AppHandle, event: &MenuEvent) {
    match item_of(event.id().as_ref()) {
        Some(MenuItem::CloseWindow) => window::close(app),
        Some(item) => {
            window::show(app);
            app.state::<AppState>().window.tell_menu(item);
        }
        None => tracing::warn!(id = event.id().as_ref(), "an unknown entry of the menu was chosen"),
    }
}

fn build(app: &AppHandle, words: &MenuWords) -> tauri::Result<Menu<Wry>> {
    let texts: HashMap<MenuItem, &str> =
        words.items.iter().map(|word| (word.item, word.text.as_str())).collect();
    let menu = Menu::new(app)?;
    for section in SECTIONS {
        let submenu = Submenu::with_id(app, section.id, (section.title)(words), true)?;
        for line in section.lines {
            match *line {
                Separator => submenu.append(&PredefinedMenuItem::separator(app)?)?,
                System(item) => submenu.append(&system_item(app, item, texts.get(&item).copied())?)?,
                Ui(item, key) => {
                    let text = texts.get(&item).copied().unwrap_or_default();
                    submenu.append(&Item::with_id(app, id_of(item), text, true, key)?)?;
                }
            }
        }
        menu.append(&submenu)?;
    }
    Ok(menu)
}

fn system_item(
    app: &AppHandle,
    item: MenuItem,
    text: Option<&str>,
) -> tauri::Result<PredefinedMenuItem<Wry>> {
    match item {
        MenuItem::About => PredefinedMenuItem::about(app, text, None),
        MenuItem::Services => PredefinedMenuItem::services(app, text),
        MenuItem::Hide => PredefinedMenuItem::hide(app, text),
        MenuItem::HideOthers => PredefinedMenuItem::hide_others(app, text),
        MenuItem::ShowAll => PredefinedMenuItem::show_all(app, text),
        MenuItem::Quit => PredefinedMenuItem::quit(app, text),
        MenuItem::Undo => PredefinedMenuItem::undo(app, text),
        MenuItem::Redo => PredefinedMenuItem::redo(app, text),
        MenuItem::Cut => PredefinedMenuItem::cut(app, text),
        MenuItem::Copy => PredefinedMenuItem::copy(app, text),
        MenuItem::Paste => PredefinedMenuItem::paste(app, text),
        MenuItem::SelectAll => PredefinedMenuItem::select_all(app, text),
        MenuItem::FullScreen => PredefinedMenuItem::fullscreen(app, text),
        MenuItem::Minimise => PredefinedMenuItem::minimize(app, text),
        MenuItem::Zoom => PredefinedMenuItem::maximize(app, text),
        _ => PredefinedMenuItem::separator(app),
    }
}

/// The id of an entry is its name on the wire.
fn id_of(item: MenuItem) -> String {
    serde_json::to_value(item).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

fn item_of(id: &str) -> Option<MenuItem> {
    serde_json::from_value(id.into()).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn lines() -> impl Iterator<Item = Line> {
        SECTIONS.iter().flat_map(|section| section.lines).copied()
    }

    #[test]
    fn every_entry_stands_once_and_is_known_by_its_id() {
        let mut seen = HashSet::new();
        for line in lines() {
            if let System(item) | Ui(item, _) = line {
                assert!(seen.insert(item), "{item:?} stands twice");
                assert_eq!(item_of(&id_of(item)), Some(item));
            }
        }
        assert_eq!(seen.len(), 31, "an entry of the wire type has no place in the menu");
        assert_eq!(item_of("bogus"), None);
    }

    #[test]
    fn no_key_does_two_things() {
        let mut seen = HashSet::new();
        for line in lines() {
            if let Ui(item, Some(key)) = line {
                assert!(seen.insert(key), "{item:?} shares {key}");
            }
        }
    }

    #[test]
    fn the_system_does_what_it_does_in_every_app() {
        let ours = [MenuItem::CloseWindow, MenuItem::NewTab, MenuItem::Diagnostics, MenuItem::Search];
        for line in lines() {
            if let System(item) = line {
                assert!(!ours.contains(&item), "{item:?} would be a separator");
            }
        }
    }
}
