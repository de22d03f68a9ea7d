//! The time of a server's clock, as far as its replies show.

use std::time::Duration;

use super::time::Moment;

/// An estimate of a server's clock. The client's own clock advances it. The estimate is ahead of
/// the server by no more than the drift between the two clocks.
///
/// Every reply with the server's time updates it through [`observe`](Self::observe).
/// [`act_before`](Self::act_before) supplies the limit for every script that may act for a limited
/// time only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerClock {
    at: Moment,
    millis: u64,
}

impl ServerClock {
    /// The time within which a request may act, from the server's time when it is sent.
    pub(crate) const REACH: Duration = Duration::from_secs(5);

    /// Creates an estimate from a reply received at `received` that contains `millis` since the
    /// epoch.
    pub(crate) const fn new(received: Moment, millis: u64) -> Self {
        Self {
            at: received,
            millis,
        }
    }

    /// Updates the estimate from a reply. An older reply changes nothing.
    pub(crate) fn observe(&mut self, received: Moment, millis: u64) {
        if received >= self.at {
            *self = Self::new(received, millis);
        }
    }

    /// Returns the server's time at `now`, in ms since the epoch: the last reported time plus the
    /// time since then.
    pub(crate) fn millis(&self, now: Moment) -> u64 {
        self.millis.saturating_add(whole_millis(now.since(self.at)))
    }

    /// Returns the last server time at which a request sent at `now` may act.
    pub(crate) fn act_before(&self, now: Moment) -> u64 {
        self.millis(now).saturating_add(whole_millis(Self::REACH))
    }
}

/// Returns `span` in whole milliseconds.
pub(crate) fn whole_millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::time::at;

    #[test]
    fn advances_with_our_clock_and_follows_the_server() {
        let mut clock = ServerClock::new(at(100), 1_000_000);
        assert_eq!(clock.millis(at(150)), 1_000_050);
        assert_eq!(clock.act_before(at(150)), 1_005_050);
        clock.observe(at(90), 5);
        assert_eq!(clock.millis(at(150)), 1_000_050);
        clock.observe(at(200), 900_000);
        assert_eq!(
            clock.millis(at(200)),
            900_000,
            "a clock that was set back is followed"
        );
    }
}
