//! Embeds the UI, the icons and the permission set of the app's own commands.

/// Commands of the app. `bindings.rs` collects the same ones; a test there compares the two lists.
const COMMANDS: &[&str] = &[
    "start_app",
    "list_conversations",
    "search_conversations",
    "create_conversation",
    "open_conversation",
    "rename_conversation",
    "pin_conversation",
    "unpin_conversation",
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
    "list_models",
    "watch_models",
    "check_model_fit",
    "load_model",
    "cancel_model_load",
    "unload_model",
    "delete_model",
    "pick_model_folder",
    "pick_gguf_file",
    "import_model_folder",
    "import_gguf",
    "cancel_import",
    "dismiss_import",
    "search_models",
    "read_remote_model",
    "start_download",
    "pause_download",
    "resume_download",
    "cancel_download",
    "dismiss_download",
    "read_hub_settings",
    "write_hub_settings",
];

fn main() {
    let manifest = tauri_build::AppManifest::new().commands(COMMANDS);
    tauri_build::try_build(tauri_build::Attributes::new().app_manifest(manifest))
        .expect("tauri.conf.json, capabilities and icons are valid");
}
