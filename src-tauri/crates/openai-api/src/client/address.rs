//! Where a server is.

use reqwest::Url;

use super::ClientError;

/// The endpoint that people tend to paste with the address.
const PASTED: [&str; 2] = ["/chat/completions", "/models"];

/// Base address of a server's API, as in `http://127.0.0.1:8000/v1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(Url);

impl Address {
    /// Reads an address as people write it: `http` is added if there is no scheme, `/v1` if there is no path.
    ///
    /// # Errors
    /// [`ClientError::Address`].
    pub fn parse(given: &str) -> Result<Self, ClientError> {
        let refused = |why| ClientError::Address { given: shown(given), why };
        let given = given.trim();
        let with_scheme = if given.contains("://") { given.to_owned() } else { format!("http://{given}") };
        let mut url = Url::parse(&with_scheme).map_err(|_| refused("it is not a web address"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused("it must begin with http:// or https://"));
        }
        if !url.has_host() || given.is_empty() {
            return Err(refused("it names no computer"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused("a name or a password has no place in it; give the key instead"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(refused("it must not contain ? or #"));
        }
        let path = url.path().trim_end_matches('/');
        let path = PASTED.iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path);
        let path = if path.is_empty() { "/v1".to_owned() } else { path.trim_end_matches('/').to_owned() };
        url.set_path(&path);
        Ok(Self(url))
    }

    /// The address as it is kept and shown.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Host, and the port if it is not the usual one.
    pub fn host(&self) -> String {
        host_of(&self.0)
    }

    /// Whether the server runs on this computer.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.0)
    }

    /// The address of an endpoint below the base.
    pub(super) fn endpoint(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        url.set_path(&format!("{}/{path}", self.0.path()));
        url
    }
}

pub(super) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or("?");
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback_ip = host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    is_loopback_ip || host == "localhost" || host.ends_with(".localhost")
}

/// Without what may be a password.
fn shown(given: &str) -> String {
    match given.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => given.trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_as_people_write_it() {
        for (given, kept) in [
            ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
            (" localhost:1234/ ", "http://localhost:1234/v1"),
            ("https://example.org/v1/", "https://example.org/v1"),
            ("https://example.org/api/openai/v1/chat/completions", "https://example.org/api/openai/v1"),
            ("http://[::1]:8080/v1/models", "http://[::1]:8080/v1"),
            ("192.168.0.7", "http://192.168.0.7/v1"),
        ] {
            assert_eq!(Address::parse(given).expect(given).as_str(), kept);
        }
    }

    #[test]
    fn what_cannot_be_an_address_is_refused_without_repeating_a_password() {
        for given in
            ["", "http://", "ftp://a/v1", "file:///etc/passwd", "http://a/v1?key=x", "http://a/#b", "ht tp"]
        {
            assert!(matches!(Address::parse(given), Err(ClientError::Address { .. })), "{given}");
        }
        let error = Address::parse("https://me:hunter2@example.org").expect_err("it has a password");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn only_this_computer_is_loopback() {
        let is_loopback = |given| Address::parse(given).expect(given).is_loopback();
        for own in
            ["http://127.0.0.1:1", "http://127.8.8.8", "http://[::1]:1", "localhost", "https://a.localhost"]
        {
            assert!(is_loopback(own), "{own}");
        }
        for other in ["http://192.168.0.7", "http://localhost.example.org", "http://127.0.0.1.example.org"] {
            assert!(!is_loopback(other), "{other}");
        }
    }
}
