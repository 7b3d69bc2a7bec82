//! What differs between systems; everything else is the same code everywhere.

use tauri::WebviewWindow;

/// Whether the app has a menu bar. On Linux it would stand inside the window and take a line from the chat; there the
/// palette and the keys do the same.
pub const HAS_MENU_BAR: bool = cfg!(target_os = "macos");

/// Whether closing the window leaves the app running, as people expect on a Mac; the dock brings the window back.
pub const OUTLIVES_ITS_WINDOW: bool = cfg!(target_os = "macos");

/// Calls `on_end` whenever the process that draws the page has died.
///
/// # Errors
/// Tauri's, if the window is gone.
#[cfg(target_os = "linux")]
pub fn watch_page_process(window: &WebviewWindow, on_end: impl Fn() + Send + 'static) -> tauri::Result<()> {
    use webkit2gtk::{WebProcessTerminationReason, WebViewExt as _};

    window.with_webview(move |webview| {
        webview.inner().connect_web_process_terminated(move |_, reason| {
            // Otherwise it is `end_page_process`, whose caller knows.
            if reason != WebProcessTerminationReason::TerminatedByApi {
                tracing::error!(?reason, "the page's process ended");
                on_end();
            }
        });
    })
}

/// Elsewhere the builder of the app is told: see [`watch_page_processes`].
#[cfg(not(target_os = "linux"))]
pub fn watch_page_process(_window: &WebviewWindow, _on_end: impl Fn() + Send + 'static) -> tauri::Result<()> {
    Ok(())
}

/// As [`watch_page_process`], where the app as a whole is told of it.
///
/// Source: docs.rs/tauri/2, `Builder::on_web_content_process_terminate` (macOS and iOS only).
#[cfg(target_os = "macos")]
pub fn watch_page_processes(
    builder: tauri::Builder<tauri::Wry>,
    on_end: impl Fn(&tauri::AppHandle) + Send + Sync + 'static,
) -> tauri::Builder<tauri::Wry> {
    use tauri::Manager as _;

    builder.on_web_content_process_terminate(move |webview| {
        tracing::error!("the page's process ended");
        on_end(webview.app_handle());
    })
}

/// Elsewhere the window is told: see [`watch_page_process`].
#[cfg(not(target_os = "macos"))]
pub fn watch_page_processes(
    builder: tauri::Builder<tauri::Wry>,
    _on_end: impl Fn(&tauri::AppHandle) + Send + Sync + 'static,
) -> tauri::Builder<tauri::Wry> {
    builder
}

/// Ends the process that draws the page, which hangs: it would not hear of another page.
///
/// # Errors
/// Tauri's, if the window is gone.
#[cfg(target_os = "linux")]
pub fn end_page_process(window: &WebviewWindow) -> tauri::Result<()> {
    use webkit2gtk::WebViewExt as _;

    window.with_webview(|webview| webview.inner().terminate_web_process())
}

/// Elsewhere there is no public way; the next page gets a process of its own if the system gives it one.
#[cfg(not(target_os = "linux"))]
pub fn end_page_process(_window: &WebviewWindow) -> tauri::Result<()> {
    Ok(())
}

/// Whether an event asks for the window of an app that is running without one: a click in the dock.
///
/// Source: docs.rs/tauri/2, `RunEvent::Reopen` (macOS only).
pub fn asks_for_window(event: &tauri::RunEvent) -> bool {
    #[cfg(target_os = "macos")]
    {
        matches!(event, tauri::RunEvent::Reopen { .. })
    }
    #[cfg(not(target_os = "macos"))]
    {
        let _ = event;
        false
    }
}

/// Name and version of the engine that draws the page.
pub fn page_engine() -> String {
    let version = tauri::webview_version().unwrap_or_else(|_| "of unknown version".into());
    let name = if cfg!(target_os = "linux") { "WebKitGTK" } else { "WebKit" };
    format!("{name} {version}")
}
