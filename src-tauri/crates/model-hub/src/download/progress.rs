use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

/// Time over which speed is averaged.
const SMOOTHING: Duration = Duration::from_secs(3);

/// Counts of one download, written by its fetches and read by its status.
#[derive(Debug)]
pub(super) struct Progress {
    files: Vec<FileProgress>,
    files_done: AtomicUsize,
    /// Bytes that came over the network, those fetched twice included.
    received_bytes: AtomicU64,
    speed: Mutex<Speed>,
}

#[derive(Debug, Default)]
struct FileProgress {
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct Speed {
    latest: Option<(Instant, u64)>,
    bytes_per_s: f64,
}

impl Progress {
    /// One entry per blob, in the order of `sizes`.
    pub(super) fn new(sizes: impl IntoIterator<Item = u64>) -> Self {
        let file = |bytes| FileProgress { total_bytes: AtomicU64::new(bytes), ..FileProgress::default() };
        Self {
            files: sizes.into_iter().map(file).collect(),
            files_done: AtomicUsize::new(0),
            received_bytes: AtomicU64::new(0),
            speed: Mutex::default(),
        }
    }

    pub(super) fn set_done(&self, file: usize, bytes: u64) {
        self.files[file].done_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn set_total(&self, file: usize, bytes: u64) {
        self.files[file].total_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn set_files_done(&self, files: usize) {
        self.files_done.store(files, Ordering::Relaxed);
    }

    pub(super) fn file_is_done(&self) {
        self.files_done.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes bytes that arrived; returns how many there were in all.
    pub(super) fn receive(&self, bytes: u64) -> u64 {
        self.received_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes
    }

    pub(super) fn done_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.done_bytes.load(Ordering::Relaxed)).sum()
    }

    pub(super) fn total_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.total_bytes.load(Ordering::Relaxed)).sum()
    }

    pub(super) fn files_done(&self) -> usize {
        self.files_done.load(Ordering::Relaxed)
    }

    pub(super) fn files(&self) -> usize {
        self.files.len()
    }

    /// Takes the speed since the last call into the average.
    pub(super) fn sample(&self, now: Instant) {
        let received = self.received_bytes.load(Ordering::Relaxed);
        let mut speed = self.speed.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((then, before)) = speed.latest.replace((now, received)) else { return };
        let passed = now.duration_since(then).as_secs_f64();
        if passed <= 0.0 {
            return;
        }
        let current = (received - before) as f64 / passed;
        let weight =
            if speed.bytes_per_s == 0.0 { 1.0 } else { 1.0 - (-passed / SMOOTHING.as_secs_f64()).exp() };
        speed.bytes_per_s += weight * (current - speed.bytes_per_s);
    }

    pub(super) fn bytes_per_s(&self) -> f64 {
        self.speed.lock().unwrap_or_else(PoisonError::into_inner).bytes_per_s
    }

    /// Time for the rest at the present speed; `None` while nothing arrives.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let left = self.total_bytes().saturating_sub(self.done_bytes()) as f64;
        Duration::try_from_secs_f64(left / self.bytes_per_s()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_follows_slowly_and_time_left_comes_from_it() {
        let progress = Progress::new([1_000, 9_000]);
        let start = Instant::now();
        progress.sample(start);
        assert_eq!((progress.bytes_per_s(), progress.time_left()), (0.0, None), "nothing is known yet");
        progress.receive(1_000);
        progress.set_done(0, 1_000);
        progress.sample(start + Duration::from_secs(1));
        assert_eq!(progress.bytes_per_s(), 1_000.0);
        assert_eq!(progress.time_left(), Some(Duration::from_secs(9)));
        progress.sample(start + Duration::from_secs(2));
        let smoothed = progress.bytes_per_s();
        assert!((700.0..750.0).contains(&smoothed), "a second without bytes takes 1 - e^(-1/3): {smoothed}");
    }
}
