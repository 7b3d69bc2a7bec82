//! The window: what it may show, and what it shows when the UI does not start.

use std::time::Duration;

use tauri::{
    App, AppHandle, Manager, Runtime, UriSchemeContext, Url, WebviewWindow, WebviewWindowBuilder,
    http::{Request, Response, header::CONTENT_TYPE},
    webview::{NewWindowResponse, PageLoadEvent, PageLoadPayload},
};

use crate::state::AppState;

/// Scheme of the one page that does not come from the UI's build.
pub const NOTICE_SCHEME: &str = "notice";

const NOTICE: &str = include_str!("window/notice.html");

/// How long a loaded page may take to make its first call.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Opens the main window.
///
/// # Errors
/// Tauri's.
pub fn open(app: &App) -> Result<(), tauri::Error> {
    let config = app.config().app.windows.iter().find(|window| window.label == "main");
    let config = config.ok_or(tauri::Error::WindowNotFound)?;
    WebviewWindowBuilder::from_config(app.handle(), config)?
        .on_navigation(is_own_page)
        .on_new_window(|_, _| NewWindowResponse::Deny)
        .on_page_load(watch_start)
        .build()?;
    Ok(())
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
    _request: Request<Vec<u8>>,
) -> Response<&'static [u8]> {
    let mut response = Response::new(NOTICE.as_bytes());
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
                if !app.state::<AppState>().window.is_started() {
                    show_notice(&app, &window);
                }
            });
        }
    }
}

fn show_notice(app: &AppHandle, window: &WebviewWindow) {
    tracing::error!(limit = ?START_LIMIT, "the UI did not start; showing a notice instead of a blank window");
    let shown = Url::parse("notice://localhost/").map(|url| window.navigate(url));
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
