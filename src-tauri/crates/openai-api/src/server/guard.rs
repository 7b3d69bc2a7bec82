//! Who may ask: programs of this computer that have the key, and no web page.
//!
//! A page of the web can make a browser send requests to loopback, under a name that leads there (DNS rebinding) or
//! across origins. Both show in headers that a page cannot set.

use hyper::{
    HeaderMap, Uri,
    header::{AUTHORIZATION, HOST, ORIGIN},
};
use subtle::ConstantTimeEq as _;

use super::Refusal;

/// Refuses what was not meant for this computer's own name.
pub(super) fn check_origin(uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().unwrap_or_default(),
        _ => return Err(Refusal::foreign("a request needs one Host header".into())),
    };
    let named = uri.authority().map(|authority| authority.as_str());
    if let Some(other) = [Some(host), named].into_iter().flatten().find(|host| !is_loopback(host)) {
        return Err(Refusal::foreign(format!(
            "this server is called 127.0.0.1, localhost or [::1], not \"{other}\""
        )));
    }
    let is_own = |origin: &str| {
        let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        host.is_some_and(is_loopback)
    };
    for origin in headers.get_all(ORIGIN) {
        let origin = origin.to_str().unwrap_or_default();
        if !is_own(origin) {
            return Err(Refusal::foreign(format!("web pages of \"{origin}\" may not ask this server")));
        }
    }
    Ok(())
}

/// Refuses requests without the key.
pub(super) fn check_key(headers: &HeaderMap, is_key: impl Fn(&str) -> bool) -> Result<(), Refusal> {
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some((scheme, given)) = given.and_then(|given| given.trim().split_once(' ')) else {
        return Err(Refusal::no_key(
            "a key is needed: Authorization: Bearer, then the key from Braid's settings",
        ));
    };
    if scheme.eq_ignore_ascii_case("bearer") && is_key(given.trim()) {
        return Ok(());
    }
    Err(Refusal::no_key("the key is another one: it is in Braid's settings"))
}

/// Whether two keys are the same, in a time that does not tell where they differ.
pub(super) fn is_equal(key: &str, given: &str) -> bool {
    key.as_bytes().ct_eq(given.as_bytes()).into()
}

/// Whether a host, with or without a port, is a name of loopback.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.eq_ignore_ascii_case("localhost") || name == "127.0.0.1" || name == "[::1]"
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn check(headers: &[(&'static str, &str)], uri: &str) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).expect("a header"));
        }
        check_origin(&uri.parse().expect("an address"), &map).is_ok()
    }

    #[test]
    fn only_names_of_loopback_are_answered() {
        for host in ["127.0.0.1", "127.0.0.1:11535", "localhost:1", "LOCALHOST", "[::1]", "[::1]:11535"] {
            assert!(check(&[("host", host)], "/v1/models"), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:1", "::1", "", "127.0.0.1:x"]
        {
            assert!(!check(&[("host", host)], "/v1/models"), "{host}");
        }
        assert!(!check(&[], "/v1/models"), "no Host at all");
        assert!(!check(&[("host", "localhost"), ("host", "evil.example")], "/"), "two of them");
        assert!(!check(&[("host", "localhost")], "http://evil.example/v1/models"), "in the address");
    }

    #[test]
    fn only_pages_of_loopback_may_ask() {
        let from = |origin| check(&[("host", "localhost"), ("origin", origin)], "/v1/models");
        assert!(from("http://localhost:3000"));
        assert!(from("https://127.0.0.1"));
        for origin in ["https://evil.example", "null", "http://localhost.evil.example", "file://", ""] {
            assert!(!from(origin), "{origin}");
        }
    }

    #[test]
    fn only_the_whole_key_opens() {
        assert!(is_equal("braid-1", "braid-1"));
        for other in ["", "braid-", "braid-2", "braid-11", "BRAID-1"] {
            assert!(!is_equal("braid-1", other), "{other}");
        }
    }
}
