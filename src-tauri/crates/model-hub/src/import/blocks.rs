//! Repacks GGUF blocks into MLX's affine layout, bit for bit as MLX's own GGUF reader does.
//!
//! An MLX weight is `scale * q + bias`, with q packed low bits first into uint32 words, a scale and a bias per group of
//! 32. GGUF's blocks are groups of 32 as well, so only the bits move.
//!
//! Source: the block layouts of `ggml` (`ggml-common.h`); the zero points follow from them: Q4_0 means
//! `scale * (q - 8)`, Q8_0 is signed and becomes unsigned by adding 128.

use half::f16;

use crate::gguf::TensorType;

/// Weights per scale and bias, in GGUF's blocks and MLX's groups alike.
pub(crate) const GROUP_WEIGHTS: usize = 32;

/// Repacks the weights: 16 bytes per block at 4 bits, 32 at 8 bits, in the byte order of little-endian uint32 words.
pub(super) fn packed_weights(tensor_type: TensorType, blocks: &[u8]) -> Vec<u8> {
    match tensor_type {
        TensorType::Q4_0 => each(blocks, 18, |block, out| unpack_nibbles(&block[2..], out)),
        TensorType::Q4_1 => each(blocks, 20, |block, out| unpack_nibbles(&block[4..], out)),
        TensorType::Q8_0 => each(blocks, 34, |block, out| out.extend(block[2..].iter().map(|q| q ^ 0x80))),
        TensorType::F32 | TensorType::F16 | TensorType::Other(_) => Vec::new(),
    }
}

/// The scales as little-endian f16.
pub(super) fn scales(tensor_type: TensorType, blocks: &[u8]) -> Vec<u8> {
    let Some((_, block_bytes)) = tensor_type.block() else { return Vec::new() };
    each(blocks, block_bytes as usize, |block, out| out.extend_from_slice(&block[..2]))
}

/// The biases as little-endian f16.
pub(super) fn biases(tensor_type: TensorType, blocks: &[u8]) -> Vec<u8> {
    let scaled = |block: &[u8], out: &mut Vec<u8>, zero_point: f32| {
        let scale = f16::from_le_bytes([block[0], block[1]]);
        out.extend_from_slice(&f16::from_f32(scale.to_f32() * -zero_point).to_le_bytes());
    };
    match tensor_type {
        TensorType::Q4_0 => each(blocks, 18, |block, out| scaled(block, out, 8.0)),
        TensorType::Q4_1 => each(blocks, 20, |block, out| out.extend_from_slice(&block[2..4])),
        TensorType::Q8_0 => each(blocks, 34, |block, out| scaled(block, out, 128.0)),
        TensorType::F32 | TensorType::F16 | TensorType::Other(_) => Vec::new(),
    }
}

/// Rounds little-endian f32 to f16, to nearest even. `None` if a finite value does not fit.
pub(super) fn to_half(floats: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(floats.len() / 2);
    for bytes in floats.chunks_exact(4) {
        let value = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let half = f16::from_f32(value);
        if half.is_finite() != value.is_finite() {
            return None;
        }
        out.extend_from_slice(&half.to_le_bytes());
    }
    Some(out)
}

/// Undoes GGUF's reordering of query and key rows for interleaved RoPE.
///
/// Within a head GGUF stores rows 0, n/2, 1, n/2+1, ...; MLX wants the first halves of all pairs, then the second.
pub(super) fn unpermute_rows(rows: &[u8], row_bytes: usize, heads: usize) -> Vec<u8> {
    let half_rows = rows.len() / row_bytes / heads / 2;
    let mut out = Vec::with_capacity(rows.len());
    for head in 0..heads {
        for half in 0..2 {
            for pair in 0..half_rows {
                let row = head * half_rows * 2 + pair * 2 + half;
                out.extend_from_slice(&rows[row * row_bytes..(row + 1) * row_bytes]);
            }
        }
    }
    out
}

fn each(blocks: &[u8], block_bytes: usize, mut repack: impl FnMut(&[u8], &mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(blocks.len());
    for block in blocks.chunks_exact(block_bytes) {
        repack(block, &mut out);
    }
    out
}

/// GGUF keeps weights 0..16 of a block in the low nibbles and 16..32 in the high ones; MLX wants neighbours together.
fn unpack_nibbles(nibbles: &[u8], out: &mut Vec<u8>) {
    out.extend(nibbles.chunks_exact(2).map(|pair| (pair[0] & 0x0F) | (pair[1] << 4)));
    out.extend(nibbles.chunks_exact(2).map(|pair| (pair[0] >> 4) | (pair[1] & 0xF0)));
}
