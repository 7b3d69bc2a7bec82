//! The crates' types -> wire types. Only the app knows both sides.

pub mod answer;
pub mod conversation;
pub mod model;
pub mod status;

use std::time::Duration;

use protocol::{GateMode, OverlapMode, PathReason, SamplingPath};

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
        GateMode::Folded => engine::GateMode::Folded,
    }
}

/// Mode of the gate, as the wire names it.
pub fn to_wire_mode(mode: engine::GateMode) -> GateMode {
    match mode {
        engine::GateMode::Strict => GateMode::Strict,
        engine::GateMode::Split => GateMode::Split,
        engine::GateMode::Folded => GateMode::Folded,
    }
}

/// Whether forward passes may overlap the reading of tokens, as the engine names it.
pub fn to_engine_overlap(mode: OverlapMode) -> engine::OverlapMode {
    match mode {
        OverlapMode::Off => engine::OverlapMode::Off,
        OverlapMode::On => engine::OverlapMode::On,
        OverlapMode::Adaptive => engine::OverlapMode::Adaptive,
    }
}

/// Whether forward passes may overlap the reading of tokens, as the wire names it.
pub fn to_wire_overlap(mode: engine::OverlapMode) -> OverlapMode {
    match mode {
        engine::OverlapMode::Off => OverlapMode::Off,
        engine::OverlapMode::On => OverlapMode::On,
        engine::OverlapMode::Adaptive => OverlapMode::Adaptive,
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
        reasons: path.reasons.iter().map(reason).collect(),
        caused_by_conversation_id: path.caused_by.and_then(conversation_of),
        since_step: count(path.since_step),
    }
}

/// A reason without its figures.
pub fn reason(reason: &engine::Reason) -> PathReason {
    match reason {
        engine::Reason::StructuredMask => PathReason::StructuredMask,
        engine::Reason::ThinkingOverride => PathReason::ThinkingOverride,
        engine::Reason::Logprobs(_) => PathReason::Logprobs,
        engine::Reason::TokenBias => PathReason::TokenBias,
        engine::Reason::BiasTrace => PathReason::BiasTrace,
        engine::Reason::HistoryPenalty => PathReason::HistoryPenalty,
        engine::Reason::UnsupportedSampler(_) => PathReason::UnsupportedSampler,
        engine::Reason::CustomProcessor => PathReason::CustomProcessor,
        engine::Reason::Quarantined => PathReason::Quarantined,
        engine::Reason::MixedSettings { .. } => PathReason::MixedSettings,
        engine::Reason::SingleRow => PathReason::SingleRow,
        engine::Reason::WidthOverflow => PathReason::WidthOverflow,
        engine::Reason::ForcedReference => PathReason::ForcedReference,
        engine::Reason::RepeatedEvalFailure => PathReason::RepeatedEvalFailure,
    }
}
