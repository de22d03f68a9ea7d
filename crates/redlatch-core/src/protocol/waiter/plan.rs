//! The plan of an acquisition: how long it waits, and how its object serves waiters.

use std::time::Duration;

use crate::protocol::backoff::Backoff;
use crate::protocol::time::Moment;

/// The caller's options for an acquisition, and how the object serves its waiters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// When the caller gives up.
    pub give_up: GiveUp,
    /// How to wait.
    pub strategy: WaitStrategy,
    /// The order in which the object serves waiters.
    pub discipline: Discipline,
    /// How many waiters hold the object at a time.
    pub admission: Admission,
    /// How long to continue without any answer from the server.
    pub patience: Duration,
}

/// When a caller gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GiveUp {
    /// At the first clear answer: the caller does not wait.
    AtFirstAnswer,
    /// At this moment.
    At(Moment),
    /// Never.
    Never,
}

/// How an object serves its waiters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Discipline {
    /// The first request to arrive while the object is free gets it. One waiter per client asks on
    /// behalf of all waiters of that client.
    #[default]
    Barging,
    /// Waiters are served in the order of their tickets. Every waiter has its own place on the
    /// server from its first request on.
    Queued,
}

/// How many waiters of an object's side hold it at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// One after another.
    OneByOne,
    /// All waiters together, such as readers. The server notifies all of them with one message.
    Together,
}

/// How a waiter learns that it may try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitStrategy {
    /// The server notifies the waiter. A bounded re-check covers a lost message. This is the
    /// default.
    Notify,
    /// The waiter asks again after each pause and never subscribes, as a spin lock does.
    Poll(Backoff),
}

impl Plan {
    /// Returns the caller's deadline, if there is one.
    pub(crate) const fn deadline(&self) -> Option<Moment> {
        match self.give_up {
            GiveUp::At(deadline) => Some(deadline),
            GiveUp::AtFirstAnswer | GiveUp::Never => None,
        }
    }

    /// Returns whether the caller's deadline has passed.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        self.deadline().is_some_and(|deadline| now >= deadline)
    }

    /// Returns `until`, or the caller's deadline if that is earlier.
    pub(crate) fn bound(&self, until: Moment) -> Moment {
        self.deadline()
            .map_or(until, |deadline| until.min(deadline))
    }

    pub(super) fn notifies(&self) -> bool {
        self.strategy == WaitStrategy::Notify
    }

    pub(super) fn takes_first_answer(&self) -> bool {
        self.give_up == GiveUp::AtFirstAnswer
    }
}
