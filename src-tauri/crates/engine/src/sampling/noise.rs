//! Counter noise: a pure function of (seed, position, token id).
//!
//! The hash is murmur3-32 over the four little-endian words seed_lo, seed_hi, position, id with hash seed 0. A
//! row's noise therefore does not depend on its neighbours, its place in the batch, or the path that sampled it.
//!
//! Source: Appleby, MurmurHash3 (x86, 32 bit), public domain.

/// First multiplier of the murmur3 block round.
pub const C1: u32 = 0xCC9E_2D51;
/// Second multiplier of the murmur3 block round.
pub const C2: u32 = 0x1B87_3593;
/// Additive constant of the murmur3 block round.
pub const ROUND_ADD: u32 = 0xE654_6B64;
/// First multiplier of the murmur3 finaliser.
pub const FMIX1: u32 = 0x85EB_CA6B;
/// Second multiplier of the murmur3 finaliser.
pub const FMIX2: u32 = 0xC2B2_AE35;
/// Bytes hashed, mixed in before the finaliser.
pub const HASHED_BYTES: u32 = 16;

fn round(hash: u32, word: u32) -> u32 {
    let mixed = word.wrapping_mul(C1).rotate_left(15).wrapping_mul(C2);
    (hash ^ mixed).rotate_left(13).wrapping_mul(5).wrapping_add(ROUND_ADD)
}

/// Folds a row's seed and the absolute position of the token to be sampled (index in prompt plus output).
pub fn row_base(seed: u64, position: u32) -> u32 {
    [seed as u32, (seed >> 32) as u32, position].into_iter().fold(0, round)
}

/// Finishes the hash for one token id.
pub fn token_hash(row_base: u32, id: u32) -> u32 {
    let mut hash = round(row_base, id) ^ HASHED_BYTES;
    hash = (hash ^ (hash >> 16)).wrapping_mul(FMIX1);
    hash = (hash ^ (hash >> 13)).wrapping_mul(FMIX2);
    hash ^ (hash >> 16)
}

/// Largest uniform used: f32 rounds hashes near 2^32 up to 1, whose noise would be minus infinity.
pub const MAX_UNIFORM: f32 = 1.0 - 1.0 / 16_777_216.0;

/// A hash as a number above 0 and below 1.
pub fn uniform(hash: u32) -> f32 {
    ((hash as f32 + 0.5) * (1.0 / 4_294_967_296.0)).min(MAX_UNIFORM)
}

/// Gumbel noise of a hash, in f32: from -2.811541 to 22.873857, never infinite.
pub fn gumbel(hash: u32) -> f32 {
    -(-(-uniform(hash)).ln_1p()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_match_the_published_vectors() {
        for (seed, position, id, expected) in [
            (0, 0, 0, 0x8134_cdf8),
            (1, 0, 0, 0x9222_8d1b),
            (42, 17, 151_643, 0x7d2e_8e9e),
            ((1 << 40) + 7, 1000, 5, 0x6148_b8b7),
            (0xDEAD_BEEF_CAFE_F00D, 4095, 151_935, 0x2eb1_dd4e),
        ] {
            assert_eq!(token_hash(row_base(seed, position), id), expected, "({seed}, {position}, {id})");
        }
    }

    #[test]
    fn gumbel_noise_is_finite_at_both_ends() {
        for (hash, expected) in [(0, 22.873857), (0x7fff_ffff, 0.366513), (0xffff_ffff, -2.811541)] {
            assert!((gumbel(hash) - expected).abs() < 1e-5, "{hash:#x}: {}", gumbel(hash));
        }
    }
}
