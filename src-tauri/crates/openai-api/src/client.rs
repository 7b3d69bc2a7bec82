//! Asking a server.
//!
//! Servers differ in what they send, so everything is taken that can be understood: see [`ChatStream`]. The key goes
//! to the server's own scheme, host and port, never to where it redirects, and into no error.

mod address;
mod error;
mod models;
mod pieces;
mod stream;
mod words;

use std::{sync::Once, time::Duration};

use reqwest::{
    Client as Http, Method, Response, StatusCode, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION},
    redirect::Policy,
};

pub use address::Address;
pub use error::ClientError;
pub use models::Model;
pub use stream::ChatStream;

use crate::{Secret, request::ChatRequest, response::Usage};
use address::host_of;

/// Redirects within a server that are followed.
const REDIRECTS_MAX: usize = 3;
/// Bytes of an error that are read.
const ERROR_BYTES_MAX: usize = 64 << 10;
/// Wait for the words of an error.
const ERROR_PATIENCE: Duration = Duration::from_secs(10);

/// How long a server is waited for.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For a connection.
    pub connect: Duration,
    /// For the first piece of an answer: a long prompt on a slow computer takes minutes. Stopping is always possible.
    pub first_piece: Duration,
    /// Between two pieces.
    pub idle: Duration,
    /// For a list of models.
    pub listing: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_piece: Duration::from_secs(15 * 60),
            idle: Duration::from_secs(2 * 60),
            listing: Duration::from_secs(15),
        }
    }
}

/// Something that a server says in an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ChatEvent {
    /// More of the thinking.
    Thinking(String),
    /// More of the answer.
    Text(String),
    /// The end; the last event.
    Finished {
        /// Why.
        reason: FinishReason,
        /// Counts of tokens, if the server says.
        usage: Option<Usage>,
    },
}

/// Why a server ended an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended its turn, or a stop sequence appeared: most servers do not say which.
    Stop,
    /// The limit of tokens, or the context window.
    Length,
    /// The server's filter of content.
    ContentFilter,
    /// A fault of the server.
    Error,
}

/// Asks one server; cheap to make.
#[derive(Debug, Clone)]
pub struct Client {
    http: Http,
    address: Address,
    key: Option<Secret>,
    authorization: Option<HeaderValue>,
    patience: Patience,
}

impl Client {
    /// A client of the server at an address.
    ///
    /// # Errors
    /// [`ClientError::InvalidKey`], [`ClientError::Client`].
    pub fn new(address: Address, key: Option<Secret>, patience: Patience) -> Result<Self, ClientError> {
        let authorization = key.as_ref().map(|key| {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose()))
                .map_err(|_| ClientError::InvalidKey)?;
            value.set_sensitive(true);
            Ok(value)
        });
        let authorization = authorization.transpose()?;
        install_tls();
        let mut builder = Http::builder()
            .user_agent(concat!("braid/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .connect_timeout(patience.connect)
            .pool_max_idle_per_host(0);
        if address.is_loopback() {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|error| ClientError::Client { source: error.into() })?;
        Ok(Self { http, address, key, authorization, patience })
    }

    /// Models that the server offers.
    ///
    /// # Errors
    /// Any [`ClientError`] but [`ClientError::Address`].
    pub async fn models(&self) -> Result<Vec<Model>, ClientError> {
        let list = async {
            let response =
                self.send(Method::GET, self.address.endpoint("models"), None, self.patience.listing).await?;
            models::read(response, &self.address.host()).await
        };
        let silent = ClientError::Silent { host: self.address.host(), waited: self.patience.listing };
        tokio::time::timeout(self.patience.listing, list).await.unwrap_or(Err(silent))
    }

    /// Asks for an answer in pieces. Returns when the server begins to answer. Dropping the future, or the stream,
    /// drops the connection.
    ///
    /// # Errors
    /// Any [`ClientError`] but [`ClientError::Address`].
    pub async fn chat(&self, request: &ChatRequest) -> Result<ChatStream, ClientError> {
        let mut request = request.clone();
        loop {
            let body = serde_json::to_vec(&request).map_err(|error| self.unwritable(&error))?;
            let url = self.address.endpoint("chat/completions");
            match self.send(Method::POST, url, Some(body), self.patience.first_piece).await {
                Ok(response) => {
                    let host = self.address.host();
                    return Ok(ChatStream::new(response, host, self.key.clone(), self.patience));
                }
                Err(error) if spare(&mut request, &error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn unwritable(&self, error: &serde_json::Error) -> ClientError {
        ClientError::BadAnswer { host: self.address.host(), why: error.to_string() }
    }

    /// Sends and follows redirects within the server. A response is a successful one.
    async fn send(
        &self,
        method: Method,
        mut url: Url,
        body: Option<Vec<u8>>,
        wait: Duration,
    ) -> Result<Response, ClientError> {
        let host = self.address.host();
        for _ in 0..=REDIRECTS_MAX {
            let mut request = self.http.request(method.clone(), url.clone());
            if let Some(authorization) = &self.authorization {
                request = request.header(AUTHORIZATION, authorization);
            }
            if let Some(body) = &body {
                request = request
                    .header(CONTENT_TYPE, "application/json")
                    .header(ACCEPT, "text/event-stream, application/json")
                    .body(body.clone());
            }
            let response = tokio::time::timeout(wait, request.send())
                .await
                .map_err(|_| ClientError::Silent { host: host.clone(), waited: wait })?
                .map_err(|error| ClientError::connecting(&host, error))?;
            let status = response.status();
            if status.is_redirection() {
                url = self.redirected(&url, &method, &response)?;
            } else if status.is_success() {
                return Ok(response);
            } else {
                return Err(self.refusal(response).await);
            }
        }
        Err(ClientError::Redirect { host, to: "itself, again and again".into() })
    }

    /// Where a redirect within the server leads.
    fn redirected(&self, from: &Url, method: &Method, response: &Response) -> Result<Url, ClientError> {
        let host = self.address.host();
        let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let Some(mut to) = location.and_then(|location| from.join(location).ok()) else {
            return Err(ClientError::Redirect { host, to: "nowhere".into() });
        };
        let keeps_method = *method == Method::GET
            || matches!(response.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        if to.origin() == from.origin() && keeps_method {
            return Ok(to);
        }
        to.set_query(None);
        to.set_fragment(None);
        let to = if to.has_host() {
            format!("{}://{}{}", to.scheme(), host_of(&to), to.path())
        } else {
            to.scheme().into()
        };
        Err(ClientError::Redirect { host, to })
    }

    async fn refusal(&self, mut response: Response) -> ClientError {
        let (host, status) = (self.address.host(), response.status());
        let mut body = Vec::new();
        let read = async {
            while body.len() < ERROR_BYTES_MAX
                && let Ok(Some(bytes)) = response.chunk().await
            {
                body.extend_from_slice(&bytes[..bytes.len().min(ERROR_BYTES_MAX - body.len())]);
            }
        };
        // Words that do not come are none; what came of them counts.
        let _ = tokio::time::timeout(ERROR_PATIENCE, read).await;
        let told = words::of_body(&body, self.key.as_ref());
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                ClientError::Access { host, has_key: self.key.is_some(), words: told.words }
            }
            status if status.is_client_error() => ClientError::Refused {
                host,
                status: status.as_u16(),
                words: told.words,
                param: told.param,
                code: told.code,
            },
            status if status.is_server_error() => {
                let words =
                    if told.words.is_empty() { format!("status {}", status.as_u16()) } else { told.words };
                ClientError::Failed { host, words }
            }
            status => ClientError::BadAnswer { host, why: format!("status {}", status.as_u16()) },
        }
    }
}

/// Changes what a server says that it does not know, if the request can do without. Returns whether to ask again.
fn spare(request: &mut ChatRequest, error: &ClientError) -> bool {
    let ClientError::Refused { param: Some(param), .. } = error else { return false };
    match param.as_str() {
        "max_tokens" if request.max_tokens.is_some() => {
            request.max_completion_tokens = request.max_tokens.take();
            true
        }
        "stream_options" => request.stream_options.take().is_some(),
        _ => false,
    }
}

/// TLS by ring, once per process; a provider that is there already serves as well.
fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
