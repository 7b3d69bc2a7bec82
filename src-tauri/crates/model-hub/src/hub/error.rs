use std::{error::Error, io, path::PathBuf, sync::Arc, time::Duration};

/// Why the hub could not be asked or a download stands still. Each message says what happened and what to do.
///
/// Clones share their cause, so that a status can carry the error to every observer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HubError {
    /// The address of the hub is no address.
    #[error("\"{endpoint}\" is not the address of a hub: enter one such as https://huggingface.co")]
    InvalidEndpoint {
        /// As configured.
        endpoint: String,
    },
    /// The proxy's address is no address.
    #[error("the proxy's address cannot be used: enter one such as http://proxy.example:8080")]
    InvalidProxy,
    /// The token holds characters that no header can carry.
    #[error("the access token holds characters that no token has: copy it anew from the hub's settings")]
    InvalidToken,
    /// The HTTP client could not be set up.
    #[error("secure connections cannot be set up: check that the system's certificates are installed")]
    Client {
        /// What the client said.
        source: Arc<reqwest::Error>,
    },
    /// Not the name of a repository.
    #[error("\"{repo}\" is not the name of a repository: write owner/name")]
    InvalidRepo {
        /// As given.
        repo: String,
    },
    /// Not the name of a branch, tag or commit.
    #[error("\"{revision}\" is not a branch, tag or commit")]
    InvalidRevision {
        /// As given.
        revision: String,
    },
    /// The network cannot be reached.
    #[error("{host} cannot be reached: this computer seems to be offline; check the connection, then resume")]
    Offline {
        /// Host asked for.
        host: String,
    },
    /// The name has no address.
    #[error("the address of {host} was not found: check the connection and the hub's address")]
    Dns {
        /// Host asked for.
        host: String,
        /// What the resolver said.
        source: Arc<reqwest::Error>,
    },
    /// Nothing answers there.
    #[error("{host} refused the connection: check the hub's address, or try again later")]
    Connect {
        /// Host asked for.
        host: String,
        /// What the system said.
        source: Arc<reqwest::Error>,
    },
    /// The encrypted connection failed.
    #[error(
        "no secure connection to {host}: its certificate was not accepted; check the clock and any proxy"
    )]
    Tls {
        /// Host asked for.
        host: String,
        /// What the TLS library said.
        source: Arc<reqwest::Error>,
    },
    /// The proxy does not let requests through.
    #[error("the proxy does not lead to {host}: check the proxy's address, name and password")]
    Proxy {
        /// Host asked for.
        host: String,
        /// What the client said, if it said anything.
        source: Option<Arc<reqwest::Error>>,
    },
    /// No byte for too long.
    #[error("{host} sent nothing for {} seconds: check the connection, then resume", waited.as_secs())]
    Timeout {
        /// Host asked for.
        host: String,
        /// How long it was waited.
        waited: Duration,
    },
    /// The connection broke, or the answer was no HTTP.
    #[error("the connection to {host} broke: check the connection, then resume")]
    Interrupted {
        /// Host asked for.
        host: String,
        /// What the client said.
        source: Option<Arc<reqwest::Error>>,
    },
    /// 401: the hub wants to know who asks, or does not know the token.
    #[error("{}", if *has_token {
        format!("the hub did not accept the access token for {what}: check that it is valid and the name is right")
    } else {
        format!("{what} does not exist or is private: check the name, or set an access token")
    })]
    Unauthorized {
        /// Repository or address asked for.
        what: String,
        /// Whether a token was sent.
        has_token: bool,
    },
    /// The owner wants terms to be accepted first.
    #[error("{repo} is gated: accept the terms at {page}{}", if *has_token {
        " with the account of the access token"
    } else {
        ", then set an access token of that account"
    })]
    Gated {
        /// The repository.
        repo: String,
        /// Page on which terms are accepted.
        page: String,
        /// Whether a token was sent.
        has_token: bool,
    },
    /// 403: not for this account.
    #[error("{what} may not be read with {}: ask its owner for access", if *has_token { "this access token" } else { "no access token" })]
    Forbidden {
        /// Repository or address asked for.
        what: String,
        /// Whether a token was sent.
        has_token: bool,
    },
    /// 404.
    #[error("{what} is not on the hub: check the name; it may have been deleted or renamed")]
    NotFound {
        /// Repository, revision or file asked for.
        what: String,
    },
    /// 429.
    #[error("the hub asks for fewer requests: try again {}", match retry_after {
        Some(wait) => format!("in {} seconds", wait.as_secs()),
        None => "in a few minutes".to_string(),
    })]
    RateLimited {
        /// How long the hub asks to wait.
        retry_after: Option<Duration>,
    },
    /// 5xx.
    #[error("the hub has trouble (status {status}): try again later")]
    Server {
        /// HTTP status.
        status: u16,
        /// How long the hub asks to wait.
        retry_after: Option<Duration>,
    },
    /// A status that no hub should send here.
    #[error("{host} answered with status {status}, which makes no sense here: check the hub's address")]
    UnexpectedStatus {
        /// Host that answered.
        host: String,
        /// HTTP status.
        status: u16,
    },
    /// A redirect in circles, to nowhere, or away from encryption.
    #[error("{host} redirects {why}: check the hub's address")]
    Redirect {
        /// Host that redirected.
        host: String,
        /// "more than 10 times", for example.
        why: &'static str,
    },
    /// An answer that is not what the hub's API promises.
    #[error("{host} gave an answer that cannot be used ({why}): check that the address is that of a hub")]
    BadAnswer {
        /// Host that answered.
        host: String,
        /// What is wrong with it.
        why: String,
    },
    /// An answer or file larger than what is reasonable to hold in memory.
    #[error("{what} is larger than {limit_bytes} bytes and was not read")]
    TooLarge {
        /// What was asked for.
        what: String,
        /// The limit.
        limit_bytes: u64,
    },
    /// A listing that would write where it must not.
    #[error("{repo} lists \"{path}\", which {why}: nothing was downloaded; tell the owner of the repository")]
    UnsafeListing {
        /// The repository.
        repo: String,
        /// Path or etag, shortened.
        path: String,
        /// Why it is refused.
        why: &'static str,
    },
    /// Nothing there that Braid could load.
    #[error("{repo} has no safetensors weights{}", if *has_gguf {
        ": choose one of its GGUF files"
    } else {
        ": look for a conversion to MLX"
    })]
    NoWeights {
        /// The repository.
        repo: String,
        /// Whether it has GGUF files to choose from.
        has_gguf: bool,
    },
    /// A file that the listing does not have.
    #[error("{repo} has no file \"{path}\" that can be read")]
    NoSuchFile {
        /// The repository.
        repo: String,
        /// Path asked for.
        path: String,
    },
    /// Fetched twice, of the wrong length both times.
    #[error("\"{path}\" has {found_bytes} bytes where the hub promised {expected_bytes}: try again later")]
    WrongSize {
        /// Path in the repository.
        path: String,
        /// As listed.
        expected_bytes: u64,
        /// As received.
        found_bytes: u64,
    },
    /// Fetched twice, with wrong content both times.
    #[error(
        "\"{path}\" arrived damaged twice (checksum {found} where {expected} was promised): try again later or from another network"
    )]
    Corrupt {
        /// Path in the repository.
        path: String,
        /// As listed, hexadecimal.
        expected: String,
        /// As computed, hexadecimal.
        found: String,
    },
    /// Changed again and again while it was fetched.
    #[error("\"{path}\" keeps changing on the hub: start the download anew later")]
    KeepsChanging {
        /// Path in the repository.
        path: String,
    },
    /// Not enough space.
    #[error("{} has {free_bytes} bytes free, the download needs {needed_bytes}: free some space, then resume", path.display())]
    DiskFull {
        /// Folder of the downloads.
        path: PathBuf,
        /// Bytes still to write, with the margin that is left free.
        needed_bytes: u64,
        /// Bytes free.
        free_bytes: u64,
    },
    /// The system refused to read or write.
    #[error("cannot read or write {}: check permissions and the disk, then resume", path.display())]
    Disk {
        /// File or folder.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// Another program writes the same file.
    #[error("another program is downloading {}: wait for it or close it, then resume", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// A program's own part failed, which is a bug.
    #[error("a part of the download ended unexpectedly: resume it, and report this if it happens again")]
    Aborted,
    /// No such download.
    #[error("there is no such download")]
    UnknownDownload,
}

impl HubError {
    pub(crate) fn disk(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Disk { path: path.into(), source: Arc::new(source) }
    }

    /// Whether asking again may help without anybody doing anything.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Offline { .. }
                | Self::Dns { .. }
                | Self::Connect { .. }
                | Self::Timeout { .. }
                | Self::Interrupted { .. }
                | Self::RateLimited { .. }
                | Self::Server { .. }
        )
    }

    /// How long the hub asked to wait before the next request.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after } | Self::Server { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Sorts a failure of the client into what a person can do about it.
    pub(crate) fn from_transport(
        host: &str,
        waited: Duration,
        has_proxy: bool,
        source: reqwest::Error,
    ) -> Self {
        let host = host.to_string();
        if source.is_timeout() {
            return Self::Timeout { host, waited };
        }
        let cause = Cause::of(&source);
        let is_dns = source.is_dns();
        let is_connect = source.is_connect();
        // Addresses of files carry signatures that give access to them.
        let source = Arc::new(source.without_url());
        match cause {
            Cause::Tls => Self::Tls { host, source },
            Cause::Unreachable => Self::Offline { host },
            _ if is_connect && has_proxy => Self::Proxy { host, source: Some(source) },
            _ if is_dns => Self::Dns { host, source },
            _ if is_connect => Self::Connect { host, source },
            Cause::Other => Self::Interrupted { host, source: Some(source) },
        }
    }
}

enum Cause {
    Tls,
    Unreachable,
    Other,
}

impl Cause {
    fn of(error: &(dyn Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            if error.is::<rustls::Error>() {
                return Self::Tls;
            }
            next = error.source();
            let Some(error) = error.downcast_ref::<io::Error>() else { continue };
            match error.kind() {
                io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkDown => return Self::Unreachable,
                // The source of an I/O error is its payload's source: the payload itself would be skipped.
                _ => next = error.get_ref().map(|inner| inner as &(dyn Error + 'static)).or(next),
            }
        }
        Self::Other
    }
}
