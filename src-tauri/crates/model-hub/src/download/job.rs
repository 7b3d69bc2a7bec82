//! One download from its record to its snapshot.

use std::{path::PathBuf, sync::Arc};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::{
    fetch::{Source, fetch},
    part::Sink,
    record::SharedRecord,
};
use crate::hub::{HubError, RemoteFile};

/// A download that runs. Dropping its future stops it; what is on disk then can be continued.
pub(super) struct Job {
    pub source: Source,
    pub record: Arc<SharedRecord>,
    pub blobs: Vec<RemoteFile>,
    pub sink: Arc<Sink>,
}

impl Job {
    /// Brings every file and makes the snapshot appear. Returns its folder.
    ///
    /// # Errors
    /// The first that any file ends with; the others stop and keep what they have.
    pub(super) async fn run(&self) -> Result<PathBuf, HubError> {
        let missing = self.measure().await?;
        let sink = self.sink.clone();
        let margin_bytes = self.source.options.margin_bytes;
        self.sink.work.run(move |_| sink.check_space(margin_bytes)).await??;
        stream::iter(missing)
            .map(|index| self.bring(index))
            .buffer_unordered(self.source.options.files_at_once.max(1))
            .try_collect::<()>()
            .await?;
        self.publish().await
    }

    /// Looks at what is here. Returns the indices of blobs to fetch, the largest first: it takes longest.
    async fn measure(&self) -> Result<Vec<usize>, HubError> {
        let (layout, blobs, sink) = (self.source.layout.clone(), self.blobs.clone(), self.sink.clone());
        let commit = self.source.commit.clone();
        let record = self.record.clone();
        let measured = self.sink.work.run(move |_| {
            layout.create()?;
            record.update(|_| {})?;
            let mut missing = Vec::new();
            for (index, file) in blobs.iter().enumerate() {
                if layout.has(&commit, file) {
                    sink.progress.set_done(index, file.bytes);
                } else {
                    sink.progress.set_done(index, layout.part_bytes(file));
                    missing.push(index);
                }
            }
            sink.progress.set_files_done(blobs.len() - missing.len());
            missing.sort_by_key(|index| std::cmp::Reverse(blobs[*index].bytes));
            Ok(missing)
        });
        measured.await?
    }

    async fn bring(&self, index: usize) -> Result<(), HubError> {
        let file = fetch(&self.source, self.blobs[index].clone(), index, &self.sink, &self.record).await?;
        let (layout, record) = (self.source.layout.clone(), self.record.clone());
        let accepted = self.sink.work.run(move |is_stopped| {
            // A stopped check has said nothing about the file.
            if is_stopped.load(std::sync::atomic::Ordering::Relaxed) {
                return Err(HubError::Aborted);
            }
            record.update(|record| {
                record.fetched.insert(file.etag.clone());
            })?;
            layout.accept(&file.etag)
        });
        accepted.await??;
        self.sink.progress.file_is_done();
        Ok(())
    }

    async fn publish(&self) -> Result<PathBuf, HubError> {
        let (layout, record, disk) =
            (self.source.layout.clone(), self.record.clone(), self.sink.disk.clone());
        let published = self.sink.work.run(move |_| {
            let record = record.get();
            let folder = layout.publish(&record, &*disk)?;
            layout.forget(&record.id())?;
            Ok(folder)
        });
        published.await?
    }
}
