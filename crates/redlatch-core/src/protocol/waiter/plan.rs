//! What an acquisition may do: how long it waits, and how waiters of its object are served.

use std::time::Duration;

use crate::protocol::backoff::Backoff;
use crate::protocol::time::Moment;

/// What the caller wants of an acquisition, and how the object serves its waiters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// When the caller gives up.
    pub give_up: GiveUp,
    /// How to wait.
    pub strategy: WaitStrategy,
    /// In which order waiters are served.
    pub discipline: Discipline,
    /// How many waiters hold at a time.
    pub admission: Admission,
    /// How long to go on without any answer from the server.
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

/// How the waiters of an object are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Discipline {
    /// Whoever comes first when it is free; one waiter per client stands for all of its own.
    #[default]
    Barging,
    /// In order of their tickets: every waiter has a place of its own on the server, from its
    /// first request on.
    Queued,
}

/// How many waiters of an object's side hold it at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// One after another.
    OneByOne,
    /// All of them together, such as readers. The server notifies all of them by one message.
    Together,
}

/// How a waiter learns that it may try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitStrategy {
    /// The server wakes it; a bounded re-check covers a lost message. The default.
    Notify,
    /// It asks again after each pause and never subscribes: what others call a spin lock.
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

    /// Tells whether the caller's deadline has passed.
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
