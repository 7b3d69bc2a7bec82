//! The benchmark and the diagnostics report.

use std::{
    io,
    sync::{Arc, Mutex},
};

use app::{
    benchmark,
    commands::{conversations, engine as engine_watch},
    diagnostics,
    error::AppError,
    structure,
};
use engine::testing::{Answer, Script};
use protocol::{GateMode, RowSource, SamplingSettings, StructureSeverity, StructuredOutput};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::support::{Plan, TestApp, until};

/// Answers that go on until their tokens are used up.
fn endless() -> Plan {
    Plan::of(Script { answer: Answer::Hashed { eos_one_in: 0 }, ..Script::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_benchmark_measures_every_arm_and_leaves_nothing_behind() {
    let app = TestApp::start(endless()).await;
    let mut steps = Vec::new();
    let report =
        benchmark::run(&app.state, |step| steps.push(step)).await.unwrap().expect("nobody cancels it");
    let sizes: Vec<_> = report.arms.iter().map(|arm| (arm.batch_rows, arm.has_json_row)).collect();
    assert_eq!(sizes, [(1, false), (2, false), (4, false), (8, false), (4, true), (4, true), (4, true)]);
    for arm in &report.arms {
        assert_eq!(arm.trials, 3);
        assert!(arm.min_tok_s > 0.0 && arm.min_tok_s <= arm.total_tok_s && arm.total_tok_s <= arm.max_tok_s);
        assert!(arm.itl_ms_p50 <= arm.itl_ms_p95 && arm.ttft_ms_p50 > 0.0, "{arm:?}");
    }
    assert_eq!(steps.len(), 28, "a warm-up and three trials of seven arms");
    assert!(steps.iter().all(|step| step.total_runs == 28));
    assert!(report.markdown.contains("| 8 | Split | none |"), "{}", report.markdown);
    assert!(app.state.requests.is_idle());
    let running = app.state.engine.ready().await.unwrap();
    until(async || benchmark::engine_mode(&running) == engine::GateMode::Split).await;
    assert_eq!(app.state.benchmark.latest(), Some(report));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_benchmark_waits_for_no_answer_and_no_answer_waits_for_it() {
    let app = TestApp::start(Plan::of(Script {
        answer: Answer::Hashed { eos_one_in: 0 },
        step: std::time::Duration::from_millis(5),
        ..Script::default()
    }))
    .await;
    let settings = SamplingSettings { max_tokens: 4000, ..app::sampling_settings::defaults() };
    let conversation = app.conversation_with(&settings).await;
    let (_, recorder) = app.send(&conversation, "Tell me.").await.unwrap();
    assert!(matches!(benchmark::run(&app.state, |_| ()).await, Err(AppError::BenchmarkBusy)));
    app.state.requests.stop_all(app::requests::StopCause::User);
    recorder.wait_for_end().await;
    until(async || app.state.requests.is_idle()).await;

    let state = app.state.clone();
    let measuring = tokio::spawn(async move { benchmark::run(&state, |_| ()).await });
    until(async || {
        let status = engine_watch::current(&app.state).await;
        status.rows.iter().any(|row| row.source == RowSource::Benchmark && row.conversation_id.is_none())
    })
    .await;
    let (_, recorder) = app.send(&conversation, "Me first.").await.unwrap();
    assert!(measuring.await.unwrap().unwrap().is_none(), "the answer came first");
    recorder.wait_for_text().await;
    let status = engine_watch::current(&app.state).await;
    assert!(status.rows.iter().all(|row| row.source == RowSource::Tab), "its rows are gone");
    assert_eq!(status.gate_mode, GateMode::Split, "the mode is the person's again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_benchmark_gives_no_report() {
    let app = TestApp::start(endless()).await;
    let state = app.state.clone();
    let report = benchmark::run(&app.state, |step| {
        if step.done_runs == 2 {
            // Later than the rows are entered: cancelling what has not begun does nothing.
            let state = state.clone();
            std::thread::spawn(move || {
                while state.requests.is_idle() {
                    std::thread::yield_now();
                }
                benchmark::cancel(&state);
            });
        }
    })
    .await;
    assert_eq!(report.unwrap(), None);
    assert!(app.state.requests.is_idle());
    assert!(app.state.benchmark.latest().is_none());
}

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Stands in everything that a person or a model writes in the test below.
const MARKER: &str = "zymurgy";

#[tokio::test]
async fn neither_report_nor_log_has_a_word_of_a_person_or_a_model() {
    let log = Captured::default();
    let writer = log.clone();
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone());
    // One thread: what the test does logs here, and what other tests do does not.
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    tracing::info!("the log is captured");

    let app = TestApp::start(Plan::of(Script { answer: Answer::spoken(MARKER), ..Script::default() })).await;
    let settings = SamplingSettings {
        system_prompt: MARKER.into(),
        stop: vec![MARKER.to_uppercase()],
        structured_output: None,
        ..app::sampling_settings::defaults()
    };
    let conversation = app.conversation_with(&settings).await;
    let (_, recorder) = app.send(&conversation, MARKER).await.unwrap();
    recorder.wait_for_end().await;
    let bad = SamplingSettings {
        structured_output: Some(StructuredOutput::Regex { pattern: format!("({MARKER}") }),
        ..settings.clone()
    };
    conversations::write_settings(&app.state, &conversation, &bad).await.unwrap();
    if let Ok((_, recorder)) = app.send(&conversation, MARKER).await {
        recorder.wait_for_end().await;
    }
    let mut changed = app.state.settings.current().await;
    changed.presets = vec![protocol::Preset { name: MARKER.into(), settings: bad }];
    let history = app.state.history().await.unwrap();
    app.state.settings.change(history, |current| *current = changed).await.unwrap();

    let report = diagnostics::report(&app.state).await;
    assert!(report.contains("1 presets") && report.contains("4 messages"), "{report}");
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("the log is captured"));
    for (name, text) in [("report", &report), ("log", &log)] {
        assert!(!text.to_lowercase().contains(MARKER), "{name}: {text}");
    }
}

#[tokio::test]
async fn a_report_that_cannot_be_written_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing/report.md");
    let failure = diagnostics::save(path.to_string_lossy().into_owned(), "text".into()).await.unwrap_err();
    assert!(matches!(failure, AppError::ReportNotWritten { .. }));
    assert!(failure.to_string().contains("missing/report.md"), "{failure}");
    let path = folder.path().join("report.md");
    diagnostics::save(path.to_string_lossy().into_owned(), "text".into()).await.unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap(), "text");
}

#[tokio::test]
async fn structure_is_checked_with_places_with_and_without_a_model() {
    let schema = |schema: &str| StructuredOutput::JsonSchema { schema: schema.into() };
    for has_model in [true, false] {
        let app = TestApp::start(Plan { has_model, ..endless() }).await;
        let whole = structure::check(&app.state, schema(r#"{"type":"object"}"#)).await.unwrap();
        assert!(whole.is_enforceable && whole.problems.is_empty(), "{whole:?}");
        let misspelt =
            structure::check(&app.state, schema("{\"type\":\"object\",\n\"requird\":[]}")).await.unwrap();
        let problem = &misspelt.problems[0];
        assert!(misspelt.is_enforceable, "the rest of it is");
        assert_eq!(problem.severity, StructureSeverity::Ignored);
        assert_eq!((problem.pointer.as_deref(), problem.line), (Some("/requird"), Some(2)));
        let half = structure::check(&app.state, schema("{\"type\":")).await.unwrap();
        assert!(!half.is_enforceable && half.problems[0].line == Some(1), "{half:?}");
        let long = structure::check(&app.state, schema(&" ".repeat(200_001))).await.unwrap();
        assert!(!long.is_enforceable);
    }
}
