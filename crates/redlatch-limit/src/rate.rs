//! Rates, and the arithmetic of their debts.

use std::time::Duration;

use redlatch_core::{
    Error, ErrorKind,
    family::{Lease, invalid},
};

/// A rate and a burst: `count` tokens in `period` µs, without a common divisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) count: u64,
    pub(crate) period: u64,
    pub(crate) burst: u64,
}

/// A rate, and the cost of one pass in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) rate: Rate,
    pub(crate) cost: u64,
}

/// The options as they were given.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    pub(crate) rate: Option<(u64, Duration)>,
    pub(crate) burst: Option<u64>,
}

impl Options {
    /// Checks the options. Without a burst, it is the count of the rate.
    pub(crate) fn rate(self) -> Result<Rate, Error> {
        let (count, per) = self.rate.ok_or_else(|| invalid("set its rate"))?;
        let period = saturated(per.as_micros());
        if count == 0 || count >= 1 << 53 || period == 0 || per > Lease::MAX {
            return Err(invalid(
                "its rate is out of bounds: 1 to 2^53 - 1 tokens, per 1 µs to 365 days",
            ));
        }
        let burst = self.burst.unwrap_or(count);
        let divisor = common_divisor(count, period);
        let (count, period) = (count / divisor, period / divisor);
        let rate = Rate {
            count,
            period,
            burst,
        };
        // Scripts count with the 53 bits of floats.
        let parts = u128::from(burst) * u128::from(count);
        if burst == 0 || parts >= 1 << 53 || u128::from(rate.span(burst)) > Lease::MAX.as_micros() {
            let most = (((1 << 53) - 1) / u128::from(count))
                .min(Lease::MAX.as_micros() * u128::from(count) / u128::from(period));
            return Err(invalid(format!(
                "its burst of {burst} is out of bounds: with this rate, it is 1 to {most}"
            )));
        }
        Ok(rate)
    }
}

impl Rate {
    /// Returns the terms of passes that cost as much, which is checked.
    pub(crate) fn terms(self, cost: u64) -> Result<Terms, Error> {
        if cost == 0 {
            return Err(invalid("a cost of 0 tokens needs no pass"));
        }
        let burst = self.burst;
        if cost > burst {
            let message = format!("a cost of {cost} tokens never passes: the burst is {burst}");
            return Err(Error::new(ErrorKind::OutOfRange, message));
        }
        Ok(Terms { rate: self, cost })
    }

    /// Returns the µs in which `tokens` are paid, rounded down.
    pub(crate) fn span(&self, tokens: u64) -> u64 {
        let parts = u128::from(tokens) * u128::from(self.period);
        saturated(parts / u128::from(self.count))
    }

    /// Returns the µs in which `tokens` are paid, rounded up.
    pub(crate) fn time(&self, tokens: u64) -> u64 {
        let parts = u128::from(tokens) * u128::from(self.period);
        saturated(parts.div_ceil(self.count.into()))
    }

    /// Returns the tokens that are paid in `debt` µs, rounded up. A debt is itself rounded up to
    /// whole µs, which adds no token.
    pub(crate) fn owed(&self, debt: u64) -> u64 {
        let Some(whole) = debt.checked_sub(1) else {
            return 0;
        };
        let parts = u128::from(whole) * u128::from(self.count);
        saturated(parts / u128::from(self.period) + 1)
    }

    /// Returns the tokens that pass at once, with a debt in µs.
    pub(crate) fn left(&self, debt: u64) -> u64 {
        self.burst.saturating_sub(self.owed(debt))
    }

    /// Returns the time until `cost` passes, with a debt in µs.
    pub(crate) fn retry_after(&self, debt: u64, cost: u64) -> Duration {
        let room = self.span(self.burst - cost);
        Duration::from_micros(debt.saturating_sub(room))
    }
}

fn saturated(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

const fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(count: u64, per: Duration, burst: u64) -> Result<Rate, ErrorKind> {
        let options = Options {
            rate: Some((count, per)),
            burst: Some(burst),
        };
        options.rate().map_err(|error| error.kind())
    }

    #[test]
    fn bounds_are_refused() {
        let second = Duration::from_secs(1);
        let refused = Err(ErrorKind::InvalidOption);
        assert_eq!(rate(0, second, 1), refused);
        assert_eq!(rate(1, Duration::from_nanos(999), 1), refused);
        assert_eq!(rate(1, Lease::MAX + second, 1), refused);
        assert_eq!(rate(1, second, 0), refused);
        assert_eq!(rate(1, Duration::from_secs(86_400), 366), refused);
        assert_eq!(rate(u64::MAX, second, 1 << 53), refused);
        assert_eq!(
            Options::default().rate().map_err(|error| error.kind()),
            refused
        );
        assert!(rate(1_000_000_000, second, 1_000_000_000).is_ok());
        assert!(rate(999_983, Duration::from_secs(86_400), 999_983).is_ok());
    }

    #[test]
    fn cost_is_within_the_burst() {
        let rate = rate(3, Duration::from_secs(7), 5).unwrap();
        assert_eq!(rate.terms(0).unwrap_err().kind(), ErrorKind::InvalidOption);
        assert!(rate.terms(1).is_ok() && rate.terms(5).is_ok());
        assert_eq!(rate.terms(6).unwrap_err().kind(), ErrorKind::OutOfRange);
    }

    #[test]
    fn debts_are_rounded_against_the_caller() {
        let rate = rate(3, Duration::from_secs(7), 5).unwrap();
        assert_eq!((rate.count, rate.period), (3, 7_000_000));
        assert_eq!(rate.time(1), 2_333_334);
        assert_eq!(
            [0, 1, 2_333_334, 2_333_335].map(|debt| rate.owed(debt)),
            [0, 1, 1, 2]
        );
        assert_eq!((rate.left(0), rate.left(1), rate.left(u64::MAX)), (5, 4, 0));
        let all = rate.time(5);
        assert_eq!(rate.retry_after(all, 5), Duration::from_micros(all));
        assert_eq!(rate.retry_after(all, 1).as_micros(), 2_333_334);
        assert_eq!(rate.retry_after(0, 5), Duration::ZERO);
    }
}
