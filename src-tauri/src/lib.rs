//! The desktop app: puts the crates together and connects them to the window.
//!
//! [`run`] is the composition root. [`commands`] are what the UI can ask for, [`generation`] is one answer from
//! message to stored end, [`stream`] frames its events, [`convert`] turns the crates' types into wire types,
//! [`error`] their errors into codes. Everything shared is in [`state::AppState`], as handles.
//!
//! Threads: the main thread runs the window; tokio runs commands, answers and the history; one engine thread runs
//! the model ([`local_engine`]). The wording of errors is the UI's.

pub mod attachments;
pub mod benchmark;
pub mod bindings;
pub mod commands;
pub mod convert;
pub mod diagnostics;
pub mod error;
pub mod generation;
pub mod hub_settings;
pub mod keychain;
mod language;
mod last_end;
pub mod local_engine;
pub mod local_server;
mod logging;
mod menu;
pub mod model_library;
pub mod models;
mod places;
mod platform;
pub mod prompt;
pub mod remote;
pub mod requests;
pub mod sampling_settings;
pub mod settings_store;
mod signals;
pub mod state;
pub mod stream;
pub mod structure;
mod system_facts;
pub mod transfer;
mod watchdog;
mod window;

use std::{sync::Arc, time::Duration};

use tauri::{App, Manager, RunEvent};

pub use language::language_to_set;

use crate::{
    keychain::SystemKeychain,
    local_engine::{LocalEngine, MlxSource},
    logging::LogWriter,
    model_library::ModelLibrary,
    places::Places,
    requests::StopCause,
    state::AppState,
};

/// How long running answers may take to store their end when the app exits.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// How long closing the database may take: its log is folded in.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// Runs the app until its window is closed.
///
/// # Errors
/// Tauri's, if there can be no window.
pub fn run() -> Result<(), tauri::Error> {
    let builder = tauri::Builder::default()
        .plugin(tauri_plugin_dialog::init())
        .on_menu_event(|app, event| menu::chosen(app, &event));
    let app = platform::watch_page_processes(builder, |app| app.state::<AppState>().window.note_page_death())
        .invoke_handler(bindings::builder().invoke_handler())
        .register_uri_scheme_protocol(window::NOTICE_SCHEME, window::serve_notice)
        .setup(|app| Ok(compose(app)?))
        .build(tauri::generate_context!())?;
    app.run(|app, event| {
        if platform::asks_for_window(&event) {
            window::show(app);
        }
        if let RunEvent::Exit = event {
            if let Some(state) = app.try_state::<AppState>() {
                shut_down(state.inner().clone());
            }
            if let Some(log) = app.try_state::<LogWriter>() {
                log.close();
            }
        }
    });
    Ok(())
}

fn compose(app: &mut App) -> Result<(), tauri::Error> {
    let places = Places::find(app.path())?;
    app.manage(logging::start(&places.logs));
    tracing::info!(version = env!("CARGO_PKG_VERSION"), data = %places.data.display(), "Braid starts");
    let engine = Arc::new(LocalEngine::new(MlxSource(places.models)));
    let library = ModelLibrary::new(places.model_folders, &places.data, engine.clone());
    let state = AppState::new(places.database, engine, library);
    if places.may_use_keychain {
        state.keys.use_keychain(SystemKeychain);
    }
    app.manage(state.clone());
    tauri::async_runtime::spawn(async move {
        // Opened first: the engine starts in the stored mode. A failure is told by the UI's first call.
        let _ = state.history().await;
        state.server.start_if_enabled().await;
        state.engine.restart().await;
    });
    signals::exit_when_asked(app.handle().clone());
    window::keep_place(app.handle(), &places.data)?;
    window::open(app)
}

fn shut_down(state: AppState) {
    tracing::info!("Braid exits");
    state.requests.stop_all(StopCause::AppExit);
    tauri::async_runtime::block_on(async {
        // Its streams end with words as long as it still runs.
        let (unfinished, ()) = tokio::join!(state.requests.drained(DRAIN_LIMIT), state.server.stop());
        if unfinished > 0 {
            tracing::warn!(
                unfinished,
                "answers could not store their end; the next start marks them interrupted"
            );
        }
        let engine = state.engine.clone();
        // A panic there is the engine's, and already logged.
        let _ = tauri::async_runtime::spawn_blocking(move || engine.end_thread()).await;
        if tokio::time::timeout(CLOSE_LIMIT, state.close_history()).await.is_err() {
            tracing::warn!("the history took too long to close");
        }
    });
    last_end::end();
    tracing::info!("Braid has exited");
}
