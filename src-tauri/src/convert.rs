//! The crates' types -> wire types. Only the app knows both sides.

pub mod answer;
pub mod conversation;
pub mod status;

use std::time::Duration;

use protocol::{GateMode, PathReason, SamplingPath};

/// Milliseconds with the microseconds kept; a longer fraction would only fatten the messages.
pub fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e3
}

/// A measured number without the digits that mean nothing: shorter, and the same again when read back.
pub fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// A count that the wire holds in 32 bits.
pub fn count(value: impl TryInto<u32>) -> u32 {
    value.try_into().unwrap_or(u32::MAX)
}

/// Mode of the gate, as the engine names it.
pub fn to_engine_mode(mode: GateMode) -> engine::GateMode {
    match mode {
        GateMode::Strict => engine::GateMode::Strict,
        GateMode::Split => engine::GateMode::Split,
    }
}

/// Mode of the gate, as the wire names it.
pub fn to_wire_mode(mode: engine::GateMode) -> GateMode {
    match mode {
        engine::GateMode::Strict => GateMode::Strict,
        // The wire cannot ask for Folded yet, so it need not name it.
        engine::GateMode::Split | engine::GateMode::Folded => GateMode::Split,
    }
}

/// A row's path. `conversation_of` finds whose row forced this one.
pub fn gate_path(
    path: &engine::RowPath,
    conversation_of: impl Fn(engine::RequestId) -> Option<String>,
) -> protocol::GatePath {
    protocol::GatePath {
        path: match path.path {
            engine::SamplingPath::Fused => SamplingPath::Fused,
            engine::SamplingPath::PerRow => SamplingPath::PerRow,
        },
        reasons: path.reasons.iter().filter_map(reason).collect(),
        caused_by_conversation_id: path.caused_by.and_then(conversation_of),
        since_step: count(path.since_step),
    }
}

/// The reason as the wire names it; `None` for those that no setting of the wire can cause.
fn reason(reason: &engine::Reason) -> Option<PathReason> {
    match reason {
        engine::Reason::Logprobs(_) => Some(PathReason::Logprobs),
        engine::Reason::MixedSettings { .. } => Some(PathReason::MixedSettings),
        _ => None,
    }
}
