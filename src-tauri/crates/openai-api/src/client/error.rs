//! Why a server did not answer, or no further.

use std::{sync::Arc, time::Duration};

/// Why a request to a server failed. No variant holds the key.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// An address that cannot be one.
    #[error("\"{given}\" cannot be used: {why}")]
    Address {
        /// As it was written, without a password.
        given: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A key with characters that cannot travel in a header.
    #[error("the key has characters that no key can have")]
    InvalidKey,
    /// No connection came about.
    #[error("{host} cannot be reached")]
    Unreachable {
        /// Host, with its port.
        host: String,
        /// What the system said.
        source: Arc<reqwest::Error>,
    },
    /// Nothing came for too long.
    #[error("{host} was silent for {} s", waited.as_secs())]
    Silent {
        /// Host, with its port.
        host: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The server wants a key, or another one.
    #[error("{host} refused {}{}", if *has_key { "the key" } else { "to answer without a key" }, after_colon(words))]
    Access {
        /// Host, with its port.
        host: String,
        /// Whether a key was sent.
        has_key: bool,
        /// What the server said; may be empty.
        words: String,
    },
    /// The server refused the request: a status from 400 to 499.
    #[error("{host} answered with status {status}{}", after_colon(words))]
    Refused {
        /// Host, with its port.
        host: String,
        /// HTTP status.
        status: u16,
        /// What the server said; may be empty.
        words: String,
        /// The field that it names, if it names one.
        param: Option<String>,
        /// Its own code of the error, if it has one.
        code: Option<String>,
    },
    /// The server failed, before or in the middle of an answer.
    #[error("{host} failed{}", after_colon(words))]
    Failed {
        /// Host, with its port.
        host: String,
        /// What the server said; may be empty.
        words: String,
    },
    /// The server sends elsewhere, where the key must not go.
    #[error("{host} redirects to {to}: give that address instead if it is the right one")]
    Redirect {
        /// Host, with its port.
        host: String,
        /// Where to.
        to: String,
    },
    /// An answer that this API does not know.
    #[error("{host} gave an answer that cannot be used: {why}")]
    BadAnswer {
        /// Host, with its port.
        host: String,
        /// What is wrong with it.
        why: String,
    },
    /// The connection ended in the middle of an answer.
    #[error("{host} broke off in the middle of the answer")]
    BrokeOff {
        /// Host, with its port.
        host: String,
        /// What the system said, if it was not a plain end.
        source: Option<Arc<reqwest::Error>>,
    },
    /// The system gave no client, for example because its certificates cannot be read.
    #[error("no connection can be prepared")]
    Client {
        /// Why.
        source: Arc<reqwest::Error>,
    },
}

impl ClientError {
    /// Of a request that has no answer yet.
    pub(super) fn connecting(host: &str, error: reqwest::Error) -> Self {
        let host = host.to_owned();
        let is_connect = error.is_connect() || error.is_timeout();
        let source = Arc::new(error.without_url());
        if is_connect {
            Self::Unreachable { host, source }
        } else {
            Self::BrokeOff { host, source: Some(source) }
        }
    }

    /// Of an answer that has begun.
    pub(super) fn reading(host: &str, error: reqwest::Error) -> Self {
        Self::BrokeOff { host: host.to_owned(), source: Some(Arc::new(error.without_url())) }
    }
}

fn after_colon(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(": {words}") }
}
