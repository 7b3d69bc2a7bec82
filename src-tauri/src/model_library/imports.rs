//! Imports under way or failed.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use protocol::{ModelImport, ModelProblem};
use tokio::sync::watch;

/// The list of imports; cloning shares it. An import that ended well is off it.
#[derive(Clone, Default)]
pub struct Imports {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    jobs: Mutex<Vec<Job>>,
    latest_id: AtomicU64,
    changes: watch::Sender<()>,
}

struct Job {
    shown: ModelImport,
    is_cancelled: Arc<AtomicBool>,
}

/// One import, as the code that does it sees it.
pub struct ImportTicket {
    imports: Imports,
    /// Names the import.
    pub id: String,
    /// Set when the person gives it up.
    pub is_cancelled: Arc<AtomicBool>,
}

impl Imports {
    /// Puts an import on the list.
    pub fn begin(&self, source: String) -> ImportTicket {
        let id = (self.shared.latest_id.fetch_add(1, Ordering::Relaxed) + 1).to_string();
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let shown =
            ModelImport { import_id: id.clone(), source, done_bytes: 0.0, total_bytes: 0.0, problem: None };
        self.jobs().push(Job { shown, is_cancelled: is_cancelled.clone() });
        self.shared.changes.send_replace(());
        ImportTicket { imports: self.clone(), id, is_cancelled }
    }

    /// Asks an import to end; it is off the list when it has.
    pub fn cancel(&self, id: &str) {
        if let Some(job) = self.jobs().iter().find(|job| job.shown.import_id == id) {
            job.is_cancelled.store(true, Ordering::Relaxed);
        }
    }

    /// Takes a failed import off the list.
    pub fn dismiss(&self, id: &str) {
        self.jobs().retain(|job| job.shown.import_id != id || job.shown.problem.is_none());
        self.shared.changes.send_replace(());
    }

    /// All of them, oldest first.
    pub fn list(&self) -> Vec<ModelImport> {
        self.jobs().iter().map(|job| job.shown.clone()).collect()
    }

    /// Tells of each change.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.shared.changes.subscribe()
    }

    fn jobs(&self) -> MutexGuard<'_, Vec<Job>> {
        // Held for single statements that leave the list whole.
        self.shared.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut ModelImport)) {
        if let Some(job) = self.jobs().iter_mut().find(|job| job.shown.import_id == id) {
            change(&mut job.shown);
        }
        self.shared.changes.send_replace(());
    }
}

impl ImportTicket {
    /// Notes how far it is.
    pub fn progress(&self, done_bytes: u64, total_bytes: u64) {
        self.imports.change(&self.id, |shown| {
            (shown.done_bytes, shown.total_bytes) = (done_bytes as f64, total_bytes as f64);
        });
    }

    /// Takes it off the list, or leaves it there with why it failed. One that was given up is off.
    pub fn end(self, outcome: Result<(), ModelProblem>) {
        match outcome {
            Err(problem) if !self.is_cancelled.load(Ordering::Relaxed) => {
                self.imports.change(&self.id, |shown| shown.problem = Some(problem));
            }
            _ => {
                self.imports.jobs().retain(|job| job.shown.import_id != self.id);
                self.imports.shared.changes.send_replace(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::ErrorCode;

    fn problem() -> ModelProblem {
        ModelProblem { code: ErrorCode::ImportRefused, detail: "no".into() }
    }

    #[test]
    fn a_failed_import_stays_until_it_is_dismissed() {
        let imports = Imports::default();
        let (good, bad) = (imports.begin("/a".into()), imports.begin("/b".into()));
        good.progress(1, 2);
        assert_eq!(imports.list()[0].done_bytes, 1.0);
        imports.dismiss(&good.id);
        assert_eq!(imports.list().len(), 2, "a running import is not dismissed");
        let bad_id = bad.id.clone();
        good.end(Ok(()));
        bad.end(Err(problem()));
        assert_eq!(imports.list().iter().map(|import| &import.import_id).collect::<Vec<_>>(), [&bad_id]);
        imports.dismiss(&bad_id);
        assert!(imports.list().is_empty());
    }

    #[test]
    fn an_import_that_was_given_up_is_no_failure() {
        let imports = Imports::default();
        let ticket = imports.begin("/a".into());
        imports.cancel(&ticket.id);
        assert!(ticket.is_cancelled.load(Ordering::Relaxed));
        ticket.end(Err(problem()));
        assert!(imports.list().is_empty());
    }
}
