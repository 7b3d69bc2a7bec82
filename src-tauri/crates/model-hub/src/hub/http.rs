//! Requests to a hub: redirects, the token's way, waiting, and what each status means.

use std::{future::Future, sync::Once, time::Duration};

use reqwest::{
    Client, Method, Proxy, Response, StatusCode, Url,
    header::{AUTHORIZATION, ETAG, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER},
    redirect::Policy,
};

use super::{HubConfig, HubError, ProxyChoice};

const REDIRECTS_MAX: usize = 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// What the hub itself, not the host it redirects to, says about a file.
#[derive(Debug, Default, Clone)]
pub(crate) struct Identity {
    /// Without quotes and weakness mark.
    pub etag: Option<String>,
    pub bytes: Option<u64>,
    is_linked: bool,
}

/// A successful answer, its body still unread.
pub(crate) struct Answer {
    pub response: Response,
    pub identity: Identity,
    host: String,
    wait: Duration,
    has_proxy: bool,
}

/// Sends requests to one endpoint and to where it redirects.
#[derive(Debug)]
pub(crate) struct Http {
    client: Client,
    endpoint: Url,
    authorization: Option<HeaderValue>,
    has_proxy: bool,
    wait: Duration,
}

impl Http {
    pub(crate) fn new(config: &HubConfig) -> Result<Self, HubError> {
        let endpoint = parse_endpoint(&config.endpoint)?;
        let authorization = config.token.as_ref().map(|token| {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
                .map_err(|_| HubError::InvalidToken)?;
            value.set_sensitive(true);
            Ok(value)
        });
        install_tls();
        let mut builder = Client::builder()
            .user_agent(concat!("braid/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT.min(config.stall_timeout));
        match &config.proxy {
            ProxyChoice::System => {}
            ProxyChoice::Direct => builder = builder.no_proxy(),
            ProxyChoice::Url(url) => {
                let proxy = Proxy::all(url).map_err(|_| HubError::InvalidProxy)?;
                builder = builder.no_proxy().proxy(proxy);
            }
        }
        Ok(Self {
            client: builder.build().map_err(|source| HubError::Client { source: source.into() })?,
            endpoint,
            authorization: authorization.transpose()?,
            has_proxy: matches!(config.proxy, ProxyChoice::Url(_)),
            wait: config.stall_timeout,
        })
    }

    /// Whether requests to the endpoint carry a token.
    pub(crate) fn has_token(&self) -> bool {
        self.authorization.is_some()
    }

    /// An address below the endpoint; each segment is escaped, its slashes as well.
    pub(crate) fn url<'a>(&self, segments: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.endpoint.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }

    /// Sends and follows redirects. `what` names the thing asked for in messages.
    ///
    /// The token goes to the endpoint's own scheme, host and port only.
    pub(crate) async fn send(
        &self,
        method: Method,
        mut url: Url,
        headers: HeaderMap,
        what: &str,
    ) -> Result<Answer, HubError> {
        let mut identity = Identity::default();
        for _ in 0..=REDIRECTS_MAX {
            let host = host_of(&url);
            let is_own = url.origin() == self.endpoint.origin();
            let mut request = self.client.request(method.clone(), url.clone()).headers(headers.clone());
            if let Some(authorization) = self.authorization.as_ref().filter(|_| is_own) {
                request = request.header(AUTHORIZATION, authorization);
            }
            let response = within(self.wait, &host, self.has_proxy, request.send()).await?;
            let status = response.status();
            if is_own {
                identity.update(response.headers());
            }
            if is_redirect(status) {
                url = redirect_target(&url, response.headers())?;
                continue;
            }
            if !status.is_success() {
                return Err(self.refusal(what, &host, is_own, status, response.headers()));
            }
            return Ok(Answer { response, identity, host, wait: self.wait, has_proxy: self.has_proxy });
        }
        Err(HubError::Redirect { host: host_of(&url), why: "more than 10 times" })
    }

    /// Gets JSON of at most `limit_bytes`, with the headers that came along.
    pub(crate) async fn json(
        &self,
        url: Url,
        what: &str,
        limit_bytes: u64,
    ) -> Result<(serde_json::Value, HeaderMap), HubError> {
        let answer = self.send(Method::GET, url, HeaderMap::new(), what).await?;
        let headers = answer.response.headers().clone();
        let host = answer.host.clone();
        let body = answer.read_all(what, limit_bytes).await?;
        let value = serde_json::from_slice(&body)
            .map_err(|error| HubError::BadAnswer { host, why: format!("no JSON: {error}") })?;
        Ok((value, headers))
    }

    /// A complaint about an answer of the endpoint.
    pub(crate) fn bad_answer(&self, why: impl Into<String>) -> HubError {
        HubError::BadAnswer { host: host_of(&self.endpoint), why: why.into() }
    }

    fn refusal(
        &self,
        what: &str,
        host: &str,
        is_own: bool,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> HubError {
        let (what, has_token) = (what.to_string(), self.has_token());
        let code = headers.get("x-error-code").and_then(|code| code.to_str().ok());
        let retry_after = retry_after(headers);
        match status {
            StatusCode::TOO_MANY_REQUESTS => HubError::RateLimited { retry_after },
            status if status.is_server_error() => HubError::Server { status: status.as_u16(), retry_after },
            // Where a hub redirects to, signatures run out: the next try gets a new one.
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND if !is_own => {
                HubError::Server { status: status.as_u16(), retry_after }
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if code == Some("GatedRepo") => {
                let repo = what.split_once(": ").map_or(what.as_str(), |(repo, _)| repo).to_string();
                HubError::Gated { page: self.url(repo.split('/')).to_string(), repo, has_token }
            }
            StatusCode::UNAUTHORIZED => HubError::Unauthorized { what, has_token },
            StatusCode::FORBIDDEN => HubError::Forbidden { what, has_token },
            StatusCode::NOT_FOUND => HubError::NotFound { what },
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                HubError::Proxy { host: host.to_string(), source: None }
            }
            status => HubError::UnexpectedStatus { host: host.to_string(), status: status.as_u16() },
        }
    }
}

impl Answer {
    /// The next bytes of the body; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<impl AsRef<[u8]> + use<>>, HubError> {
        within(self.wait, &self.host, self.has_proxy, self.response.chunk()).await
    }

    /// The host that answered, after redirects.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// The whole body, if it has at most `limit_bytes`.
    pub(crate) async fn read_all(mut self, what: &str, limit_bytes: u64) -> Result<Vec<u8>, HubError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            let chunk = chunk.as_ref();
            if (body.len() + chunk.len()) as u64 > limit_bytes {
                return Err(HubError::TooLarge { what: what.to_string(), limit_bytes });
            }
            body.extend_from_slice(chunk);
        }
        Ok(body)
    }
}

impl Identity {
    /// Headers of the linked file win over an answer's own etag, whichever comes first.
    fn update(&mut self, headers: &HeaderMap) {
        let text = |name: &str| headers.get(name)?.to_str().ok();
        self.bytes = text("x-linked-size").and_then(|bytes| bytes.parse().ok()).or(self.bytes);
        if let Some(etag) = text("x-linked-etag") {
            self.etag = Some(normal_etag(etag));
            self.is_linked = true;
        } else if let Some(etag) = text(ETAG.as_str()).filter(|_| !self.is_linked) {
            self.etag = Some(normal_etag(etag));
        }
    }
}

/// An etag without weakness mark and quotes, as caches name blobs.
fn normal_etag(etag: &str) -> String {
    let etag = etag.trim();
    etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"').to_string()
}

/// Awaits `work` for at most `wait`.
async fn within<T>(
    wait: Duration,
    host: &str,
    has_proxy: bool,
    work: impl Future<Output = Result<T, reqwest::Error>>,
) -> Result<T, HubError> {
    match tokio::time::timeout(wait, work).await {
        Err(_) => Err(HubError::Timeout { host: host.to_string(), waited: wait }),
        Ok(result) => result.map_err(|error| HubError::from_transport(host, wait, has_proxy, error)),
    }
}

fn parse_endpoint(endpoint: &str) -> Result<Url, HubError> {
    let invalid = || HubError::InvalidEndpoint { endpoint: endpoint.to_string() };
    let url = Url::parse(endpoint.trim()).map_err(|_| invalid())?;
    let is_plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    if is_plain && is_web && url.password().is_none() { Ok(url) } else { Err(invalid()) }
}

/// TLS by ring, once per process; a provider that is there already serves as well.
fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or("?");
    url.port().map_or_else(|| host.to_string(), |port| format!("{host}:{port}"))
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn redirect_target(from: &Url, headers: &HeaderMap) -> Result<Url, HubError> {
    let refused = |why| HubError::Redirect { host: host_of(from), why };
    let location = headers.get(LOCATION).and_then(|location| location.to_str().ok());
    let target =
        location.and_then(|location| from.join(location).ok()).ok_or_else(|| refused("to nowhere"))?;
    match (from.scheme(), target.scheme()) {
        (_, "https") | ("http", "http") => Ok(target),
        ("https", "http") => Err(refused("from an encrypted to an open connection")),
        _ => Err(refused("to something that is no web address")),
    }
}

/// How long an answer asks to wait: `Retry-After` in seconds or as a date, else the reset time of `RateLimit`.
///
/// Source: RFC 9110, section 10.2.3; draft-ietf-httpapi-ratelimit-headers-09, section 4.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let Some(value) = text(RETRY_AFTER.as_str()).map(str::trim) else {
        let reset =
            text("ratelimit")?.split(';').find_map(|parameter| parameter.trim().strip_prefix("t="))?;
        return reset.parse().ok().map(Duration::from_secs);
    };
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(std::time::SystemTime::now()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_never_leads_from_an_encrypted_to_an_open_connection() {
        let target = |from: &str, location: &'static str| {
            let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_static(location))]);
            redirect_target(&Url::parse(from).unwrap(), &headers).map(|url| url.to_string())
        };
        assert_eq!(target("https://a/b/c", "/d?e").unwrap(), "https://a/d?e");
        assert_eq!(target("https://a/b", "https://cdn/x").unwrap(), "https://cdn/x");
        assert_eq!(target("http://a/b", "https://cdn/x").unwrap(), "https://cdn/x");
        for location in ["http://a/b", "file:///etc/passwd", "https://"] {
            assert!(matches!(target("https://a/b", location), Err(HubError::Redirect { .. })), "{location}");
        }
    }

    #[test]
    fn an_etag_is_the_same_with_and_without_quotes() {
        assert_eq!(normal_etag("\"ab\""), "ab");
        assert_eq!(normal_etag("W/\"ab\""), "ab");
        assert_eq!(normal_etag("ab"), "ab");
    }
}
