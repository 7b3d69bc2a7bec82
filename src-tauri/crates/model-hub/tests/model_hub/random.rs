//! Numbers that look random and are the same in every run.

/// Source: Marsaglia 2003, "Xorshift RNGs", the 64-bit variant 13, 7, 17.
pub struct Random(u64);

impl Random {
    /// A sequence of its own per seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Any 64 bits but zero.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end
    }

    /// Any size, small ones as likely as large ones.
    pub fn size(&mut self, most_bits: u64) -> u64 {
        let bits = self.below(most_bits + 1);
        if bits == 0 { 0 } else { self.bits() >> (64 - bits) }
    }
}
