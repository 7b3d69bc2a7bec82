//! The system's request to end: log-out, `kill`, Ctrl+C in a terminal.

use tauri::AppHandle;

/// Exits as if the window had been closed when the process is asked to end.
#[cfg(unix)]
pub fn exit_when_asked(app: AppHandle) {
    use tokio::signal::unix::{SignalKind, signal};

    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        let app = app.clone();
        tauri::async_runtime::spawn(async move {
            match signal(kind) {
                Ok(mut asked) => {
                    if asked.recv().await.is_some() {
                        tracing::info!(?kind, "asked to end");
                        app.exit(0);
                    }
                }
                Err(error) => tracing::warn!(%error, ?kind, "a request to end would be abrupt"),
            }
        });
    }
}

/// Other systems close the window.
#[cfg(not(unix))]
pub fn exit_when_asked(_app: AppHandle) {}
