//! How far the clocks of servers differ that may take over from each other.

use std::{collections::BTreeMap, time::Duration};

use super::time::Moment;

/// What the clocks of several servers show, as far as questions for their time tell.
///
/// The answer to a question bounds a server's clock: it was read between the moment the question
/// was sent and the moment the answer came. So two servers differ by at least what lies between
/// their bounds, and only that counts.
#[derive(Debug)]
pub struct ServerClocks<N> {
    readings: BTreeMap<N, Reading>,
    difference: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    sent: Moment,
    received: Moment,
    /// What the server's clock showed, in ms since the epoch.
    millis: u64,
}

impl<N: Ord> ServerClocks<N> {
    /// Starts without any reading.
    pub const fn new() -> Self {
        Self {
            readings: BTreeMap::new(),
            difference: Duration::ZERO,
        }
    }

    /// Takes in that `node`, asked at `sent`, answered `millis` at `received`. Returns the largest
    /// difference that was ever seen between two servers, if it is larger now than before.
    pub fn read(
        &mut self,
        node: N,
        sent: Moment,
        received: Moment,
        millis: u64,
    ) -> Option<Duration> {
        let reading = Reading {
            sent,
            received,
            millis,
        };
        // The last reading of the same node says nothing: its clock may have been set.
        self.readings.insert(node, reading);
        let others = self.readings.values();
        let widest = others.map(|other| reading.differs_from(other)).max()?;
        (widest > self.difference).then(|| {
            self.difference = widest;
            widest
        })
    }
}

impl<N: Ord> Default for ServerClocks<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl Reading {
    /// Returns by how much the two clocks differ at least.
    fn differs_from(&self, other: &Self) -> Duration {
        let age = self
            .received
            .since(other.received)
            .max(other.received - self.received);
        let drift = age.mul_f64(DRIFT);
        let (a, b) = (self.offset(), other.offset());
        let apart = (a.0 - b.1).max(b.0 - a.1);
        let apart = Duration::from_millis(u64::try_from(apart).unwrap_or(0));
        apart.saturating_sub(drift)
    }

    /// Returns the least and the greatest that the server's clock may be ahead of ours, in ms.
    fn offset(&self) -> (i128, i128) {
        let ours = |moment: Moment| moment.since_origin().as_millis() as i128;
        let millis = i128::from(self.millis);
        (
            millis - ours(self.received) - 1,
            millis + 1 - ours(self.sent),
        )
    }
}

/// By how much of the time between two readings clocks run apart that nobody sets.
const DRIFT: f64 = 0.001;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn t(ms: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(ms))
    }

    #[test]
    fn one_server_does_not_differ() {
        let mut clocks = ServerClocks::new();
        assert_eq!(clocks.read("a", t(0), t(5), 1_000_000), None);
        assert_eq!(clocks.read("a", t(10), t(15), 9_000_000), None);
    }

    #[test]
    fn only_what_lies_between_the_bounds_counts() {
        let mut clocks = ServerClocks::new();
        clocks.read("a", t(0), t(100), 1_000_000);
        assert_eq!(
            clocks.read("b", t(0), t(100), 1_000_090),
            None,
            "the answers may have been under way for as long"
        );
        let grown = clocks.read("b", t(100), t(110), 1_008_100).unwrap();
        assert!(grown > 7_800 * MS && grown < 8_000 * MS, "{grown:?}");
        assert_eq!(
            clocks.read("b", t(200), t(210), 1_004_200),
            None,
            "it is the largest that counts"
        );
    }

    #[test]
    fn a_server_that_is_behind_differs_as_well() {
        let mut clocks = ServerClocks::new();
        clocks.read("a", t(0), t(0), 1_000_000);
        let grown = clocks.read("b", t(0), t(0), 992_000).unwrap();
        assert!(grown > 7_990 * MS && grown <= 8_000 * MS, "{grown:?}");
    }

    #[test]
    fn clocks_may_run_apart_between_readings() {
        let mut clocks = ServerClocks::new();
        clocks.read("a", t(0), t(0), 0);
        let hour = 3_600_000;
        assert_eq!(clocks.read("b", t(hour), t(hour), hour + 3_000), None);
        assert!(clocks.read("b", t(hour), t(hour), hour + 5_000).is_some());
    }
}
