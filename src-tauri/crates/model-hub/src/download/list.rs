//! All downloads of one cache folder: which run, which wait, and what everybody sees of them.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{runtime::Handle, sync::watch, time::Instant};

use super::{
    DownloadId, DownloadOptions, DownloadPhase, DownloadStatus,
    fetch::Source,
    job::Job,
    layout::Layout,
    part::Sink,
    progress::Progress,
    record::{Record, SharedRecord},
};
use crate::hub::{Hub, HubError};

/// Least time between two lists that differ in progress only.
const PUBLISH_TIME: Duration = Duration::from_millis(250);
/// Time between two looks at the progress: longer, so that a tick that comes early is not lost.
const TICK: Duration = Duration::from_millis(275);

pub(super) struct Inner {
    pub cache_dir: PathBuf,
    pub options: DownloadOptions,
    runtime: Handle,
    state: Mutex<State>,
    statuses: watch::Sender<Vec<DownloadStatus>>,
}

pub(super) struct State {
    pub hub: Hub,
    /// Oldest first.
    pub entries: Vec<Entry>,
    published: Option<Instant>,
}

/// One download in the list.
pub(super) struct Entry {
    pub id: DownloadId,
    pub record: Arc<SharedRecord>,
    repo: String,
    commit: String,
    pub phase: DownloadPhase,
    sink: Arc<Sink>,
    run: Option<Run>,
    /// Being cancelled: nothing starts it again.
    pub is_leaving: bool,
}

/// How a running download is stopped, and how one sees that it has.
#[derive(Clone)]
struct Run {
    stop: watch::Sender<bool>,
    ended: watch::Receiver<bool>,
}

impl Inner {
    pub(super) fn new(
        cache_dir: PathBuf,
        hub: Hub,
        options: DownloadOptions,
        records: Vec<Record>,
    ) -> Arc<Self> {
        let inner = Arc::new(Self {
            cache_dir,
            options,
            runtime: Handle::current(),
            state: Mutex::new(State { hub, entries: Vec::new(), published: None }),
            statuses: watch::Sender::new(Vec::new()),
        });
        for record in records {
            inner.add(record, DownloadPhase::Paused);
        }
        inner.publish();
        inner
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn watch(&self) -> watch::Receiver<Vec<DownloadStatus>> {
        self.statuses.subscribe()
    }

    pub(super) fn layout(&self, repo: &str) -> Layout {
        Layout::new(&self.cache_dir, repo)
    }

    pub(super) fn add(&self, record: Record, phase: DownloadPhase) {
        let entry = self.entry(record, phase);
        self.state().entries.push(entry);
    }

    fn entry(&self, record: Record, phase: DownloadPhase) -> Entry {
        Entry {
            id: record.id(),
            repo: record.repo.clone(),
            commit: record.commit.clone(),
            phase,
            sink: self.sink(&record),
            record: Arc::new(SharedRecord::new(self.layout(&record.repo).record(&record.id()), record)),
            run: None,
            is_leaving: false,
        }
    }

    /// Fresh counts of a download, as far as it has come.
    fn sink(&self, record: &Record) -> Arc<Sink> {
        let (layout, blobs) = (self.layout(&record.repo), record.blobs());
        let progress = Progress::new(blobs.iter().map(|file| file.bytes));
        for (index, file) in blobs.iter().enumerate() {
            let is_here = layout.has(&record.commit, file);
            progress.set_done(index, if is_here { file.bytes } else { layout.part_bytes(file) });
            if is_here {
                progress.file_is_done();
            }
        }
        Arc::new(Sink::new(&self.options, self.cache_dir.clone(), progress))
    }

    /// Starts what waits, as far as the limits let it: one download of a repository at a time, since two would write the
    /// same parts.
    pub(super) fn pump(self: &Arc<Self>) {
        let mut started = Vec::new();
        let mut state = self.state();
        while let Some(index) = state.next(self.options.running_max.max(1)) {
            let hub = state.hub.clone();
            let (stop, stopped) = watch::channel(false);
            let (end, ended) = watch::channel(false);
            let entry = &mut state.entries[index];
            let job = self.job(entry, hub);
            entry.run = Some(Run { stop, ended });
            entry.phase = DownloadPhase::Running;
            let ending = Ending { inner: self.clone(), id: entry.id.clone(), end, outcome: None };
            started.push(run(job, stopped, ending));
        }
        drop(state);
        // Without the lock: a runtime that shuts down drops a task at once, and its end takes the lock.
        for task in started {
            self.runtime.spawn(task);
        }
        self.publish();
    }

    fn job(&self, entry: &mut Entry, hub: Hub) -> Job {
        let record = entry.record.get();
        // A new one for each run: work of the old one was told to stop.
        entry.sink = self.sink(&record);
        Job {
            blobs: record.blobs(),
            record: entry.record.clone(),
            sink: entry.sink.clone(),
            source: Source {
                hub,
                layout: self.layout(&record.repo),
                options: self.options.clone(),
                repo: record.repo,
                commit: record.commit,
            },
        }
    }

    /// Stops a running download and waits until nothing of it is at work. The phase is [`DownloadPhase::Paused`] then,
    /// unless it ended by itself before.
    pub(super) async fn stop(&self, id: &DownloadId) {
        let Some(run) = self.state().find(id).and_then(|entry| entry.run.clone()) else { return };
        run.stop.send_replace(true);
        let mut ended = run.ended;
        // An error means that the sender is gone, and the download with it.
        let _ = ended.wait_for(|has_ended| *has_ended).await;
    }

    pub(super) fn publish(&self) {
        let mut state = self.state();
        state.published = Some(Instant::now());
        let statuses: Vec<_> = state.entries.iter().map(Entry::status).collect();
        // Under the lock, so that an older list never replaces a newer one.
        self.statuses.send_replace(statuses);
    }

    /// Shows progress, unless somebody did just now.
    fn publish_if_due(&self) {
        let is_due = self.state().published.is_none_or(|published| published.elapsed() >= PUBLISH_TIME);
        if is_due {
            self.publish();
        }
    }
}

impl State {
    pub(super) fn find(&mut self, id: &DownloadId) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.id == *id)
    }

    fn next(&self, running_max: usize) -> Option<usize> {
        let running: Vec<&str> = self
            .entries
            .iter()
            .filter(|entry| entry.run.is_some())
            .map(|entry| entry.repo.as_str())
            .collect();
        if running.len() >= running_max {
            return None;
        }
        self.entries.iter().position(|entry| {
            matches!(entry.phase, DownloadPhase::Queued)
                && !entry.is_leaving
                && entry.run.is_none()
                && !running.contains(&entry.repo.as_str())
        })
    }
}

impl Entry {
    fn status(&self) -> DownloadStatus {
        let progress = &self.sink.progress;
        let (done_bytes, total_bytes) = (progress.done_bytes(), progress.total_bytes());
        let phase = match &self.phase {
            DownloadPhase::Running if done_bytes == total_bytes => DownloadPhase::Verifying,
            phase => phase.clone(),
        };
        let is_running = matches!(phase, DownloadPhase::Running);
        DownloadStatus {
            id: self.id.clone(),
            repo: self.repo.clone(),
            commit: self.commit.clone(),
            phase,
            done_bytes,
            total_bytes,
            bytes_per_s: if is_running { progress.bytes_per_s() } else { 0.0 },
            time_left: if is_running { progress.time_left() } else { None },
            files_done: progress.files_done(),
            files: progress.files(),
        }
    }
}

/// How a run came to its end.
enum Outcome {
    Stopped,
    Ended(Result<PathBuf, HubError>),
}

/// Tells the list that a run is over, however it ends: also by a panic or with the runtime.
struct Ending {
    inner: Arc<Inner>,
    id: DownloadId,
    end: watch::Sender<bool>,
    outcome: Option<Outcome>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let phase = match self.outcome.take() {
            Some(Outcome::Ended(Ok(folder))) => DownloadPhase::Done { folder },
            Some(Outcome::Ended(Err(error))) => DownloadPhase::Failed(error),
            Some(Outcome::Stopped) => DownloadPhase::Paused,
            None => DownloadPhase::Failed(HubError::Aborted),
        };
        if let Some(entry) = self.inner.state().find(&self.id) {
            if !matches!(phase, DownloadPhase::Done { .. }) {
                // Writes that were under way have ended since: what is on disk counts.
                entry.sink = self.inner.sink(&entry.record.get());
            }
            entry.phase = phase;
            entry.run = None;
        }
        self.end.send_replace(true);
        self.inner.pump();
    }
}

async fn run(job: Job, mut stopped: watch::Receiver<bool>, mut ending: Ending) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let outcome = {
        let mut work = Box::pin(job.run());
        loop {
            tokio::select! {
                result = &mut work => break Outcome::Ended(result),
                _ = stopped.wait_for(|is_stopped| *is_stopped) => break Outcome::Stopped,
                _ = ticks.tick() => {
                    job.sink.progress.sample(Instant::now());
                    ending.inner.publish_if_due();
                }
            }
        }
    };
    job.sink.work.stop();
    job.sink.work.idle().await;
    ending.outcome = Some(outcome);
}
