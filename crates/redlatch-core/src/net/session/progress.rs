//! Which requests of a connection have been answered.

use crate::protocol::time::Moment;

/// Which requests of a connection have been answered.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) sent: u64,
    /// The latest answered request.
    answered: u64,
    /// The time of the last answer.
    pub(super) heard: Moment,
}

/// The verdict about a request without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// The server is answering earlier requests.
    Slow,
    /// The server has answered a later request, so this answer will not come.
    Swallowed,
    /// The server answers nothing.
    Dead,
}

impl Progress {
    pub(super) const fn new(now: Moment) -> Self {
        Self {
            sent: 0,
            answered: 0,
            heard: now,
        }
    }

    /// Counts a request that is about to be sent. Returns its number.
    pub(super) const fn sent(&mut self) -> u64 {
        self.sent += 1;
        self.sent
    }

    pub(super) fn answered(&mut self, place: u64, now: Moment) {
        self.answered = self.answered.max(place);
        self.heard_at(now);
    }

    /// Records that the server has answered a request at `now`.
    pub(super) fn heard_at(&mut self, now: Moment) {
        self.heard = self.heard.max(now);
    }

    /// Returns why the request `place` has no answer, after a silence since `quiet_since`.
    pub(super) fn verdict(&self, place: u64, quiet_since: Moment) -> Silence {
        if self.answered > place {
            Silence::Swallowed
        } else if self.heard > quiet_since {
            Silence::Slow
        } else {
            Silence::Dead
        }
    }
}
