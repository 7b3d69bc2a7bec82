//! The window: what it may show, and what it shows when the UI does not start.

use std::{path::Path, time::Duration};

use protocol::{FileDrop, FileDropPhase};
use tauri::{
    App, AppHandle, DragDropEvent, Manager, Runtime, UriSchemeContext, Url, WebviewWindow,
    WebviewWindowBuilder, WindowEvent,
    http::{Request, Response, header::CONTENT_TYPE},
    webview::{NewWindowResponse, PageLoadEvent, PageLoadPayload},
};
use tauri_plugin_window_state::{Builder as WindowPlaces, StateFlags};

use crate::{platform, state::AppState, watchdog};

/// Scheme of the one page that does not come from the UI's build.
pub const NOTICE_SCHEME: &str = "notice";

/// The page that the UI is in.
pub const OWN_PAGE: &str = "tauri://localhost/";

/// The notice for a UI that does not start.
const UNSTARTED_NOTICE: &str = "notice://localhost/";

/// The notice for a UI that stopped, and stopped again.
pub const STOPPED_NOTICE: &str = "notice://localhost/stopped";

const NOTICE: &str = include_str!("window/notice.html");
const STOPPED: &str = include_str!("window/stopped.html");

/// The one window.
const MAIN: &str = "main";

/// How long a loaded page may take to make its first call.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Opens the main window.
///
/// # Errors
/// Tauri's.
pub fn open(app: &App) -> Result<(), tauri::Error> {
    let config = app.config().app.windows.iter().find(|window| window.label == MAIN);
    let config = config.ok_or(tauri::Error::WindowNotFound)?;
    let window = WebviewWindowBuilder::from_config(app.handle(), config)?
        .on_navigation(is_own_page)
        .on_new_window(|_, _| NewWindowResponse::Deny)
        .on_page_load(watch_start)
        .build()?;
    if platform::OUTLIVES_ITS_WINDOW {
        let hidden = window.clone();
        window.on_window_event(move |event| {
            if let WindowEvent::CloseRequested { api, .. } = event {
                api.prevent_close();
                hide(&hidden);
            }
        });
    }
    let dropped_on = window.clone();
    window.on_window_event(move |event| {
        if let WindowEvent::DragDrop(event) = event {
            let drop = file_drop(event, dropped_on.scale_factor().unwrap_or(1.0));
            dropped_on.state::<AppState>().window.tell_drop(drop);
        }
    });
    watchdog::start(app.handle(), &window);
    Ok(())
}

/// What the page is told; `None` once the files have left. `scale`: device pixels in a CSS pixel.
fn file_drop(event: &DragDropEvent, scale: f64) -> Option<FileDrop> {
    let (phase, paths, position) = match event {
        DragDropEvent::Enter { paths, position } => (FileDropPhase::Over, paths.as_slice(), position),
        DragDropEvent::Over { position } => (FileDropPhase::Over, [].as_slice(), position),
        DragDropEvent::Drop { paths, position } => (FileDropPhase::Dropped, paths.as_slice(), position),
        _ => return None,
    };
    let paths = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    Some(FileDrop { phase, paths, x: position.x / scale, y: position.y / scale })
}

/// Closes the window as its own button does.
pub fn close(app: &AppHandle) {
    let Some(window) = app.get_webview_window(MAIN) else { return };
    if let Err(error) = window.close() {
        tracing::warn!(%error, "the window does not close");
    }
}

/// Brings the window back that was closed while the app went on.
pub fn show(app: &AppHandle) {
    let Some(window) = app.get_webview_window(MAIN) else { return };
    if window.is_visible().unwrap_or(true) {
        return;
    }
    if let Err(error) = window.show().and_then(|()| window.set_focus()) {
        tracing::warn!(%error, "the window cannot be shown");
    }
}

fn hide(window: &WebviewWindow) {
    if let Err(error) = window.hide() {
        tracing::warn!(%error, "the window cannot be hidden");
    }
}

/// Keeps size and place of the window in `folder` from one start to the next.
///
/// # Errors
/// Tauri's.
pub fn keep_place(app: &AppHandle, folder: &Path) -> Result<(), tauri::Error> {
    let kept = StateFlags::SIZE | StateFlags::POSITION | StateFlags::MAXIMIZED | StateFlags::FULLSCREEN;
    let file = folder.join("window.json").to_string_lossy().into_owned();
    app.plugin(WindowPlaces::new().with_state_flags(kept).with_filename(file).build())
}

/// Whether a page is the app's own: nothing else is ever shown.
fn is_own_page(url: &Url) -> bool {
    let is_own = match url.scheme() {
        "tauri" | NOTICE_SCHEME => true,
        // How the same pages are named where custom schemes cannot be.
        "http" | "https" => matches!(url.host_str(), Some("tauri.localhost" | "notice.localhost")),
        "about" => url.as_str() == "about:blank",
        _ => false,
    };
    if !is_own {
        tracing::warn!(scheme = url.scheme(), "a page that is not the app's own was refused");
    }
    is_own
}

/// Serves the notice that stands in for a UI that does not start.
pub fn serve_notice<R: Runtime>(
    _context: UriSchemeContext<'_, R>,
    request: Request<Vec<u8>>,
) -> Response<&'static [u8]> {
    let notice = if request.uri().path() == "/stopped" { STOPPED } else { NOTICE };
    let mut response = Response::new(notice.as_bytes());
    response
        .headers_mut()
        .insert(CONTENT_TYPE, tauri::http::HeaderValue::from_static("text/html; charset=utf-8"));
    response
}

fn watch_start(window: WebviewWindow, page: PageLoadPayload<'_>) {
    if page.url().scheme() == NOTICE_SCHEME {
        return;
    }
    let app = window.app_handle().clone();
    match page.event() {
        PageLoadEvent::Started => app.state::<AppState>().window.note_page_load(),
        PageLoadEvent::Finished => {
            tauri::async_runtime::spawn(async move {
                tokio::time::sleep(START_LIMIT).await;
                // The watchdog may have put a notice of its own there meanwhile.
                let is_notice = window.url().is_ok_and(|url| url.scheme() == NOTICE_SCHEME);
                if !is_notice && !app.state::<AppState>().window.is_started() {
                    show_notice(&app, &window);
                }
            });
        }
    }
}

fn show_notice(app: &AppHandle, window: &WebviewWindow) {
    tracing::error!(limit = ?START_LIMIT, "the UI did not start; showing a notice instead of a blank window");
    let shown = Url::parse(UNSTARTED_NOTICE).map(|url| window.navigate(url));
    if !matches!(shown, Ok(Ok(()))) {
        tracing::error!("the notice cannot be shown either");
        app.exit(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_apps_own_pages_are_shown() {
        let is_own = |url: &str| is_own_page(&Url::parse(url).expect("a url"));
        assert!(is_own("tauri://localhost/index.html") && is_own("notice://localhost/"));
        for foreign in ["https://localhost/", "file:///etc/passwd", "data:text/html,x", "http://127.0.0.1/"] {
            assert!(!is_own(foreign), "{foreign}");
        }
    }
}
