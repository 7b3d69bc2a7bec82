use reqwest::{
    Url,
    header::{HeaderMap, LINK},
};
use serde_json::Value;

/// Which kind of repository a search looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SearchLibrary {
    /// Made for MLX.
    #[default]
    Mlx,
    /// Any text generation with safetensors weights.
    Safetensors,
    /// GGUF files.
    Gguf,
}

/// What a search looks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchQuery {
    /// Words in the name; empty for the most downloaded of all.
    pub text: String,
    /// Kind of repository.
    pub library: SearchLibrary,
}

impl From<&str> for SearchQuery {
    fn from(text: &str) -> Self {
        Self { text: text.to_string(), library: SearchLibrary::default() }
    }
}

/// One repository of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteModel {
    /// `owner/name`.
    pub repo: String,
    /// Downloads, as the hub counts them.
    pub downloads: u64,
    /// Likes.
    pub likes: u64,
    /// Date of the last change in ISO 8601, as the hub writes it.
    pub updated_at: Option<String>,
    /// Whether terms have to be accepted on its page first.
    pub is_gated: bool,
    /// Tags, as the hub has them.
    pub tags: Vec<String>,
    /// Library that it was made for.
    pub library: Option<String>,
}

/// One page of a search, most downloaded first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchPage {
    /// Repositories whose names this build can download.
    pub models: Vec<RemoteModel>,
    /// Passed back for the next page; `None` on the last.
    pub next: Option<String>,
}

const PAGE_MODELS: &str = "30";

/// Adds the parameters of `/api/models`.
pub(super) fn add_parameters(url: &mut Url, query: &SearchQuery, cursor: Option<&str>) {
    let mut pairs = url.query_pairs_mut();
    let text = query.text.trim();
    if !text.is_empty() {
        pairs.append_pair("search", text);
    }
    match query.library {
        SearchLibrary::Mlx => pairs.append_pair("filter", "mlx"),
        SearchLibrary::Safetensors => {
            pairs.append_pair("filter", "safetensors").append_pair("pipeline_tag", "text-generation")
        }
        SearchLibrary::Gguf => {
            pairs.append_pair("filter", "gguf").append_pair("pipeline_tag", "text-generation")
        }
    };
    pairs.append_pair("sort", "downloads").append_pair("direction", "-1").append_pair("limit", PAGE_MODELS);
    for field in ["downloads", "likes", "lastModified", "gated", "tags", "library_name"] {
        pairs.append_pair("expand", field);
    }
    if let Some(cursor) = cursor {
        pairs.append_pair("cursor", cursor);
    }
}

/// Reads a page; entries without a usable name are left out. `None` if it is no list.
pub(super) fn read_page(body: &Value, headers: &HeaderMap) -> Option<SearchPage> {
    let models = body.as_array()?.iter().filter_map(read_model).collect();
    Some(SearchPage { models, next: next_cursor(headers) })
}

fn read_model(entry: &Value) -> Option<RemoteModel> {
    let text = |name: &str| entry[name].as_str().map(str::to_string);
    let repo = text("id").or_else(|| text("modelId"))?;
    let tags = entry["tags"].as_array().into_iter().flatten().filter_map(Value::as_str);
    super::paths::is_repo(&repo).then(|| RemoteModel {
        repo,
        downloads: entry["downloads"].as_u64().unwrap_or(0),
        likes: entry["likes"].as_u64().unwrap_or(0),
        updated_at: text("lastModified"),
        is_gated: super::listing::is_gated(&entry["gated"]),
        tags: tags.map(str::to_string).collect(),
        library: text("library_name"),
    })
}

/// The cursor in the link to the next page. The link's host is not followed: behind a mirror it names another hub.
fn next_cursor(headers: &HeaderMap) -> Option<String> {
    let links = headers.get_all(LINK).iter().filter_map(|value| value.to_str().ok());
    let next = links.flat_map(|links| links.split(',')).find(|link| link.contains("rel=\"next\""))?;
    let (_, rest) = next.split_once('<')?;
    let url = Url::parse(rest.split_once('>')?.0).ok()?;
    url.query_pairs().find(|(name, _)| name == "cursor").map(|(_, value)| value.into_owned())
}
