//! The log: one file a day in the app's log folder. No message text in it.

use std::{
    io, panic,
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
};

use tracing_appender::{
    non_blocking::WorkerGuard,
    rolling::{InitError, RollingFileAppender, Rotation},
};
use tracing_subscriber::{EnvFilter, Layer as _, layer::SubscriberExt as _, util::SubscriberInitExt as _};

/// Sets what is logged, in the syntax of tracing's `EnvFilter`.
const FILTER: &str = "BRAID_LOG";

/// Days of logs that are kept.
const KEPT_FILES: usize = 7;

/// Where this process writes its log.
static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// The log's folder, once logging has started.
pub fn folder() -> Option<&'static Path> {
    FOLDER.get().map(PathBuf::as_path)
}

/// The log file's writer, which works on a thread of its own.
pub struct LogWriter(Mutex<Option<WorkerGuard>>);

impl LogWriter {
    /// Writes out what is buffered; nothing reaches the file afterwards.
    pub fn close(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Starts logging to `folder`, and warnings to standard error. Without a file the app runs all the same.
pub fn start(folder: &Path) -> LogWriter {
    // One log per process: a second start changes nothing.
    let _ = FOLDER.set(folder.to_owned());
    let filter = || EnvFilter::try_from_env(FILTER).unwrap_or_else(|_| EnvFilter::new("info"));
    let console = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_filter(EnvFilter::try_from_env(FILTER).unwrap_or_else(|_| EnvFilter::new("warn")));
    // The appender lists the folder before it makes it, and complains on standard error.
    let is_made = std::fs::create_dir_all(folder);
    let (file, guard, failure) = match appender(folder) {
        Ok(appender) => {
            let (writer, guard) = tracing_appender::non_blocking(appender);
            let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(writer);
            (Some(layer.with_filter(filter())), Some(guard), None)
        }
        Err(error) => (None, None, Some(error)),
    };
    // A second subscriber can only come from a test that started its own.
    let _ = tracing_subscriber::registry().with(file).with(console).try_init();
    if let Some(error) = failure {
        tracing::warn!(%error, ?is_made, folder = %folder.display(), "no log file");
    }
    log_panics();
    LogWriter(Mutex::new(guard))
}

fn appender(folder: &Path) -> Result<RollingFileAppender, InitError> {
    RollingFileAppender::builder()
        .rotation(Rotation::DAILY)
        .filename_prefix("braid")
        .filename_suffix("log")
        .max_log_files(KEPT_FILES)
        .build(folder)
}

fn log_panics() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(ToString::to_string);
        // The payload may quote a message; place and thread are enough to find the defect.
        tracing::error!(place, thread = std::thread::current().name(), "a defect: panicked");
        print(panic);
    }));
}
