//! When a pause precedes the next connection to a server.

use std::time::Duration;

use super::time::Moment;

/// The connections to one target, one after another.
///
/// Inputs: [`failed`](Self::failed) after each failed dial, [`connected`](Self::connected) after
/// each other one, and [`answered`](Self::answered) once that connection is in use. A connection
/// that breaks after an answer is no failure: the server is there.
#[derive(Clone, Debug)]
pub(crate) struct Redial {
    failures: u32,
    connection: Option<Connection>,
}

#[derive(Clone, Copy, Debug)]
struct Connection {
    since: Moment,
    answered: bool,
}

impl Redial {
    /// Creates the record of a target that was not dialled yet.
    pub(crate) const fn new() -> Self {
        Self {
            failures: 0,
            connection: None,
        }
    }

    /// Records a failed dial.
    pub(crate) const fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// Records a dial that has made a connection.
    pub(crate) const fn connected(&mut self, now: Moment) {
        self.connection = Some(Connection {
            since: now,
            answered: false,
        });
    }

    /// Records that the server has answered on the connection as one in use does.
    pub(crate) const fn answered(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.answered = true;
        }
    }

    /// Returns the number of failures that the pause before the next dial depends on; zero for no
    /// pause. The present connection has ended.
    pub(crate) fn failures(&mut self, now: Moment) -> u32 {
        match self.connection.take() {
            Some(connection) if now - connection.since >= SHORT => self.failures = 0,
            // The shortest pause, so that a server that ends each connection is not asked in a
            // tight loop.
            Some(connection) if connection.answered => self.failures = 1,
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
            let (mut redial, mut now) = (Redial::new(), Moment::ORIGIN);
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
