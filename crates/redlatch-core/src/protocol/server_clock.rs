//! The time of a server's clock as far as its replies show, and the differences between the clocks
//! of servers that may replace each other.

use std::{collections::BTreeMap, time::Duration};

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

/// The readings of several servers' clocks.
///
/// Each `TIME` request bounds a server's clock: the server read it after the request was sent and
/// before the answer arrived. So two clocks differ by at least the gap between their bounds, and
/// only that gap counts. Only readings of about the same time are compared, because the client's
/// clock may stop between them while a machine is paused.
#[derive(Debug)]
pub(crate) struct ServerClocks<N> {
    readings: BTreeMap<N, Reading>,
    /// The largest recent difference, and the time of that measurement.
    widest: (Duration, Moment),
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    sent: Moment,
    received: Moment,
    /// The server's clock in ms since the epoch.
    millis: u64,
}

impl<N: Ord> ServerClocks<N> {
    /// Creates an empty set of readings.
    pub(crate) const fn new() -> Self {
        Self {
            readings: BTreeMap::new(),
            widest: (Duration::ZERO, Moment::ORIGIN),
        }
    }

    /// Returns the largest recent difference between two servers, at most one hour.
    pub(crate) const fn difference(&self) -> Duration {
        self.widest.0
    }

    /// Records that `node`, asked at `sent`, answered `millis` at `received`.
    pub(crate) fn read(&mut self, node: N, sent: Moment, received: Moment, millis: u64) {
        let reading = Reading {
            sent,
            received,
            millis,
        };
        if let Some(before) = self.readings.remove(&node)
            && reading.differs_from(&before) > JUMP
        {
            // The server's clock was set, or ours stopped. Older readings of other servers are
            // useless now.
            self.readings.clear();
        }
        self.readings
            .retain(|_, other| received - other.received < FORGOTTEN);
        let others = self.readings.values();
        let fresh = others.filter(|other| received - other.received < FRESH);
        let widest = fresh.map(|other| reading.differs_from(other)).max();
        let widest = widest.unwrap_or_default().min(MOST);
        if widest >= self.widest.0 || received - self.widest.1 > REMEMBERED {
            self.widest = (widest, received);
        }
        self.readings.insert(node, reading);
    }
}

impl Reading {
    /// Returns the minimum difference between the two clocks.
    fn differs_from(&self, other: &Self) -> Duration {
        let age = self
            .received
            .since(other.received)
            .max(other.received - self.received);
        let drift = age.mul_f64(DRIFT);
        let (a, b) = (self.offset(), other.offset());
        // The gap between the two intervals, negative if they overlap.
        let apart = (a.0 - b.1).max(b.0 - a.1);
        let apart = Duration::from_millis(u64::try_from(apart).unwrap_or(0));
        apart.saturating_sub(drift)
    }

    /// Returns the bounds of the server's clock relative to ours, in ms.
    fn offset(&self) -> (i128, i128) {
        let ours = |moment: Moment| moment.since_origin().as_millis() as i128;
        let millis = i128::from(self.millis);
        (
            millis - ours(self.received) - 1,
            millis + 1 - ours(self.sent),
        )
    }
}

/// Maximum time between two readings that are compared.
const FRESH: Duration = Duration::from_secs(30);

/// A difference that was not measured again for this long is dropped. Clocks are compared more
/// often.
const REMEMBERED: Duration = Duration::from_secs(900);

/// A server without a reading for this long is not in use any more.
const FORGOTTEN: Duration = Duration::from_secs(3600);

/// Maximum difference that is taken into account.
const MOST: Duration = Duration::from_secs(3600);

/// A clock that is not set changes by less than this between two readings.
const JUMP: Duration = Duration::from_millis(500);

/// Maximum drift between two clocks that are not set, relative to the time between two readings.
const DRIFT: f64 = 0.001;

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

    const MS: Duration = Duration::from_millis(1);

    /// What a row shows, the readings (a server, the times of the request and the answer, and the
    /// server's time), and the difference in ms.
    const READINGS: &str = "
    one server does not differ: a 0 5 1000000, a 10 15 9000000: 0
    answers may have been under way for as long: a 0 100 1000000, b 0 100 1000090: 0
    the rest counts: a 0 100 1000000, b 0 100 1000090, c 100 110 1008100: 7987
    the largest counts: a 0 100 1000000, b 0 100 1000090, c 100 110 1008100, d 200 210 1004200: 7987
    a server that is behind differs as well: a 0 0 10000000, b 0 0 9992000: 7998
    more than an hour is not allowed for: a 0 0 10000000, b 0 0 9992000, c 0 0 0: 3600000
    readings of different times are not compared: a 0 0 1000000, b 31000 31000 9000000: 0
    a paused machine: a 0 0 1000000, b 0 0 1000000, a 1000 1000 4600000, b 1000 1000 4600000: 0
";

    #[test]
    fn difference_is_what_the_readings_prove() {
        for row in READINGS.trim().lines() {
            let [_, readings, difference] = row.split(": ").collect::<Vec<_>>()[..] else {
                panic!("not three parts: {row}");
            };
            let mut clocks = ServerClocks::new();
            for reading in readings.split(", ") {
                let (server, times) = reading.split_once(' ').unwrap();
                let times = times.split(' ').map(|time| time.parse().unwrap());
                let [sent, received, millis] = times.collect::<Vec<_>>()[..] else {
                    panic!("{reading}");
                };
                clocks.read(server, at(sent), at(received), millis);
            }
            let found = clocks.difference().as_millis().to_string();
            assert_eq!(found, difference, "{row}");
        }
    }

    #[test]
    fn corrected_difference_is_forgotten_after_a_while() {
        let mut clocks = ServerClocks::new();
        clocks.read("a", at(0), at(0), 0);
        clocks.read("b", at(0), at(0), 8_000);
        assert!(clocks.difference() > 7_000 * MS);
        for minute in 1..20 {
            let millis = minute * 60_000;
            for server in ["a", "b"] {
                clocks.read(server, at(millis), at(millis), millis);
            }
            assert_eq!(clocks.difference() > 7_000 * MS, minute <= 15, "{minute}");
        }
        assert!(clocks.difference() < 100 * MS);
    }
}
