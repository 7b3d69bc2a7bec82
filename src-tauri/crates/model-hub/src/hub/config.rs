use std::{fmt, fs, io, path::PathBuf, time::Duration};

use super::HubError;

/// The hub that is asked unless another is configured.
pub const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// An access token. Never shown: its `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a token as the hub gave it; white space around it is dropped. `None` if nothing is left.
    pub fn new(token: &str) -> Option<Self> {
        let token = token.trim();
        (!token.is_empty()).then(|| Self(token.to_string()))
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(hidden)")
    }
}

/// Which way requests take.
#[derive(Clone, PartialEq, Eq, Default)]
pub enum ProxyChoice {
    /// The system's proxy, and those that `HTTPS_PROXY` and its kin name.
    #[default]
    System,
    /// None.
    Direct,
    /// This one, for example `http://name:password@proxy.example:8080`.
    Url(String),
}

impl fmt::Debug for ProxyChoice {
    /// Hides the address, which may hold a password.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::System => "System",
            Self::Direct => "Direct",
            Self::Url(_) => "Url(hidden)",
        })
    }
}

impl From<Option<String>> for ProxyChoice {
    /// `None` is the system's.
    fn from(url: Option<String>) -> Self {
        url.map_or(Self::System, Self::Url)
    }
}

/// Which hub is asked, as whom, and which way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubConfig {
    /// Address of the hub, `http` or `https`.
    pub endpoint: String,
    /// Sent to the endpoint's own origin and nowhere else.
    pub token: Option<Secret>,
    /// Which way requests take.
    pub proxy: ProxyChoice,
    /// Longest time without a byte before a request counts as failed.
    pub stall_timeout: Duration,
}

impl Default for HubConfig {
    fn default() -> Self {
        Self {
            endpoint: DEFAULT_ENDPOINT.to_string(),
            token: None,
            proxy: ProxyChoice::System,
            stall_timeout: Duration::from_secs(30),
        }
    }
}

impl HubConfig {
    /// Follows the conventions of Hugging Face's own tools, so that what they are told holds here as well.
    ///
    /// `lookup` gives the value of an environment variable. Endpoint: `HF_ENDPOINT`. Token: `HF_TOKEN`, then
    /// `HUGGING_FACE_HUB_TOKEN`, then the file `HF_TOKEN_PATH`, by default `token` in `HF_HOME` (not with
    /// `HF_HUB_DISABLE_IMPLICIT_TOKEN`).
    ///
    /// # Errors
    /// [`HubError::Disk`] if there is a token file that cannot be read.
    pub fn from_env(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, HubError> {
        let lookup = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
        let endpoint = lookup("HF_ENDPOINT").unwrap_or_else(|| DEFAULT_ENDPOINT.to_string());
        let named = lookup("HF_TOKEN").or_else(|| lookup("HUGGING_FACE_HUB_TOKEN"));
        let token = match named.as_deref().and_then(Secret::new) {
            Some(token) => Some(token),
            None if is_true(lookup("HF_HUB_DISABLE_IMPLICIT_TOKEN")) => None,
            None => token_file(&lookup)?,
        };
        Ok(Self { endpoint, token, ..Self::default() })
    }
}

/// The folder that Hugging Face's own tools download to: `HF_HUB_CACHE`, `HUGGINGFACE_HUB_CACHE`, or `hub` in `HF_HOME`.
/// `None` if not even a home folder is known.
pub fn cache_dir_from_env(lookup: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let lookup = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
    let named = lookup("HF_HUB_CACHE").or_else(|| lookup("HUGGINGFACE_HUB_CACHE"));
    named.map(PathBuf::from).or_else(|| Some(home(&lookup)?.join("hub")))
}

fn home(lookup: &impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    if let Some(home) = lookup("HF_HOME") {
        return Some(PathBuf::from(home));
    }
    let caches = lookup("XDG_CACHE_HOME").map(PathBuf::from);
    Some(caches.or_else(|| Some(PathBuf::from(lookup("HOME")?).join(".cache")))?.join("huggingface"))
}

fn token_file(lookup: &impl Fn(&str) -> Option<String>) -> Result<Option<Secret>, HubError> {
    let named = lookup("HF_TOKEN_PATH").map(PathBuf::from);
    let Some(path) = named.or_else(|| Some(home(lookup)?.join("token"))) else { return Ok(None) };
    match fs::read_to_string(&path) {
        Ok(token) => Ok(Secret::new(&token)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(HubError::disk(path, error)),
    }
}

fn is_true(value: Option<String>) -> bool {
    value.is_some_and(|value| ["1", "on", "true", "yes"].contains(&value.to_ascii_lowercase().as_str()))
}
