//! When credentials that expire are replaced.

use std::time::Duration;

use super::backoff::unit;

/// Returns for how long credentials that end in `expires_in` are used: between seven and eight
/// tenths of that time, and at least 1 s. The rest is for a slow provider, and the spread keeps
/// clients apart.
pub(crate) fn used_for(expires_in: Duration, random: u64) -> Duration {
    let tenth = expires_in / 10;
    (tenth * 7 + tenth.mul_f64(unit(random))).max(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_replaced_before_their_end_and_not_at_the_same_time() {
        let quarter = Duration::from_secs(900);
        assert_eq!(used_for(quarter, 0), Duration::from_secs(630));
        assert!(used_for(quarter, u64::MAX) > Duration::from_secs(719));
        assert!(used_for(quarter, u64::MAX) <= Duration::from_secs(720));
        assert_eq!(used_for(Duration::ZERO, 7), Duration::from_secs(1));
        assert!(used_for(Duration::MAX, u64::MAX) < Duration::MAX);
    }
}
