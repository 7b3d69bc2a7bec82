//! A download that is killed again and again.

use std::{fs, fs::OpenOptions, io::Write as _, path::Path};

use model_hub::{DownloadPhase, Downloads};
use tokio::runtime::{Builder, Runtime};

use crate::{
    download_bench::{names, options, root, settled_after_pause},
    hub_server::{COMMIT, Fault, HubServer, REPO, git_sha1, noise, sha256},
    random::Random,
};

const INTERRUPTIONS: usize = 30;
const LARGE: [(&str, usize); 4] = [
    ("model-00001-of-00004.safetensors", 2_500_000),
    ("model-00002-of-00004.safetensors", 2_000_000),
    ("model-00003-of-00004.safetensors", 1_500_001),
    ("model-00004-of-00004.safetensors", 999_999),
];

#[test]
fn thirty_random_interruptions_leave_no_wrong_file() {
    let mut random = Random::new(4);
    let network = runtime();
    let server = network.block_on(HubServer::empty());
    server.add_small("config.json", b"{}");
    server.add_small("tokenizer.json", &noise(5, 50_000));
    for (seed, (path, bytes)) in LARGE.into_iter().enumerate() {
        server.add_large(path, &noise(seed as u64 + 10, bytes));
    }
    let cache = tempfile::tempdir().unwrap();
    for interruption in 0..INTERRUPTIONS {
        disturb(&server, &mut random);
        server.set_budget(50_000 + random.below(250_000) as usize);
        let client = runtime();
        client.block_on(run_until_spent(&server, cache.path()));
        // Whatever was going on ends in the middle.
        if random.below(2) == 0 {
            client.shutdown_background()
        } else {
            drop(client)
        }
        assert_nothing_wrong(cache.path(), interruption);
        if random.below(5) == 0 {
            tear(cache.path(), &mut random);
        }
    }
    let ranges = server.seen().iter().filter(|seen| seen.header("range").is_some()).count();
    assert!(ranges >= INTERRUPTIONS, "interruptions were continued, not begun anew: {ranges}");

    server.heal();
    let folder = runtime().block_on(finish(&server, cache.path()));
    assert_eq!(names(&folder).len(), LARGE.len() + 2);
    for name in names(&folder) {
        assert!(fs::read(folder.join(&name)).unwrap() == server.content(&name), "{name} is what the hub has");
    }
    let blobs = names(&root(cache.path()).join("blobs"));
    assert!(blobs.iter().all(|name| !name.ends_with(".part")), "{blobs:?}");
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Scripts some trouble besides the interruption.
fn disturb(server: &HubServer, random: &mut Random) {
    server.heal();
    let (path, bytes) = LARGE[random.below(LARGE.len() as u64) as usize];
    let place = random.below(bytes as u64) as usize;
    let fault = match random.below(9) {
        0 => Fault::Cut(place / 16),
        1 => Fault::Corrupt(place),
        2 => Fault::Status(503, &[("retry-after", "0")]),
        3 => Fault::OtherRange,
        4 => Fault::Short(place / 16),
        5 if random.below(3) == 0 => Fault::IgnoreRange,
        _ => Fault::Sound,
    };
    server.fault(path, fault);
}

/// Starts or continues the download; returns when the hub falls silent, or when it stands still before.
async fn run_until_spent(server: &HubServer, cache: &Path) {
    let downloads = Downloads::open_with(cache, server.hub(), options()).await.unwrap();
    let id = match downloads.list().as_slice() {
        [] => downloads.start(&server.hub().listing(REPO, "main").await.unwrap()).await.unwrap(),
        [found] => {
            assert!(matches!(found.phase, DownloadPhase::Paused), "{found:?}");
            downloads.resume(&found.id).await.unwrap();
            found.id.clone()
        }
        several => panic!("{several:?}"),
    };
    tokio::select! {
        () = server.spent() => {}
        phase = settled_after_pause(&downloads, &id) => {
            assert!(matches!(phase, DownloadPhase::Failed(_)), "the budgets are too large: {phase:?}");
        }
    }
}

/// No model that is not complete, and no blob that is not what its name says.
fn assert_nothing_wrong(cache: &Path, interruption: usize) {
    let root = root(cache);
    assert!(!root.join("snapshots").join(COMMIT).exists(), "after interruption {interruption}");
    for name in names(&root.join("blobs")) {
        let content = fs::read(root.join("blobs").join(&name)).unwrap();
        let is_right = [sha256(&content), git_sha1(&content)].contains(&name);
        assert!(is_right || name.ends_with(".part"), "{name} after interruption {interruption}");
    }
}

/// What a power cut can leave: the end of a file without its content.
fn tear(cache: &Path, random: &mut Random) {
    let blobs = root(cache).join("blobs");
    let parts: Vec<String> = names(&blobs).into_iter().filter(|name| name.ends_with(".part")).collect();
    if parts.is_empty() {
        return;
    }
    let part = blobs.join(&parts[random.below(parts.len() as u64) as usize]);
    let mut file = OpenOptions::new().append(true).open(part).unwrap();
    file.write_all(&vec![0; 1 + random.below(5_000) as usize]).unwrap();
}

async fn finish(server: &HubServer, cache: &Path) -> std::path::PathBuf {
    let downloads = Downloads::open_with(cache, server.hub(), options()).await.unwrap();
    let [found] = downloads.list().try_into().unwrap();
    downloads.resume(&found.id).await.unwrap();
    match settled_after_pause(&downloads, &found.id).await {
        DownloadPhase::Done { folder } => folder,
        phase => panic!("{phase:?}"),
    }
}
