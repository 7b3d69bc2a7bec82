//! Embeds the UI, the icons and the permission set of the app's own commands.

/// Commands of the app. `bindings.rs` collects the same ones; a test there compares the two lists.
const COMMANDS: &[&str] = &[
    "start_app",
    "list_conversations",
    "create_conversation",
    "open_conversation",
    "rename_conversation",
    "delete_conversation",
    "restore_conversation",
    "close_conversation",
    "select_version",
    "read_token_details",
    "save_draft",
    "write_conversation_settings",
    "write_app_settings",
    "start_generation",
    "regenerate_answer",
    "stop_generation",
    "watch_engine",
    "set_gate_mode",
    "set_overlap",
    "restart_engine",
    "report_ui_failure",
];

fn main() {
    let manifest = tauri_build::AppManifest::new().commands(COMMANDS);
    tauri_build::try_build(tauri_build::Attributes::new().app_manifest(manifest))
        .expect("tauri.conf.json, capabilities and icons are valid");
}
