//! The engine behind its thread and its handle.

use crate::support::{params, tokenizer};
use engine::{
    EngineConfig, EngineError, EngineEvent, EngineHandle, EnginePhase, EngineSnapshot, EngineThread,
    EventReceiver, FinishReason, GateMode, LoadStep, NewRequest, OwnerId, Pulse, RequestId,
    params::SamplingParams,
    testing::{Answer, FakeBackend, Scenario, Script, ScriptedLoad},
};
use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

pub fn request(prompt: &str, params: SamplingParams) -> NewRequest {
    let prompt = prompt.bytes().map(u32::from).collect();
    NewRequest {
        prompt,
        answer_so_far: Vec::new(),
        params: params.validate().unwrap(),
        owner: None,
        arrived_at: Instant::now(),
    }
}

pub fn long() -> SamplingParams {
    SamplingParams { max_tokens: 100_000, ..params() }
}

fn endless() -> Script {
    let step = Duration::from_millis(1);
    Script { answer: Answer::Hashed { eos_one_in: 0 }, step, context_tokens: 1 << 20, ..Script::default() }
}

pub async fn ready(handle: &EngineHandle) {
    let mut status = handle.status();
    status.wait_for(|snapshot| !matches!(snapshot.phase, EnginePhase::Loading { .. })).await.unwrap();
}

async fn start(script: impl Into<Script>) -> (EngineThread, EngineHandle) {
    let script = script.into();
    let config = EngineConfig { max_queued: 3, ..EngineConfig::new(tokenizer()) };
    let (thread, handle) = EngineThread::spawn(config, move || Ok(ScriptedLoad::new(script, 2))).unwrap();
    ready(&handle).await;
    (thread, handle)
}

pub fn submit(handle: &EngineHandle, prompt: &str, params: SamplingParams) -> (RequestId, EventReceiver) {
    handle.submit(request(prompt, params)).unwrap()
}

/// Reads to the end. Returns the text and the terminal event.
pub async fn read(receiver: &mut EventReceiver) -> (String, EngineEvent) {
    let (mut text, mut terminal) = (String::new(), Vec::new());
    while let Some(events) = receiver.recv().await {
        for event in events {
            match event {
                EngineEvent::Text { delta, .. } => text.push_str(&delta),
                event if event.is_terminal() => terminal.push(event),
                _ => assert!(terminal.is_empty(), "nothing follows the terminal event"),
            }
        }
    }
    assert_eq!(terminal.len(), 1, "exactly one terminal event");
    (text, terminal.remove(0))
}

pub fn error_of(event: EngineEvent) -> EngineError {
    match event {
        EngineEvent::Failed { error, .. } => error,
        other => panic!("{other:?} is not a failure"),
    }
}

#[tokio::test]
async fn requests_are_answered_and_the_set_of_rows_is_published() {
    let (thread, handle) = start(endless()).await;
    let (id, mut receiver) = submit(&handle, "prompt", long());
    let mut status = handle.status();
    status.wait_for(|s| s.rows.iter().any(|row| row.id == id && row.answer_tokens > 0)).await.unwrap();
    handle.cancel(id);
    let (text, terminal) = read(&mut receiver).await;
    assert!(!text.is_empty());
    assert!(matches!(terminal, EngineEvent::Finished { reason: FinishReason::Cancelled, .. }));
    assert!(receiver.recv().await.is_none(), "and none ever after");
    let idle = status.wait_for(|snapshot| snapshot.rows.is_empty()).await.unwrap();
    assert!(matches!(idle.phase, EnginePhase::Ready));
    drop(idle);
    assert_eq!(handle.pulse(), Pulse::Alive);
    thread.shutdown();
}

#[tokio::test]
async fn snapshots_come_at_most_ten_times_a_second() {
    let (_thread, handle) = start(endless()).await;
    let (_, _receiver) = submit(&handle, "p", long());
    let mut status = handle.status();
    status.wait_for(|s| s.rows.iter().any(|row| row.answer_tokens > 0)).await.unwrap();
    let (mut seen, until) = (0, Instant::now() + Duration::from_millis(550));
    while Instant::now() < until {
        let left = until.saturating_duration_since(Instant::now());
        if tokio::time::timeout(left, status.changed()).await.is_ok() {
            seen += 1;
        }
    }
    assert!((1..=6).contains(&seen), "{seen} snapshots in 550 ms");
}

#[tokio::test]
async fn a_loading_engine_refuses_and_a_failed_one_says_why() {
    let (release, gate) = mpsc::channel::<()>();
    let config = EngineConfig::new(tokenizer());
    let start = move || -> Result<ScriptedLoad, engine::BackendError> {
        let _ = gate.recv();
        Err("no such folder".into())
    };
    let (thread, handle) = EngineThread::spawn(config, start).unwrap();
    assert!(matches!(handle.submit(request("p", params())), Err(EngineError::NotReady)));
    release.send(()).unwrap();
    ready(&handle).await;
    assert!(matches!(handle.status().borrow().phase, EnginePhase::Failed(EngineError::Load(_))));
    assert!(matches!(handle.submit(request("p", params())), Err(EngineError::Load(_))));
    thread.shutdown();
}

#[tokio::test]
async fn a_panic_ends_every_request_and_is_told() {
    let script = Script { max_rows: 2, panic_at_step: Some(5), ..endless() };
    let (_thread, handle) = start(script).await;
    let mut receivers: Vec<_> = (0..3).map(|i| submit(&handle, &format!("{i}"), long()).1).collect();
    for receiver in &mut receivers {
        let error = error_of(read(receiver).await.1);
        assert!(
            matches!(&error, EngineError::Panicked { message } if message.contains("scripted panic")),
            "{error}"
        );
    }
    assert!(matches!(handle.status().borrow().phase, EnginePhase::Failed(EngineError::Panicked { .. })));
    assert!(handle.status().borrow().rows.is_empty());
    assert!(matches!(handle.submit(request("p", params())), Err(EngineError::Panicked { .. })));
}

#[tokio::test]
async fn a_panic_while_loading_is_told() {
    let config = EngineConfig::new(tokenizer());
    let start = || -> Result<ScriptedLoad, engine::BackendError> { panic!("weights") };
    let (_thread, handle) = EngineThread::spawn(config, start).unwrap();
    ready(&handle).await;
    assert!(matches!(handle.status().borrow().phase, EnginePhase::Failed(EngineError::Panicked { .. })));
}

#[tokio::test]
async fn a_fault_is_survived_and_three_are_not() {
    let (_thread, handle) = start(Scenario::FaultAtStep(2)).await;
    let (_, mut receiver) = submit(&handle, "p", long());
    assert!(matches!(error_of(read(&mut receiver).await.1), EngineError::Backend(_)));
    let (_, mut receiver) = submit(&handle, "p", params());
    assert!(matches!(read(&mut receiver).await.1, EngineEvent::Finished { .. }), "the next one is answered");

    let faults = (1..9).map(engine::testing::FaultAt::Forward).collect();
    let (_thread, handle) = start(Script { faults, ..endless() }).await;
    for _ in 0..3 {
        let (_, mut receiver) = submit(&handle, "p", long());
        assert!(matches!(error_of(read(&mut receiver).await.1), EngineError::Backend(_)));
    }
    ready(&handle).await;
    let mut status = handle.status();
    let failed = status.wait_for(|snapshot| matches!(snapshot.phase, EnginePhase::Failed(_))).await.unwrap();
    assert!(matches!(failed.phase, EnginePhase::Failed(EngineError::RepeatedFaults { .. })));
    drop(failed);
    assert!(matches!(handle.submit(request("p", params())), Err(EngineError::RepeatedFaults { .. })));
}

#[tokio::test]
async fn shutdown_ends_every_request() {
    let (thread, handle) = start(Script { max_rows: 1, ..endless() }).await;
    let (_, mut running) = submit(&handle, "running", long());
    let (_, mut queued) = submit(&handle, "queued", long());
    thread.shutdown();
    for receiver in [&mut running, &mut queued] {
        assert!(matches!(error_of(read(receiver).await.1), EngineError::Stopped));
    }
    assert!(matches!(handle.status().borrow().phase, EnginePhase::Stopped));
    assert_eq!(handle.pulse(), Pulse::Dead);
    assert!(matches!(handle.submit(request("p", params())), Err(EngineError::Stopped)));
}

#[tokio::test]
async fn a_full_queue_refuses_and_has_room_again_when_rows_leave() {
    let (_thread, handle) = start(Script { max_rows: 1, ..endless() }).await;
    let (_, running) = submit(&handle, "running", long());
    let mut status = handle.status();
    status.wait_for(|s| s.rows.iter().any(|row| row.answer_tokens > 0)).await.unwrap();
    let waiting: Vec<_> = (0..3).map(|_| submit(&handle, "waiting", long())).collect();
    let refused = handle.submit(request("one too many", params()));
    assert!(matches!(refused, Err(EngineError::QueueFull { max_queued: 3 })));
    drop(running);
    status
        .wait_for(|s| s.rows.iter().any(|row| row.id == waiting[0].0 && row.answer_tokens > 0))
        .await
        .unwrap();
    submit(&handle, "room again", params());
}

#[tokio::test]
async fn an_idle_engine_leaves_the_backend_alone() {
    let (sender, logs) = mpsc::channel();
    let load = move || {
        let backend = FakeBackend::new(Scenario::ShortAnswers);
        sender.send(backend.log()).unwrap();
        Ok(LoadStep::Ready(backend))
    };
    let (_thread, handle) = EngineThread::spawn(EngineConfig::new(tokenizer()), || Ok(load)).unwrap();
    ready(&handle).await;
    let (_, mut receiver) = submit(&handle, "p", params());
    read(&mut receiver).await;
    let mut status = handle.status();
    status.wait_for(|snapshot| snapshot.rows.is_empty()).await.unwrap();
    let log = logs.recv().unwrap();
    let calls = log.lock().unwrap().len();
    handle.set_gate_mode(GateMode::Strict);
    status.wait_for(|snapshot| snapshot.gate_mode == GateMode::Strict).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(log.lock().unwrap().len(), calls);
}

#[tokio::test]
async fn what_a_conversation_left_is_published_and_goes_when_it_is_forgotten() {
    let (_thread, handle) = start(Script::default()).await;
    let turn = request(&"p".repeat(100), params());
    let (_, mut receiver) = handle.submit(NewRequest { owner: Some(OwnerId(1)), ..turn }).unwrap();
    read(&mut receiver).await;
    let mut status = handle.status();
    let snapshot_bytes =
        |snapshot: &EngineSnapshot| snapshot.ledger.map_or(0, |ledger| ledger.snapshot_bytes);
    status.wait_for(|snapshot| snapshot_bytes(snapshot) > 0).await.unwrap();
    handle.forget(OwnerId(1));
    status.wait_for(|snapshot| snapshot_bytes(snapshot) == 0).await.unwrap();
}

#[tokio::test]
async fn a_cap_on_memory_holds_from_submission_on() {
    let config = EngineConfig { max_memory_bytes: Some(20_000), ..EngineConfig::new(tokenizer()) };
    let start = || Ok(ScriptedLoad::new(Script::default(), 1));
    let (_thread, handle) = EngineThread::spawn(config, start).unwrap();
    ready(&handle).await;
    let refused = handle.submit(request("p", SamplingParams { max_tokens: 4_000, ..params() }));
    assert!(matches!(refused, Err(EngineError::TooLarge { limit_bytes: 20_000, .. })), "{refused:?}");
    let (_, mut receiver) = submit(&handle, "p", params());
    assert!(matches!(read(&mut receiver).await.1, EngineEvent::Finished { .. }));
}
