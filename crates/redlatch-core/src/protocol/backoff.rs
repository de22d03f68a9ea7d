//! Growing pauses between tries, with jitter.

use std::time::Duration;

/// The pauses between tries: the first pause, the growth factor, the longest pause, the jitter, and
/// the maximum number of tries.
///
/// [`Jitter`] uses the terms of M. Brooker, "Exponential Backoff And Jitter".
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// # use redlatch_core as redlatch;
/// use redlatch::{Backoff, Jitter};
///
/// let ms = Duration::from_millis;
/// // 100 ms each time.
/// Backoff::constant(ms(100));
/// // A random pause between zero and 10, 15, 22.5 … 500 ms; at most twenty tries.
/// Backoff::exponential(ms(10), ms(500))
///     .factor(1.5)
///     .jitter(Jitter::Full)
///     .max_attempts(20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    /// The growth factor in thousandths.
    factor: u32,
    jitter: Jitter,
    max_attempts: Option<u32>,
}

/// The random spread of a pause, which separates clients that failed at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Jitter {
    /// No spread.
    None,
    /// Between half of the pause and the whole.
    Equal,
    /// Between zero and the whole pause, at least 1 ms.
    Full,
}

impl Backoff {
    /// Creates a back-off with equal pauses of `delay`, at least 1 ms, without jitter.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// use std::time::Duration;
    /// use redlatch::{Backoff, WaitStrategy};
    ///
    /// let poll = WaitStrategy::Poll(Backoff::constant(Duration::from_millis(200)));
    /// # assert!(matches!(poll, WaitStrategy::Poll(_)));
    /// ```
    pub const fn constant(delay: Duration) -> Self {
        let delay = longer(delay, LEAST);
        Self {
            initial: delay,
            max: delay,
            factor: 1000,
            jitter: Jitter::None,
            max_attempts: None,
        }
    }

    /// Creates a back-off with pauses that double from `initial`, at least 1 ms, up to `max`, with
    /// equal jitter.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// use std::time::Duration;
    /// use redlatch::Backoff;
    ///
    /// // 50 ms, 100 ms, 200 ms … 2 s, each with equal jitter.
    /// let backoff = Backoff::exponential(Duration::from_millis(50), Duration::from_secs(2));
    /// # assert_eq!(backoff, backoff.factor(2.0));
    /// ```
    pub const fn exponential(initial: Duration, max: Duration) -> Self {
        let backoff = Self::constant(initial);
        Self {
            max: longer(backoff.initial, max),
            factor: 2000,
            jitter: Jitter::Equal,
            ..backoff
        }
    }

    /// Sets the ratio of each pause to the one before: 1 to 100. Other values are clamped to these
    /// bounds.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// use std::time::Duration;
    /// use redlatch::Backoff;
    ///
    /// let backoff = Backoff::exponential(Duration::from_millis(50), Duration::from_secs(2));
    /// assert_eq!(backoff.factor(0.5), backoff.factor(1.0)); // pauses never shrink
    /// ```
    #[must_use]
    pub fn factor(mut self, factor: f64) -> Self {
        let thousandths = (factor * 1000.0).clamp(1000.0, 100_000.0);
        // NaN becomes 0 as a whole number.
        self.factor = (thousandths.round() as u32).max(1000);
        self
    }

    /// Sets the jitter of each pause.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// use std::time::Duration;
    /// use redlatch::{Backoff, Jitter};
    ///
    /// // Processes that started together ask at different times: 0 to 200 ms later.
    /// let backoff = Backoff::constant(Duration::from_millis(200)).jitter(Jitter::Full);
    /// # assert_eq!(backoff, backoff.jitter(Jitter::Full));
    /// ```
    #[must_use]
    pub const fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets the maximum number of tries, including the first, at least 1. Default: unlimited.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// use std::time::Duration;
    /// use redlatch::Backoff;
    ///
    /// let twice = Backoff::constant(Duration::from_millis(200)).max_attempts(2);
    /// assert_eq!(twice.max_attempts(0), twice.max_attempts(1)); // at least one try
    /// ```
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(if attempts == 0 { 1 } else { attempts });
        self
    }
}

/// For the crates of this family.
#[doc(hidden)]
impl Backoff {
    /// Returns whether `attempts` tries are the maximum.
    pub fn is_exhausted(&self, attempts: u32) -> bool {
        self.max_attempts.is_some_and(|most| attempts >= most)
    }

    /// Returns the pause after failure number `failures` (from 1), with 64 `random` bits.
    pub fn delay(&self, failures: u32, random: u64) -> Duration {
        let whole = self.whole(failures);
        match self.jitter {
            Jitter::None => whole,
            Jitter::Equal => whole / 2 + (whole / 2).mul_f64(unit(random)),
            Jitter::Full => longer(whole.mul_f64(unit(random)), LEAST),
        }
    }

    fn whole(&self, failures: u32) -> Duration {
        let growth =
            (f64::from(self.factor) / 1000.0).powi(failures.saturating_sub(1).min(1000) as i32);
        let whole = self.initial.as_secs_f64() * growth;
        Duration::try_from_secs_f64(whole).map_or(self.max, |whole| whole.min(self.max))
    }
}

/// The shortest pause.
const LEAST: Duration = Duration::from_millis(1);

const fn longer(one: Duration, other: Duration) -> Duration {
    if one.as_nanos() < other.as_nanos() {
        other
    } else {
        one
    }
}

/// Maps 64 random bits to 0 ≤ x < 1.
pub(crate) fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    proptest! {
        #[test]
        fn delay_stays_within_its_bounds(
            initial in 0_u64..1000, max in 0_u64..100_000, factor in 0.0..200.0, n in 0_u32..u32::MAX, random: u64,
        ) {
            let (initial, max) = (Duration::from_millis(initial), Duration::from_millis(max));
            let most = max.max(initial).max(MS);
            let backoff = Backoff::exponential(initial, max).factor(factor);
            let delay = backoff.delay(n, random);
            prop_assert!(delay >= initial.max(MS) / 2 && delay <= most);
            prop_assert!(backoff.jitter(Jitter::Full).delay(n, random) <= most);
            let whole = backoff.jitter(Jitter::None).delay(n, random);
            prop_assert!(whole >= initial && whole <= most);
        }
    }

    #[test]
    fn delay_grows_by_its_factor() {
        let most = |backoff: Backoff| -> Vec<_> {
            let delays = (1..8).map(|n| backoff.jitter(Jitter::None).delay(n, 0));
            delays.map(|delay| delay.as_millis()).collect()
        };
        let backoff = Backoff::exponential(20 * MS, 1000 * MS);
        assert_eq!(most(backoff), [20, 40, 80, 160, 320, 640, 1000]);
        assert_eq!(most(backoff.factor(1.5)), [20, 30, 45, 67, 101, 151, 227]);
        assert_eq!(most(Backoff::constant(7 * MS)), [7; 7]);
    }

    #[test]
    fn wrong_factors_are_brought_to_the_nearer_bound() {
        let backoff = Backoff::exponential(MS, MS);
        for (factor, thousandths) in [(0.0, 1000), (-3.0, 1000), (f64::NAN, 1000), (1e9, 100_000)] {
            assert_eq!(backoff.factor(factor).factor, thousandths);
        }
    }

    #[test]
    fn attempts_are_counted_with_the_first() {
        let backoff = Backoff::constant(MS);
        assert!(!backoff.is_exhausted(u32::MAX));
        assert!(!backoff.max_attempts(2).is_exhausted(1));
        assert!(backoff.max_attempts(2).is_exhausted(2));
        assert!(backoff.max_attempts(0).is_exhausted(1));
    }
}
