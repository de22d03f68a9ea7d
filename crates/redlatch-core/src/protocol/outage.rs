//! When a pause precedes the next connection to a server, and which of many failures to connect are
//! reported.

use std::time::Duration;

use super::time::Moment;

/// The failures of one connection, from the first failure until the connection is up.
///
/// Inputs: [`failed`](Self::failed) after each failure, and [`connected`](Self::connected) after
/// each success. Both return the event to report, if any. The first failure is reported at once,
/// and further ones at most once in [`QUIET`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Outage {
    /// The time of the first failure.
    began: Option<Moment>,
    /// The number of failures since then.
    tries: u32,
    /// The time of the last report of a failure.
    told: Option<Moment>,
    /// The time of the last connection after a failure.
    connected: Option<Moment>,
    /// The time of the last report of an end.
    told_over: Option<Moment>,
}

/// The report of a failure, or of the end of an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failures {
    /// The number of failures. The first one begins the outage.
    pub tries: u32,
    /// The time since the first failure.
    pub span: Duration,
}

impl Outage {
    /// Records a failure. Returns the report, if any.
    pub(crate) fn failed(&mut self, now: Moment) -> Option<Failures> {
        // A connection that breaks right after it was made does not end the outage.
        let lived = self.connected.take();
        if lived.is_some_and(|since| now - since >= LIVES) {
            *self = Self::default();
        }
        let began = *self.began.get_or_insert(now);
        self.tries += 1;
        if self.told.is_some_and(|told| now - told < QUIET) {
            return None;
        }
        self.told = Some(now);
        Some(self.since(began, now))
    }

    /// Records a connection. Returns the report, unless no failure preceded it or the last such
    /// report is recent.
    pub(crate) fn connected(&mut self, now: Moment) -> Option<Failures> {
        let began = self.began?;
        self.connected = Some(now);
        if self.told_over.is_some_and(|told| now - told < QUIET) {
            return None;
        }
        self.told_over = Some(now);
        Some(self.since(began, now))
    }

    fn since(&self, began: Moment, now: Moment) -> Failures {
        let (tries, span) = (self.tries, now - began);
        Failures { tries, span }
    }
}

/// The minimum time between two reports of one outage.
pub(crate) const QUIET: Duration = Duration::from_secs(10);

/// A connection that lives this long has ended the outage before it.
const LIVES: Duration = Duration::from_secs(1);

/// The connections to one target, one after another.
///
/// Inputs: [`failed`](Self::failed) after each failed dial, [`connected`](Self::connected) after
/// each other one, and [`answered`](Self::answered) once that connection is in use. A connection
/// that breaks after an answer is no failure: the server is there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Redial {
    failures: u32,
    /// The beginning of the last connection, until its end was counted.
    since: Option<Moment>,
    /// Whether the server has answered on the last connection.
    answered: bool,
}

impl Redial {
    /// Records a failed dial.
    pub(crate) const fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// Records a dial that has made a connection.
    pub(crate) const fn connected(&mut self, now: Moment) {
        self.since = Some(now);
        self.answered = false;
    }

    /// Records that the server has answered on the connection as one in use does.
    pub(crate) const fn answered(&mut self) {
        self.answered = true;
    }

    /// Returns the number of failures that the pause before the next dial depends on; zero for no
    /// pause. The present connection has ended.
    pub(crate) fn failures(&mut self, now: Moment) -> u32 {
        match self.since.take() {
            Some(since) if now - since >= SHORT => self.failures = 0,
            // The shortest pause, so that a server that ends each connection is not asked in a
            // tight loop.
            Some(_) if self.answered => self.failures = 1,
            Some(_) => self.failed(),
            None => {}
        }
        self.failures
    }
}

/// A connection without an answer that ends sooner counts as a failed dial.
const SHORT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::time::at;

    const FIRST: Failures = Failures {
        tries: 1,
        span: Duration::ZERO,
    };

    #[test]
    fn outage_is_reported_at_its_begin_every_ten_seconds_and_at_its_end() {
        let mut outage = Outage::default();
        let told: Vec<_> = (1000..=22_000)
            .step_by(500)
            .filter_map(|ms| outage.failed(at(ms)).map(|trouble| (ms, trouble)))
            .collect();
        let failures = |tries, ms| Failures {
            tries,
            span: Duration::from_millis(ms),
        };
        assert_eq!(
            told,
            [
                (1000, failures(1, 0)),
                (11_000, failures(21, 10_000)),
                (21_000, failures(41, 20_000)),
            ]
        );
        assert_eq!(outage.connected(at(22_100)), Some(failures(43, 21_100)));
    }

    #[test]
    fn a_connection_that_breaks_as_soon_as_it_is_made_ends_no_outage() {
        let mut outage = Outage::default();
        assert_eq!(outage.connected(at(0)), None);
        assert_eq!(outage.failed(at(5000)), Some(FIRST));
        assert!(outage.connected(at(5100)).is_some());
        assert_eq!(outage.failed(at(5200)), None);
        assert_eq!(outage.connected(at(5300)), None);
        assert_eq!(outage.failed(at(9000)), Some(FIRST));
    }

    #[test]
    fn connection_that_answered_is_no_failure() {
        for (course, failures) in [
            ("", 0),
            ("f", 1),
            ("fff", 3),
            ("c", 1),
            ("cc", 2),
            ("fc", 2),
            ("cl", 0),
            ("ffcl", 0),
            ("ca", 1),
            ("caca", 1),
            ("cacaca", 1),
            ("fffca", 1),
            ("cal", 0),
            ("caf", 2),
            ("cac", 2),
        ] {
            let (mut redial, mut now) = (Redial::default(), Moment::ORIGIN);
            let mut counted = 0;
            for event in course.chars() {
                match event {
                    'f' => {
                        redial.failures(now);
                        redial.failed();
                    }
                    'c' => {
                        redial.failures(now);
                        redial.connected(now);
                    }
                    'a' => redial.answered(),
                    _ => now += SHORT,
                }
                counted = redial.clone().failures(now);
            }
            assert_eq!(counted, failures, "{course}");
        }
    }
}
