//! What is left after `kill -9`, and what a long answer costs the disk.
//!
//! Children are this test binary again, told by an environment variable which database to write.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use history::{AnswerWriter, FinishState, History, MessageState};
use tokio::time::sleep;

use crate::support::{Place, end, texts, turn};

const CHILD_DATABASE: &str = "BRAID_HISTORY_TEST_DATABASE";
const TABS: usize = 4;
const STORED_WITHIN: Duration = Duration::from_secs(1);

fn spawn_child(test: &str, database: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD_DATABASE, database)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn child_database() -> Option<std::path::PathBuf> {
    std::env::var_os(CHILD_DATABASE).map(Into::into)
}

fn word(index: usize) -> String {
    format!("word{index} ")
}

/// Only as a child: four tabs ask and stream for ever, each pushed word is announced on stdout.
#[tokio::test]
async fn child_streams_until_killed() {
    let Some(database) = child_database() else { return };
    let history = History::open(database).await.unwrap();
    let mut tabs = Vec::new();
    for tab in 0..TABS {
        let chat = history.create_conversation(&format!("tab {tab}")).await.unwrap();
        let turn = history.begin_turn(chat, None, &format!("question {tab}"), "{}").await.unwrap();
        history.save_draft(chat, &format!("draft {tab}")).await.unwrap();
        tabs.push((chat, AnswerWriter::spawn(&history, turn.answer)));
    }
    // libtest has left its own line unfinished.
    println!();
    for index in 0.. {
        for (chat, writer) in &tabs {
            writer.push(&word(index), index as u32 + 1).unwrap();
            println!("pushed {chat} {index}");
        }
        std::io::stdout().flush().unwrap();
        sleep(Duration::from_millis(4)).await;
    }
}

/// Reads the child's announcements until `run_time` after the first, kills it, and returns per conversation when each
/// word was announced, and when the child was killed.
fn kill_in_mid_stream(database: &Path, run_time: Duration) -> (HashMap<String, Vec<Instant>>, Instant) {
    let mut child = spawn_child("survival::child_streams_until_killed", database);
    let mut pushed: HashMap<String, Vec<Instant>> = HashMap::new();
    let mut first = None;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let Some(("pushed", rest)) = line.split_once(' ') else { continue };
        let (chat, _index) = rest.split_once(' ').unwrap();
        pushed.entry(chat.to_owned()).or_default().push(Instant::now());
        if first.get_or_insert_with(Instant::now).elapsed() > run_time {
            break;
        }
    }
    let killed = Instant::now();
    child.kill().unwrap();
    child.wait().unwrap();
    (pushed, killed)
}

#[tokio::test]
async fn after_kill_9_everything_is_there_and_answers_are_at_most_a_second_behind() {
    let place = Place::new();
    let history = place.open().await;
    let finished = history.create_conversation("finished").await.unwrap();
    turn(&history, finished, None, "q", "a").await;
    history.close().await;

    // Early, before the first flush is due; and late, with many flushes done.
    let run_times = [200, 1_100, 2_600].map(Duration::from_millis);
    let mut conversations = 1;
    for run_time in run_times {
        let (pushed, killed) = kill_in_mid_stream(&place.path, run_time);
        assert_eq!(pushed.len(), TABS, "the child did not stream");
        conversations += TABS;

        let history = place.open().await;
        assert_eq!(history.interrupted_answers(), TABS as u64);
        assert_eq!(history.list_conversations().await.unwrap().len(), conversations);
        assert_eq!(texts(&history.open_conversation(finished).await.unwrap().path), ["q", "a"]);
        for (chat, times) in pushed {
            let chat = history.open_conversation(chat.parse().unwrap()).await.unwrap();
            let tab = chat.title.strip_prefix("tab ").unwrap();
            assert_eq!(chat.draft, format!("draft {tab}"));
            let [question, answer] = &chat.path[..] else { panic!("{} messages", chat.path.len()) };
            assert_eq!(question.text, format!("question {tab}"));
            assert_eq!(answer.state, MessageState::Interrupted);
            let due = times.iter().filter(|time| killed - **time > STORED_WITHIN).count();
            let stored = answer.text.split_whitespace().count();
            assert!(stored >= due, "{due} words were more than a second old, {stored} are stored");
            let expected: String = (0..stored).map(word).collect();
            assert_eq!(answer.text, expected, "stored text must be a prefix of what was pushed");
            assert_eq!(answer.output_tokens as usize, stored);
        }
        history.check_integrity().await.unwrap();
        history.close().await;
    }
}

/// Only as a child, whose files may not grow past a limit: saves turns until one fails, then reads back.
#[tokio::test]
async fn child_saves_until_a_write_fails() {
    let Some(database) = child_database() else { return };
    let history = History::open(database).await.unwrap();
    let chat = history.create_conversation("limited").await.unwrap();
    let mut parent = None;
    let mut saved_turns = 0;
    let failure = loop {
        match history.begin_turn(chat, parent, &"question ".repeat(200), "{}").await {
            Ok(turn) => parent = Some(turn.answer),
            Err(error) => break error,
        }
        saved_turns += 1;
        assert!(saved_turns < 10_000, "no limit in force");
    };
    let readable = history.open_conversation(chat).await.unwrap().path.len();
    println!("\nsaved {saved_turns} readable {readable} failure {failure:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_failing_disk_is_said_and_every_turn_saved_before_is_kept() {
    let place = Place::new();
    // A write past the limit fails once its signal is ignored, much as on a broken disk.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 1600; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "survival::child_saves_until_a_write_fails", "--nocapture"])
        .env(CHILD_DATABASE, &place.path)
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let line = stdout.lines().find(|line| line.starts_with("saved ")).unwrap_or_else(|| panic!("{stdout}"));
    let words: Vec<&str> = line.split(' ').collect();
    let saved_turns: usize = words[1].parse().unwrap();
    assert!(saved_turns >= 5, "{line}");
    assert_eq!(words[3], (2 * saved_turns).to_string(), "{line}");
    assert!(words[5] == "Io" || words[5] == "DiskFull", "{line}");

    let history = place.open().await;
    history.check_integrity().await.unwrap();
    let chat = history.list_conversations().await.unwrap()[0].id;
    let path = history.open_conversation(chat).await.unwrap().path;
    assert_eq!(path.len(), 2 * saved_turns);
    history.begin_turn(chat, Some(path[path.len() - 1].id), "goes on", "{}").await.unwrap();
}

/// Only as a child: 60,000 characters in 600 flushes, then the bytes this process wrote to files.
#[tokio::test]
async fn child_writes_a_long_answer() {
    let Some(database) = child_database() else { return };
    let history = History::open(database).await.unwrap();
    let chat = history.create_conversation("long").await.unwrap();
    let turn = history.begin_turn(chat, None, "q", "{}").await.unwrap();
    let started = Instant::now();
    let mut slowest = Duration::ZERO;
    for flush in 1..=600 {
        let flushing = Instant::now();
        history.append_answer_text(turn.answer, &"0123456789".repeat(10), flush * 25).await.unwrap();
        slowest = slowest.max(flushing.elapsed());
    }
    let appended = started.elapsed();
    history.finish_answer(turn.answer, &end(FinishState::Complete)).await.unwrap();
    let finished = started.elapsed() - appended;
    history.close().await;
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    let written = io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap();
    println!("\nwritten {written} appends {appended:?} slowest {slowest:?} finish {finished:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_long_answer_writes_a_page_or_two_per_flush_not_itself() {
    let place = Place::new();
    let output = spawn_child("survival::child_writes_a_long_answer", &place.path).wait_with_output().unwrap();
    assert!(output.status.success());
    let stdout = String::from_utf8(output.stdout).unwrap();
    let line = stdout.lines().find(|line| line.starts_with("written ")).unwrap();
    println!("{line}");
    let written: u64 = line.split(' ').nth(1).unwrap().parse().unwrap();
    // Rewriting the answer at each flush would be 600 times its mean length, and as much again in checkpoints.
    let rewriting = 600 * 30_000;
    assert!(written < rewriting / 2, "{written} bytes");
}
