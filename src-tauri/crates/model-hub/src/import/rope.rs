use std::{f64::consts::TAU, fs::File};

use serde_json::{Value, json};

use crate::{Gguf, ModelHubError, TensorType};

/// Tensor with a divisor per rotary frequency, in which Llama 3's scaling is stored.
pub(super) const ROPE_FREQS: &str = "rope_freqs.weight";

/// Llama 3.1 and 3.2, by their published configs.
const PUBLISHED_FACTORS: [f64; 2] = [8.0, 32.0];
const LOW_FREQ_FACTOR: f64 = 1.0;
const HIGH_FREQ_FACTOR: f64 = 4.0;
const ORIGINAL_TOKENS: f64 = 8192.0;
/// The file holds f32.
const TOLERANCE: f64 = 1e-4;

/// The entry `rope_scaling` that the file's divisors come from.
///
/// # Errors
/// [`ModelHubError::UnexpectedTensor`] if they come from no published scaling, `MissingTensor`, [`ModelHubError::Read`].
pub(super) fn llama3_scaling(gguf: &Gguf, rope_theta: f64, head_dim: u64) -> Result<Value, ModelHubError> {
    let path = || gguf.path().to_path_buf();
    let tensor = gguf
        .tensor(ROPE_FREQS)
        .ok_or_else(|| ModelHubError::MissingTensor { path: path(), tensor: ROPE_FREQS.to_string() })?;
    let unexpected = || ModelHubError::UnexpectedTensor { path: path(), tensor: ROPE_FREQS.to_string() };
    if tensor.tensor_type != TensorType::F32 || tensor.shape != [head_dim / 2] {
        return Err(unexpected());
    }
    let mut file = File::open(gguf.path()).map_err(|source| ModelHubError::Read { path: path(), source })?;
    let bytes = gguf.read_tensor(&mut file, tensor)?;
    let divisors: Vec<f64> = bytes
        .chunks_exact(4)
        .map(|bytes| f64::from(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])))
        .collect();
    let matches = |factor: &f64| {
        divisors.iter().enumerate().all(|(pair, divisor)| {
            let frequency = rope_theta.powf(-2.0 * pair as f64 / head_dim as f64);
            (divisor / divisor_of(frequency, *factor) - 1.0).abs() <= TOLERANCE
        })
    };
    let factor = PUBLISHED_FACTORS.into_iter().find(matches).ok_or_else(unexpected)?;
    Ok(json!({
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": LOW_FREQ_FACTOR,
        "high_freq_factor": HIGH_FREQ_FACTOR,
        "original_max_position_embeddings": ORIGINAL_TOKENS as u64,
    }))
}

/// What Llama 3's scaling divides a frequency, in radians per token, by: `factor` for those that turn less than once in
/// the original context, 1 for those that turn four times or more, in between a mixture of both.
fn divisor_of(frequency: f64, factor: f64) -> f64 {
    let turns = ORIGINAL_TOKENS * frequency / TAU;
    let kept = ((turns - LOW_FREQ_FACTOR) / (HIGH_FREQ_FACTOR - LOW_FREQ_FACTOR)).clamp(0.0, 1.0);
    1.0 / ((1.0 - kept) / factor + kept)
}
