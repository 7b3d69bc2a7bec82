//! A Hugging Face compatible hub: searches, lists and reads; what is fetched goes through [`crate::Downloads`].

mod config;
mod error;
pub(crate) mod http;
mod listing;
pub(crate) mod paths;
mod search;

use std::sync::Arc;

use reqwest::{
    Method,
    header::{ACCEPT_ENCODING, HeaderMap, HeaderValue, IF_RANGE, RANGE},
};

pub use config::{DEFAULT_ENDPOINT, HubConfig, ProxyChoice, Secret, cache_dir_from_env};
pub use error::HubError;
pub use listing::{Listing, RemoteFile, SkipReason, SkippedFile};
pub use search::{RemoteModel, SearchLibrary, SearchPage, SearchQuery};

use http::{Answer, Http};

const SEARCH_BYTES_MAX: u64 = 8 << 20;
const LISTING_BYTES_MAX: u64 = 32 << 20;

/// A hub that can be asked. Clones share connections.
#[derive(Debug, Clone)]
pub struct Hub {
    http: Arc<Http>,
}

impl Hub {
    /// Sets up connections; asks nothing yet.
    ///
    /// # Errors
    /// [`HubError::InvalidEndpoint`], `InvalidProxy`, `InvalidToken` or `Client`.
    pub fn new(config: HubConfig) -> Result<Self, HubError> {
        Ok(Self { http: Arc::new(Http::new(&config)?) })
    }

    /// Whether requests carry a token.
    pub fn has_token(&self) -> bool {
        self.http.has_token()
    }

    /// One page of repositories, most downloaded first. `cursor`: `next` of the page before.
    ///
    /// # Errors
    /// [`HubError`]: the network's, the status', or `BadAnswer`.
    pub async fn search(
        &self,
        query: impl Into<SearchQuery>,
        cursor: Option<&str>,
    ) -> Result<SearchPage, HubError> {
        let mut url = self.http.url(["api", "models"]);
        search::add_parameters(&mut url, &query.into(), cursor);
        let (body, headers) = self.http.json(url, "the list of models", SEARCH_BYTES_MAX).await?;
        search::read_page(&body, &headers).ok_or_else(|| self.http.bad_answer("no list of models"))
    }

    /// What `repo` holds at `revision`, a branch, tag or commit; `main` is usual.
    ///
    /// # Errors
    /// [`HubError::InvalidRepo`], `InvalidRevision` before anything is asked; `UnsafeListing`, `BadAnswer`, or the
    /// network's and the status'. A repository without weights is listed: [`Listing::check`] refuses it.
    pub async fn listing(&self, repo: &str, revision: &str) -> Result<Listing, HubError> {
        if !paths::is_repo(repo) {
            return Err(HubError::InvalidRepo { repo: repo.to_string() });
        }
        if !paths::is_revision(revision) {
            return Err(HubError::InvalidRevision { revision: revision.to_string() });
        }
        let segments = ["api", "models"].into_iter().chain(repo.split('/')).chain(["revision", revision]);
        let mut url = self.http.url(segments);
        url.query_pairs_mut().append_pair("blobs", "true");
        let (body, _) = self.http.json(url, repo, LISTING_BYTES_MAX).await?;
        let (mut listing, unknown) = listing::read(repo, revision, &body, |why| self.http.bad_answer(why))?;
        for file in unknown {
            paths::check_path(&file.path).map_err(|why| listing::unsafe_name(repo, &file.path, why))?;
            let file = self.look_up(&listing, file.path).await?;
            listing.add(file);
        }
        match listing.check() {
            Err(HubError::NoWeights { .. }) => Ok(listing),
            checked => checked.map(|()| listing),
        }
    }

    /// Reads one small file of a listing, `config.json` for example, and checks it against its hash.
    ///
    /// # Errors
    /// [`HubError::NoSuchFile`], `TooLarge`, `WrongSize`, `Corrupt`, or the network's and the status'.
    pub async fn read_small(
        &self,
        listing: &Listing,
        path: &str,
        limit_bytes: u64,
    ) -> Result<Vec<u8>, HubError> {
        let file = listing
            .files
            .iter()
            .find(|file| file.path == path)
            .ok_or_else(|| HubError::NoSuchFile { repo: listing.repo.clone(), path: path.to_string() })?;
        if file.bytes > limit_bytes {
            return Err(HubError::TooLarge { what: path.to_string(), limit_bytes });
        }
        let answer = self.open(&listing.repo, &listing.commit, path, None).await?;
        let content = answer.read_all(path, limit_bytes).await?;
        crate::download::check_content(file, &content)?;
        Ok(content)
    }

    /// Asks for a file's bytes from `resume.0` on, if it still has the etag `resume.1`.
    pub(crate) async fn open(
        &self,
        repo: &str,
        commit: &str,
        path: &str,
        resume: Option<(u64, Option<&str>)>,
    ) -> Result<Answer, HubError> {
        let mut headers = plain();
        if let Some((start_bytes, etag)) = resume {
            if let Ok(range) = HeaderValue::from_str(&format!("bytes={start_bytes}-")) {
                headers.insert(RANGE, range);
            }
            if let Some(etag) = etag.and_then(|etag| HeaderValue::from_str(etag).ok()) {
                headers.insert(IF_RANGE, etag);
            }
        }
        self.resolve(Method::GET, headers, repo, commit, path).await
    }

    async fn look_up(&self, listing: &Listing, path: String) -> Result<RemoteFile, HubError> {
        let answer = self.resolve(Method::HEAD, plain(), &listing.repo, &listing.commit, &path).await?;
        let missing = |what| self.http.bad_answer(format!("no {what} for {path}"));
        let length = answer.response.headers().get("content-length");
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        let bytes = answer.identity.bytes.or(length).ok_or_else(|| missing("size"))?;
        let etag = answer.identity.etag.clone().ok_or_else(|| missing("etag"))?;
        Ok(RemoteFile { path, bytes, sha256: None, etag })
    }

    async fn resolve(
        &self,
        method: Method,
        headers: HeaderMap,
        repo: &str,
        commit: &str,
        path: &str,
    ) -> Result<Answer, HubError> {
        let segments = repo.split('/').chain(["resolve", commit]).chain(path.split('/'));
        self.http.send(method, self.http.url(segments), headers, &format!("{repo}: {path}")).await
    }
}

/// Bytes as they are: a compressed answer has no ranges that fit the file.
fn plain() -> HeaderMap {
    HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("identity"))])
}
