//! The only source of random numbers.

/// A seeded generator: SplitMix64 (G. Steele, D. Lea, C. Flood, 2014).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Starts from `seed`; neighbouring seeds give unrelated numbers.
    pub fn new(seed: u64) -> Self {
        let mut rng = Self(seed ^ 0x5DEE_CE66_D1CE_4E5B);
        rng.next();
        rng
    }

    /// Draws 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Starts an independent generator.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next())
    }

    /// Draws a number below `bound`, or 0 if `bound` is 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// Draws a number in `from..=to`.
    pub const fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from) + 1)
    }

    /// Draws an index of a slice of `len` items.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// Draws one of these; `None` if there is none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.index(from.len()))
    }

    /// Returns true in `per_mille` of a thousand draws.
    pub const fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }
}
