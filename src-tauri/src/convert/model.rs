//! Models, fit and downloads -> the wire.

use std::path::Path;

use engine::Replace;
use model_hub::{
    DownloadPhase, DownloadStatus, Listing, ModelFolder, ModelSource, SearchPage,
    fit::{self, Verdict},
};
use protocol::{
    FitReport, FitVerdict, MemoryKind, ModelEntry, ModelLoad, ModelLoadFailure, ModelOrigin, ModelProblem,
    RemoteFile, RemoteModel, RemoteModelDetails, RemoteModelPage,
};

use super::{count, milliseconds};
use crate::{
    error::{AppError, in_full},
    local_engine::{LoadFailure, LoadProgress},
    model_library::RemoteDetails,
    models::fit::Fit,
};

/// Why something about a model did not work.
pub fn problem(error: &AppError) -> ModelProblem {
    ModelProblem { code: error.code(), detail: in_full(error) }
}

/// Numbers of a fit.
pub fn fit_report(fit: &Fit) -> FitReport {
    let report = &fit.report;
    FitReport {
        weights_bytes: report.weights_bytes as f64,
        kv_cache_bytes_per_tab: report.kv_cache_bytes_per_tab as f64,
        tabs: report.tabs,
        context_tokens: report.context_tokens,
        model_context_tokens: fit.model_context_tokens,
        workspace_bytes: report.workspace_bytes as f64,
        reserve_bytes: report.reserve_bytes as f64,
        needed_bytes: report.needed_bytes as f64,
        free_bytes: report.free_bytes as f64,
        total_bytes: report.total_bytes as f64,
        memory_kind: match fit.memory_kind {
            fit::MemoryKind::Unified => MemoryKind::Unified,
            fit::MemoryKind::Discrete => MemoryKind::Discrete,
            fit::MemoryKind::Host => MemoryKind::Host,
        },
        verdict: match report.verdict {
            Verdict::Fits => FitVerdict::Fits,
            Verdict::Tight => FitVerdict::Tight,
            Verdict::TooLarge => FitVerdict::TooLarge,
        },
        offered_context_tokens: report.offered_context_tokens,
        replaces_first: fit.replace == Replace::UnloadFirst,
    }
}

/// A model that can be loaded, unless `problem` says otherwise.
pub fn usable(folder: &ModelFolder, is_bundled: bool, problem: Option<ModelProblem>) -> ModelEntry {
    ModelEntry {
        model_id: folder.id.clone(),
        name: folder.name.clone(),
        path: folder.path.display().to_string(),
        origin: origin(&folder.source, is_bundled),
        disk_bytes: folder.bytes as f64,
        architecture: Some(folder.architecture.clone()),
        quantisation: Some(folder.quantisation.clone()),
        context_tokens: folder.context_tokens.map(count),
        licence: folder.licence.clone(),
        problem,
        is_deletable: !is_bundled,
    }
}

/// What is left of a model.
pub fn broken(
    id: &str,
    path: &Path,
    source: &ModelSource,
    is_bundled: bool,
    problem: ModelProblem,
) -> ModelEntry {
    ModelEntry {
        model_id: id.to_owned(),
        name: id.to_owned(),
        path: path.display().to_string(),
        origin: origin(source, is_bundled),
        disk_bytes: 0.0,
        architecture: None,
        quantisation: None,
        context_tokens: None,
        licence: None,
        problem: Some(problem),
        is_deletable: !is_bundled,
    }
}

fn origin(source: &ModelSource, is_bundled: bool) -> ModelOrigin {
    match source {
        _ if is_bundled => ModelOrigin::Bundled,
        ModelSource::Folder => ModelOrigin::Own,
        ModelSource::HubCache { repo, commit } => {
            ModelOrigin::Hub { repo: repo.clone(), commit: commit.clone() }
        }
        ModelSource::Reference => ModelOrigin::Reference,
    }
}

/// A load under way.
pub fn load(progress: &LoadProgress) -> ModelLoad {
    ModelLoad {
        model_id: progress.model.id.clone(),
        done_bytes: progress.done_bytes as f64,
        total_bytes: progress.total_bytes as f64,
    }
}

/// A load that failed.
pub fn load_failure(failure: &LoadFailure) -> ModelLoadFailure {
    ModelLoadFailure { model_id: failure.model_id.clone(), problem: problem(&failure.error) }
}

/// A download.
pub fn download(status: &DownloadStatus) -> protocol::DownloadStatus {
    protocol::DownloadStatus {
        download_id: status.id.to_string(),
        repo: status.repo.clone(),
        phase: match &status.phase {
            DownloadPhase::Queued => protocol::DownloadPhase::Queued,
            DownloadPhase::Running => protocol::DownloadPhase::Running,
            DownloadPhase::Paused => protocol::DownloadPhase::Paused,
            DownloadPhase::Verifying => protocol::DownloadPhase::Verifying,
            DownloadPhase::Failed(error) => {
                protocol::DownloadPhase::Failed { problem: problem(&error.clone().into()) }
            }
            // The catalogue lists a repository of the cache by its name.
            DownloadPhase::Done { .. } => {
                protocol::DownloadPhase::Done { model_id: Some(status.repo.clone()) }
            }
        },
        done_bytes: status.done_bytes as f64,
        total_bytes: status.total_bytes as f64,
        bytes_per_s: status.bytes_per_s.round(),
        left_ms: status.time_left.map(milliseconds),
        done_files: count(status.files_done),
        files: count(status.files),
    }
}

/// One page of a search.
pub fn remote_page(page: SearchPage) -> RemoteModelPage {
    let models = page.models.into_iter().map(|model| RemoteModel {
        repo: model.repo,
        downloads: model.downloads,
        likes: model.likes,
        updated_at: model.updated_at,
        is_gated: model.is_gated,
        tags: model.tags,
    });
    RemoteModelPage { models: models.collect(), next: page.next }
}

/// What a repository holds.
pub fn remote_details(
    listing: &Listing,
    details: RemoteDetails,
    free_disk_bytes: Option<u64>,
    installed_model_id: Option<String>,
) -> RemoteModelDetails {
    let files = listing.files.iter();
    RemoteModelDetails {
        repo: listing.repo.clone(),
        commit: listing.commit.clone(),
        files: files.map(|file| RemoteFile { path: file.path.clone(), bytes: file.bytes as f64 }).collect(),
        download_bytes: listing.total_bytes() as f64,
        skipped_files: count(listing.skipped.len()),
        free_disk_bytes: free_disk_bytes.map(|bytes| bytes as f64),
        licence: listing.licence.clone(),
        architecture: details.architecture,
        quantisation: details.quantisation,
        problem: details.problem.as_ref().map(problem),
        fit: details.fit.as_ref().map(fit_report),
        installed_model_id,
    }
}
