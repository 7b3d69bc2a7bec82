//! Listings that want to write where they must not.

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path},
};

use model_hub::{Downloads, HubError, Listing, RemoteFile};
use serde_json::{Value, json};

use crate::{
    download_bench::{names, options, root},
    hub_server::{COMMIT, HubServer, REPO},
    random::Random,
};

fn sibling(path: &str, etag: &str) -> Value {
    json!({ "rfilename": path, "size": 4, "blobId": etag })
}

async fn listed(siblings: &[Value]) -> Result<Listing, HubError> {
    let server = HubServer::empty().await;
    let body = json!({ "sha": COMMIT, "siblings": siblings }).to_string();
    server.answer(&format!("/api/models/{REPO}/revision/main"), 200, &[], &body);
    server.hub().listing(REPO, "main").await
}

#[tokio::test]
async fn a_path_that_leads_elsewhere_condemns_the_listing() {
    let sound = sibling("weights.safetensors", "aa");
    assert!(listed(std::slice::from_ref(&sound)).await.is_ok());
    let long = format!("{}.safetensors", "x".repeat(300));
    for path in [
        "/etc/model.safetensors",
        "../model.safetensors",
        "a/../../model.safetensors",
        "..",
        "..\\model.safetensors",
        "C:\\model.safetensors",
        "C:model.safetensors",
        "model\0.safetensors",
        "../../.ssh/authorized_keys",
        "x/../../harmless.png",
        "model.safetensors:stream.safetensors",
        "mo\u{202e}del.safetensors",
        "new\nline.safetensors",
        "NUL.safetensors",
        "com1.gguf",
        long.as_str(),
    ] {
        let refused = listed(&[sound.clone(), sibling(path, "bb")]).await;
        assert!(matches!(refused, Err(HubError::UnsafeListing { .. })), "{path:?}: {refused:?}");
    }
    for etag in ["../evil", "a/b", "", ".", "..", "a.part", "con", "a b", &"a".repeat(200)] {
        let refused = listed(&[sibling("model.safetensors", etag)]).await;
        assert!(matches!(refused, Err(HubError::UnsafeListing { .. })), "etag {etag:?}: {refused:?}");
    }
    let twice = listed(&[sound.clone(), sibling("WEIGHTS.safetensors", "bb")]).await;
    assert!(matches!(twice, Err(HubError::UnsafeListing { .. })), "{twice:?}");
    let sizes = [sound, json!({ "rfilename": "LICENSE", "size": 5, "blobId": "aa" })];
    let refused = listed(&sizes).await;
    assert!(
        matches!(refused, Err(HubError::UnsafeListing { .. })),
        "one blob cannot have two sizes: {refused:?}"
    );
}

#[tokio::test]
async fn a_commit_that_is_a_path_is_refused() {
    let server = HubServer::empty().await;
    for sha in ["main", "../../../../../../../../../../../../../x", ""] {
        let body = json!({ "sha": sha, "siblings": [] }).to_string();
        server.answer(&format!("/api/models/{REPO}/revision/main"), 200, &[], &body);
        let refused = server.hub().listing(REPO, "main").await;
        assert!(matches!(refused, Err(HubError::BadAnswer { .. })), "{sha}: {refused:?}");
    }
}

#[tokio::test]
async fn a_listing_made_up_by_a_caller_is_checked_as_well() {
    let server = HubServer::with_model().await;
    let cache = tempfile::tempdir().unwrap();
    let downloads = Downloads::open_with(cache.path(), server.hub(), options()).await.unwrap();
    let sound = server.hub().listing(REPO, "main").await.unwrap();
    let with_file = |path: &str| {
        let file = RemoteFile { path: path.into(), bytes: 1, sha256: None, etag: "aa".into() };
        Listing { files: vec![sound.files[3].clone(), file], ..sound.clone() }
    };
    for listing in [
        with_file("../evil.safetensors"),
        with_file("run.py"),
        with_file("weights.bin"),
        Listing { repo: "../..".into(), ..sound.clone() },
        Listing { commit: "..".into(), ..sound.clone() },
        Listing { revision: "../../../x".into(), ..sound.clone() },
    ] {
        let refused = downloads.start(&listing).await;
        let is_refused = matches!(
            refused,
            Err(HubError::UnsafeListing { .. }
                | HubError::InvalidRepo { .. }
                | HubError::InvalidRevision { .. })
        );
        assert!(is_refused, "{refused:?}");
    }
    let texts = Listing { files: sound.files[..1].to_vec(), ..sound };
    assert!(matches!(downloads.start(&texts).await, Err(HubError::NoWeights { has_gguf: false, .. })));
    assert_eq!(names(cache.path()), BTreeSet::new(), "nothing was written for any of them");
}

#[tokio::test]
async fn a_record_that_leads_elsewhere_is_not_continued() {
    let server = HubServer::with_model().await;
    let cache = tempfile::tempdir().unwrap();
    let records = root(cache.path()).join("downloads");
    let id = {
        let downloads = Downloads::open_with(cache.path(), server.hub(), options()).await.unwrap();
        server.always("config.json", crate::hub_server::Fault::Stall(0));
        let listing = server.hub().listing(REPO, "main").await.unwrap();
        let id = downloads.start(&listing).await.unwrap();
        downloads.pause(&id).await.unwrap();
        id
    };
    let path = records.join(format!("{id}.json"));
    let sound = fs::read_to_string(&path).unwrap();
    let found =
        async || Downloads::open_with(cache.path(), server.hub(), options()).await.unwrap().list().len();
    assert_eq!(found().await, 1, "as it was written");
    let etag = crate::hub_server::git_sha1(&server.content("config.json"));
    let hostile = [
        ("config.json", "../../config.json"),
        (etag.as_str(), "../../config"),
        (REPO, "other/repository"),
        ("\"revision\":\"main\"", "\"revision\":\"../../main\""),
        ("\"version\":1", "\"version\":9"),
    ];
    for (old, new) in hostile {
        assert!(sound.contains(old), "{old} is in {sound}");
        fs::write(&path, sound.replace(old, new)).unwrap();
        assert_eq!(found().await, 0, "{new}");
    }
}

#[tokio::test]
async fn a_random_path_that_is_accepted_stays_in_its_folder() {
    const PIECES: [&str; 18] = [
        "..",
        ".",
        "/",
        "\\",
        ":",
        "\0",
        "C:",
        "model",
        ".safetensors",
        ".gguf",
        "config.json",
        "NUL",
        "~",
        " ",
        "\u{202e}",
        "\n",
        "%2e%2e",
        "%2f",
    ];
    let server = HubServer::with_model().await;
    let sound = server.hub().listing(REPO, "main").await.unwrap();
    let mut random = Random::new(11);
    let mut accepted = 0;
    for _ in 0..50_000 {
        let pieces = 1 + random.below(5);
        let mut path: String =
            (0..pieces).map(|_| PIECES[random.below(PIECES.len() as u64) as usize]).collect();
        if random.below(2) == 0 {
            path.push_str(".safetensors");
        }
        let file = RemoteFile { path: path.clone(), ..sound.files[3].clone() };
        let listing = Listing { files: vec![file], gguf: Vec::new(), ..sound.clone() };
        if listing.check().is_ok() {
            accepted += 1;
            let components: Vec<_> = Path::new(&path).components().collect();
            assert!(
                matches!(components.as_slice(), [Component::Normal(name)] if **name == *path),
                "{path:?}"
            );
            assert!(!path.contains(['\\', ':', '\0', '/', '\n', '\u{202e}']), "{path:?}");
        }
    }
    assert!(accepted > 500, "sound names are among them: {accepted}");
}
