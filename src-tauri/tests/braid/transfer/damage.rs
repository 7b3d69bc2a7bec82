//! Files that are damaged or hostile: what can be read comes, what cannot is named, and nothing hangs.

use std::time::{Duration, Instant};

use app::transfer;
use protocol::{ConversationImportReport, SkipReason};
use serde_json::{Value, json};

use super::{
    app, export,
    foreign::{lm_studio_conversation, message, node, openai_conversation, text},
    import, rich_conversation, written,
};

fn reasons(report: &ConversationImportReport) -> Vec<SkipReason> {
    report.skipped.iter().map(|skipped| skipped.reason).collect()
}

/// A conversation of one question under these nodes.
fn with_nodes(id: &str, nodes: impl IntoIterator<Item = (String, Value)>) -> Value {
    let mapping: serde_json::Map<String, Value> = nodes.into_iter().collect();
    json!({ "id": id, "title": id, "create_time": 1.0, "mapping": mapping })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_cannot_be_read_costs_no_other() {
    let app = app().await;
    let good =
        |id: &str| with_nodes(id, [node("q", None, &[], message("user", 1.0, text("hello")))]).to_string();
    let deep = format!("{{\"mapping\":{}{}}}", "[".repeat(5000), "]".repeat(5000));
    let empty = with_nodes("empty", [node("s", None, &[], message("system", 1.0, text("only a rule")))]);
    let circle = with_nodes(
        "circle",
        [
            node("a", Some("b"), &["b"], message("user", 1.0, text("a"))),
            node("b", Some("a"), &["a"], message("assistant", 1.0, text("b"))),
        ],
    );
    let surrogate = good("half \\ud83d").replace("\\\\u", "\\u");
    let elements = [
        good("first"),
        deep,
        "{\"mapping\": nonsense}".into(),
        "{\"mapping\":{\"a\":{\"message\":{\"create_time\":1e999}}}}".into(),
        empty.to_string(),
        circle.to_string(),
        "17".into(),
        surrogate,
        good("last"),
    ];
    let report = import(&app, &written(&app, "x.json", format!("[{}]", elements.join(",")))).await;
    assert_eq!(report.imported.len(), 3, "{report:?}");
    use SkipReason::{Empty, Unreadable};
    assert_eq!(reasons(&report), [Unreadable, Unreadable, Unreadable, Empty, Empty]);
    assert_eq!(report.skipped[3].title.as_deref(), Some("empty"));
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_types_and_strange_trees_are_read_as_far_as_they_go() {
    let app = app().await;
    let nodes = [
        node("self", Some("self"), &["self"], message("user", 1.0, text("its own parent"))),
        node("q", Some("not there"), &["a", "a", "gone"], message("user", -5.0, text("question"))),
        node("a", Some("q"), &[], message("assistant", f64::MAX, text("answer"))),
        ("number".into(), json!(7)),
        ("list".into(), json!({ "message": [], "parent": 3, "children": "x" })),
        node(
            "odd",
            Some("a"),
            &[],
            json!({ "author": { "role": "user" }, "content": { "parts": [null, 1, {}, "word"] } }),
        ),
        node("role", Some("a"), &[], message("robot", 1.0, text("who?"))),
    ];
    let mut value = with_nodes("strange", nodes);
    value["title"] = json!(["not", "a", "title"]);
    value["create_time"] = json!("yesterday");
    value["current_node"] = json!(1);
    let report = import(&app, &written(&app, "x.json", json!([value]).to_string())).await;
    assert_eq!(report.imported.len(), 1, "{report:?}");
    assert_eq!((report.imported[0].messages, report.imported[0].left_out_parts), (3, 2));
    let messages = app.messages(&report.imported[0].conversation_id).await;
    assert_eq!(messages[0].text, "question");
    assert!(messages.iter().all(|message| message.created_at_ms >= 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_no_known_format_are_told_from_damaged_ones() {
    let app = app().await;
    let reason = async |content: &[u8]| reasons(&import(&app, &written(&app, "x.json", content)).await);
    use SkipReason::{UnknownFormat, Unreadable};
    for unknown in [
        &b"%PDF-1.7 and so on"[..],
        b"\x89PNG",
        b"[1,2,3]",
        br#"{"messages":"none"}"#,
        br#"{"format":"other-app","version":1,"conversations":[{}]}"#,
        br#"{"format":"braid-conversations","version":2,"conversations":[{}]}"#,
    ] {
        assert_eq!(reason(unknown).await, [UnknownFormat], "{}", String::from_utf8_lossy(unknown));
    }
    assert_eq!(reason(b"").await, [Unreadable]);
    assert_eq!(reason(b"[]").await, [SkipReason::Empty], "an export without a conversation");
    assert_eq!(reason(b"{}").await, [SkipReason::Empty]);
    let gone = app.folder.path().join("gone.json");
    assert_eq!(reasons(&import(&app, &gone).await), [Unreadable]);
    assert_eq!(reasons(&import(&app, app.folder.path()).await), [Unreadable], "a folder");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_before_the_damage_of_a_file_is_kept() {
    let app = app().await;
    let whole = json!([openai_conversation(), lm_studio_conversation(), openai_conversation()]).to_string();
    let report = import(&app, &written(&app, "x.json", &whole[..whole.len() - 40])).await;
    assert_eq!(report.imported.len(), 2, "formats may even be mixed");
    assert_eq!(reasons(&report), [SkipReason::Unreadable]);
    assert!(report.skipped[0].detail.contains("bytes"), "{:?}", report.skipped[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_braids_own_file_cannot_follow_one_that_comes_later() {
    let app = app().await;
    let file = |parent: usize| {
        json!({ "format": "braid-conversations", "version": 1, "conversations": [{
            "id": "x", "createdAtMs": 1, "updatedAtMs": 1,
            "messages": [{ "parent": parent, "role": "user", "createdAtMs": 1, "text": "q" }]
        }] })
    };
    for parent in [0, 7] {
        let report = import(&app, &written(&app, "x.json", file(parent).to_string())).await;
        assert_eq!(reasons(&report), [SkipReason::Unreadable], "{report:?}");
    }
    assert!(app::commands::conversations::list(&app.state).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_useless_values_do_not_make_a_report_without_end() {
    let app = app().await;
    let list = vec!["{\"mapping\":{}}"; 3000].join(",");
    let report = import(&app, &written(&app, "x.json", format!("[{list}]"))).await;
    assert_eq!(report.skipped.len(), 500);
    assert!(report.skipped[499].detail.contains("2500 more"), "{:?}", report.skipped[499]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_twenty_thousand_messages_is_read_without_recursion() {
    let app = app().await;
    let count = 20_000;
    let nodes = (0..count).map(|number| {
        let parent = (number > 0).then(|| (number - 1).to_string());
        let role = if number % 2 == 0 { "user" } else { "assistant" };
        node(&number.to_string(), parent.as_deref(), &[], message(role, 1.0, text("x")))
    });
    let file = written(&app, "x.json", json!([with_nodes("long", nodes)]).to_string());
    let report = import(&app, &file).await;
    assert_eq!(report.imported[0].messages, count);
}

/// Cuts, flips, repeats and swaps bytes of files of every format; each must come to an end without a panic.
#[tokio::test(flavor = "multi_thread")]
async fn no_damage_of_a_file_hangs_or_crashes_the_import() {
    let app = app().await;
    rich_conversation(&app).await;
    let own = std::fs::read(export(&app, "own.json").await).unwrap();
    let seeds = [
        own,
        json!([openai_conversation()]).to_string().into_bytes(),
        lm_studio_conversation().to_string().into_bytes(),
    ];
    let tokens: [&[u8]; 10] = [
        b"null",
        b"[]",
        b"{}",
        b"-1",
        b"1e999",
        b"\"",
        b"\\ud800",
        b"[[[[",
        b"18446744073709551616",
        b"\"root\"",
    ];
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |limit: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % limit.max(1) as u64) as usize
    };
    let began = Instant::now();
    let mut came = 0;
    for round in 0..240 {
        let mut damaged = seeds[round % seeds.len()].clone();
        for _ in 0..=below(4) {
            let at = below(damaged.len());
            let to = (at + below(40)).min(damaged.len());
            match below(5) {
                0 => damaged[at] = below(256) as u8,
                1 => damaged.truncate(at.max(1)),
                2 => drop(damaged.drain(at..to)),
                3 => {
                    let copy = damaged[at..to].to_vec();
                    damaged.splice(at..at, copy);
                }
                _ => drop(damaged.splice(at..to, tokens[below(tokens.len())].iter().copied())),
            }
        }
        let path = written(&app, "damaged.json", &damaged);
        let imported = transfer::import_conversations(&app.state, vec![path.display().to_string()]).await;
        let report = imported.unwrap_or_else(|error| panic!("round {round}: {error}"));
        for conversation in &report.imported {
            // What was taken can be shown.
            app.messages(&conversation.conversation_id).await;
        }
        came += report.imported.len();
    }
    assert!(came > 0, "no damage was small enough: the test damages too much");
    assert!(began.elapsed() < Duration::from_secs(120), "{:?}", began.elapsed());
    app.state.history().await.unwrap().check_integrity().await.unwrap();
}
