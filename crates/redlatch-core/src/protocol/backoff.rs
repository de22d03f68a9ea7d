//! Waiting longer after each failure, with jitter.

use std::time::Duration;

/// Exponential back-off: `base`, doubled each time up to `cap`, each drawn between half and whole.
///
/// Source: M. Brooker, "Exponential Backoff And Jitter" (the "equal jitter" of that text).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
}

impl Backoff {
    /// Starts at `base` (at least 1 ms) and never waits longer than `cap` (at least `base`).
    pub fn new(base: Duration, cap: Duration) -> Self {
        let base = base.max(Duration::from_millis(1));
        Self {
            base,
            cap: cap.max(base),
        }
    }

    /// As [`new`](Self::new), in constants; the bounds are the caller's to keep.
    pub(crate) const fn of(base: Duration, cap: Duration) -> Self {
        Self { base, cap }
    }

    /// Returns how long to wait before try number `failures` (from 1), with 64 `random` bits.
    pub fn delay(&self, failures: u32, random: u64) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        let whole = self.base.saturating_mul(1 << doublings).min(self.cap);
        let half = whole / 2;
        half + half.mul_f64(unit(random))
    }
}

/// Maps 64 random bits to 0 ≤ x < 1.
pub fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn stays_within_its_bounds(base in 1_u64..1000, cap in 1_u64..100_000, n in 0_u32..200, random: u64) {
            let (base, cap) = (Duration::from_millis(base), Duration::from_millis(cap));
            let delay = Backoff::new(base, cap).delay(n, random);
            prop_assert!(delay >= base / 2 && delay <= cap.max(base));
        }
    }

    #[test]
    fn doubles() {
        let backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
        let most: Vec<_> = (1..8)
            .map(|n| backoff.delay(n, u64::MAX).as_millis())
            .collect();
        assert_eq!(most, [20, 40, 80, 160, 320, 640, 1000]);
    }
}
