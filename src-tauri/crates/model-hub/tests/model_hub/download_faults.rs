//! Downloads from a hub that does not behave.

use std::time::Duration;

use model_hub::{DownloadOptions, HubError};

use crate::{
    download_bench::{Bench, FIRST, SECOND, options},
    hub_server::{Fault, REPO, git_sha1, noise, sha256},
};

type IsRight = fn(&HubError) -> bool;

#[tokio::test]
async fn a_broken_connection_is_continued_where_it_broke() {
    let bench = Bench::new().await;
    bench.server.fault(FIRST, Fault::Cut(100_000));
    bench.server.fault(FIRST, Fault::Status(502, &[]));
    bench.server.fault(FIRST, Fault::Cut(50_000));
    let phase = bench.run().await;
    bench.assert_complete(&phase);
    let ranges: Vec<_> =
        bench.server.fetches(FIRST).iter().map(|seen| seen.header("range").map(str::to_string)).collect();
    assert_eq!(ranges, [None, Some("bytes=100000-".into()), Some("bytes=150000-".into())]);
    let etag = format!("\"{}\"", sha256(&bench.server.content(FIRST)));
    assert_eq!(bench.server.fetches(FIRST)[1].header("if-range"), Some(etag.as_str()));
}

#[tokio::test]
async fn a_server_without_ranges_is_read_from_the_start() {
    let ranges = async |fault| {
        let bench = Bench::new().await;
        bench.server.fault(FIRST, Fault::Cut(100_000));
        bench.server.fault(FIRST, fault);
        let phase = bench.run().await;
        bench.assert_complete(&phase);
        bench.server.fetches(FIRST).iter().map(|seen| seen.header("range").is_some()).collect::<Vec<_>>()
    };
    assert_eq!(
        ranges(Fault::IgnoreRange).await,
        [false, true],
        "the answer is the whole file: it is taken as such"
    );
    assert_eq!(
        ranges(Fault::OtherRange).await,
        [false, true, false],
        "the answer is of no use: the next is whole"
    );
}

#[tokio::test]
async fn damage_is_fetched_once_more_and_then_reported() {
    for (path, fault) in
        [(FIRST, Fault::Corrupt(77_777)), ("tokenizer.json", Fault::Corrupt(5)), (SECOND, Fault::Short(9))]
    {
        let bench = Bench::new().await;
        bench.server.fault(path, fault.clone());
        let phase = bench.run().await;
        bench.assert_complete(&phase);

        let bench = Bench::new().await;
        bench.server.always(path, fault.clone());
        match (bench.fail().await, fault) {
            (HubError::Corrupt { path: named, .. }, Fault::Corrupt(_)) => assert_eq!(named, path),
            (HubError::WrongSize { found_bytes, .. }, Fault::Short(bytes)) => {
                assert_eq!(found_bytes, bytes as u64)
            }
            (error, _) => panic!("{error:?}"),
        }
        assert_eq!(bench.server.fetches(path).len(), 2, "once, and once more");
        assert!(!bench.has_snapshot());
        let etag = if path == "tokenizer.json" { git_sha1 } else { sha256 }(&bench.server.content(path));
        assert!(!bench.blobs().contains(&etag), "damage never gets the name of a blob");
        bench.server.heal();
        let phase = bench.run().await;
        bench.assert_complete(&phase);
    }
}

#[tokio::test]
async fn silence_is_a_broken_connection() {
    let bench = Bench::impatient(options()).await;
    bench.server.fault(SECOND, Fault::Stall(40_000));
    let phase = bench.run().await;
    bench.assert_complete(&phase);
    assert_eq!(bench.server.fetches(SECOND)[1].header("range"), Some("bytes=40000-"));

    let bench = Bench::impatient(DownloadOptions { tries: 2, ..options() }).await;
    bench.server.always(SECOND, Fault::Stall(0));
    let error = bench.fail().await;
    assert!(matches!(error, HubError::Timeout { .. }), "{error:?}");
    assert_eq!(bench.server.fetches(SECOND).len(), 2, "as many tries as allowed");
}

#[tokio::test]
async fn the_hubs_refusals_are_waited_for_or_shown() {
    let bench = Bench::new().await;
    for fault in [
        Fault::Status(429, &[("retry-after", "0")]),
        Fault::Status(500, &[]),
        Fault::Status(503, &[("retry-after", "0")]),
    ] {
        bench.server.fault(FIRST, fault);
    }
    let phase = bench.run().await;
    bench.assert_complete(&phase);

    let limited = Fault::Status(429, &[("retry-after", "3600")]);
    let shown: [(Fault, IsRight); 6] = [
        (limited, |error| error.retry_after() == Some(Duration::from_secs(3600))),
        (Fault::Status(500, &[]), |error| matches!(error, HubError::Server { status: 500, .. })),
        (
            Fault::Status(403, &[("x-error-code", "GatedRepo")]),
            |error| matches!(error, HubError::Gated { repo, .. } if repo == REPO),
        ),
        (Fault::Status(401, &[]), |error| matches!(error, HubError::Unauthorized { .. })),
        (Fault::Status(404, &[]), |error| matches!(error, HubError::NotFound { .. })),
        (Fault::Status(418, &[]), |error| matches!(error, HubError::UnexpectedStatus { status: 418, .. })),
    ];
    for (fault, is_right) in shown {
        let bench = Bench::new().await;
        bench.server.always(FIRST, fault);
        let error = bench.fail().await;
        assert!(is_right(&error), "{error:?}");
        assert!(!bench.has_snapshot());
    }
}

#[tokio::test]
async fn a_file_that_changes_on_the_hub_is_fetched_anew() {
    for replacement in [noise(9, 300_000), noise(9, 123_456)] {
        let bench = Bench::new().await;
        let old = sha256(&bench.server.content(FIRST));
        bench.server.fault(FIRST, Fault::CutAndReplace(100_000, replacement.clone()));
        let phase = bench.run().await;
        bench.assert_complete(&phase);
        assert!(bench.blobs().contains(&sha256(&replacement)) && !bench.blobs().contains(&old));
        let [status] = bench.downloads.list().try_into().unwrap();
        assert_eq!(status.done_bytes, status.total_bytes, "sizes are those of the new file");
    }
    let bench = Bench::new().await;
    for seed in 10..20 {
        bench.server.fault(FIRST, Fault::CutAndReplace(1, noise(seed, 50_000)));
    }
    let error = bench.fail().await;
    assert!(matches!(error, HubError::KeepsChanging { .. }), "{error:?}");
}
