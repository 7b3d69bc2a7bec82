//! Models that are loaded, replaced, unloaded and given up on one thread.

use crate::{
    support::{params, tokenizer},
    thread::{error_of, long, read, ready, request, submit},
};
use engine::{
    EngineConfig, EngineError, EngineEvent, EngineHandle, EnginePhase, EngineThread, FinishReason, GateMode,
    LoadStep, Pulse, Replace, RowPhase,
    testing::{Answer, FakeBackend, LoadFault, LoadGate, SLICE_BYTES, Script, ScriptedLoad},
};
use std::{
    sync::{atomic::Ordering, mpsc},
    time::Duration,
};

/// Says `text`.
fn saying(text: &str) -> Script {
    Script { answer: Answer::spoken(text), ..slow() }
}

/// Answers that end only when they must.
fn slow() -> Script {
    let (step, prefill_per_token) = (Duration::from_millis(1), Duration::from_millis(1));
    let answer = Answer::Hashed { eos_one_in: 0 };
    Script { answer, step, prefill_per_token, context_tokens: 1 << 20, ..Script::default() }
}

const SLICES: u64 = 3;

fn spawn(load: ScriptedLoad) -> (EngineThread, EngineHandle) {
    EngineThread::spawn(EngineConfig::new(tokenizer()), || Ok(load)).unwrap()
}

fn replace(thread: &EngineThread, load: ScriptedLoad, how: Replace) -> EngineHandle {
    thread.replace(EngineConfig::new(tokenizer()), || Ok(load), how)
}

async fn phase(handle: &EngineHandle, test: impl Fn(&EnginePhase) -> bool) -> EnginePhase {
    let mut status = handle.status();
    let found = status.wait_for(|snapshot| test(&snapshot.phase)).await.unwrap();
    found.phase.clone()
}

/// Waits until a load has read `slices` of its slices.
async fn has_read(handle: &EngineHandle, slices: u64) {
    let is_it = |phase: &EnginePhase| matches!(phase, EnginePhase::Loading { done_bytes, total_bytes: 1.. } if *done_bytes == slices * SLICE_BYTES);
    phase(handle, is_it).await;
}

async fn has_row(handle: &EngineHandle, wanted: RowPhase) {
    let mut status = handle.status();
    status.wait_for(|snapshot| snapshot.rows.iter().any(|row| row.phase == wanted)).await.unwrap();
}

/// What a new request is answered with.
async fn answer(handle: &EngineHandle) -> String {
    let (_, mut receiver) = submit(handle, "p", params());
    let (text, end) = read(&mut receiver).await;
    assert!(matches!(end, EngineEvent::Finished { reason: FinishReason::EndOfTurn, .. }), "{end:?}");
    text
}

fn is_replaced(handle: &EngineHandle) -> bool {
    matches!(handle.status().borrow().phase, EnginePhase::Replaced)
        && handle.status().borrow().rows.is_empty()
        && handle.pulse() == Pulse::Dead
        && matches!(handle.submit(request("p", params())), Err(EngineError::ModelReplaced))
}

#[tokio::test]
async fn a_load_tells_its_progress_and_answers_in_the_end() {
    let gate = LoadGate::closed_after(0);
    let (_thread, handle) = spawn(ScriptedLoad::new(saying("new"), SLICES).behind(&gate));
    has_read(&handle, 0).await;
    assert_eq!(handle.pulse(), Pulse::Alive);
    assert!(matches!(handle.submit(request("p", params())), Err(EngineError::NotReady)));
    gate.open();
    ready(&handle).await;
    assert_eq!(answer(&handle).await, "new");
}

#[tokio::test]
async fn the_old_model_answers_until_the_new_one_is_ready() {
    let (thread, old) = spawn(ScriptedLoad::new(slow(), SLICES));
    ready(&old).await;
    let gate = LoadGate::closed_after(2);
    let new = replace(&thread, ScriptedLoad::new(saying("new"), SLICES).behind(&gate), Replace::Beside);
    has_read(&new, 2).await;
    let (_, mut receiver) = submit(&old, "asked during the load", long());
    has_row(&old, RowPhase::Decoding).await;
    assert!(matches!(new.submit(request("p", params())), Err(EngineError::NotReady)));
    gate.open();
    ready(&new).await;
    let (text, end) = read(&mut receiver).await;
    assert!(!text.is_empty(), "what was said stays");
    assert!(matches!(error_of(end), EngineError::ModelReplaced));
    assert!(is_replaced(&old));
    assert_eq!(answer(&new).await, "new");
}

#[tokio::test]
async fn a_switch_ends_rows_in_every_phase_once() {
    for how in [Replace::Beside, Replace::UnloadFirst] {
        let (thread, old) = spawn(ScriptedLoad::new(Script { max_rows: 2, ..slow() }, SLICES));
        ready(&old).await;
        let mut receivers = vec![submit(&old, "decodes", long()).1];
        has_row(&old, RowPhase::Decoding).await;
        receivers.push(submit(&old, &"is read for a minute".repeat(3000), long()).1);
        has_row(&old, RowPhase::Prefilling).await;
        receivers.push(submit(&old, "waits", long()).1);
        has_row(&old, RowPhase::Queued).await;
        let new = replace(&thread, ScriptedLoad::new(saying("new"), SLICES), how);
        for receiver in &mut receivers {
            let error = error_of(read(receiver).await.1);
            assert!(matches!(error, EngineError::ModelReplaced), "{how:?}: {error}");
        }
        ready(&new).await;
        assert!(is_replaced(&old), "{how:?}");
        assert_eq!(answer(&new).await, "new");
    }
}

#[tokio::test]
async fn a_request_in_the_channel_is_never_answered_by_another_model() {
    let (thread, old) = spawn(ScriptedLoad::new(saying("old"), 0));
    ready(&old).await;
    // A slice that keeps the thread busy until requests are behind it in the channel.
    let (begin, begun) = mpsc::channel::<()>();
    let (release, wait) = mpsc::channel::<()>();
    let load = move || {
        begin.send(())?;
        wait.recv()?;
        Ok(LoadStep::Ready(FakeBackend::new(saying("new"))))
    };
    let new = thread.replace(EngineConfig::new(tokenizer()), || Ok(load), Replace::Beside);
    begun.recv().unwrap();
    let mut receivers: Vec<_> = (0..5).map(|_| submit(&old, "p", params()).1).collect();
    release.send(()).unwrap();
    ready(&new).await;
    for receiver in &mut receivers {
        let (text, end) = read(receiver).await;
        assert!(matches!(error_of(end), EngineError::ModelReplaced), "after {text:?}");
    }
    assert_eq!(answer(&new).await, "new");
}

#[tokio::test]
async fn a_load_that_fails_in_any_slice_leaves_the_old_model_running() {
    for slice in [0, 1, SLICES - 1, SLICES] {
        for fault in [LoadFault::Fails(slice), LoadFault::Panics(slice)] {
            let (thread, old) = spawn(ScriptedLoad::new(slow(), 0));
            ready(&old).await;
            let (id, mut receiver) = submit(&old, "decodes", long());
            has_row(&old, RowPhase::Decoding).await;
            let load = ScriptedLoad::new(saying("new"), SLICES).with_fault(fault);
            let new = replace(&thread, load, Replace::Beside);
            let end = phase(&new, |phase| matches!(phase, EnginePhase::Failed(_))).await;
            let EnginePhase::Failed(error) = end else { panic!("it failed") };
            match fault {
                LoadFault::Fails(_) => assert!(matches!(error, EngineError::Load(_)), "{error}"),
                LoadFault::Panics(_) => assert!(matches!(error, EngineError::Panicked { .. }), "{error}"),
            }
            assert!(new.submit(request("p", params())).is_err());
            let mut status = old.status();
            let tokens = status.borrow_and_update().rows[0].answer_tokens;
            status.wait_for(|snapshot| snapshot.rows[0].answer_tokens > tokens).await.unwrap();
            old.cancel(id);
            assert!(matches!(read(&mut receiver).await.1, EngineEvent::Finished { .. }), "{fault:?}");
        }
    }
}

#[tokio::test]
async fn files_that_cannot_be_used_leave_the_old_model_even_where_it_was_to_be_unloaded_first() {
    let (thread, old) = spawn(ScriptedLoad::new(saying("old"), 0));
    ready(&old).await;
    let torn = |slice| ScriptedLoad::new(slow(), SLICES).with_fault(LoadFault::Fails(slice));
    let new = replace(&thread, torn(0), Replace::UnloadFirst);
    phase(&new, |phase| matches!(phase, EnginePhase::Failed(_))).await;
    assert_eq!(answer(&old).await, "old");
    let new = replace(&thread, torn(1), Replace::UnloadFirst);
    phase(&new, |phase| matches!(phase, EnginePhase::Failed(_))).await;
    assert!(is_replaced(&old), "its memory was needed before the second slice");
    let again = replace(&thread, ScriptedLoad::new(saying("old"), SLICES), Replace::Beside);
    ready(&again).await;
    assert_eq!(answer(&again).await, "old", "the thread takes another model");
}

#[tokio::test]
async fn a_load_can_be_cancelled_in_every_slice() {
    let (thread, old) = spawn(ScriptedLoad::new(saying("old"), 0));
    ready(&old).await;
    for slices in 0..=SLICES {
        let gate = LoadGate::closed_after(slices);
        let new = replace(&thread, ScriptedLoad::new(saying("new"), SLICES).behind(&gate), Replace::Beside);
        has_read(&new, slices).await;
        new.cancel_load();
        let end = phase(&new, |phase| !matches!(phase, EnginePhase::Loading { .. })).await;
        assert!(matches!(end, EnginePhase::Failed(EngineError::LoadCancelled)), "{end:?}");
        let mut status = new.status();
        while status.changed().await.is_ok() {}
        assert_eq!(new.pulse(), Pulse::Dead, "nothing follows");
        assert_eq!(answer(&old).await, "old", "cancelled after {slices} slices");
    }
    let new = replace(&thread, ScriptedLoad::new(saying("new"), SLICES), Replace::Beside);
    ready(&new).await;
    new.cancel_load();
    assert_eq!(answer(&new).await, "new", "too late to cancel");
}

#[tokio::test]
async fn of_two_switches_the_later_wins() {
    for how in [Replace::Beside, Replace::UnloadFirst] {
        let (thread, old) = spawn(ScriptedLoad::new(saying("old"), 0));
        ready(&old).await;
        let gate = LoadGate::closed_after(1);
        let first = replace(&thread, ScriptedLoad::new(saying("first"), SLICES).behind(&gate), how);
        has_read(&first, 1).await;
        let second = replace(&thread, ScriptedLoad::new(saying("second"), SLICES), how);
        gate.open();
        ready(&second).await;
        let end = first.status().borrow().phase.clone();
        assert!(matches!(end, EnginePhase::Failed(EngineError::LoadCancelled)), "{end:?}");
        assert!(is_replaced(&old));
        assert_eq!(answer(&second).await, "second");
    }
}

#[tokio::test]
async fn unloading_gives_the_memory_back_and_keeps_the_thread() {
    let (thread, old) = spawn(ScriptedLoad::new(slow(), 0));
    ready(&old).await;
    let (_, mut receiver) = submit(&old, "decodes", long());
    has_row(&old, RowPhase::Decoding).await;
    let freed = thread.unload().await.expect("a model was loaded");
    assert!(freed.before_bytes > 0, "a row had a KV cache");
    assert_eq!(freed.after_bytes, 0);
    assert!(matches!(error_of(read(&mut receiver).await.1), EngineError::ModelUnloaded));
    assert!(matches!(old.status().borrow().phase, EnginePhase::Unloaded));
    assert!(matches!(old.submit(request("p", params())), Err(EngineError::ModelUnloaded)));
    thread.unload().await.expect_err("nothing is loaded");
    let new = replace(&thread, ScriptedLoad::new(saying("new"), SLICES), Replace::Beside);
    ready(&new).await;
    assert_eq!(answer(&new).await, "new");
}

#[tokio::test]
async fn unloading_gives_up_the_load_under_way() {
    let gate = LoadGate::closed_after(1);
    let (thread, handle) = spawn(ScriptedLoad::new(slow(), SLICES).behind(&gate));
    has_read(&handle, 1).await;
    thread.unload().await.expect_err("nothing is loaded");
    let end = handle.status().borrow().phase.clone();
    assert!(matches!(end, EnginePhase::Failed(EngineError::LoadCancelled)), "{end:?}");
}

#[tokio::test]
async fn shutting_down_during_a_load_ends_both_models() {
    let (thread, old) = spawn(ScriptedLoad::new(slow(), 0));
    ready(&old).await;
    let (_, mut receiver) = submit(&old, "decodes", long());
    let gate = LoadGate::closed_after(1);
    let new = replace(&thread, ScriptedLoad::new(slow(), SLICES).behind(&gate), Replace::Beside);
    has_read(&new, 1).await;
    thread.shutdown();
    assert!(matches!(error_of(read(&mut receiver).await.1), EngineError::Stopped));
    for handle in [old, new] {
        assert!(matches!(handle.status().borrow().phase, EnginePhase::Stopped));
        assert_eq!(handle.pulse(), Pulse::Dead);
        assert!(matches!(handle.submit(request("p", params())), Err(EngineError::Stopped)));
    }
}

#[tokio::test]
async fn an_engine_that_fails_lets_the_load_beside_it_go_on() {
    let (thread, old) = spawn(ScriptedLoad::new(Script { panic_at_step: Some(3), ..slow() }, 0));
    ready(&old).await;
    let gate = LoadGate::closed_after(1);
    let new = replace(&thread, ScriptedLoad::new(saying("new"), SLICES).behind(&gate), Replace::Beside);
    has_read(&new, 1).await;
    let (_, mut receiver) = submit(&old, "p", long());
    assert!(matches!(error_of(read(&mut receiver).await.1), EngineError::Panicked { .. }));
    gate.open();
    ready(&new).await;
    assert_eq!(answer(&new).await, "new");
}

#[tokio::test]
async fn what_is_set_while_a_model_loads_holds_when_it_is_ready() {
    let gate = LoadGate::closed_after(1);
    let (_thread, handle) = spawn(ScriptedLoad::new(slow(), SLICES).behind(&gate));
    has_read(&handle, 1).await;
    handle.set_gate_mode(GateMode::Strict);
    gate.open();
    ready(&handle).await;
    assert_eq!(handle.status().borrow().gate_mode, GateMode::Strict);
}

#[tokio::test]
async fn a_request_that_the_new_model_leaves_no_room_for_waits_for_the_end_of_its_load() {
    let old = Script { memory_limit_bytes: 1 << 20, answer: Answer::spoken("old"), ..slow() };
    let foreign_bytes = old.foreign_bytes.clone();
    let old = Script { context_tokens: 4096, ..old };
    let (thread, handle) = spawn(ScriptedLoad::new(old, 0));
    ready(&handle).await;
    let gate = LoadGate::closed_after(1);
    let load = ScriptedLoad::new(slow(), SLICES).behind(&gate);
    let new = replace(&thread, load, Replace::Beside);
    has_read(&new, 1).await;
    foreign_bytes.store(1 << 20, Ordering::Relaxed);
    let (_, mut receiver) = submit(&handle, "p", params());
    has_row(&handle, RowPhase::Queued).await;
    foreign_bytes.store(0, Ordering::Relaxed);
    new.cancel_load();
    assert_eq!(read(&mut receiver).await.0, "old");
}

#[tokio::test]
async fn rows_go_on_between_any_two_slices() {
    let (sender, logs) = mpsc::channel();
    let load = move || {
        let backend = FakeBackend::new(slow());
        sender.send(backend.log())?;
        Ok(LoadStep::Ready(backend))
    };
    let (thread, old) = EngineThread::spawn(EngineConfig::new(tokenizer()), || Ok(load)).unwrap();
    ready(&old).await;
    let (_, _receiver) = submit(&old, "decodes", long());
    has_row(&old, RowPhase::Decoding).await;
    let log = logs.recv().unwrap();
    let (sender, seen) = mpsc::channel();
    let mut slices = 0;
    let slowly = move || {
        sender.send(log.lock().unwrap().len())?;
        slices += 1;
        std::thread::sleep(Duration::from_millis(5));
        Ok(match slices {
            8 => LoadStep::Ready(FakeBackend::new(saying("new"))),
            _ => LoadStep::Reading { done_bytes: slices, total_bytes: 8 },
        })
    };
    let new = thread.replace(EngineConfig::new(tokenizer()), || Ok(slowly), Replace::Beside);
    ready(&new).await;
    let calls: Vec<usize> = seen.iter().collect();
    assert_eq!(calls.len(), 8);
    assert!(calls.is_sorted_by(|before, after| before < after), "{calls:?}");
}
