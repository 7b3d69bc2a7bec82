//! Engine snapshots -> what overlay, settings panel and tabs show.

use engine::{EngineSnapshot, Pulse, RequestId, backend::BackendFacts};
use protocol::{
    AppSettings, EnginePhase, EngineStatus, ErrorCode, MemoryStats, ModeEffect, ModelSummary, OverlapOff,
    RecommendedSampling, RowPhase, RowSource, RowStatus, StepBar, StepStats,
};
use text::GenerationDefaults;

use super::{count, gate_path, milliseconds, reason, rounded, to_wire_mode, to_wire_overlap};
use crate::{
    error::{AppError, in_full},
    local_engine::RunningEngine,
    requests::Asker,
};

/// Finds the app's id of an engine request, and who asked.
pub type FindRequest<'a> = &'a dyn Fn(RequestId) -> Option<(String, Asker)>;

/// The status while there is no engine: it starts, or it cannot.
pub fn without_engine(failure: Option<&AppError>, settings: &AppSettings) -> EngineStatus {
    EngineStatus {
        phase: failure.map_or(EnginePhase::Loading, failed),
        model: None,
        gate_mode: settings.gate_mode,
        overlap: settings.overlap,
        rows: Vec::new(),
        steps: steps(&engine::StepStats::default()),
        memory: None,
        mode_effects: Vec::new(),
    }
}

/// The status of a started engine. `pulse`: how its thread is, which a snapshot of a hanging one does not show.
pub fn of_engine(
    snapshot: &EngineSnapshot,
    running: &RunningEngine,
    pulse: Pulse,
    find: FindRequest<'_>,
) -> EngineStatus {
    EngineStatus {
        phase: phase(&snapshot.phase, pulse),
        model: snapshot.facts.as_ref().map(|facts| model_summary(facts, running)),
        gate_mode: to_wire_mode(snapshot.gate_mode),
        overlap: to_wire_overlap(snapshot.overlap),
        rows: snapshot.rows.iter().filter_map(|snapshot| row(snapshot, find)).collect(),
        steps: steps(&snapshot.steps),
        memory: memory_stats(snapshot),
        mode_effects: snapshot.mode_effects.iter().map(mode_effect).collect(),
    }
}

fn mode_effect(effect: &engine::ModeEffect) -> ModeEffect {
    ModeEffect {
        mode: to_wire_mode(effect.mode),
        batch_rows: count(effect.batch_rows),
        steps: count(effect.steps),
        step_ms_p50: milliseconds(effect.step_p50),
    }
}

fn memory_stats(snapshot: &EngineSnapshot) -> Option<MemoryStats> {
    let (ledger, memory, facts) = (snapshot.ledger?, snapshot.memory?, snapshot.facts.as_ref()?);
    Some(MemoryStats {
        model_bytes: ledger.weights_bytes as f64,
        kv_cache_bytes: memory.kv_cache_bytes as f64,
        active_bytes: memory.active_bytes as f64,
        peak_bytes: memory.peak_bytes as f64,
        limit_bytes: ledger.limit_bytes as f64,
        snapshot_bytes: ledger.snapshot_bytes as f64,
        prefill_bytes: ledger.prefill_bytes as f64,
        reserved_bytes: ledger.reserved_bytes as f64,
        kv_bytes_per_token: facts.kv_cache_bytes_per_token as f64,
        free_bytes: ledger.free_bytes() as f64,
    })
}

fn phase(phase: &engine::EnginePhase, pulse: Pulse) -> EnginePhase {
    let stopped = || failed(&engine::EngineError::Stopped.into());
    match phase {
        engine::EnginePhase::Failed(error) => failed(&error.clone().into()),
        engine::EnginePhase::Unloaded => failed(&engine::EngineError::ModelUnloaded.into()),
        engine::EnginePhase::Stopped => stopped(),
        engine::EnginePhase::Loading { .. } | engine::EnginePhase::Ready if pulse == Pulse::Dead => stopped(),
        // Of one that was replaced, the next status tells of its successor.
        engine::EnginePhase::Loading { .. } | engine::EnginePhase::Replaced => EnginePhase::Loading,
        engine::EnginePhase::Ready => match pulse {
            Pulse::Stuck { silent_for } => EnginePhase::Failed {
                code: ErrorCode::EngineFailed,
                detail: format!("the engine has been in one step for {} s", silent_for.as_secs()),
            },
            Pulse::Alive | Pulse::Dead => EnginePhase::Ready,
        },
    }
}

fn failed(error: &AppError) -> EnginePhase {
    EnginePhase::Failed { code: error.code(), detail: in_full(error) }
}

fn model_summary(facts: &BackendFacts, running: &RunningEngine) -> ModelSummary {
    ModelSummary {
        name: running.model.name.clone(),
        architecture: facts.architecture.clone(),
        quantisation: facts.quantisation.clone(),
        compute_dtype: facts.compute_dtype.clone(),
        device: facts.device.clone(),
        context_tokens: facts.context_tokens,
        has_thinking: running.tokenizer.thinking_tags().is_some(),
        disk_bytes: running.model.bytes as f64,
        recommended: recommended(running.recommended),
    }
}

fn recommended(defaults: GenerationDefaults) -> Option<RecommendedSampling> {
    (defaults != GenerationDefaults::default()).then_some(RecommendedSampling {
        temperature: defaults.temperature,
        top_p: defaults.top_p,
        top_k: defaults.top_k,
        min_p: defaults.min_p,
        repetition_penalty: defaults.repetition_penalty,
    })
}

/// `None` for a request whose end the app has seen while the engine had not yet published it.
fn row(row: &engine::RowSnapshot, find: FindRequest<'_>) -> Option<RowStatus> {
    let (request_id, asker) = find(row.id)?;
    let conversation_of =
        |id| find(id).and_then(|(_, asker)| asker.conversation()).map(|found| found.to_string());
    Some(RowStatus {
        request_id,
        source: match asker {
            Asker::Tab { .. } => RowSource::Tab,
            Asker::Server => RowSource::Server,
            Asker::Benchmark => RowSource::Benchmark,
        },
        conversation_id: asker.conversation().map(|id| id.to_string()),
        answer_id: asker.answer().map(|id| id.to_string()),
        phase: match row.phase {
            engine::RowPhase::Queued => RowPhase::Queued,
            engine::RowPhase::Prefilling => RowPhase::Prefilling,
            engine::RowPhase::Decoding => RowPhase::Decoding,
        },
        ahead: row.ahead,
        prefill_done_tokens: row.prefill_done_tokens,
        prompt_tokens: row.prompt_tokens,
        cached_tokens: row.cached_tokens,
        answer_tokens: row.answer_tokens,
        kv_cache_tokens: row.kv_cache_tokens,
        context_tokens: row.context_tokens,
        per_row_ms: row.per_row_cost.map(milliseconds),
        gate: row.path.as_ref().map(|path| gate_path(path, conversation_of)),
        decode_tok_s: row.decode_tok_s.map(rounded),
        ttft_ms: row.ttft.map(milliseconds),
        itl_ms_p50: row.itl_p50.map(milliseconds),
        itl_ms_p95: row.itl_p95.map(milliseconds),
    })
}

fn steps(stats: &engine::StepStats) -> StepStats {
    StepStats {
        total_tok_s: rounded(stats.total_tok_s),
        batch_rows: count(stats.batch_rows),
        decode_steps: count(stats.decode_steps),
        fused_steps: count(stats.fused_steps),
        per_row_steps: count(stats.per_row_steps),
        step_ms_p50: milliseconds(stats.step_p50),
        forward_ms_p50: milliseconds(stats.forward_p50),
        sample_ms_p50: milliseconds(stats.sample_p50),
        wait_ms_p50: milliseconds(stats.wait_p50),
        host_ms_p50: milliseconds(stats.host_p50),
        evals_per_step: count(stats.evals_per_step),
        waits_per_step: count(stats.waits_per_step),
        host_reads_per_step: count(stats.host_reads_per_step),
        replays: count(stats.replays),
        overlap_off: stats.overlap_off.map(overlap_off),
        overlapped_steps: count(stats.overlapped_steps),
        forwards_overlapped: count(stats.forwards_overlapped),
        submit_ms_p50: milliseconds(stats.submit_p50),
        batch_reasons: stats.batch_reasons.iter().map(reason).collect(),
        recent: stats.recent.iter().map(bar).collect(),
    }
}

fn overlap_off(why: engine::OverlapOff) -> OverlapOff {
    match why {
        engine::OverlapOff::SwitchedOff => OverlapOff::SwitchedOff,
        engine::OverlapOff::BatchGrowing => OverlapOff::BatchGrowing,
        engine::OverlapOff::PerRowRows => OverlapOff::PerRowRows,
        engine::OverlapOff::KvCopyCostly => OverlapOff::KvCopyCostly,
        engine::OverlapOff::Measuring => OverlapOff::Measuring,
        engine::OverlapOff::MemoryPressure => OverlapOff::MemoryPressure,
        engine::OverlapOff::LastTokens => OverlapOff::LastTokens,
    }
}

fn bar(bar: &engine::StepBar) -> StepBar {
    StepBar {
        step: count(bar.step),
        batch_rows: count(bar.batch_rows),
        per_row_rows: count(bar.per_row_rows),
        step_ms: milliseconds(bar.step_time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn headroom_is_what_admission_would_give() {
        use engine::testing::{FakeBackend, Script, byte_tokenizer};
        let tokenizer = byte_tokenizer().expect("a temporary folder can be written");
        let script = Script { memory_limit_bytes: 1 << 20, ..Script::default() };
        let config = engine::EngineConfig::new(tokenizer);
        let clock = std::sync::Arc::new(engine::clock::SystemClock);
        let engine = engine::engine::Engine::new(config, FakeBackend::new(script), clock);
        let snapshot = engine.snapshot(engine::EnginePhase::Ready);
        let memory = memory_stats(&snapshot).expect("a model is loaded");
        assert_eq!((memory.kv_bytes_per_token, memory.reserved_bytes), (4.0, f64::from(1 << 16)));
        assert_eq!(memory.free_bytes, f64::from((1 << 20) - (1 << 16)), "all but the reserve");
    }

    #[test]
    fn an_engine_that_hangs_or_is_gone_is_not_shown_as_ready() {
        let ready = engine::EnginePhase::Ready;
        assert!(matches!(phase(&ready, Pulse::Alive), EnginePhase::Ready));
        let stuck = Pulse::Stuck { silent_for: Duration::from_secs(25) };
        let EnginePhase::Failed { code, detail } = phase(&ready, stuck) else { panic!("it hangs") };
        assert_eq!(code, ErrorCode::EngineFailed);
        assert!(detail.contains("25 s"), "{detail}");
        assert!(matches!(phase(&ready, Pulse::Dead), EnginePhase::Failed { .. }));
    }
}
