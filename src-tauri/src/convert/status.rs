//! Engine snapshots -> what overlay, settings panel and tabs show.

use engine::{EngineSnapshot, RequestId, backend::BackendFacts};
use history::ConversationId;
use model_hub::ModelFolder;
use protocol::{
    EnginePhase, EngineStatus, GateMode, MemoryStats, ModelSummary, RowPhase, RowStatus, StepBar, StepStats,
};

use super::{count, gate_path, milliseconds, rounded, to_wire_mode};
use crate::error::{AppError, in_full};

/// Finds the UI's request id and the conversation of an engine request.
pub type FindRequest<'a> = &'a dyn Fn(RequestId) -> Option<(String, ConversationId)>;

/// The status while there is no engine: it starts, or it cannot.
pub fn without_engine(failure: Option<&AppError>, gate_mode: GateMode) -> EngineStatus {
    EngineStatus {
        phase: failure.map_or(EnginePhase::Loading, failed),
        model: None,
        gate_mode,
        rows: Vec::new(),
        steps: steps(&engine::StepStats::default()),
        memory: None,
    }
}

/// The status of a started engine. `is_alive`: whether its thread still publishes.
pub fn of_engine(
    snapshot: &EngineSnapshot,
    model: &ModelFolder,
    is_alive: bool,
    find: FindRequest<'_>,
) -> EngineStatus {
    EngineStatus {
        phase: phase(&snapshot.phase, is_alive),
        model: snapshot.facts.as_ref().map(|facts| model_summary(facts, model)),
        gate_mode: to_wire_mode(snapshot.gate_mode),
        rows: snapshot.rows.iter().filter_map(|snapshot| row(snapshot, find)).collect(),
        steps: steps(&snapshot.steps),
        memory: snapshot.facts.as_ref().zip(snapshot.memory).map(|(facts, memory)| MemoryStats {
            model_bytes: facts.model_bytes as f64,
            kv_cache_bytes: memory.kv_cache_bytes as f64,
            active_bytes: memory.active_bytes as f64,
            peak_bytes: memory.peak_bytes as f64,
        }),
    }
}

fn phase(phase: &engine::EnginePhase, is_alive: bool) -> EnginePhase {
    let stopped = || failed(&engine::EngineError::Stopped.into());
    match phase {
        engine::EnginePhase::Failed(error) => failed(&error.clone().into()),
        engine::EnginePhase::Stopped => stopped(),
        engine::EnginePhase::Loading | engine::EnginePhase::Ready if !is_alive => stopped(),
        engine::EnginePhase::Loading => EnginePhase::Loading,
        engine::EnginePhase::Ready => EnginePhase::Ready,
    }
}

fn failed(error: &AppError) -> EnginePhase {
    EnginePhase::Failed { code: error.code(), detail: in_full(error) }
}

fn model_summary(facts: &BackendFacts, model: &ModelFolder) -> ModelSummary {
    ModelSummary {
        name: model.id.clone(),
        architecture: facts.architecture.clone(),
        quantisation: facts.quantisation.clone(),
        compute_dtype: facts.compute_dtype.clone(),
        device: facts.device.clone(),
        context_tokens: facts.context_tokens,
        disk_bytes: model.bytes as f64,
    }
}

/// `None` for a request whose end the app has seen while the engine had not yet published it.
fn row(row: &engine::RowSnapshot, find: FindRequest<'_>) -> Option<RowStatus> {
    let (request_id, conversation) = find(row.id)?;
    let conversation_of = |id| find(id).map(|(_, conversation)| conversation.to_string());
    Some(RowStatus {
        request_id,
        conversation_id: conversation.to_string(),
        phase: match row.phase {
            engine::RowPhase::Queued => RowPhase::Queued,
            engine::RowPhase::Prefilling => RowPhase::Prefilling,
            engine::RowPhase::Decoding => RowPhase::Decoding,
        },
        ahead: row.ahead,
        prefill_done_tokens: row.prefill_done_tokens,
        prompt_tokens: row.prompt_tokens,
        answer_tokens: row.answer_tokens,
        kv_cache_tokens: row.kv_cache_tokens,
        context_tokens: row.context_tokens,
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
        recent: stats.recent.iter().map(bar).collect(),
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
