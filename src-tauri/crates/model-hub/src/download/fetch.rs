//! One file: fetched in as many tries as it takes, checked, and only then a blob.

use std::{sync::Arc, time::Duration};

use reqwest::{
    StatusCode,
    header::{CONTENT_ENCODING, CONTENT_RANGE, ETAG, HeaderMap},
};

use tokio::time::Instant;

use super::{
    DownloadOptions,
    layout::{Layout, remove_if_there},
    part::{PartFile, Sink},
    record::SharedRecord,
    verify::{check_file, has_hash},
};
use crate::hub::{
    Hub, HubError, RemoteFile,
    http::{Answer, Identity},
    paths::is_etag,
};

/// What trickles in is written at least this often.
const BUFFER_TIME: Duration = Duration::from_secs(1);
/// Bytes that must have come for the count of tries to begin again.
const PROGRESS_BYTES: u64 = 1 << 20;
const CHANGES_MAX: u32 = 3;
/// A hub that wants a longer wait than this is shown to the person instead.
const PATIENCE: Duration = Duration::from_secs(300);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// What the fetches of one download share.
pub(super) struct Source {
    pub hub: Hub,
    pub repo: String,
    pub commit: String,
    pub layout: Layout,
    pub options: DownloadOptions,
}

/// Why one try did not bring the rest of the file.
enum Trouble {
    /// The same request may go better next time.
    Again(HubError),
    /// The hub has another file now.
    Changed(Identity),
    /// What is there cannot be right: from the start.
    Damaged(HubError),
    /// Trying again does not help.
    Final(HubError),
}

impl From<HubError> for Trouble {
    fn from(error: HubError) -> Self {
        if error.is_transient() { Self::Again(error) } else { Self::Final(error) }
    }
}

/// Fetches `file` until it is whole and checked, in `blobs/<etag>.part`. Returns what it turned out to be: the hub may
/// have changed it, which `record` is told before the first byte of the new content.
///
/// # Errors
/// What stands in the way; the part stays, except after damage.
pub(super) async fn fetch(
    source: &Source,
    mut file: RemoteFile,
    index: usize,
    sink: &Arc<Sink>,
    record: &Arc<SharedRecord>,
) -> Result<RemoteFile, HubError> {
    let mut changes = 0;
    let mut was_damaged = false;
    loop {
        let mut part = PartFile::open(source.layout.part(&file.etag), index, sink.clone()).await?;
        if part.bytes() > 0 && !has_hash(&file) {
            // Nothing could tell old bytes from new ones.
            part.restart().await?;
        }
        let result = match transfer(source, &file, &mut part).await {
            Ok(()) => check(&file, &mut part, sink).await,
            Err(trouble) => Err(trouble),
        };
        match result {
            Ok(()) => return Ok(file),
            Err(Trouble::Damaged(error)) if was_damaged => {
                part.restart().await?;
                return Err(error);
            }
            Err(Trouble::Damaged(_)) => {
                was_damaged = true;
                part.restart().await?;
            }
            Err(Trouble::Changed(identity)) => {
                changes += 1;
                let new = renamed(&file, identity).filter(|_| changes <= CHANGES_MAX);
                let new = new.ok_or_else(|| HubError::KeepsChanging { path: file.path.clone() })?;
                let old_path = part.path().to_path_buf();
                drop(part);
                let (record, old_etag, replacement) = (record.clone(), file.etag.clone(), new.clone());
                let replaced = sink.work.run(move |_| {
                    record.update(|record| record.replace(&old_etag, &replacement))?;
                    remove_if_there(&old_path).map_err(|error| HubError::disk(old_path, error))
                });
                replaced.await??;
                sink.progress.set_done(index, 0);
                sink.progress.set_total(index, new.bytes);
                file = new;
            }
            Err(Trouble::Again(error) | Trouble::Final(error)) => return Err(error),
        }
    }
}

/// The file under the identity that the hub gives it now.
fn renamed(file: &RemoteFile, identity: Identity) -> Option<RemoteFile> {
    let etag = identity.etag.filter(|etag| is_etag(etag))?;
    let sha256 = (etag.len() == 64).then(|| etag.clone());
    Some(RemoteFile { path: file.path.clone(), bytes: identity.bytes.unwrap_or(file.bytes), sha256, etag })
}

async fn check(file: &RemoteFile, part: &mut PartFile, sink: &Arc<Sink>) -> Result<(), Trouble> {
    part.sync().await?;
    let (path, promised) = (part.path().to_path_buf(), file.clone());
    let checked = sink.work.run(move |is_stopped| check_file(&promised, &path, is_stopped)).await?;
    checked.map_err(|error| match error {
        HubError::WrongSize { .. } | HubError::Corrupt { .. } => Trouble::Damaged(error),
        error => Trouble::Final(error),
    })
}

/// Tries until the part has all bytes. Tries count from the last one that brought something.
async fn transfer(source: &Source, file: &RemoteFile, part: &mut PartFile) -> Result<(), Trouble> {
    let mut validator = None;
    let mut tries = 0;
    let mut best_bytes = part.bytes();
    loop {
        let error = match attempt(source, file, part, &mut validator).await {
            Err(Trouble::Again(error)) => error,
            result => return result,
        };
        if part.bytes() >= best_bytes.saturating_add(PROGRESS_BYTES) {
            best_bytes = part.bytes();
            tries = 0;
        }
        tries += 1;
        let wait = error.retry_after().unwrap_or_else(|| source.options.backoff(tries));
        if tries >= source.options.tries || wait > PATIENCE {
            return Err(Trouble::Final(error));
        }
        tokio::time::sleep(wait).await;
    }
}

impl DownloadOptions {
    fn backoff(&self, tries: u32) -> Duration {
        self.first_backoff.saturating_mul(1 << tries.saturating_sub(1).min(8)).min(BACKOFF_MAX)
    }
}

/// One request for what is missing.
async fn attempt(
    source: &Source,
    file: &RemoteFile,
    part: &mut PartFile,
    validator: &mut Option<String>,
) -> Result<(), Trouble> {
    if part.bytes() > file.bytes {
        part.restart().await?;
    }
    if part.bytes() == file.bytes {
        return Ok(());
    }
    let start = part.bytes();
    let resume = (start > 0).then_some((start, validator.as_deref()));
    let mut answer = match source.hub.open(&source.repo, &source.commit, &file.path, resume).await {
        Err(error @ HubError::UnexpectedStatus { status: 416, .. }) => {
            part.restart().await?;
            return Err(Trouble::Again(error));
        }
        answer => answer?,
    };
    if is_changed(file, &answer.identity) {
        return Err(Trouble::Changed(answer.identity));
    }
    let headers = answer.response.headers();
    if headers.contains_key(CONTENT_ENCODING) {
        return Err(Trouble::Final(bad(&answer, "the file is compressed")));
    }
    match (answer.response.status(), start) {
        (StatusCode::PARTIAL_CONTENT, 1..) => {
            if !is_range(headers, start, file.bytes) {
                part.restart().await?;
                return Err(Trouble::Again(HubError::Interrupted {
                    host: answer.host().to_string(),
                    source: None,
                }));
            }
        }
        // The whole file, because ranges are not known there or the file is not the same any more.
        (StatusCode::OK, 1..) => part.restart().await?,
        (StatusCode::OK, 0) => {}
        (status, _) => return Err(Trouble::Final(bad(&answer, &format!("status {status} for a file")))),
    }
    *validator = strong_etag(answer.response.headers());
    receive(file, part, &mut answer, source.options.buffer_bytes).await
}

/// Streams the body into the part. What has come is kept when it breaks off.
async fn receive(
    file: &RemoteFile,
    part: &mut PartFile,
    answer: &mut Answer,
    buffer_bytes: usize,
) -> Result<(), Trouble> {
    let wrong_size = |found_bytes| {
        let (path, expected_bytes) = (file.path.clone(), file.bytes);
        Trouble::Damaged(HubError::WrongSize { path, expected_bytes, found_bytes })
    };
    let is_range = answer.response.status() == StatusCode::PARTIAL_CONTENT;
    if let Some(length) = answer.response.content_length() {
        let promised_bytes = part.bytes().saturating_add(length);
        // A range may be shorter than asked: then the next one continues it.
        if promised_bytes > file.bytes || (promised_bytes < file.bytes && !is_range) {
            return Err(wrong_size(promised_bytes));
        }
    }
    let mut buffer = Vec::with_capacity(buffer_bytes);
    let mut written = Instant::now();
    loop {
        match answer.chunk().await {
            Ok(Some(chunk)) => {
                buffer.extend_from_slice(chunk.as_ref());
                let bytes = part.bytes() + buffer.len() as u64;
                if bytes > file.bytes {
                    return Err(wrong_size(bytes));
                }
                if buffer.len() >= buffer_bytes || written.elapsed() >= BUFFER_TIME {
                    part.append(&mut buffer).await?;
                    written = Instant::now();
                }
            }
            Ok(None) => break,
            Err(error) => {
                part.append(&mut buffer).await?;
                return Err(error.into());
            }
        }
    }
    part.append(&mut buffer).await?;
    if part.bytes() < file.bytes {
        return Err(Trouble::Again(HubError::Interrupted { host: answer.host().to_string(), source: None }));
    }
    Ok(())
}

fn bad(answer: &Answer, why: &str) -> HubError {
    HubError::BadAnswer { host: answer.host().to_string(), why: why.to_string() }
}

/// Whether the hub names another content than the listing. Etags are compared where they are of one kind: a mirror may
/// answer with its own.
fn is_changed(file: &RemoteFile, identity: &Identity) -> bool {
    let is_other = |etag: &String| *etag != file.etag && etag.len() == file.etag.len();
    identity.etag.as_ref().is_some_and(is_other) || identity.bytes.is_some_and(|bytes| bytes != file.bytes)
}

/// Whether `Content-Range` is `bytes START-.../TOTAL` as asked.
fn is_range(headers: &HeaderMap, start: u64, total: u64) -> bool {
    let parse = || {
        let range = headers.get(CONTENT_RANGE)?.to_str().ok()?.trim().strip_prefix("bytes ")?;
        let (span, size) = range.split_once('/')?;
        let first: u64 = span.split_once('-')?.0.trim().parse().ok()?;
        let size = size.trim();
        Some(first == start && (size == "*" || size.parse() == Ok(total)))
    };
    parse().unwrap_or(false)
}

/// The etag of the bytes themselves, if `If-Range` may carry it.
fn strong_etag(headers: &HeaderMap) -> Option<String> {
    let etag = headers.get(ETAG)?.to_str().ok()?;
    etag.starts_with('"').then(|| etag.to_string())
}
