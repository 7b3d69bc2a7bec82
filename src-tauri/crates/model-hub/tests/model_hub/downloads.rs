//! The life of a download from a hub that behaves.

use std::{collections::BTreeSet, fs, fs::File, path::Path};

use model_hub::{DownloadOptions, DownloadPhase, Downloads, HubError};

use crate::{
    download_bench::{
        Bench, FILES, FIRST, SECOND, names, options, root, settled, settled_after_pause, wait_for,
    },
    hub_server::{COMMIT, Fault, REPO, TOKEN, git_sha1, sha256},
};

#[tokio::test]
async fn a_download_becomes_a_snapshot_that_links_to_blobs() {
    let bench = Bench::new().await;
    let id = bench.start().await;
    let phase = settled(&bench.downloads, &id).await;
    bench.assert_complete(&phase);
    let etags: BTreeSet<String> =
        [FIRST, SECOND].iter().map(|path| sha256(&bench.server.content(path))).collect();
    assert!(bench.blobs().is_superset(&etags), "large files are named by their hash");
    assert!(
        bench.blobs().contains(&git_sha1(&bench.server.content("config.json"))),
        "small ones as git names them"
    );
    let link = root(bench.cache.path()).join("snapshots").join(COMMIT).join("config.json");
    assert_eq!(
        fs::read_link(link).unwrap(),
        Path::new("../../blobs").join(git_sha1(&bench.server.content("config.json")))
    );
    let [status] = bench.downloads.list().try_into().unwrap();
    assert_eq!((status.done_bytes, status.files_done, status.files), (status.total_bytes, FILES, FILES));
    assert!(
        bench.server.fetches("pytorch_model.bin").is_empty()
            && bench.server.fetches("modeling_tiny.py").is_empty()
    );
    for request in bench.server.seen() {
        let token = request.header("authorization");
        let expected = (!request.is_cdn).then(|| format!("Bearer {TOKEN}"));
        assert_eq!(token, expected.as_deref(), "the token goes to the hub only: {}", request.target);
    }
}

#[tokio::test]
async fn a_paused_download_goes_on_where_it_was() {
    let bench = Bench::new().await;
    bench.server.fault(FIRST, Fault::Stall(100_000));
    let id = bench.start().await;
    wait_for(&bench.downloads, &id, |status| status.files_done == FILES - 1).await;
    bench.downloads.pause(&id).await.unwrap();
    let paused =
        wait_for(&bench.downloads, &id, |status| matches!(status.phase, DownloadPhase::Paused)).await;
    assert!(paused.done_bytes < paused.total_bytes && paused.time_left.is_none());
    assert!(!bench.has_snapshot());
    bench.downloads.resume(&id).await.unwrap();
    let phase = settled_after_pause(&bench.downloads, &id).await;
    bench.assert_complete(&phase);
    let resumed = bench.server.fetches(FIRST)[1].header("range").map(str::to_string);
    let start: u64 = resumed.unwrap().trim_start_matches("bytes=").trim_end_matches('-').parse().unwrap();
    assert!((80_000..=100_000).contains(&start), "at most a buffer is fetched again: {start}");
}

#[tokio::test]
async fn a_restart_finds_what_was_begun() {
    let bench = Bench::new().await;
    bench.server.fault(FIRST, Fault::Stall(100_000));
    let id = bench.start().await;
    wait_for(&bench.downloads, &id, |status| status.files_done == FILES - 1).await;
    bench.downloads.pause(&id).await.unwrap();

    let Bench { server, cache, .. } = bench;
    fs::write(root(cache.path()).join("downloads/0000000000000000.json"), "{").unwrap();
    let downloads = Downloads::open_with(cache.path(), server.hub(), options()).await.unwrap();
    let bench = Bench { server, cache, downloads };
    let [found] = bench.downloads.list().try_into().unwrap();
    assert_eq!((&found.id, found.repo.as_str(), found.commit.as_str()), (&id, REPO, COMMIT));
    assert!(matches!(found.phase, DownloadPhase::Paused), "{:?}", found.phase);
    assert_eq!((found.files_done, found.files), (FILES - 1, FILES));
    assert!(found.done_bytes > 200_000 && found.done_bytes < found.total_bytes, "{}", found.done_bytes);
    fs::remove_file(root(bench.cache.path()).join("downloads/0000000000000000.json")).unwrap();
    bench.downloads.resume(&id).await.unwrap();
    let phase = settled_after_pause(&bench.downloads, &id).await;
    bench.assert_complete(&phase);
    assert_eq!(bench.server.fetches(SECOND).len(), 1, "what was whole is not fetched again");
}

#[tokio::test]
async fn a_cancelled_download_leaves_nothing() {
    let bench = Bench::new().await;
    for path in [FIRST, SECOND] {
        bench.server.always(path, Fault::Stall(70_000));
    }
    let id = bench.start().await;
    wait_for(&bench.downloads, &id, |status| status.files_done == FILES - 2).await;
    bench.downloads.cancel(&id).await.unwrap();
    assert_eq!(names(bench.cache.path()), BTreeSet::new(), "while it runs");
    assert!(bench.downloads.list().is_empty());
    assert!(matches!(bench.downloads.resume(&id).await, Err(HubError::UnknownDownload)));

    let id = bench.start().await;
    wait_for(&bench.downloads, &id, |status| status.files_done == FILES - 2).await;
    bench.downloads.pause(&id).await.unwrap();
    bench.downloads.cancel(&id).await.unwrap();
    assert_eq!(names(bench.cache.path()), BTreeSet::new(), "while it is paused");

    bench.server.heal();
    bench.server.always(FIRST, Fault::Corrupt(1));
    let id = bench.start().await;
    assert!(matches!(settled(&bench.downloads, &id).await, DownloadPhase::Failed(_)));
    bench.downloads.cancel(&id).await.unwrap();
    assert_eq!(names(bench.cache.path()), BTreeSet::new(), "after it failed");
}

#[tokio::test]
async fn cancelling_keeps_what_a_snapshot_uses_and_a_complete_model() {
    let bench = Bench::new().await;
    // Another tool has an older commit with the same tokenizer.
    let older = root(bench.cache.path()).join("snapshots").join("f".repeat(40));
    let tokenizer = git_sha1(&bench.server.content("tokenizer.json"));
    fs::create_dir_all(&older).unwrap();
    fs::create_dir_all(root(bench.cache.path()).join("blobs")).unwrap();
    std::os::unix::fs::symlink(Path::new("../../blobs").join(&tokenizer), older.join("tokenizer.json"))
        .unwrap();
    bench.server.always(FIRST, Fault::Stall(0));
    let id = bench.start().await;
    wait_for(&bench.downloads, &id, |status| status.files_done == FILES - 1).await;
    bench.downloads.cancel(&id).await.unwrap();
    assert_eq!(bench.blobs(), BTreeSet::from([tokenizer]), "the other snapshot's link still leads somewhere");

    bench.server.heal();
    let id = bench.start().await;
    let phase = settled(&bench.downloads, &id).await;
    bench.downloads.cancel(&id).await.unwrap();
    bench.assert_complete(&phase);
    assert!(bench.downloads.list().is_empty(), "it has left the list");
}

#[tokio::test]
async fn downloads_beyond_the_limit_wait_their_turn() {
    let bench = Bench::with(DownloadOptions { running_max: 1, ..options() }).await;
    bench.server.add_small("a.gguf", b"a");
    bench.server.add_small("b.gguf", b"b");
    let listing = bench.server.hub().listing(REPO, "main").await.unwrap();
    bench.server.always(FIRST, Fault::Stall(0));
    let first = bench.downloads.start(&listing).await.unwrap();
    let second = bench.downloads.start(&listing.with_gguf("a.gguf").unwrap()).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(bench.downloads.start(&listing).await.unwrap(), first, "one that runs is not started twice");
    wait_for(&bench.downloads, &second, |status| matches!(status.phase, DownloadPhase::Queued)).await;
    let third = bench.downloads.start(&listing.with_gguf("b.gguf").unwrap()).await.unwrap();
    bench.downloads.cancel(&third).await.unwrap();
    assert_eq!(bench.downloads.list().len(), 2, "one that waits is gone at once");
    bench.downloads.pause(&first).await.unwrap();
    let phase = settled(&bench.downloads, &second).await;
    let DownloadPhase::Done { folder } = phase else { panic!("{phase:?}") };
    assert_eq!(names(&folder), BTreeSet::from(["README.md".to_string(), "a.gguf".to_string()]));

    bench.server.heal();
    bench.downloads.resume(&first).await.unwrap();
    let phase = settled_after_pause(&bench.downloads, &first).await;
    assert!(matches!(phase, DownloadPhase::Done { .. }), "{phase:?}");
    assert_eq!(names(&folder).len(), FILES + 1, "both are in the snapshot of their commit");
}

#[tokio::test]
async fn what_another_tool_fetched_is_used() {
    let bench = Bench::new().await;
    let blobs = root(bench.cache.path()).join("blobs");
    fs::create_dir_all(&blobs).unwrap();
    let first = bench.server.content(FIRST);
    fs::write(blobs.join(sha256(&first)), &first).unwrap();
    let tokenizer = bench.server.content("tokenizer.json");
    fs::write(blobs.join(git_sha1(&tokenizer)), &tokenizer[1..]).unwrap();
    let phase = bench.run().await;
    bench.assert_complete(&phase);
    assert!(bench.server.fetches(FIRST).is_empty());
    assert_eq!(bench.server.fetches("tokenizer.json").len(), 1, "the wrong size is not used");
}

#[tokio::test]
async fn a_part_that_another_program_writes_is_left_alone() {
    let bench = Bench::new().await;
    let part =
        root(bench.cache.path()).join("blobs").join(format!("{}.part", sha256(&bench.server.content(FIRST))));
    fs::create_dir_all(part.parent().unwrap()).unwrap();
    let held = File::create(&part).unwrap();
    held.lock().unwrap();
    let error = bench.fail().await;
    assert!(matches!(&error, HubError::InUse { path } if *path == part), "{error:?}");
    drop(held);
    let phase = bench.run().await;
    bench.assert_complete(&phase);
}
