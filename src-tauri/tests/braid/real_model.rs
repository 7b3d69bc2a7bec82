//! The starter model on MLX, through everything that loads it.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use app::{
    local_engine::{LoadRequest, LocalEngine, MlxSource, RunningEngine},
    models::{ModelPlaces, fit},
};
use engine::{EngineError, EngineEvent, NewRequest, Replace, RequestSummary, params::SamplingParams};
use mlx_backend::device;
use model_hub::{ModelFolder, fit::Verdict};
use text::{ChatMessage, RenderOptions, Role};

use crate::support::PATIENCE;

const CONTEXT_TOKENS: u32 = 1024;

fn places() -> ModelPlaces {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.mlx/models/SmolLM2-135M-Instruct");
    let starter = std::env::var_os("BRAID_STARTER_MODEL").map_or(own, PathBuf::from);
    assert!(starter.join("config.json").exists(), "no starter model in {starter:?}: run `cargo xtask setup`");
    ModelPlaces { starter: Some(starter), roots: Vec::new() }
}

async fn ready(engine: &LocalEngine) -> RunningEngine {
    let ready = tokio::time::timeout(PATIENCE, engine.ready()).await;
    ready.expect("the starter model loads in time").expect("the starter model can be loaded")
}

/// An answer that ends only when it has to.
fn endless(running: &RunningEngine) -> NewRequest {
    let question = ChatMessage::new(Role::User, "Tell me everything about the sea.");
    let prompt = running.tokenizer.prompt_tokens(&[question], &RenderOptions::default());
    let logit_bias = running.tokenizer.eos_ids().iter().map(|id| (*id, -100.0)).collect();
    let params = SamplingParams { max_tokens: 900, logit_bias, ..SamplingParams::default() };
    NewRequest {
        prompt: prompt.expect("the template renders"),
        answer_so_far: Vec::new(),
        params: params.validate().expect("the settings are in range"),
        owner: None,
        arrived_at: Instant::now(),
    }
}

/// Reads an answer to its end; `None` if it was not ended by a switch.
async fn until_replaced(mut receiver: engine::EventReceiver) -> Option<RequestSummary> {
    while let Some(events) = receiver.recv().await {
        for event in events {
            match event {
                EngineEvent::Failed { error: EngineError::ModelReplaced, summary } => return Some(summary),
                other => assert!(!other.is_terminal(), "{other:?}"),
            }
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn the_starter_model_is_switched_twice_under_an_answer_and_gives_its_memory_back() {
    let engine = Arc::new(LocalEngine::new(MlxSource(places())));
    engine.restart().await;
    let mut running = ready(&engine).await;
    let model = running.model.clone();
    let fit = fit::check(&model, None).expect("its headers are sound");
    assert_ne!(fit.report.verdict, Verdict::TooLarge, "{fit:?}");
    assert_eq!(fit.replace, Replace::Beside, "{fit:?}");
    let loaded_bytes = device::active_bytes();
    for switch in 1..=2 {
        let (_, receiver) = running.handle.submit(endless(&running)).expect("the request is sound");
        let mut status = running.handle.status();
        let is_decoding = |rows: &[engine::RowSnapshot]| rows.iter().any(|row| row.answer_tokens > 8);
        status.wait_for(|snapshot| is_decoding(&snapshot.rows)).await.expect("it answers");
        let before = status.borrow().rows[0].clone();
        let began = Instant::now();
        let request = LoadRequest { context_tokens: Some(CONTEXT_TOKENS), ..LoadRequest::default() };
        engine.load(ModelFolder::clone(&model), request).await.expect("nothing speaks against it");
        let summary = until_replaced(receiver).await.expect("the switch ends it");
        println!(
            "switch {switch}: {:?} beside an answer of {} tokens, median gap {:?} before and {:?} in all, 95 % {:?}",
            began.elapsed(),
            summary.answer_tokens,
            before.itl_p50,
            summary.itl_p50,
            summary.itl_p95
        );
        running = ready(&engine).await;
        assert_eq!(engine.loaded().map(|(_, tokens)| tokens), Some(CONTEXT_TOKENS));
        let active_bytes = device::active_bytes();
        println!("switch {switch}: {active_bytes} bytes active where {loaded_bytes} were");
        assert!(active_bytes < loaded_bytes + (1 << 20), "{active_bytes} bytes where {loaded_bytes} were");
    }
    let freed = engine.unload().await.expect("a model is loaded");
    println!("unloaded: {} bytes before, {} after", freed.before_bytes, freed.after_bytes);
    assert!(freed.before_bytes > 100 << 20 && freed.after_bytes < 1 << 20, "{freed:?}");
    assert!(tokio::time::timeout(Duration::ZERO, engine.ready()).await.expect("it is known").is_err());
    engine.restart().await;
    ready(&engine).await;
    assert!(engine.end_thread());
}
