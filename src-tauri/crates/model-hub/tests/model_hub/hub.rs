//! Asking a hub: searches, listings, small files, and what is said when it goes wrong.

use std::{collections::HashMap, fs, net::TcpListener, time::Duration};

use model_hub::{
    Hub, HubConfig, HubError, ProxyChoice, SearchLibrary, SearchQuery, Secret, SkipReason, cache_dir_from_env,
};
use serde_json::json;

use crate::hub_server::{COMMIT, Fault, HubServer, REPO, TOKEN, git_sha1};

#[tokio::test]
async fn a_search_is_paged_by_the_cursor_of_the_link() {
    let server = HubServer::empty().await;
    let model = json!([
        { "id": "mlx-community/a", "downloads": 9, "likes": 2, "lastModified": "2026-01-02T03:04:05.000Z",
          "gated": "manual", "tags": ["mlx", "4-bit"], "library_name": "mlx" },
        { "modelId": "b", "gated": false },
        { "id": "../../etc" },
    ]);
    // A mirror passes on links to the hub behind it.
    let link = "<https://huggingface.co/api/models?limit=30&cursor=abc%3D%3D>; rel=\"next\"";
    server.answer("/api/models", 200, &[("link", link)], &model.to_string());
    let hub = server.hub();

    let page = hub.search("qwen 3", None).await.unwrap();
    assert_eq!(page.next.as_deref(), Some("abc=="));
    let [first, second] = page.models.as_slice() else { panic!("{page:?}") };
    assert_eq!((first.repo.as_str(), first.downloads, first.likes), ("mlx-community/a", 9, 2));
    assert_eq!((first.is_gated, second.is_gated), (true, false));
    assert_eq!(
        (first.updated_at.as_deref(), first.library.as_deref()),
        (Some("2026-01-02T03:04:05.000Z"), Some("mlx"))
    );
    assert_eq!(second.repo, "b");

    hub.search("", page.next.as_deref()).await.unwrap();
    let query = SearchQuery { text: "x&y".into(), library: SearchLibrary::Safetensors };
    hub.search(query, None).await.unwrap();
    let targets: Vec<String> = server.seen().into_iter().map(|seen| seen.target).collect();
    assert!(targets[0].contains("search=qwen+3") && targets[0].contains("filter=mlx"), "{}", targets[0]);
    assert!(targets[0].contains("sort=downloads"), "{}", targets[0]);
    assert!(targets[1].contains("cursor=abc%3D%3D") && !targets[1].contains("search="), "{}", targets[1]);
    assert!(
        targets[2].contains("search=x%26y") && targets[2].contains("filter=safetensors"),
        "{}",
        targets[2]
    );
}

#[tokio::test]
async fn a_listing_takes_what_a_text_model_needs_and_says_why_not_the_rest() {
    let server = HubServer::with_model().await;
    for path in [
        "model-q4.gguf",
        "original/consolidated.safetensors",
        "consolidated.safetensors",
        "cat.png",
        "LICENSE",
    ] {
        server.add_small(path, path.as_bytes());
    }
    let listing = server.hub().listing(REPO, "main").await.unwrap();
    assert_eq!((listing.commit.as_str(), listing.licence.as_deref()), (COMMIT, Some("mit")));
    assert_eq!((listing.is_gated, listing.pipeline.as_deref()), (false, Some("text-generation")));
    let paths: Vec<&str> = listing.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "config.json",
            "tokenizer.json",
            "README.md",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "model.safetensors.index.json",
            "LICENSE",
        ]
    );
    let skipped: Vec<_> = listing.skipped.iter().map(|file| (file.path.as_str(), file.why)).collect();
    assert_eq!(
        skipped,
        [
            ("pytorch_model.bin", SkipReason::OtherFormat),
            ("modeling_tiny.py", SkipReason::Code),
            ("model-q4.gguf", SkipReason::GgufChoice),
            ("original/consolidated.safetensors", SkipReason::SubFolder),
            ("consolidated.safetensors", SkipReason::OtherWeights),
            ("cat.png", SkipReason::NotNeeded),
        ]
    );
    assert_eq!(listing.files[0].etag, git_sha1(&server.content("config.json")));
    assert_eq!(listing.files[3].sha256.as_ref(), Some(&listing.files[3].etag));

    let chosen = listing.with_gguf("model-q4.gguf").unwrap();
    let paths: Vec<&str> = chosen.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["README.md", "LICENSE", "model-q4.gguf"]);
    assert!(matches!(listing.with_gguf("cat.png"), Err(HubError::NoSuchFile { .. })));
}

#[tokio::test]
async fn what_a_mirror_does_not_list_is_looked_up() {
    let server = HubServer::with_model().await;
    let siblings =
        json!([{ "rfilename": "config.json" }, { "rfilename": "model-00001-of-00002.safetensors" }]);
    let body = json!({ "sha": COMMIT, "siblings": siblings }).to_string();
    server.answer(&format!("/api/models/{REPO}/revision/main"), 200, &[], &body);
    let listing = server.hub().listing(REPO, "main").await.unwrap();
    let known = HubServer::with_model().await.hub().listing(REPO, "main").await.unwrap();
    for (looked_up, listed) in listing.files.iter().zip([&known.files[0], &known.files[3]]) {
        assert_eq!(
            (&looked_up.path, looked_up.bytes, &looked_up.etag),
            (&listed.path, listed.bytes, &listed.etag)
        );
    }
    assert_eq!(listing.files.len(), 2);
}

#[tokio::test]
async fn a_small_file_is_read_within_its_limit_and_checked() {
    let server = HubServer::with_model().await;
    let hub = server.hub();
    let listing = hub.listing(REPO, "main").await.unwrap();
    assert_eq!(hub.read_small(&listing, "config.json", 4096).await.unwrap(), server.content("config.json"));
    assert!(matches!(
        hub.read_small(&listing, "config.json", 5).await,
        Err(HubError::TooLarge { limit_bytes: 5, .. })
    ));
    assert!(matches!(
        hub.read_small(&listing, "pytorch_model.bin", 99).await,
        Err(HubError::NoSuchFile { .. })
    ));
    server.fault("config.json", Fault::Corrupt(3));
    assert!(matches!(hub.read_small(&listing, "config.json", 4096).await, Err(HubError::Corrupt { .. })));
}

#[tokio::test]
async fn each_refusal_is_its_own_error() {
    let server = HubServer::empty().await;
    let hub = server.hub();
    let path = format!("/api/models/{REPO}/revision/main");
    let refused = async |status, headers: &[(&str, &str)]| {
        server.answer(&path, status, headers, "no");
        hub.listing(REPO, "main").await.unwrap_err()
    };
    let gated = refused(403, &[("x-error-code", "GatedRepo")]).await;
    let HubError::Gated { page, has_token: true, .. } = &gated else { panic!("{gated:?}") };
    assert_eq!(*page, format!("{}/{REPO}", server.endpoint()), "the page on which terms are accepted");
    assert!(gated.to_string().contains(page), "the message leads there: {gated}");
    assert!(matches!(refused(401, &[]).await, HubError::Unauthorized { has_token: true, .. }));
    assert!(matches!(refused(403, &[]).await, HubError::Forbidden { .. }));
    assert!(matches!(refused(404, &[]).await, HubError::NotFound { .. }));
    assert!(matches!(refused(418, &[]).await, HubError::UnexpectedStatus { status: 418, .. }));
    let limited = refused(429, &[("retry-after", "7")]).await;
    assert_eq!(limited.retry_after(), Some(Duration::from_secs(7)));
    let limited = refused(429, &[("ratelimit", "\"api\";r=0;t=55")]).await;
    assert_eq!(limited.retry_after(), Some(Duration::from_secs(55)));
    let dated = refused(503, &[("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT")]).await;
    assert!(
        matches!(dated, HubError::Server { status: 503, retry_after: Some(Duration::ZERO) }),
        "{dated:?}"
    );
    assert!(matches!(refused(200, &[]).await, HubError::BadAnswer { .. }), "\"no\" is no JSON");
    assert!(matches!(hub.search("", None).await, Err(HubError::NotFound { .. })));
    for repo in ["", "a/b/c", "../x", "a/..", "a b", "a/b\\c", "a--b/c", ".a/b"] {
        assert!(matches!(hub.listing(repo, "main").await, Err(HubError::InvalidRepo { .. })), "{repo}");
    }
    for revision in ["", "../main", "a\\b", "/main", "a b"] {
        let refused = hub.listing(REPO, revision).await;
        assert!(matches!(refused, Err(HubError::InvalidRevision { .. })), "{revision}");
    }
}

#[tokio::test]
async fn redirects_that_lead_nowhere_end() {
    let server = HubServer::with_model().await;
    let hub = server.hub();
    let listing = hub.listing(REPO, "main").await.unwrap();
    let itself = "/braid-tests/tiny-4bit/resolve/0123456789abcdef0123456789abcdef01234567/config.json";
    for location in [itself, "ftp://127.0.0.1/config.json", "http://["] {
        server.always("config.json", Fault::Redirect(location));
        let refused = hub.read_small(&listing, "config.json", 4096).await;
        assert!(matches!(refused, Err(HubError::Redirect { .. })), "{location}: {refused:?}");
    }
}

#[tokio::test]
async fn a_hub_that_is_not_there_is_said_to_be_unreachable() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let config = |endpoint: &str, proxy| HubConfig {
        endpoint: endpoint.to_string(),
        token: None,
        proxy,
        stall_timeout: Duration::from_secs(60),
    };
    let hub = Hub::new(config(&address, ProxyChoice::Direct)).unwrap();
    assert!(matches!(hub.search("", None).await, Err(HubError::Connect { .. })));
    let hub = Hub::new(config("http://hub.invalid", ProxyChoice::Url(address))).unwrap();
    let refused = hub.search("", None).await;
    assert!(matches!(refused, Err(HubError::Proxy { .. })), "the proxy is what does not answer: {refused:?}");
    for endpoint in
        ["huggingface.co", "ftp://huggingface.co", "https://me:secret@huggingface.co", "https://h?x=1"]
    {
        let refused = Hub::new(config(endpoint, ProxyChoice::Direct));
        assert!(matches!(refused, Err(HubError::InvalidEndpoint { .. })), "{endpoint}");
    }
}

#[tokio::test]
async fn a_hub_without_encryption_is_no_secure_connection() {
    let server = HubServer::empty().await;
    let config = HubConfig { endpoint: server.endpoint().replace("http:", "https:"), ..server.config() };
    let refused = Hub::new(config).unwrap().search("", None).await;
    assert!(matches!(refused, Err(HubError::Tls { .. })), "{refused:?}");
}

#[tokio::test]
async fn requests_go_through_the_configured_proxy() {
    let proxy = HubServer::with_model().await;
    let config = HubConfig {
        endpoint: "http://hub.invalid".to_string(),
        proxy: ProxyChoice::Url(proxy.endpoint()),
        ..proxy.config()
    };
    let listing = Hub::new(config).unwrap().listing(REPO, "main").await.unwrap();
    assert_eq!(listing.commit, COMMIT);
    assert!(
        proxy.seen()[0].target.starts_with("http://hub.invalid/api/models/"),
        "a proxy gets the whole address"
    );
}

#[test]
fn configuration_follows_the_conventions_of_hugging_faces_tools() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_string();
    let from = |variables: &[(&str, String)]| {
        let variables: HashMap<String, String> =
            variables.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        HubConfig::from_env(|name| variables.get(name).cloned()).unwrap()
    };
    let own = ("HF_HOME", path(""));
    assert_eq!(from(std::slice::from_ref(&own)), HubConfig::default());
    fs::write(path("token"), "hf_file\n").unwrap();
    fs::write(path("other"), "hf_other").unwrap();
    assert_eq!(from(std::slice::from_ref(&own)).token, Secret::new("hf_file"));
    assert_eq!(from(&[own.clone(), ("HF_TOKEN_PATH", path("other"))]).token, Secret::new("hf_other"));
    assert_eq!(from(&[own.clone(), ("HF_TOKEN", " hf_env ".into())]).token, Secret::new("hf_env"));
    assert_eq!(from(&[own.clone(), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1".into())]).token, None);
    assert_eq!(
        from(&[own.clone(), ("HF_ENDPOINT", "https://mirror.example".into())]).endpoint,
        "https://mirror.example"
    );

    let cache = |variables: &[(&str, &str)]| {
        cache_dir_from_env(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
        })
    };
    let at = |folder: &str| Some(folder.into());
    assert_eq!(cache(&[("HOME", "/h")]), at("/h/.cache/huggingface/hub"));
    assert_eq!(cache(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")]), at("/c/huggingface/hub"));
    assert_eq!(cache(&[("HOME", "/h"), ("HF_HOME", "/f")]), at("/f/hub"));
    assert_eq!(cache(&[("HF_HOME", "/f"), ("HF_HUB_CACHE", "/k")]), at("/k"));
    assert_eq!(cache(&[]), None);
}

#[test]
fn secrets_are_never_shown() {
    let config = HubConfig {
        token: Secret::new(TOKEN),
        proxy: ProxyChoice::Url("http://me:swordfish@proxy".into()),
        ..HubConfig::default()
    };
    let hub = Hub::new(config.clone()).unwrap();
    let shown = format!("{config:?} {hub:?}");
    assert!(!shown.contains(TOKEN) && !shown.contains("swordfish"), "{shown}");
    let broken = HubConfig { token: Secret::new("hf\nx"), ..config };
    assert!(matches!(Hub::new(broken), Err(HubError::InvalidToken)));
}
