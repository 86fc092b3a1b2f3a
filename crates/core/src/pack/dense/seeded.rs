//! Numbers that look random and follow from a seed: the only randomness of the packer.

/// A stream of numbers (the generator known as `SplitMix64`).
#[derive(Clone, Debug)]
pub(crate) struct SeededGenerator(u64);

impl SeededGenerator {
    /// A stream of its own for each pair.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut generator = SeededGenerator(seed);
        let start = generator.next();
        SeededGenerator(start ^ stream.wrapping_mul(0xD134_2543_DE82_EF95))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// A number below a bound, which must not be zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// A number from zero to one, one excluded.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_gives_others() {
        let draw = |seed, stream| {
            let mut generator = SeededGenerator::new(seed, stream);
            (0..8).map(|_| generator.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn numbers_stay_within_their_bounds() {
        let mut generator = SeededGenerator::new(0, 0);
        for bound in 1..200 {
            assert!(generator.below(bound) < bound);
            let unit = generator.unit();
            assert!((0.0..1.0).contains(&unit));
        }
    }
}
