//! Commands and wire types -> `ui/src/lib/ipc/generated/bindings.ts`.

use tauri::Wry;
use tauri_specta::{Builder, collect_commands};

use crate::commands::{
    attachments, benchmark, chat, conversations, diagnostics, engine, local_server, models, remote, settings,
    structure, transfer, versions, window,
};

/// Every command of the app.
pub fn builder() -> Builder<Wry> {
    Builder::new()
        // What Rust writes is also what it is sent: one shape a type, with `null` and never a missing field.
        .disable_serde_phases()
        .commands(collect_commands![
            window::start_app,
            conversations::list_conversations,
            conversations::search_conversations,
            conversations::create_conversation,
            conversations::open_conversation,
            conversations::rename_conversation,
            conversations::pin_conversation,
            conversations::unpin_conversation,
            conversations::delete_conversation,
            conversations::restore_conversation,
            conversations::close_conversation,
            conversations::select_version,
            conversations::read_token_details,
            conversations::save_draft,
            conversations::write_conversation_settings,
            settings::write_app_settings,
            chat::start_generation,
            chat::regenerate_answer,
            chat::stop_generation,
            engine::watch_engine,
            settings::set_gate_mode,
            settings::set_overlap,
            engine::restart_engine,
            window::report_ui_failure,
            models::list_models,
            models::watch_models,
            models::check_model_fit,
            models::load_model,
            models::cancel_model_load,
            models::unload_model,
            models::delete_model,
            models::pick_model_folder,
            models::pick_gguf_file,
            models::import_model_folder,
            models::import_gguf,
            models::cancel_import,
            models::dismiss_import,
            models::search_models,
            models::read_remote_model,
            models::start_download,
            models::pause_download,
            models::resume_download,
            models::cancel_download,
            models::dismiss_download,
            models::read_hub_settings,
            models::write_hub_settings,
            conversations::save_scroll,
            versions::edit_message,
            versions::continue_answer,
            versions::branch_answer,
            versions::fan_out,
            versions::keep_answer,
            versions::write_answer_version,
            versions::read_versions,
            attachments::pick_attachments,
            attachments::attach_file,
            attachments::attach_text,
            attachments::remove_attachment,
            attachments::read_attachment,
            attachments::count_tokens,
            transfer::pick_export_file,
            transfer::pick_export_folder,
            transfer::export_conversation,
            transfer::export_library,
            transfer::read_conversation_markdown,
            transfer::pick_import_files,
            transfer::import_conversations,
            remote::list_remote_servers,
            remote::save_remote_server,
            remote::delete_remote_server,
            remote::list_remote_models,
            local_server::read_local_server,
            local_server::write_local_server,
            local_server::renew_local_server_key,
            structure::check_structure,
            benchmark::run_benchmark,
            benchmark::cancel_benchmark,
            benchmark::save_benchmark_report,
            diagnostics::read_diagnostics,
            diagnostics::save_diagnostics,
            window::note_alive,
            window::show_menu,
            window::watch_file_drops,
        ])
        .typ::<protocol::Licences>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use specta_typescript::Typescript;
    use std::{collections::BTreeSet, env, fs, path::Path};

    const UPDATE: &str = "UPDATE_BINDINGS";

    fn exported() -> String {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("bindings.ts");
        let header = format!("// Made from Rust: {UPDATE}=1 cargo test -p braid bindings_are_current\n");
        builder().export(Typescript::default().header(header), &file).expect("every type can be exported");
        fs::read_to_string(&file).expect("just written")
    }

    #[test]
    fn bindings_are_current() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ui/src/lib/ipc/generated/bindings.ts");
        let current = exported();
        if env::var_os(UPDATE).is_some_and(|value| value == "1") {
            fs::write(&file, current).expect("the UI's folder is writable");
            return;
        }
        let stored = fs::read_to_string(&file).unwrap_or_default();
        assert!(stored == current, "{} is stale: run this test with {UPDATE}=1", file.display());
    }

    #[test]
    fn the_window_may_call_every_command_and_nothing_else() {
        let capability = include_str!("../capabilities/main.json");
        let capability: serde_json::Value = serde_json::from_str(capability).expect("tauri-build read it");
        let allowed: BTreeSet<String> = capability["permissions"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|permission| Some(permission.as_str()?.strip_prefix("allow-")?.replace('-', "_")))
            .collect();
        assert_eq!(allowed.len(), capability["permissions"].as_array().map_or(0, Vec::len));
        let exported = exported();
        let called = exported.split("__TAURI_INVOKE(\"").skip(1).filter_map(|rest| rest.split('"').next());
        assert_eq!(allowed, called.map(str::to_owned).collect());
    }
}
